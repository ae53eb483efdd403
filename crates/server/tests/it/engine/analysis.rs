//! Analyses of failures: on request or automatic, once per attempt, and based on the actual log of the step.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Harbour, PATIENCE, data};
use crate::git::Origin;
use crate::world::{Reply, call, get, post};

const ORG: &str = super::ORG;

impl Harbour {
    /// Creates a pipeline with one stage and one step, which runs this script.
    pub(super) async fn failing(&self, extra: &str, run: &str) {
        let run = serde_json::to_string(run).unwrap();
        let step = format!("    - {{ name: Deploy, type: script, params: {{ run: {run} }} }}\n");
        self.pipeline(&format!("{extra}  stages: [{{ name: staging }}]\n  steps:\n{step}")).await;
    }

    pub(super) async fn ask(&self, deployment: &str) -> Value {
        data(&self.post(&format!("/deployments/{deployment}/analyses"), &json!({})).await, 202)
    }

    /// Waits until the analysis has finished and returns it.
    pub(super) async fn looked_into(&self, id: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.see(&format!("/analyses/{id}")).await;
            if seen["finishedAt"].is_string() {
                return seen;
            }
            assert!(Instant::now() < deadline, "it does not end: {seen}");
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }

    pub(super) async fn analyses_of(&self, deployment: &str, count: usize) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let path = format!("{ORG}/deployments/{deployment}/analyses");
            let seen = self.send(get(&path).by(self.ada())).await;
            let listed = seen.body["data"].as_array().cloned().unwrap_or_default();
            if listed.len() == count {
                return listed;
            }
            assert!(Instant::now() < deadline, "there are others: {}", seen.text);
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    }
}

pub(super) fn id(of: &Value) -> String {
    of["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_of_a_failed_attempt_runs_once() {
    let harbour = Harbour::open().await;
    harbour.failing("", "echo begin\nno-such-tool-at-all --version").await;
    let first = harbour.start("4f2a1c9").await;
    harbour.end_of(&first).await;

    let asked = harbour.ask(&first).await;
    assert_eq!((&asked["step"], &asked["stage"]), (&json!("deploy"), &json!("staging")));
    let seen = harbour.looked_into(&id(&asked)).await;
    assert_eq!(seen["status"], "succeeded", "{seen}");
    assert_eq!((&seen["analyser"], &seen["category"]), (&json!("rules"), &json!("command")), "{seen}");
    let evidence = &seen["evidence"][0];
    assert!(evidence["text"].as_str().unwrap().contains("no-such-tool-at-all"), "{seen}");
    let line = usize::try_from(evidence["firstLine"].as_u64().unwrap()).unwrap();
    let log = harbour.log(&first, "deploy").await;
    assert!(log.lines().nth(line - 1).unwrap().contains("no-such-tool-at-all"), "{log}");
    assert!(seen["suggestedFix"].is_null() && seen["reusedFrom"].is_null(), "{seen}");
    assert_eq!(id(&harbour.ask(&first).await), id(&asked), "one for each attempt");

    let second = harbour.start("4f2a1c9").await;
    harbour.end_of(&second).await;
    let repeat = harbour.looked_into(&id(&harbour.ask(&second).await)).await;
    assert_eq!(repeat["reusedFrom"], asked["id"], "{repeat}");
    assert_eq!(repeat["fingerprint"], seen["fingerprint"]);

    let events = harbour.send(get(&format!("{ORG}/events?kind=analysis_succeeded")).by(harbour.ada())).await;
    assert_eq!(events.body["data"].as_array().unwrap().len(), 2, "{}", events.text);
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_of_a_deployment_that_did_not_fail_is_refused() {
    let harbour = Harbour::open().await;
    harbour.failing("", "true").await;
    let good = harbour.start("4f2a1c9").await;
    harbour.end_of(&good).await;
    let path = format!("/deployments/{good}/analyses");
    harbour.post(&path, &json!({})).await.is(409, "invalid_state");
    harbour.post(&path, &json!({"stepId": "deploy"})).await.is(409, "invalid_state");
    harbour.post(&path, &json!({"stepId": "no-such-step"})).await.is(404, "not_found");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_on_failure_starts_automatically() {
    let harbour = Harbour::open().await;
    harbour.failing("  analysis: { on_failure: true }\n", "exit 3").await;
    let failed = harbour.start("4f2a1c9").await;
    harbour.end_of(&failed).await;
    let listed = harbour.analyses_of(&failed, 1).await;
    let seen = harbour.looked_into(&id(&listed[0])).await;
    assert_eq!((&seen["status"], &seen["actor"]["type"]), (&json!("succeeded"), &json!("system")), "{seen}");
    assert_eq!(id(&harbour.ask(&failed).await), id(&seen), "whoever asks gets that one");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_of_a_missing_executable_bit_suggests_a_fix_that_applies() {
    let harbour = Harbour::open().await;
    let origin = Origin::new();
    let definition = "version: 1\npipeline:\n  name: Shop\n  tracks: main\n  stages: [{ name: staging }]\n  steps:\n    - { name: Deploy, type: script, params: { run: ./deploy.sh } }\n";
    origin.write(".berth/shop/pipeline.yaml", definition);
    origin.write("deploy.sh", "#!/bin/sh\necho deployed\n");
    origin.commit("a script that nobody can run");
    data(&harbour.post("/repositories", &json!({"url": origin.url().as_str()})).await, 201);
    let failed = harbour.first_deployment().await;
    harbour.end_of(&failed).await;
    let seen = harbour.looked_into(&id(&harbour.ask(&failed).await)).await;
    let diff = seen["suggestedFix"]["diff"].as_str().unwrap_or_default();
    assert!(diff.contains("old mode 100644\nnew mode 100755"), "{seen}");
    assert!(diff.contains("deploy.sh"), "{seen}");
    assert_eq!(seen["pullRequest"], Value::Null);

    let path = format!("{ORG}/analyses/{}", id(&seen));
    let etag = |reply: &Reply| reply.header("etag").to_owned();
    let before = etag(&harbour.send(get(&path).by(harbour.ada())).await);
    let made = harbour.proposed(&id(&seen)).await;
    assert_eq!(made["state"], "pushed", "{made}");
    let after = harbour.send(get(&path).by(harbour.ada())).await;
    assert_eq!(after.body["data"]["pullRequest"], made, "the analysis shows what came of it");
    assert_ne!(etag(&after), before, "and is not the same answer any more");
    let branch = made["branch"].as_str().unwrap();
    assert!(origin.git(&["ls-tree", branch, "deploy.sh"]).starts_with("100755 blob"));
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysis_settings_are_versioned_and_for_admins() {
    let harbour = Harbour::open().await;
    let path = format!("{ORG}/analysis-settings");
    let put = |body: Value| call("PUT", &path).by(harbour.ada()).json(&body);
    assert_eq!(harbour.see("/analysis-settings").await["permitDefinition"], false);
    let changed = harbour.send(put(json!({"provider": "none", "permitDefinition": true}))).await;
    assert_eq!(data(&changed, 200)["permitDefinition"], true);
    let old = harbour.send(put(json!({"provider": "none"})).header("if-match", "\"0\"")).await;
    assert_eq!(old.status, 412, "{}", old.text);
    let events = harbour.send(get(&format!("{ORG}/events?kind=analysis_settings_updated")).by(harbour.ada()));
    assert_eq!(events.await.body["data"].as_array().unwrap().len(), 1);
    harbour
        .send(post(&format!("{ORG}/analysis-settings")).by(harbour.ada()))
        .await
        .is(405, "method_not_allowed");
    harbour.close().await;
}
