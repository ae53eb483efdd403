//! A repository that is connected to a double of GitHub: pull requests, comments and statuses over HTTP, and git over
//! HTTP.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::forge::{ForgeConnection, ForgeKind, ForgeUser, PullRequestCommand};
use berth_core::id::{HookId, OrgId, RepositoryId, WebhookId};
use berth_engine::credential::RedactedString;
use berth_server::config::AppConfig;
use berth_server::error::AppError;
use berth_store::tables::{forge_connection, organization, pull_request, pull_request_command};
use berth_store::{Tx, TxContext};
use serde_json::{Value, json};

use super::fixes::{clone_bare, run_git};
use super::{PATIENCE, PipelineFixture, expect_data};
use crate::forge::{FakeForge, TOKEN};
use crate::git::{OriginRepository, serve_git};
use crate::world::{POLL_EVERY, TestResponse, post};

/// A pull request on the double.
#[derive(Debug, Clone)]
pub(super) struct ForgePullRequest {
    pub(super) branch: &'static str,
    pub(super) head: String,
    pub(super) is_fork: bool,
    pub(super) state: &'static str,
    pub(super) files: Vec<&'static str>,
    /// Counts changes, so that a later version has a later time.
    version: u32,
}

/// What the double knows.
#[derive(Debug, Default)]
pub(super) struct ForgeModel {
    pub(super) pull_requests: BTreeMap<i64, ForgePullRequest>,
    /// The pull request and the text of each comment.
    pub(super) comments: BTreeMap<i64, (i64, String)>,
    /// Commit, context, state and description.
    pub(super) statuses: Vec<(String, String, String, String)>,
    /// Pull requests that Berth has opened.
    pub(super) opened: Vec<Value>,
    /// Number of comments created and edited.
    pub(super) comment_writes: usize,
}

/// The account that opens pull requests.
pub(super) const AUTHOR: (i64, &str) = (7, "grace");

impl ForgeModel {
    fn render(&self, number: i64) -> Option<Value> {
        let it = self.pull_requests.get(&number)?;
        let base = json!({"id": 1, "name": "shop", "full_name": "admin/shop", "fork": false});
        let head = match it.is_fork {
            true => json!({"id": 2, "name": "shop", "full_name": "grace/shop", "fork": true}),
            false => base.clone(),
        };
        let closed_at = (it.state != "open").then_some("2026-11-15T09:30:00Z");
        Some(json!({
            "number": number, "state": it.state, "title": "Dark mode", "draft": false, "labels": [],
            "html_url": format!("https://git.acme.test/admin/shop/pull/{number}"),
            "user": {"id": AUTHOR.0, "login": AUTHOR.1}, "merged_at": null, "closed_at": closed_at,
            "created_at": "2026-11-15T09:00:00Z", "updated_at": format!("2026-11-15T09:{:02}:00Z", it.version),
            "head": {"ref": it.branch, "sha": it.head, "repo": head},
            "base": {"ref": "main", "sha": it.head, "repo": base},
        }))
    }

