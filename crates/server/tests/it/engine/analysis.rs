//! Analyses of failures: on request or automatic, once per attempt, and based on the actual log of the step.

use std::time::Instant;

use serde_json::{Value, json};

use super::{PATIENCE, PipelineFixture, expect_data};
use crate::git::OriginRepository;
use crate::world::{TestResponse, call, get, post};

const ORG: &str = super::ORG;

impl PipelineFixture {
    /// Creates a pipeline with one stage and one step, which runs this script.
    pub(super) async fn create_script_pipeline(&self, extra: &str, run: &str) {
        let run = serde_json::to_string(run).unwrap();
        let step = format!("    - {{ name: Deploy, type: script, params: {{ run: {run} }} }}\n");
        self.create_pipeline(&format!("{extra}  stages: [{{ name: staging }}]\n  steps:\n{step}")).await;
    }

    pub(super) async fn request_analysis(&self, deployment: &str) -> Value {
        expect_data(&self.post(&format!("/deployments/{deployment}/analyses"), &json!({})).await, 202)
    }

    /// Waits until the analysis has finished and returns it.
    pub(super) async fn wait_for_analysis(&self, id: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.fetch(&format!("/analyses/{id}")).await;
            if seen["finishedAt"].is_string() {
                return seen;
            }
            assert!(Instant::now() < deadline, "it does not end: {seen}");
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }

    pub(super) async fn wait_for_analyses(&self, deployment: &str, count: usize) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let path = format!("{ORG}/deployments/{deployment}/analyses");
            let seen = self.send(get(&path).with_account(self.ada())).await;
            let listed = seen.body["data"].as_array().cloned().unwrap_or_default();
            if listed.len() == count {
                return listed;
            }
            assert!(Instant::now() < deadline, "there are others: {}", seen.text);
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }
}

