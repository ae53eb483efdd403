//! Deployments, stages, environments and approvals show the title, author and forge pages of their commits.

use serde_json::{Value, json};

use super::commit_statuses::HostedRepository;
use super::{ORG, PipelineFixture, expect_data};
use crate::forge::{FakeResponse, RecordedRequest};
use crate::git::OriginRepository;
use crate::scoped_access::scoped_member;
use crate::world::get;

const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  stages:
    - name: staging
    - name: production
      requires: { approvals: 1 }
  ephemeral_environments:
    qa-1: {}
  steps:
    - { name: Deploy, type: dummy }
";

fn accept(_: &RecordedRequest) -> FakeResponse {
    (201, "{}".to_owned()).into()
}

impl HostedRepository {
    /// Pushes a commit by Bob and returns its hash.
    fn push(&self, message: &str) -> String {
        self.origin.git(&["add", "--all"]);
        let author = "--author=Bob <bob@acme.test>";
        self.origin.git(&["commit", "--quiet", "--allow-empty", author, "-m", message]);
        self.origin.git(&["push", "--quiet", &self.bare.display().to_string(), "main"]);
        self.origin.git(&["rev-parse", "HEAD"])
    }

    async fn sync(&self) {
        let path = format!("/repositories/{}/sync", self.repository);
        assert_eq!(self.fixture.post(&path, &json!({})).await.status, 202);
    }

    /// The URL of the repository's page on the forge.
    async fn page(&self) -> String {
        let repository = self.fixture.fetch(&format!("/repositories/{}", self.repository)).await;
        repository["url"].as_str().unwrap().trim_end_matches(".git").to_owned()
    }
}