    fn respond(&mut self, line: &str, body: &Value) -> (u16, String) {
        let missing = (404, json!({"message": "Not Found"}).to_string());
        let (method, target) = line.split_once(' ').unwrap();
        let path = target.split('?').next().unwrap().strip_prefix("/repos/admin/shop/").unwrap_or_default();
        let parts: Vec<_> = path.split('/').collect();
        let number = |text: &str| text.parse::<i64>().unwrap_or_default();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        match (method, parts.as_slice()) {
            ("GET", ["pulls"]) if target.contains("head=") => (200, "[]".to_owned()),
            ("POST", ["pulls"]) => {
                self.opened.push(body.clone());
                let url = "https://git.acme.test/admin/shop/pull/900";
                (201, json!({"number": 900, "html_url": url}).to_string())
            }
            ("GET", ["pulls"]) => {
                let open = self.pull_requests.iter().filter(|(_, it)| it.state == "open");
                let all: Vec<_> = open.filter_map(|(number, _)| self.render(*number)).collect();
                (200, json!(all).to_string())
            }
            ("GET", ["pulls", id]) => self.render(number(id)).map_or(missing, |it| (200, it.to_string())),
            ("GET", ["pulls", id, "files"]) => {
                let files =
                    self.pull_requests.get(&number(id)).map(|it| it.files.clone()).unwrap_or_default();
                let files: Vec<_> =
                    files.iter().map(|path| json!({"filename": path, "status": "modified"})).collect();
                (200, json!(files).to_string())
            }
            ("GET", ["issues", id, "comments"]) => {
                let all = self.comments.iter().filter(|(_, (of, _))| *of == number(id));
                let all: Vec<_> = all.map(|(id, (_, text))| json!({"id": id, "body": text})).collect();
                (200, json!(all).to_string())
            }
            ("POST", ["issues", id, "comments"]) => {
                self.comment_writes += 1;
                let made = 100 + i64::try_from(self.comment_writes).unwrap();
                self.comments.insert(made, (number(id), text("body")));
                (201, json!({"id": made, "body": text("body")}).to_string())
            }
            ("PATCH", ["issues", "comments", id]) => {
                self.comment_writes += 1;
                match self.comments.get_mut(&number(id)) {
                    None => missing,
                    Some(comment) => {
                        comment.1 = text("body");
                        (200, json!({"id": number(id), "body": text("body")}).to_string())
                    }
                }
            }
            ("POST", ["statuses", commit]) => {
                let status = ((*commit).to_owned(), text("context"), text("state"), text("description"));
                self.statuses.push(status);
                (201, json!({"id": 1, "state": text("state")}).to_string())
            }
            _ => missing,
        }
    }
}

pub(super) struct PullRequestFixture {
    pub(super) pipelines: PipelineFixture,
    pub(super) origin: OriginRepository,
    pub(super) model: Arc<Mutex<ForgeModel>>,
    pub(super) repository: RepositoryId,
    pub(super) org: OrgId,
    bare: PathBuf,
    _root: tempfile::TempDir,
}

impl PullRequestFixture {
    /// Starts a server, and connects a repository with this definition. `LEDGER` in it is the path of a file that tests
    /// can read.
    pub(super) async fn start(definition: &str) -> Self {
        let model = Arc::new(Mutex::new(ForgeModel::default()));
        let shared = model.clone();
        let forge =
            FakeForge::start(move |request| shared.lock().unwrap().respond(&request.line, &request.body));
        let config = AppConfig {
            forges: vec![format!("127.0.0.1=github={}", forge.url).parse().unwrap()],
            egress_allow: vec!["127.0.0.1".parse().unwrap()],
            ..AppConfig::local(([127, 0, 0, 1], 8080).into())
        };
        let pipelines = PipelineFixture::with_config(config).await;
        let origin = OriginRepository::new();
        let definition = definition.replace("LEDGER", &pipelines.file_path("ledger"));
        origin.write(".berth/shop/pipeline.yaml", &definition);
        origin.write("version.txt", "main\n");
        origin.commit("first");
        let (root, bare) = clone_bare(&origin);
        let login: &'static str = Box::leak(format!("x-access-token:{TOKEN}").into_boxed_str());
        let url = format!("{}/admin/shop.git", serve_git(root.path().to_owned(), login));
        for (name, value) in [("GIT_TOKEN", TOKEN), ("API_KEY", "hunter2-hunter2-hunter2")] {
            let made = pipelines.post("/secrets", &json!({"name": name, "value": value})).await;
            assert_eq!(made.status, 201, "{}", made.text);
        }
        let made = pipelines.post("/repositories", &json!({"url": url, "credential": "GIT_TOKEN"})).await;
        let repository: RepositoryId = expect_data(&made, 201)["id"].as_str().unwrap().parse().unwrap();
        let (account, _) = pipelines.world.create_service_account("ci-bot@acme.test", "deployer").await;
        let org = pipelines.world.app.store().read(None, |db| {
            let slug = berth_core::name::Slug::parse("acme").unwrap();
            Ok::<_, AppError>(organization::by_slug(db, &slug)?.unwrap().id)
        });
        let org = org.await.unwrap();
        let fixture = Self { pipelines, origin, model, repository, org, bare, _root: root };
        fixture.connect(account.parse().unwrap()).await;
        fixture.wait_for("the first sync", |it| Box::pin(it.has_environment())).await;
        fixture
    }

