//! From a failure to a pull request, with a real runner, git over HTTP and an emulated GitHub.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use berth_server::config::AppConfig;
use serde_json::{Value, json};

use super::{PATIENCE, PipelineFixture, expect_data};
use crate::analysis_fixture::{AnalyzedFailure, create_analysis};
use crate::forge::{FakeForge, TOKEN, call_emulator, start_github};
use crate::git::{OriginRepository, serve_git};
use crate::jobs_with_runner::JobsWithRunner;
use crate::world::{TestWorld, get, post};

const FINGERPRINT: &str = "0123456789abcdef0123456789abcdef";
pub(super) const BRANCH: &str = "berth/fix-0123456789ab";
pub(super) const CHMOD_DIFF: &str = "diff --git a/deploy.sh b/deploy.sh\nold mode 100644\nnew mode 100755\n";
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  stages: [{ name: staging }]
  steps:
    - name: Deploy
      type: script
      params: { run: './deploy.sh' }
";

/// A repository whose deploy script is not executable.
pub(super) fn create_broken_origin() -> OriginRepository {
    let origin = OriginRepository::new();
    origin.write(".berth/shop/pipeline.yaml", DEFINITION);
    origin.write("deploy.sh", "#!/bin/sh\necho hi\n");
    origin.commit("first");
    origin
}

/// Creates a bare clone at `admin/shop.git`, to be served over HTTP.
pub(super) fn clone_bare(origin: &OriginRepository) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let bare = root.path().join("admin/shop.git");
    let cloned =
        Command::new("git").args(["clone", "--quiet", "--bare"]).arg(origin.path()).arg(&bare).status();
    assert!(cloned.unwrap().success());
    (root, bare)
}

