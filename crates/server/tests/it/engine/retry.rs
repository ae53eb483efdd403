//! Retrying a failed deployment in an environment creates a new deployment of the same commit in the same session.

use serde_json::{Value, json};

use super::{Harbour, ORG, data};
use crate::git::Origin;
use crate::world::{get, post};

const ENV: &str = "/pipelines/shop/ephemeral-environments/qa-1";

impl Harbour {
    /// Creates a pipeline whose step fails until a certain file exists, and a deployment that failed in `qa-1`.
    async fn failed_in_environment(&self) -> (String, String) {
        let (ledger, mended) = (self.file("ledger"), self.file("mended"));
        self.pipeline(&format!(
            "  stages: [{{ name: staging }}]
  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - {{ name: One, type: script, params: {{ run: 'echo one >> {ledger}' }} }}
    - {{ name: Two, type: script, params: {{ run: 'echo two >> {ledger}; test -e {mended}' }} }}
"
        ))
        .await;
        let (session, failed) = self.claim("4f2a1c9").await;
        assert_eq!(self.end_of(&failed).await["status"], "failed");
        (session, failed)
    }

    async fn retry_in(&self, stage: &str, id: &str, body: &Value) -> crate::world::Reply {
        self.post(&format!("/deployments/{id}/stages/{stage}/retry"), body).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_in_environment_starts_a_new_deployment_in_the_same_session() {
    let harbour = Harbour::open().await;
    let (session, failed) = harbour.failed_in_environment().await;
    let before = harbour.see(&format!("/deployments/{failed}")).await;
    assert_eq!(before["retryOf"], json!(null));

    std::fs::write(harbour.file("mended"), "").unwrap();
    let path = format!("{ORG}/deployments/{failed}/stages/qa-1/retry");
    let ask = || post(&path).by(harbour.ada()).header("idempotency-key", "once").json(&json!({}));
    let accepted = harbour.send(ask()).await;
    let started = data(&accepted, 202);
    let shown = data(&harbour.send(get(accepted.header("location")).by(harbour.ada())).await, 200);
    assert_eq!(shown["id"], started["id"]);
    assert_ne!(started["id"], before["id"]);
    assert_eq!((&started["retryOf"], &started["sessionId"]), (&json!(failed), &json!(session)));
    assert_eq!((&started["number"], &started["commitId"]), (&json!(2), &json!("4f2a1c9")));
    assert_eq!(data(&harbour.send(ask()).await, 202)["id"], started["id"], "a repeat starts nothing");

    let ended = harbour.end_of(started["id"].as_str().unwrap()).await;
    assert_eq!((&ended["status"], &ended["retryOf"]), (&json!("succeeded"), &json!(failed)));
    assert_eq!(harbour.written("ledger"), "one\ntwo\none\ntwo\n");
    assert_eq!(harbour.see(&format!("/deployments/{failed}")).await["stages"], before["stages"]);
    let history = harbour.see(&format!("{ENV}/sessions/{session}")).await["deploymentHistory"].clone();
    assert_eq!(history.as_array().unwrap().len(), 2);
    assert_eq!(history[0]["retryOf"], json!(failed));
    let events = harbour.see("/events?limit=200").await;
    let told = events.as_array().unwrap().iter().find(|it| it["data"]["retryOf"] == json!(failed));
    assert_eq!(told.expect("an event tells of the retry")["kind"], "deployment_queued");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_in_environment_deploys_the_resolved_commit() {
    let harbour = Harbour::open().await;
    let (ledger, mended) = (harbour.file("ledger"), harbour.file("mended"));
    let origin = Origin::new();
    let definition = format!(
        "version: 1
pipeline:
  name: Shop
  tracks: main
  stages: [{{ name: staging }}]
  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - {{ name: Deploy, type: script, params: {{ run: 'cat word >> {ledger}; test -e {mended}' }} }}
"
    );
    origin.write(".berth/shop/pipeline.yaml", &definition);
    origin.write("word", "blue\n");
    origin.commit("blue");
    let made = harbour.post("/repositories", &json!({"url": origin.url().as_str()})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    harbour.end_of(&harbour.first_deployment().await).await;

    let (_, failed) = harbour.claim("main").await;
    let failed = harbour.end_of(&failed).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    origin.write("word", "green\n");
    origin.commit("green");
    std::fs::write(&mended, "").unwrap();
    let retried = harbour.retry_in("qa-1", failed["id"].as_str().unwrap(), &json!({})).await;
    let ended = harbour.end_of(data(&retried, 202)["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(ended["resolvedCommitId"], failed["resolvedCommitId"]);
    assert!(!harbour.written("ledger").contains("green"), "the branch has moved since");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_in_environment_is_refused_with_advice() {
    let harbour = Harbour::open().await;
    let (session, failed) = harbour.failed_in_environment().await;
    let count = async || harbour.see("/deployments").await.as_array().unwrap().len();
    harbour.retry_in("nowhere", &failed, &json!({})).await.is(404, "not_found");
    harbour.retry_in("qa-1", &failed, &json!({"from": "middle"})).await.is(400, "invalid_request");
    let grace = harbour.world.member("grace@acme.test", "deployer").await;
    let path = format!("{ORG}/deployments/{failed}/stages/qa-1/retry");
    let by_another = harbour.send(post(&path).by(&grace).json(&json!({}))).await;
    by_another.is(403, "not_session_holder");
    assert_eq!(count().await, 1);

    std::fs::write(harbour.file("mended"), "").unwrap();
    let retried = data(&harbour.retry_in("qa-1", &failed, &json!({"from": "start"})).await, 202);
    let good = retried["id"].as_str().unwrap();
    assert_eq!(harbour.end_of(good).await["status"], "succeeded");
    let refused = harbour.retry_in("qa-1", good, &json!({})).await;
    refused.is(409, "invalid_state");
    assert!(refused.text.contains("did not fail: it is succeeded"), "{}", refused.text);

    let taken =
        harbour.send(post(&format!("{ORG}{ENV}/force-claim")).by(harbour.ada()).json(&json!({}))).await;
    let refused = harbour.retry_in("qa-1", &failed, &json!({})).await;
    refused.is(409, "session_not_active");
    assert_eq!(
        (&refused.body["sessionStatus"], &refused.body["overriddenBy"]["name"]),
        (&json!("overridden"), &json!("ada"))
    );
    let hint = "Claim the environment again and deploy 4f2a1c9 there.";
    assert!(refused.body["detail"].as_str().unwrap().ends_with(hint), "{}", refused.text);

    let next = data(&taken, 201)["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(next, session);
    assert_eq!(harbour.delete(&format!("{ENV}/sessions/{next}")).await.status, 200);
    let refused = harbour.retry_in("qa-1", &failed, &json!({})).await;
    refused.is(409, "session_not_active");
    assert_eq!(count().await, 2);
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_in_environment_of_an_unstarted_deployment_starts_it_again() {
    let harbour = Harbour::open().await;
    let ledger = harbour.file("ledger");
    harbour
        .pipeline(&format!(
            "  stages: [{{ name: staging }}]
  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - {{ name: One, type: script, env: {{ T: '${{{{ secrets.LATER }}}}' }}, params: {{ run: 'echo one >> {ledger}' }} }}
"
        ))
        .await;
    let (_, failed) = harbour.claim("4f2a1c9").await;
    assert_eq!(harbour.end_of(&failed).await["cause"], "not_runnable");
    harbour.retry_in("staging", &failed, &json!({})).await.is(404, "not_found");
    let made = harbour.post("/secrets", &json!({"name": "LATER", "value": "hush-hush-hush"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let retried = data(&harbour.retry_in("qa-1", &failed, &json!({})).await, 202);
    let ended = harbour.end_of(retried["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(harbour.written("ledger"), "one\n");
    harbour.close().await;
}