    async fn has_environment(&self) -> Option<()> {
        let path = format!("{}/pipelines/shop/ephemeral-environments/qa-1", super::ORG);
        let seen = self.pipelines.send(crate::world::get(&path).with_account(self.pipelines.ada())).await;
        (seen.status == 200).then_some(())
    }

    /// Connects the repository, as an admin does.
    async fn connect(&self, account: berth_core::id::UserId) {
        let (vault, repository) = (self.pipelines.world.app.vault().clone(), self.repository);
        self.transact(move |tx| {
            let (now, entropy) = (tx.now(), tx.entropy()?);
            let sealing = WebhookId::from_parts(now, entropy);
            let secret = vault.seal_signing(tx, sealing, 1, &RedactedString::new("hook secret".into()))?;
            let connection = ForgeConnection {
                repository,
                hook: HookId::from_parts(now, entropy),
                forge: ForgeKind::GitHub,
                app: None,
                account,
                forge_hook: None,
                verified_at: None,
                error: None,
                version: 1,
                created_at: now,
                updated_at: now,
            };
            forge_connection::insert(tx, &connection, &secret)?;
            let subject = EventSubject::new("repository", repository, None);
            Ok(tx.record(NewEvent::new(EventKind::RepositoryUpdated, subject))?)
        })
        .await;
    }