pub(super) fn id(record: &Value) -> String {
    record["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_of_a_failed_attempt_runs_once() {
    let fixture = PipelineFixture::start().await;
    fixture.create_script_pipeline("", "echo begin\nno-such-tool-at-all --version").await;
    let first = fixture.start_deployment("4f2a1c9").await;
    fixture.wait_for_end(&first).await;

    let asked = fixture.request_analysis(&first).await;
    assert_eq!((&asked["step"], &asked["stage"]), (&json!("deploy"), &json!("staging")));
    let seen = fixture.wait_for_analysis(&id(&asked)).await;
    assert_eq!(seen["status"], "succeeded", "{seen}");
    assert_eq!((&seen["analyser"], &seen["category"]), (&json!("rules"), &json!("command")), "{seen}");
    let evidence = &seen["evidence"][0];
    assert!(evidence["text"].as_str().unwrap().contains("no-such-tool-at-all"), "{seen}");
    let line = usize::try_from(evidence["firstLine"].as_u64().unwrap()).unwrap();
    let log = fixture.read_step_log(&first, "deploy").await;
    assert!(log.lines().nth(line - 1).unwrap().contains("no-such-tool-at-all"), "{log}");
    assert!(seen["suggestedFix"].is_null() && seen["reusedFrom"].is_null(), "{seen}");
    assert_eq!(id(&fixture.request_analysis(&first).await), id(&asked), "one for each attempt");

    let second = fixture.start_deployment("4f2a1c9").await;
    fixture.wait_for_end(&second).await;
    let repeat = fixture.wait_for_analysis(&id(&fixture.request_analysis(&second).await)).await;
    assert_eq!(repeat["reusedFrom"], asked["id"], "{repeat}");
    assert_eq!(repeat["fingerprint"], seen["fingerprint"]);

    let events =
        fixture.send(get(&format!("{ORG}/events?kind=analysis_succeeded")).with_account(fixture.ada())).await;
    assert_eq!(events.body["data"].as_array().unwrap().len(), 2, "{}", events.text);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_of_a_deployment_that_did_not_fail_is_refused() {
    let fixture = PipelineFixture::start().await;
    fixture.create_script_pipeline("", "true").await;
    let good = fixture.start_deployment("4f2a1c9").await;
    fixture.wait_for_end(&good).await;
    let path = format!("/deployments/{good}/analyses");
    fixture.post(&path, &json!({})).await.assert_problem(409, "invalid_state");
    fixture.post(&path, &json!({"stepId": "deploy"})).await.assert_problem(409, "invalid_state");
    fixture.post(&path, &json!({"stepId": "no-such-step"})).await.assert_problem(404, "not_found");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_on_failure_starts_automatically() {
    let fixture = PipelineFixture::start().await;
    fixture.create_script_pipeline("  analysis: { on_failure: true }\n", "exit 3").await;
    let failed = fixture.start_deployment("4f2a1c9").await;
    fixture.wait_for_end(&failed).await;
    let listed = fixture.wait_for_analyses(&failed, 1).await;
    let seen = fixture.wait_for_analysis(&id(&listed[0])).await;
    assert_eq!((&seen["status"], &seen["actor"]["type"]), (&json!("succeeded"), &json!("system")), "{seen}");
    assert_eq!(
        id(&fixture.request_analysis(&failed).await),
        id(&seen),
        "a manual request returns the existing analysis"
    );
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_of_a_missing_executable_bit_suggests_a_fix_that_applies() {
    let fixture = PipelineFixture::start().await;
    let origin = OriginRepository::new();
    let definition = "version: 1\npipeline:\n  name: Shop\n  tracks: main\n  stages: [{ name: staging }]\n  steps:\n    - { name: Deploy, type: script, params: { run: ./deploy.sh } }\n";
    origin.write(".berth/shop/pipeline.yaml", definition);
    origin.write("deploy.sh", "#!/bin/sh\necho deployed\n");
    origin.commit("a script that is not executable");
    expect_data(&fixture.post("/repositories", &json!({"url": origin.url().as_str()})).await, 201);
    let failed = fixture.wait_for_first_deployment().await;
    fixture.wait_for_end(&failed).await;
    let seen = fixture.wait_for_analysis(&id(&fixture.request_analysis(&failed).await)).await;
    let diff = seen["suggestedFix"]["diff"].as_str().unwrap_or_default();
    assert!(diff.contains("old mode 100644\nnew mode 100755"), "{seen}");
    assert!(diff.contains("deploy.sh"), "{seen}");
    assert_eq!(seen["pullRequest"], Value::Null);

    let path = format!("{ORG}/analyses/{}", id(&seen));
    let etag = |reply: &TestResponse| reply.header("etag").to_owned();
    let before = etag(&fixture.send(get(&path).with_account(fixture.ada())).await);
    let made = fixture.request_pull_request(&id(&seen)).await;
    assert_eq!(made["state"], "pushed", "{made}");
    let after = fixture.send(get(&path).with_account(fixture.ada())).await;
    assert_eq!(after.body["data"]["pullRequest"], made, "the analysis shows what came of it");
    assert_ne!(etag(&after), before, "and is not the same answer any more");
    let branch = made["branch"].as_str().unwrap();
    assert!(origin.git(&["ls-tree", branch, "deploy.sh"]).starts_with("100755 blob"));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_settings_are_versioned_and_for_admins() {
    let fixture = PipelineFixture::start().await;
    let path = format!("{ORG}/analysis-settings");
    let put = |body: Value| call("PUT", &path).with_account(fixture.ada()).json(&body);
    assert_eq!(fixture.fetch("/analysis-settings").await["permitDefinition"], false);
    let changed = fixture.send(put(json!({"provider": "none", "permitDefinition": true}))).await;
    assert_eq!(expect_data(&changed, 200)["permitDefinition"], true);
    let old = fixture.send(put(json!({"provider": "none"})).header("if-match", "\"0\"")).await;
    assert_eq!(old.status, 412, "{}", old.text);
    let events = fixture
        .send(get(&format!("{ORG}/events?kind=analysis_settings_updated")).with_account(fixture.ada()));
    assert_eq!(events.await.body["data"].as_array().unwrap().len(), 1);
    fixture
        .send(post(&format!("{ORG}/analysis-settings")).with_account(fixture.ada()))
        .await
        .assert_problem(405, "method_not_allowed");
    fixture.shut_down().await;
}
