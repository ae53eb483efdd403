//! Commit statuses on a forge that follow real deployments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use berth_server::config::AppConfig;
use serde_json::{Value, json};

use super::fixes::clone_bare;
use super::{PATIENCE, PipelineFixture, expect_data};
use crate::forge::{FakeForge, FakeResponse, RecordedRequest};
use crate::git::{OriginRepository, serve_git};

const LOGIN: &str = "x-access-token:hunter2-token";
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

/// A repository on a fake forge.
pub(super) struct HostedRepository {
    pub(super) fixture: PipelineFixture,
    pub(super) forge: FakeForge,
    pub(super) origin: OriginRepository,
    pub(super) bare: PathBuf,
    pub(super) head: String,
    /// The id of the repository in Berth.
    pub(super) repository: String,
    /// The id of the first deployment, which the push started.
    pub(super) deployment: String,
    _root: tempfile::TempDir,
}

impl HostedRepository {
    async fn start(
        definition: &str,
        behaviour: impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync + 'static,
    ) -> Self {
        Self::start_on("github", definition, behaviour).await
    }

    /// Starts on a forge of this kind.
    pub(super) async fn start_on(
        kind: &str,
        definition: &str,
        behaviour: impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync + 'static,
    ) -> Self {
        let origin = OriginRepository::new();
        origin.write(".berth/shop/pipeline.yaml", definition);
        origin.commit("first");
        let head = origin.git(&["rev-parse", "HEAD"]);
        let (root, bare) = clone_bare(&origin);
        let forge = FakeForge::start_with_headers(behaviour);
        let config = AppConfig {
            forges: vec![format!("127.0.0.1={kind}={}", forge.url).parse().unwrap()],
            egress_allow: vec!["127.0.0.1".parse().unwrap()],
            ..AppConfig::local(([127, 0, 0, 1], 8080).into())
        };
        let fixture = PipelineFixture::with_config(config).await;
        let secret = json!({"name": "GIT_TOKEN", "value": "hunter2-token"});
        assert_eq!(fixture.post("/secrets", &secret).await.status, 201);
        let url = format!("{}/admin/shop.git", serve_git(root.path().to_owned(), LOGIN));
        let body = json!({"url": url, "credential": "GIT_TOKEN"});
        let made = expect_data(&fixture.post("/repositories", &body).await, 201);
        let repository = made["id"].as_str().unwrap().to_owned();
        let deployment = fixture.wait_for_first_deployment().await;
        Self { fixture, forge, origin, bare, head, repository, deployment, _root: root }
    }

    /// The statuses sent so far, in order: context, state and description.
    pub(super) fn sent(&self) -> Vec<[String; 3]> {
        let path = format!("POST /repos/admin/shop/statuses/{}", self.head);
        let statuses = self.forge.requests().into_iter().filter(is_status);
        let requests = statuses.inspect(|request| {
            assert_eq!(request.line, path);
            assert_eq!(request.headers["authorization"], "Bearer hunter2-token");
        });
        let text = |body: &Value, name: &str| body[name].as_str().unwrap().to_owned();
        requests
            .map(|request| ["context", "state", "description"].map(|name| text(&request.body, name)))
            .collect()
    }

    /// Waits until the newest status of each context is as expected.
    pub(super) async fn wait_for_statuses(&self, expected: &[(&str, &str, &str)]) {
        let expected: BTreeMap<_, _> = expected
            .iter()
            .map(|(context, state, description)| {
                ((*context).to_owned(), ((*state).to_owned(), (*description).to_owned()))
            })
            .collect();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let sent = self.sent().into_iter();
            let newest: BTreeMap<_, _> =
                sent.map(|[context, state, description]| (context, (state, description))).collect();
            if newest == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{newest:?} instead of {expected:?}");
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }
}

pub(super) fn is_status(request: &RecordedRequest) -> bool {
    request.line.contains("/statuses/")
}

