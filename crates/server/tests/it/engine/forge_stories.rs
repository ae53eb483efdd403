//! The same course of events on each kind of forge: a double with the forge's API, the recorded deliveries of the forge,
//! git over HTTP and a real runner.

use std::path::PathBuf;
use std::time::Instant;

use berth_core::forge::{ForgeKind, PullRequestStatus};
use berth_server::config::AppConfig;
use serde_json::{Value, json};

use super::fixes::clone_bare;
use super::{PATIENCE, PipelineFixture, expect_data};
use crate::forge::doubles::{DOUBLES, ModelPullRequest, RunningDouble, Source, TOKEN};
use crate::forge_hooks::{delivery_header, event_header, read_payload, signature};
use crate::git::{OriginRepository, serve_git};
use crate::world::{POLL_EVERY, post};

const LOGIN: &str = "x-access-token:conformance-token";
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  ephemeral_environments:
    qa-1:
      ttl: 8h
      triggers: [{ on: pull_request, target_branches: [main] }]
      release: [{ on: pr_closed }]
      on_release: deploy_tracked
  steps:
    - name: Deploy
      type: script
      params: { run: 'cat version.txt >> LEDGER' }
";
const FIRST: i64 = 42;
const SECOND: i64 = 43;
const FORKED: i64 = 44;

/// A repository that is connected to a double.
struct ForgeStory {
    kind: ForgeKind,
    pipelines: PipelineFixture,
    origin: OriginRepository,
    bare: PathBuf,
    running: RunningDouble,
    /// The path and the secret of the webhook that Berth has created.
    hook: (String, String),
    _root: tempfile::TempDir,
}

impl ForgeStory {
    async fn start(kind: ForgeKind) -> Self {
        let double = DOUBLES.iter().find(|it| it.kind() == kind.as_str()).unwrap();
        let running = RunningDouble::start(*double, Vec::new());
        let config = AppConfig {
            forges: vec![format!("127.0.0.1={kind}={}", running.forge.url).parse().unwrap()],
            egress_allow: vec!["127.0.0.1".parse().unwrap()],
            ..AppConfig::local(([127, 0, 0, 1], 8080).into())
        };
        let pipelines = PipelineFixture::with_config(config).await;
        let origin = OriginRepository::new();
        origin.write(
            ".berth/shop/pipeline.yaml",
            &DEFINITION.replace("LEDGER", &pipelines.file_path("ledger")),
        );
        origin.write("version.txt", "main\n");
        origin.commit("first");
        let (root, _) = clone_bare(&origin);
        std::fs::rename(root.path().join("admin"), root.path().join("acme")).unwrap();
        let bare = root.path().join("acme/shop.git");
        let secret = json!({"name": "GIT_TOKEN", "value": TOKEN});
        assert_eq!(pipelines.post("/secrets", &secret).await.status, 201);
        let url = format!("{}/acme/shop.git", serve_git(root.path().to_owned(), LOGIN));
        let made = pipelines.post("/repositories", &json!({"url": url, "credential": "GIT_TOKEN"})).await;
        let repository = expect_data(&made, 201)["id"].as_str().unwrap().to_owned();
        let connected = pipelines.post(&format!("/repositories/{repository}/connection"), &json!({})).await;
        assert_eq!(expect_data(&connected, 201)["isManaged"], true, "{kind}: {}", connected.text);
        let hooks = running.model.lock().unwrap().hooks.clone();
        let (url, secret) = hooks.into_values().next().unwrap();
        let path = url[url.find("/hooks/").unwrap()..].to_owned();
        let story = Self { kind, pipelines, origin, bare, running, hook: (path, secret), _root: root };
        story.wait_until("the first sync", async || story.environment().await["name"] == "qa-1").await;
        story
    }