impl PipelineFixture {
    /// Waits until the newest deployment of `shop` is of this commit, and returns it.
    async fn wait_for_newest_deployment_of(&self, commit: &str) -> Value {
        let deadline = std::time::Instant::now() + super::PATIENCE;
        loop {
            let seen = self.fetch("/pipelines/shop/deployments").await;
            if seen[0]["commitId"] == commit {
                return seen[0].clone();
            }
            assert!(std::time::Instant::now() < deadline, "{seen}");
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_is_shown_with_title_author_and_links_wherever_it_is_deployed() {
    let hosted = HostedRepository::start_on("github", DEFINITION, accept).await;
    let (fixture, page) = (&hosted.fixture, hosted.page().await);
    let asked = fixture.wait_for_approval(&hosted.deployment).await;
    assert_eq!(asked["commit"]["title"], "first");
    assert_eq!(asked["commit"]["url"], format!("{page}/commit/{}", hosted.head));
    assert_eq!(asked["compareUrl"], Value::Null, "nothing was deployed before");
    assert_eq!(fixture.approve(&asked, fixture.ada()).await.status, 200);
    let first = fixture.wait_for_end(&hosted.deployment).await;
    assert_eq!((&first["commit"]["commitId"], &first["compareUrl"]), (&json!(hosted.head), &Value::Null));

    let head = hosted.push("Retry \u{1b}[31mfailed\u{202e} payments\n\nThe provider times out.");
    hosted.sync().await;
    let second = fixture.wait_for_newest_deployment_of(&head).await["id"].clone();
    let asked = fixture.wait_for_approval(text(&second)).await;
    let compare = json!(format!("{page}/compare/{}...{head}", hosted.head));
    assert_eq!(
        (&asked["compareUrl"], &asked["commit"]["title"]),
        (&compare, &json!("Retry failed payments"))
    );
    let deployment = fixture.fetch(&format!("/deployments/{}", text(&second))).await;
    assert_eq!(deployment["compareUrl"], compare);
    let commit = deployment["commit"].clone();
    assert_eq!(commit["author"], json!({"name": "Bob"}));
    assert_eq!(commit["url"], format!("{page}/commit/{head}"));
    assert!(text(&commit["authoredAt"]).ends_with('Z'), "{commit}");

    // The comparison stays what it was after the deployment itself has become the current one.
    assert_eq!(fixture.approve(&asked, fixture.ada()).await.status, 200);
    fixture.wait_for_end(text(&second)).await;
    let listed = fixture.fetch("/deployments").await;
    assert_eq!((&listed[0]["commit"], &listed[0]["compareUrl"]), (&commit, &compare));
    assert_eq!(listed[1]["compareUrl"], Value::Null);
    let approvals = fixture.fetch("/approvals?status=all").await;
    assert_eq!((&approvals[0]["commit"], &approvals[0]["compareUrl"]), (&commit, &compare));

    let (session, deployment) = fixture.claim(&head[..10]).await;
    fixture.wait_for_end(&deployment).await;
    let qa = "/pipelines/shop/ephemeral-environments";
    let session = fixture.fetch(&format!("{qa}/qa-1/sessions/{session}")).await;
    let deployed = fixture.fetch("/deployed").await;
    for shown in [
        &fixture.fetch("/pipelines/shop").await["stages"][1]["current"]["commit"],
        &fixture.fetch("/pipelines").await[0]["stages"][0]["current"]["commit"],
        &deployed[0]["stages"][1]["current"]["commit"],
        &deployed[0]["environments"][0]["current"]["commit"],
        &fixture.fetch(&format!("{qa}/qa-1")).await["commit"],
        &fixture.fetch(qa).await[0]["commit"],
        &session["deployments"][0]["commit"],
        &session["deploymentHistory"][0]["commit"],
    ] {
        assert_eq!(*shown, commit);
    }
    assert_eq!(session["deployments"][0]["compareUrl"], Value::Null, "the environment had nothing before");
    for path in ["/deployments", "/approvals?status=all", "/deployed", "/pipelines"] {
        let seen = fixture.send(get(&format!("{ORG}{path}")).with_account(fixture.ada())).await;
        assert!(!seen.text.contains("bob@acme.test"), "{path}: {}", seen.text);
    }

    // A member of one environment reads nothing about the commits of stages.
    let tess = scoped_member(&fixture.world, "tess@acme.test", &[("tester", "environment:shop/qa-*")]).await;
    let fetch = async |path: &str| {
        let seen = fixture.send(get(&format!("{ORG}{path}")).with_account(&tess)).await;
        expect_data(&seen, 200)
    };
    let deployed = fetch("/deployed").await;
    assert_eq!(deployed[0]["environments"][0]["current"]["commit"], commit);
    for stage in [
        &deployed[0]["stages"][1]["current"],
        &fetch("/pipelines").await[0]["stages"][1]["current"],
        &fetch("/pipelines/shop").await["stages"][1]["current"],
    ] {
        assert_eq!((&stage["commitId"], &stage["commit"]), (&json!(head), &Value::Null), "{stage}");
    }
    hosted.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_is_null_until_it_is_resolved_and_has_no_links_without_a_forge() {
    let (fixture, origin) = (PipelineFixture::start().await, OriginRepository::new());
    origin.write(".berth/shop/pipeline.yaml", &DEFINITION.replace("      requires: { approvals: 1 }\n", ""));
    origin.commit("first");
    expect_data(&fixture.post("/repositories", &json!({"url": origin.url().as_str()})).await, 201);
    let first = fixture.wait_for_end(&fixture.wait_for_first_deployment().await).await;
    assert_eq!((&first["commit"]["title"], &first["commit"]["url"]), (&json!("first"), &Value::Null));

    let path = "/pipelines/shop/ephemeral-environments/qa-1/sessions";
    let claimed = expect_data(&fixture.post(path, &json!({"commitId": "nowhere"})).await, 201);
    assert_eq!(claimed["deployments"][0]["commit"], Value::Null);
    let failed = fixture.wait_for_end(text(&claimed["deploymentId"])).await;
    assert_eq!((&failed["cause"], &failed["commit"]), (&json!("commit_not_found"), &Value::Null));
    assert_eq!(fixture.fetch("/pipelines/shop/ephemeral-environments/qa-1").await["commit"], Value::Null);
    fixture.shut_down().await;

    // Without a repository, any text is a commit.
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline("  stages: [{ name: staging }]\n  steps: [{ name: Deploy, type: dummy }]\n")
        .await;
    let id = fixture.start_deployment(text(&first["resolvedCommitId"])).await;
    let ended = fixture.wait_for_end(&id).await;
    assert_eq!((&ended["status"], &ended["commit"]), (&json!("succeeded"), &Value::Null));
    fixture.shut_down().await;
}