fn accept(_: &RecordedRequest) -> FakeResponse {
    (201, "{}".to_owned()).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_statuses_follow_stages_approvals_and_environments() {
    let hosted = HostedRepository::start(DEFINITION, accept).await;
    let fixture = &hosted.fixture;
    let asked = fixture.wait_for_approval(&hosted.deployment).await;
    let staging = ("berth/shop/staging", "success", "deployed");
    let production = "berth/shop/production";
    hosted.wait_for_statuses(&[staging, (production, "pending", "waiting for approval")]).await;
    assert_eq!(fixture.approve(&asked, fixture.ada()).await.status, 200);
    hosted.wait_for_statuses(&[staging, (production, "success", "deployed")]).await;

    fixture.claim(&hosted.head).await;
    let environment = ("berth/shop/qa-1", "success", "deployed");
    hosted.wait_for_statuses(&[staging, (production, "success", "deployed"), environment]).await;

    // Once everything is written, nothing is sent again.
    let count = hosted.sent().len();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(hosted.sent().len(), count);
    hosted.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_statuses_show_failed_and_cancelled_stages() {
    let definition = DEFINITION
        .replace("      requires: { approvals: 1 }\n", "")
        .replace("type: dummy", "type: script, params: { run: 'exit 1' }");
    let hosted = HostedRepository::start(&definition, accept).await;
    let failed = [
        ("berth/shop/staging", "failure", "failed"),
        ("berth/shop/production", "error", "not deployed, because an earlier stage failed"),
    ];
    hosted.wait_for_statuses(&failed).await;
    let is_linked = |request: &RecordedRequest| request.body.get("target_url").is_some();
    assert!(!hosted.forge.requests().iter().any(is_linked), "there is no public URL");
    hosted.fixture.shut_down().await;

    let hosted = HostedRepository::start(DEFINITION, accept).await;
    hosted.fixture.wait_for_approval(&hosted.deployment).await;
    let cancelled =
        hosted.fixture.post(&format!("/deployments/{}/cancel", hosted.deployment), &json!({})).await;
    assert!(cancelled.status.is_success(), "{}", cancelled.text);
    let rest = ("berth/shop/production", "error", "cancelled");
    hosted.wait_for_statuses(&[("berth/shop/staging", "success", "deployed"), rest]).await;
    hosted.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_status_is_retried_after_errors_as_the_forge_asks() {
    let definition = DEFINITION.replace("    - name: production\n      requires: { approvals: 1 }\n", "");
    let count = AtomicUsize::new(0);
    let times = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = times.clone();
    let hosted = HostedRepository::start(&definition, move |request| {
        if !is_status(request) {
            return (403, "{}".to_owned()).into();
        }
        seen.lock().unwrap().push(Instant::now());
        let (status, headers) = match count.fetch_add(1, Ordering::SeqCst) {
            0 => (500, Vec::new()),
            1 => (429, vec![("retry-after", "5".to_owned())]),
            _ => (201, Vec::new()),
        };
        FakeResponse { status, headers, body: "{}".to_owned() }
    })
    .await;
    hosted.fixture.wait_for_end(&hosted.deployment).await;
    let deadline = Instant::now() + PATIENCE;
    while hosted.sent().len() < 3 {
        assert!(Instant::now() < deadline, "{:?}", hosted.sent());
        tokio::time::sleep(crate::world::POLL_EVERY).await;
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let last = ["berth/shop/staging", "success", "deployed"].map(str::to_owned);
    let sent = hosted.sent();
    // The states between are not sent: the third request has the newest one, and no other follows.
    assert_eq!((sent.len(), sent.last()), (3, Some(&last)), "{sent:?}");
    let times = times.lock().unwrap().clone();
    assert!(times[1] - times[0] >= Duration::from_millis(1_900), "backoff after the 500");
    assert!(times[2] - times[1] >= Duration::from_millis(4_900), "the wait that the forge named");
    hosted.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_credential_pauses_the_commit_statuses_of_a_repository() {
    let definition = DEFINITION.replace("      requires: { approvals: 1 }\n", "");
    let hosted = HostedRepository::start(&definition, |_| (403, "{}".to_owned()).into()).await;
    hosted.fixture.wait_for_end(&hosted.deployment).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(hosted.sent().len(), 1, "{:?}", hosted.sent());
    hosted.fixture.shut_down().await;
}
