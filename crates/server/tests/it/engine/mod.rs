//! Pipelines with real steps, deployed through stages and to environments, and observed over HTTP.

mod analysis;
mod approval_changes;
mod approvals;
mod authors;
mod build;
mod commit_statuses;
mod commits;
mod delivery;
mod failures;
mod fix_ends;
mod fixes;
mod forge_deployments;
mod forge_stories;
mod gates;
mod id_tokens;
mod injections;
mod model;
mod pull_request_fixture;
mod pull_requests;
mod repository;
mod retry;
mod rollback;
mod rollback_gates;
mod stages;
mod steps;
mod takeover;
mod votes;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::jobs_with_runner::JobsWithRunner;
use super::world::{MemberAccount, TestResponse, TestWorld, call, get, post};

const ORG: &str = "/api/v1/organizations/acme";
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

struct PipelineFixture {
    world: TestWorld,
    running_jobs: JobsWithRunner,
    /// A directory outside of the server, for files that steps write and tests read.
    outside: tempfile::TempDir,
}

impl PipelineFixture {
    async fn start() -> Self {
        Self::for_world(TestWorld::new().await)
    }

    fn for_world(world: TestWorld) -> Self {
        let running_jobs = JobsWithRunner::start(&world.app);
        Self { world, running_jobs, outside: tempfile::tempdir().unwrap() }
    }

    async fn shut_down(self) {
        self.running_jobs.shut_down().await;
    }

    fn ada(&self) -> &MemberAccount {
        &self.world.ada
    }

    /// The path of a file in `outside`, to be used in scripts.
    fn file_path(&self, name: &str) -> String {
        self.outside.path().join(name).display().to_string()
    }

    fn read_file(&self, name: &str) -> String {
        std::fs::read_to_string(self.outside.path().join(name)).unwrap_or_default()
    }

    async fn send(&self, call: super::world::TestRequest) -> TestResponse {
        self.world.send(call).await
    }

    async fn fetch(&self, path: &str) -> Value {
        expect_data(&self.send(get(&format!("{ORG}{path}")).with_account(self.ada())).await, 200)
    }

    async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.send(post(&format!("{ORG}{path}")).with_account(self.ada()).json(body)).await
    }

    /// Creates the pipeline `shop`. `body` goes below `pipeline:` and is indented by two spaces.
    async fn create_pipeline(&self, body: &str) {
        let definition = format!("version: 1\npipeline:\n  name: Shop\n{body}");
        let made = self.post("/pipelines", &json!({"slug": "shop", "definition": definition})).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }

    /// Starts a deployment through the stages of `shop` and returns its id.
    async fn start_deployment(&self, commit: &str) -> String {
        let started = self.post("/pipelines/shop/deployments", &json!({"commitId": commit})).await;
        expect_data(&started, 202)["id"].as_str().unwrap().to_owned()
    }

    /// Claims `qa-1` and deploys there. Returns the ids of the session and of the deployment.
    async fn claim(&self, commit: &str) -> (String, String) {
        let path = "/pipelines/shop/ephemeral-environments/qa-1/sessions";
        let session = expect_data(&self.post(path, &json!({"commitId": commit})).await, 201);
        let text = |name: &str| session[name].as_str().unwrap().to_owned();
        (text("sessionId"), text("deploymentId"))
    }

    /// Long-polls the deployment until `wanted` is true for it, and returns it.
    async fn wait_until(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut tag = String::new();
        loop {
            let path = format!("{ORG}/deployments/{id}");
            // The first request has no ETag yet, so it cannot wait for a change.
            let asked = match tag.as_str() {
                "" => get(&path),
                tag => get(&format!("{path}?wait=10")).header("if-none-match", tag),
            };
            let seen = self.send(asked.with_account(self.ada())).await;
            if seen.status != 304 {
                assert_eq!(seen.status, 200, "{}", seen.text);
                tag = seen.header("etag").to_owned();
                if wanted(&seen.body["data"]) {
                    return seen.body["data"].clone();
                }
            }
            assert!(Instant::now() < deadline, "it stays as it is: {}", seen.text);
        }
    }

    /// Waits for the pipeline's first deployment and returns its id.
    async fn wait_for_first_deployment(&self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen =
                self.send(get(&format!("{ORG}/pipelines/shop/deployments")).with_account(self.ada())).await;
            if let Some(id) = seen.body["data"][0]["id"].as_str() {
                return id.to_owned();
            }
            assert!(Instant::now() < deadline, "{}", seen.text);
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }

    async fn wait_for_end(&self, id: &str) -> Value {
        self.wait_until(id, |it| it["finishedAt"].is_string()).await
    }

    /// Returns the log of a step.
    async fn read_step_log(&self, id: &str, step: &str) -> String {
        let (stage, step) = step.split_once('/').unwrap_or(("", step));
        let stage = if stage.is_empty() { String::new() } else { format!("&stage={stage}") };
        let path = format!("{ORG}/deployments/{id}/steps/{step}/logs?raw=true{stage}");
        let got = self.send(get(&path).with_account(self.ada())).await;
        assert_eq!(got.status, 200, "{}", got.text);
        got.text
    }

    async fn delete(&self, path: &str) -> TestResponse {
        self.send(call("DELETE", &format!("{ORG}{path}")).with_account(self.ada())).await
    }
}

fn expect_data(reply: &TestResponse, status: u16) -> Value {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text);
    reply.body["data"].clone()
}

/// Formats the status and cause of the deployment, its stages and their steps, one per line.
fn format_outcome(deployment: &Value) -> String {
    let word = |it: &Value| {
        let status = it["status"].as_str().unwrap();
        match it["cause"].as_str() {
            Some(cause) => format!("{status} ({cause})"),
            None => status.to_owned(),
        }
    };
    let steps = |stage: &Value| {
        let steps = stage["steps"].as_array().cloned().unwrap_or_default();
        let told = steps.iter().map(|step| format!("  {} {}\n", step["step"].as_str().unwrap(), word(step)));
        told.collect::<String>()
    };
    let mut told = format!("{}\n", word(deployment));
    for stage in deployment["stages"].as_array().unwrap() {
        told += &format!("{}: {}\n{}", stage["name"].as_str().unwrap(), word(stage), steps(stage));
    }
    told
}