pub(super) fn run_git(bare: &Path, args: &[&str]) -> String {
    let ran = Command::new("git").arg("--git-dir").arg(bare).args(args).output().unwrap();
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

impl PipelineFixture {
    pub(super) async fn with_config(config: AppConfig) -> Self {
        let world = TestWorld::with_config(config).await;
        let running_jobs = JobsWithRunner::start(&world.app);
        Self { world, running_jobs, outside: tempfile::tempdir().unwrap() }
    }

    /// Registers a repository whose deployment fails. Returns the id of the repository and the deployment.
    pub(super) async fn register_failing_repository(&self, repository: &Value) -> (String, Value) {
        let made = expect_data(&self.post("/repositories", repository).await, 201);
        let deployment = self.wait_for_first_deployment().await;
        let ended = self.wait_for_end(&deployment).await;
        assert_eq!(ended["status"], "failed", "{ended}");
        (made["id"].as_str().unwrap().to_owned(), ended)
    }

    /// Creates an analysis of the failure that suggests this diff.
    pub(super) async fn create_analysis(
        &self,
        repository: &str,
        deployment: &Value,
        attempt: u32,
        diff: Option<&str>,
    ) -> String {
        let text = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        // Gives each attempt a different fingerprint.
        let fingerprint =
            if attempt == 1 { FINGERPRINT.to_owned() } else { format!("{attempt}{FINGERPRINT}") };
        let failure = AnalyzedFailure {
            deployment: text("/id"),
            pipeline: text("/pipelineId"),
            repository: repository.to_owned(),
            step: text("/stages/0/steps/0/id"),
            attempt,
            commit: text("/resolvedCommitId"),
            fingerprint,
            diff: diff.map(str::to_owned),
        };
        create_analysis(&self.world, failure).await
    }

    /// Requests a pull request and waits until it is open or has failed.
    pub(super) async fn request_pull_request(&self, analysis: &str) -> Value {
        let path = format!("/analyses/{analysis}/pull-request");
        let asked = self.post(&path, &json!({})).await;
        assert!([200, 202].contains(&asked.status.as_u16()), "{}", asked.text);
        self.wait_for_pull_request(&path).await
    }

    async fn wait_for_pull_request(&self, path: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.fetch(path).await;
            if seen["state"] != "opening" {
                return seen;
            }
            assert!(Instant::now() < deadline, "{seen}");
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }

    pub(super) async fn fix_events(&self) -> Vec<Value> {
        let path = format!("{}/events?limit=200", super::ORG);
        let listed = self.send(get(&path).with_account(self.ada())).await;
        let events = listed.body["data"].as_array().cloned().unwrap_or_default();
        let is_ours =
            |event: &Value| event["kind"].as_str().is_some_and(|kind| kind.starts_with("fix_pull_request"));
        events.into_iter().filter(is_ours).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fix_becomes_one_branch_with_one_commit_and_one_pull_request() {
    let Some(github) = start_github() else { return };
    let origin = create_broken_origin();
    let (root, bare) = clone_bare(&origin);
    let login: &'static str = Box::leak(format!("x-access-token:{TOKEN}").into_boxed_str());
    let url = format!("{}/admin/shop.git", serve_git(root.path().to_owned(), login));
    let config = AppConfig {
        forges: vec![format!("127.0.0.1=github={}", github.url).parse().unwrap()],
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    };
    let fixture = PipelineFixture::with_config(config).await;
    let secret = json!({"name": "GIT_TOKEN", "value": TOKEN});
    assert_eq!(fixture.post("/secrets", &secret).await.status, 201);
    let (repository, failed) =
        fixture.register_failing_repository(&json!({"url": url, "credential": "GIT_TOKEN"})).await;
    let analysis = fixture.create_analysis(&repository, &failed, 1, Some(CHMOD_DIFF)).await;

    let made = fixture.request_pull_request(&analysis).await;
    assert_eq!((&made["state"], &made["branch"]), (&json!("open"), &json!(BRANCH)), "{made}");
    let again = fixture.request_pull_request(&analysis).await;
    assert_eq!(again, made, "a second call answers the first");
    let listed = call_emulator(&github.url, "/repos/admin/shop/pulls?state=all", None);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let opened = &listed[0];
    assert_eq!(opened["html_url"], made["url"]);
    assert_eq!(opened["title"], "Make deploy.sh executable everyone");
    assert_eq!((&opened["head"]["ref"], &opened["base"]["ref"]), (&json!(BRANCH), &json!("main")));
    let body = opened["body"].as_str().unwrap();
    assert!(body.contains("Permission denied") && body.contains("requested by ada"), "{body}");

    let git = |args: &[&str]| run_git(&bare, args);
    let head = failed["resolvedCommitId"].as_str().unwrap();
    assert_eq!(git(&["rev-parse", BRANCH]), made["commitId"].as_str().unwrap());
    assert_eq!(git(&["rev-parse", "main"]), head, "the tracked branch is as it was");
    assert_eq!(
        git(&["log", "-1", "--format=%an %ae %cn %P", BRANCH]),
        format!("Berth ada@acme.test Berth {head}")
    );
    assert!(git(&["ls-tree", BRANCH, "deploy.sh"]).starts_with("100755 blob"));
    let events = serde_json::to_string(&fixture.fix_events().await).unwrap();
    assert!(!events.contains(TOKEN) && events.contains(BRANCH), "{events}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fix_on_a_plain_remote_is_a_pushed_branch() {
    let origin = create_broken_origin();
    let fixture = PipelineFixture::start().await;
    let (repository, failed) =
        fixture.register_failing_repository(&json!({"url": origin.url().as_str()})).await;
    let analysis = fixture.create_analysis(&repository, &failed, 1, Some(CHMOD_DIFF)).await;
    let made = fixture.request_pull_request(&analysis).await;
    assert_eq!(
        (&made["state"], &made["url"], &made["number"]),
        (&json!("pushed"), &Value::Null, &Value::Null)
    );
    assert_eq!(origin.git(&["rev-parse", BRANCH]), made["commitId"].as_str().unwrap());
    assert_eq!(made["askedBy"]["name"], "ada");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fix_with_a_forbidden_change_is_not_pushed() {
    let origin = create_broken_origin();
    origin.write(".github/workflows/ci.yml", "on: push\n");
    origin.commit("with automation");
    let fixture = PipelineFixture::start().await;
    let secret = json!({"name": "API_KEY", "value": "hunter2-hunter2-hunter2"});
    assert_eq!(fixture.post("/secrets", &secret).await.status, 201);
    let (repository, failed) =
        fixture.register_failing_repository(&json!({"url": origin.url().as_str()})).await;
    let automation = "diff --git a/.github/workflows/ci.yml b/.github/workflows/ci.yml\n--- a/.github/workflows/ci.yml\n+++ b/.github/workflows/ci.yml\n@@ -1 +1 @@\n-on: push\n+on: pull_request_target\n";
    let owners = "diff --git a/CODEOWNERS b/CODEOWNERS\nnew file mode 100644\n--- /dev/null\n+++ b/CODEOWNERS\n@@ -0,0 +1 @@\n+* @eve\n";
    let leaking = "diff --git a/key b/key\nnew file mode 100644\n--- /dev/null\n+++ b/key\n@@ -0,0 +1 @@\n+hunter2-hunter2-hunter2\n";
    let definition = "diff --git a/.berth/shop/pipeline.yaml b/.berth/shop/pipeline.yaml\nold mode 100644\nnew mode 100755\n";
    let elsewhere = "diff --git a/deploy.sh b/deploy.sh\n--- a/deploy.sh\n+++ b/deploy.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo bye\n+echo hi\n";
    for (attempt, diff, why) in [
        (1, automation, "continuous integration"),
        (2, owners, "who owns what"),
        (3, leaking, "value of a secret"),
        (4, elsewhere, "does not fit the commit"),
        (5, definition, "where an admin permits it"),
    ] {
        let analysis = fixture.create_analysis(&repository, &failed, attempt, Some(diff)).await;
        let made = fixture.request_pull_request(&analysis).await;
        assert_eq!(made["state"], "failed", "{made}");
        let error = made["error"].as_str().unwrap();
        assert!(error.contains(why) && !error.contains("hunter2"), "{error}");
    }
    assert_eq!(origin.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fix_without_permission_or_diff_is_refused() {
    let origin = create_broken_origin();
    let fixture = PipelineFixture::start().await;
    let (repository, failed) =
        fixture.register_failing_repository(&json!({"url": origin.url().as_str()})).await;
    let analysis = fixture.create_analysis(&repository, &failed, 1, None).await;
    let path = format!("{}/analyses/{analysis}/pull-request", super::ORG);
    assert_eq!(fixture.send(post(&path).with_account(fixture.ada())).await.status, 409);
    let viewer = fixture.world.create_member("vera@acme.test", "viewer").await;
    assert_eq!(fixture.send(post(&path).with_account(&viewer)).await.status, 403);
    assert_eq!(fixture.send(post(&path).with_account(&fixture.world.hank)).await.status, 404);
    let nothing = fixture.post("/analyses/anl_nothing/pull-request", &json!({})).await;
    assert_eq!(nothing.status, 404);
    assert_eq!(
        fixture.send(get(&path).with_account(&viewer)).await.status,
        404,
        "no pull request was requested"
    );
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fix_after_a_forge_failure_reuses_the_pushed_branch() {
    let origin = create_broken_origin();
    let (root, bare) = clone_bare(&origin);
    let fails = std::sync::atomic::AtomicBool::new(true);
    let gitea = FakeForge::start(move |asked| {
        if asked.line.contains("/statuses/") {
            return (201, "{}".into());
        }
        if fails.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return (500, json!({"message": "hunter2-token is odd"}).to_string());
        }
        match asked.line.starts_with("GET") {
            true => (404, "{}".into()),
            false => (201, json!({"number": 5, "html_url": "https://git.acme.test/a/b/pulls/5"}).to_string()),
        }
    });
    let config = AppConfig {
        forges: vec![format!("127.0.0.1=gitea={}", gitea.url).parse().unwrap()],
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    };
    let fixture = PipelineFixture::with_config(config).await;
    let secret = json!({"name": "GIT_TOKEN", "value": "hunter2-token"});
    assert_eq!(fixture.post("/secrets", &secret).await.status, 201);
    let url = format!("{}/admin/shop.git", serve_git(root.path().to_owned(), "x-access-token:hunter2-token"));
    let (repository, failed) =
        fixture.register_failing_repository(&json!({"url": url, "credential": "GIT_TOKEN"})).await;
    let analysis = fixture.create_analysis(&repository, &failed, 1, Some(CHMOD_DIFF)).await;
    let made = fixture.request_pull_request(&analysis).await;
    let error = made["error"].as_str().unwrap();
    assert!(error.contains("was pushed") && error.contains("500") && !error.contains("hunter2"), "{error}");
    let there = run_git(&bare, &["rev-parse", BRANCH]);

    // When another user retries, the branch that was pushed before is reused.
    let dora = fixture.world.create_member("dora@acme.test", "deployer").await;
    let path = format!("/analyses/{analysis}/pull-request");
    let asked = fixture.send(post(&format!("{}{path}", super::ORG)).with_account(&dora)).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    let made = fixture.wait_for_pull_request(&path).await;
    assert_eq!((&made["state"], &made["number"]), (&json!("open"), &json!(5)));
    assert_eq!(
        (made["commitId"].as_str(), run_git(&bare, &["rev-parse", BRANCH])),
        (Some(there.as_str()), there.clone())
    );
    fixture.shut_down().await;
}