    pub(super) async fn transact<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, AppError> + Send + 'static,
    ) -> T {
        let store = self.pipelines.world.app.store();
        let done = store.transact(TxContext::system(Some(self.org)), work).await.unwrap();
        self.pipelines.world.app.services().pull_requests_wanted.notify_waiters();
        done
    }

    /// Commits a version on a branch and pushes it. Returns the commit.
    pub(super) fn push(&self, branch: &str, version: &str) -> String {
        self.origin.git(&["checkout", "--quiet", "-B", branch]);
        self.origin.write("version.txt", &format!("{version}\n"));
        let commit = self.origin.commit(version).to_string();
        let bare = self.bare.display().to_string();
        self.origin.git(&["push", "--quiet", "--force", &bare, &format!("HEAD:refs/heads/{branch}")]);
        commit
    }

    /// Commits a version on a fork: only the ref of the pull request has it.
    pub(super) fn push_fork(&self, number: i64, version: &str) -> String {
        self.origin.git(&["checkout", "--quiet", "-B", &format!("fork-{number}")]);
        self.origin.write("version.txt", &format!("{version}\n"));
        let commit = self.origin.commit(version).to_string();
        let bare = self.bare.display().to_string();
        self.origin.git(&["push", "--quiet", "--force", &bare, &format!("HEAD:refs/pull/{number}/head")]);
        assert!(!run_git(&self.bare, &["branch", "--all", "--contains", &commit]).contains("fork"));
        commit
    }

    /// Opens a pull request and delivers the news.
    pub(super) async fn open(&self, number: i64, branch: &'static str, head: &str, is_fork: bool) {
        self.open_with_files(number, branch, head, is_fork, vec!["version.txt"]).await;
    }

    /// Like [`Self::open`], for a pull request that changes these files.
    pub(super) async fn open_with_files(
        &self,
        number: i64,
        branch: &'static str,
        head: &str,
        is_fork: bool,
        files: Vec<&'static str>,
    ) {
        let (head, state, version) = (head.to_owned(), "open", 1);
        let made = ForgePullRequest { branch, head, is_fork, state, files, version };
        self.model.lock().unwrap().pull_requests.insert(number, made);
        self.deliver(number).await;
    }

    /// Changes a pull request on the forge and delivers the news.
    pub(super) async fn change(&self, number: i64, change: impl FnOnce(&mut ForgePullRequest)) {
        {
            let mut model = self.model.lock().unwrap();
            let found = model.pull_requests.get_mut(&number).unwrap();
            found.version += 1;
            change(found);
        }
        self.deliver(number).await;
    }

    /// Delivers that something has changed. A pull request that is not stored yet is found in the list of open ones.
    async fn deliver(&self, number: i64) {
        let repository = self.repository;
        self.transact(move |tx| {
            pull_request::request_read(tx, repository, number)?;
            Ok(())
        })
        .await;
        self.pipelines.world.run_sql("UPDATE forge_connections SET listed_at = 0");
    }

    /// Delivers a comment of this account that starts with `/berth`.
    pub(super) async fn comment(&self, number: i64, id: &str, account: (i64, &str), text: &str) {
        let command = PullRequestCommand {
            repository: self.repository,
            number,
            comment: id.to_owned(),
            author: ForgeUser { id: account.0.to_string(), name: account.1.to_owned() },
            text: text.to_owned(),
            created_at: berth_core::time::Timestamp::from_micros(0),
            answered_at: None,
        };
        self.transact(move |tx| {
            let created_at = tx.now();
            pull_request_command::insert(tx, &PullRequestCommand { created_at, ..command.clone() })?;
            Ok(pull_request::request_read(tx, command.repository, command.number)?)
        })
        .await;
    }

    /// The text of Berth's only comment on a pull request.
    pub(super) fn comment_of(&self, number: i64) -> Option<String> {
        let model = self.model.lock().unwrap();
        let mut texts: Vec<_> = model.comments.values().filter(|(of, _)| *of == number).collect();
        assert!(texts.len() <= 1, "{texts:?}");
        texts.pop().map(|(_, text)| text.clone())
    }

    pub(super) async fn wait_for_comment(&self, number: i64, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.comment_of(number).unwrap_or_default();
            if text.contains(part) {
                return text;
            }
            let error = self.load(number).await.map(|it| it.error);
            assert!(Instant::now() < deadline, "{part} is missing in {text}; error {error:?}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    pub(super) async fn load(&self, number: i64) -> Option<berth_core::forge::PullRequest> {
        let (store, repository) = (self.pipelines.world.app.store(), self.repository);
        let read = store.read(Some(self.org), move |db| {
            Ok::<_, AppError>(pull_request::by_number(db, repository, number)?)
        });
        read.await.unwrap()
    }

    pub(super) async fn wait_for<'a, T>(
        &'a self,
        what: &str,
        find: impl Fn(&'a Self) -> std::pin::Pin<Box<dyn Future<Output = Option<T>> + 'a>>,
    ) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = find(self).await {
                return found;
            }
            assert!(Instant::now() < deadline, "timed out waiting for {what}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Waits until the ledger has this line.
    pub(super) async fn wait_for_line(&self, line: &str) {
        let find = |it: &'_ Self| it.pipelines.read_file("ledger").lines().any(|found| found == line);
        self.wait_for(line, |it| {
            let found = find(it).then_some(());
            Box::pin(async move { found })
        })
        .await;
    }

    pub(super) async fn environment(&self) -> Value {
        self.pipelines.fetch("/pipelines/shop/ephemeral-environments/qa-1").await
    }

    /// The newest deployment.
    pub(super) async fn latest_deployment(&self) -> Value {
        let listed = self
            .pipelines
            .send(
                crate::world::get(&format!("{}/deployments", super::ORG)).with_account(self.pipelines.ada()),
            )
            .await;
        listed.body["data"][0].clone()
    }

    pub(super) async fn approve(&self, number: i64, commit: &str, token: &str) -> TestResponse {
        let path = format!("{}/repositories/{}/pull-requests/{number}/approve", super::ORG, self.repository);
        self.pipelines.send(post(&path).token(token).json(&json!({"commit": commit}))).await
    }
}