    async fn wait_until(&self, what: &str, is_done: impl AsyncFn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_done().await {
            let comments = self.running.model.lock().unwrap().comments.clone();
            assert!(Instant::now() < deadline, "{}: timed out waiting for {what}: {comments:?}", self.kind);
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    async fn environment(&self) -> Value {
        let path = format!("{}/pipelines/shop/ephemeral-environments/qa-1", super::ORG);
        let seen = crate::world::get(&path).with_account(self.pipelines.ada());
        self.pipelines.send(seen).await.body["data"].clone()
    }

    /// Commits a version and pushes it to a ref.
    fn push(&self, to: &str, version: &str) -> String {
        self.origin.git(&["checkout", "--quiet", "-B", "work", "main"]);
        self.origin.write("version.txt", &format!("{version}\n"));
        let commit = self.origin.commit(version).to_string();
        let bare = self.bare.display().to_string();
        self.origin.git(&["push", "--quiet", "--force", &bare, &format!("HEAD:{to}")]);
        commit
    }

    /// Delivers a recorded payload, adapted to a pull request and with an id that was not used before.
    async fn deliver(&self, name: &str, number: i64, text: &str) {
        let (branch, head) = {
            let mut model = self.running.model.lock().unwrap();
            let found = model.find_mut(number).unwrap();
            (found.head_branch.clone(), found.head.clone())
        };
        let mut payload: Value = serde_json::from_slice(&read_payload(self.kind, name)).unwrap();
        adapt(&mut payload, &PayloadValues { number, branch: &branch, head: &head, text });
        let body = payload.to_string().into_bytes();
        let (event, signed) = (event_header(self.kind, name), signature(self.kind, &self.hook.1, &body));
        let id = format!("{name}-{number}-{head}-{text}").replace(' ', "-");
        let request = post(&self.hook.0).header("content-type", "application/json").header(event.0, event.1);
        let request = request.header(delivery_header(self.kind), &id).header(signed.0, &signed.1).raw(body);
        let reply = self.pipelines.send(request).await;
        assert_eq!(reply.status, 200, "{} {name}: {}", self.kind, reply.text);
        assert!(!reply.body["data"]["outcome"].as_str().unwrap().contains("ignored"), "{}", reply.text);
    }

    async fn open(&self, number: i64, branch: &str, head: &str, source: Source) {
        let made = ModelPullRequest {
            number,
            title: "Dark mode".into(),
            head: head.to_owned(),
            head_branch: branch.to_owned(),
            base_branch: "main".into(),
            source,
            labels: Vec::new(),
            draft: false,
            status: PullRequestStatus::Open,
            changed: 0,
        };
        self.running.model.lock().unwrap().pull_requests.push(made);
        self.deliver(if source == Source::Fork { "fork" } else { "opened" }, number, "").await;
    }

    fn change(&self, number: i64, change: impl FnOnce(&mut ModelPullRequest)) {
        let mut model = self.running.model.lock().unwrap();
        let found = model.find_mut(number).unwrap();
        found.changed += 1;
        change(found);
    }

    /// Waits until the only comment on a pull request contains this text.
    async fn wait_for_comment(&self, number: i64, part: &str) -> String {
        let comment = || {
            let model = self.running.model.lock().unwrap();
            let mut of =
                model.comments.values().filter(|(of, _)| *of == number).map(|(_, text)| text.clone());
            let text = of.next().unwrap_or_default();
            assert!(of.next().is_none(), "{}: several comments", self.kind);
            text
        };
        self.wait_until(&format!("{part} in the comment on {number}"), async || comment().contains(part))
            .await;
        comment()
    }

    async fn wait_for_ledger(&self, lines: &[&str]) {
        let read = || std::fs::read_to_string(self.pipelines.file_path("ledger")).unwrap_or_default();
        self.wait_until(&format!("{lines:?}"), async || read().lines().collect::<Vec<_>>() == lines).await;
    }
}

/// The values of a pull request in a payload.
struct PayloadValues<'a> {
    number: i64,
    branch: &'a str,
    head: &'a str,
    /// The text of a comment.
    text: &'a str,
}

/// Replaces the values of a recorded payload by those of a pull request.
fn adapt(payload: &mut Value, to: &PayloadValues<'_>) {
    match payload {
        Value::Object(members) => members.values_mut().for_each(|it| adapt(it, to)),
        Value::Array(items) => items.iter_mut().for_each(|it| adapt(it, to)),
        Value::Number(number) if number.as_i64() == Some(42) => *payload = json!(to.number),
        Value::String(text) => {
            let is_head = ["da1560886d4f", "6f3e9a0c1d2b"].iter().any(|head| text.starts_with(head));
            match text.as_str() {
                _ if is_head => *text = to.head[..text.len()].to_owned(),
                "dark-mode" => to.branch.clone_into(text),
                "refs/heads/dark-mode" => *text = format!("refs/heads/{}", to.branch),
                "acme/web/shop" => "acme/shop".clone_into(text),
                "/berth deploy" => to.text.clone_into(text),
                _ => {}
            }
        }
        _ => {}
    }
}

async fn two_pull_requests_share_one_environment(kind: ForgeKind) {
    let story = ForgeStory::start(kind).await;
    let first = story.push("refs/heads/first", "one");
    story.open(FIRST, "first", &first, Source::SameRepository).await;
    let text = story.wait_for_comment(FIRST, "· deployed").await;
    assert!(text.contains(&format!("deployed {}", &first[..8])), "{kind}: {text}");
    assert!(text.contains(" for grace until ") || kind == ForgeKind::Bitbucket, "{kind}: {text}");
    story.wait_for_ledger(&["one"]).await;

    let second = story.push("refs/heads/second", "two");
    story.open(SECOND, "second", &second, Source::SameRepository).await;
    let text = story.wait_for_comment(SECOND, "1st in queue for ").await;
    assert!(text.contains("expected at about 2"), "{kind}: no estimate in {text}");

    let first = story.push("refs/heads/first", "one again");
    story.change(FIRST, |it| it.head.clone_from(&first));
    story.deliver("push", FIRST, "").await;
    story.deliver("updated", FIRST, "").await;
    story.wait_for_comment(FIRST, &format!("deployed {}", &first[..8])).await;
    story.wait_for_ledger(&["one", "one again"]).await;
    story.deliver("comment", FIRST, "/berth queue").await;
    story.wait_for_comment(FIRST, "refused (your account is not connected to Berth").await;

    let forked = story.push(&fork_ref(kind), "forked");
    story.open(FORKED, "fork", &forked, Source::Fork).await;
    story.wait_for_comment(FORKED, &format!("`/berth approve {forked}`")).await;

    story.change(FIRST, |it| it.status = PullRequestStatus::Closed);
    story.deliver("closed", FIRST, "").await;
    // Reset in between, and then granted to the next one.
    story.wait_for_ledger(&["one", "one again", "main", "two"]).await;
    story.wait_for_comment(SECOND, &format!("deployed {}", &second[..8])).await;
    story.wait_for_comment(FIRST, "uses no environment").await;
    story.change(SECOND, |it| it.status = PullRequestStatus::Merged);
    story.deliver("closed", SECOND, "").await;
    story.wait_until("the release", async || story.environment().await["lock"].is_null()).await;
    let model_statuses = story.running.model.lock().unwrap().statuses.clone();
    let success = DOUBLES.iter().find(|it| it.kind() == kind.as_str()).unwrap().states()[1];
    let is_shown = |head: &str| {
        model_statuses
            .iter()
            .any(|it| it.commit == head && it.key == "berth/shop/qa-1" && it.state == success)
    };
    assert!(is_shown(&first) && is_shown(&second), "{kind}: {model_statuses:?}");
    assert!(!is_shown(&forked), "{kind}: nothing of the fork has run");
    story.pipelines.shut_down().await;
}

/// The ref that a forge has for the head of a fork.
fn fork_ref(kind: ForgeKind) -> String {
    match kind {
        ForgeKind::GitLab => format!("refs/merge-requests/{FORKED}/head"),
        ForgeKind::GitHub | ForgeKind::Gitea | ForgeKind::Bitbucket => format!("refs/pull/{FORKED}/head"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn github_pull_requests_share_one_environment() {
    two_pull_requests_share_one_environment(ForgeKind::GitHub).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gitlab_merge_requests_share_one_environment() {
    two_pull_requests_share_one_environment(ForgeKind::GitLab).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gitea_pull_requests_share_one_environment() {
    two_pull_requests_share_one_environment(ForgeKind::Gitea).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bitbucket_pull_requests_share_one_environment() {
    two_pull_requests_share_one_environment(ForgeKind::Bitbucket).await;
}
