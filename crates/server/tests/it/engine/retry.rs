//! Retrying a failed deployment in an environment creates a new deployment of the same commit in the same session.

use serde_json::{Value, json};

use super::{ORG, PipelineFixture, expect_data};
use crate::git::OriginRepository;
use crate::world::{get, post};

const ENV: &str = "/pipelines/shop/ephemeral-environments/qa-1";

impl PipelineFixture {
    /// Creates a pipeline whose step fails until a certain file exists, and a deployment that failed in `qa-1`.
    async fn fail_in_environment(&self) -> (String, String) {
        let (ledger, fixed) = (self.file_path("ledger"), self.file_path("fixed"));
        self.create_pipeline(&format!(
            "  stages: [{{ name: staging }}]
  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - {{ name: One, type: script, params: {{ run: 'echo one >> {ledger}' }} }}
    - {{ name: Two, type: script, params: {{ run: 'echo two >> {ledger}; test -e {fixed}' }} }}
"
        ))
        .await;
        let (session, failed) = self.claim("4f2a1c9").await;
        assert_eq!(self.wait_for_end(&failed).await["status"], "failed");
        (session, failed)
    }

    async fn retry_stage(&self, stage: &str, id: &str, body: &Value) -> crate::world::TestResponse {
        self.post(&format!("/deployments/{id}/stages/{stage}/retry"), body).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_in_environment_starts_a_new_deployment_in_the_same_session() {
    let fixture = PipelineFixture::start().await;
    let (session, failed) = fixture.fail_in_environment().await;
    let before = fixture.fetch(&format!("/deployments/{failed}")).await;
    assert_eq!(before["retryOf"], json!(null));

    std::fs::write(fixture.file_path("fixed"), "").unwrap();
    let path = format!("{ORG}/deployments/{failed}/stages/qa-1/retry");
    let ask = || post(&path).with_account(fixture.ada()).header("idempotency-key", "once").json(&json!({}));
    let accepted = fixture.send(ask()).await;
    let started = expect_data(&accepted, 202);
    let shown =
        expect_data(&fixture.send(get(accepted.header("location")).with_account(fixture.ada())).await, 200);
    assert_eq!(shown["id"], started["id"]);
    assert_ne!(started["id"], before["id"]);
    assert_eq!((&started["retryOf"], &started["sessionId"]), (&json!(failed), &json!(session)));
    assert_eq!((&started["number"], &started["commitId"]), (&json!(2), &json!("4f2a1c9")));
    assert_eq!(expect_data(&fixture.send(ask()).await, 202)["id"], started["id"], "a repeat starts nothing");

    let ended = fixture.wait_for_end(started["id"].as_str().unwrap()).await;
    assert_eq!((&ended["status"], &ended["retryOf"]), (&json!("succeeded"), &json!(failed)));
    assert_eq!(fixture.read_file("ledger"), "one\ntwo\none\ntwo\n");
    assert_eq!(fixture.fetch(&format!("/deployments/{failed}")).await["stages"], before["stages"]);
    let history = fixture.fetch(&format!("{ENV}/sessions/{session}")).await["deploymentHistory"].clone();
    assert_eq!(history.as_array().unwrap().len(), 2);
    assert_eq!(history[0]["retryOf"], json!(failed));
    let events = fixture.fetch("/events?limit=200").await;
    let told = events.as_array().unwrap().iter().find(|it| it["data"]["retryOf"] == json!(failed));
    assert_eq!(told.expect("an event tells of the retry")["kind"], "deployment_queued");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_in_environment_deploys_the_resolved_commit() {
    let fixture = PipelineFixture::start().await;
    let (ledger, fixed) = (fixture.file_path("ledger"), fixture.file_path("fixed"));
    let origin = OriginRepository::new();
    let definition = format!(
        "version: 1
pipeline:
  name: Shop
  tracks: main
  stages: [{{ name: staging }}]
  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - {{ name: Deploy, type: script, params: {{ run: 'cat word >> {ledger}; test -e {fixed}' }} }}
"
    );
    origin.write(".berth/shop/pipeline.yaml", &definition);
    origin.write("word", "blue\n");
    origin.commit("blue");
    let made = fixture.post("/repositories", &json!({"url": origin.url().as_str()})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    fixture.wait_for_end(&fixture.wait_for_first_deployment().await).await;

    let (_, failed) = fixture.claim("main").await;
    let failed = fixture.wait_for_end(&failed).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    origin.write("word", "green\n");
    origin.commit("green");
    std::fs::write(&fixed, "").unwrap();
    let retried = fixture.retry_stage("qa-1", failed["id"].as_str().unwrap(), &json!({})).await;
    let ended = fixture.wait_for_end(expect_data(&retried, 202)["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(ended["resolvedCommitId"], failed["resolvedCommitId"]);
    assert!(!fixture.read_file("ledger").contains("green"), "the branch has moved since");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_in_environment_is_refused_with_advice() {
    let fixture = PipelineFixture::start().await;
    let (session, failed) = fixture.fail_in_environment().await;
    let count = async || fixture.fetch("/deployments").await.as_array().unwrap().len();
    fixture.retry_stage("nowhere", &failed, &json!({})).await.assert_problem(404, "not_found");
    fixture
        .retry_stage("qa-1", &failed, &json!({"from": "middle"}))
        .await
        .assert_problem(400, "invalid_request");
    let grace = fixture.world.create_member("grace@acme.test", "deployer").await;
    let path = format!("{ORG}/deployments/{failed}/stages/qa-1/retry");
    let by_another = fixture.send(post(&path).with_account(&grace).json(&json!({}))).await;
    by_another.assert_problem(403, "not_session_holder");
    assert_eq!(count().await, 1);

    std::fs::write(fixture.file_path("fixed"), "").unwrap();
    let retried = expect_data(&fixture.retry_stage("qa-1", &failed, &json!({"from": "start"})).await, 202);
    let good = retried["id"].as_str().unwrap();
    assert_eq!(fixture.wait_for_end(good).await["status"], "succeeded");
    let refused = fixture.retry_stage("qa-1", good, &json!({})).await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.text.contains("did not fail: it is succeeded"), "{}", refused.text);

    let taken = fixture
        .send(post(&format!("{ORG}{ENV}/force-claim")).with_account(fixture.ada()).json(&json!({})))
        .await;
    let refused = fixture.retry_stage("qa-1", &failed, &json!({})).await;
    refused.assert_problem(409, "session_not_active");
    assert_eq!(
        (&refused.body["sessionStatus"], &refused.body["overriddenBy"]["name"]),
        (&json!("overridden"), &json!("ada"))
    );
    let hint = "Claim the environment again and deploy 4f2a1c9 there.";
    assert!(refused.body["detail"].as_str().unwrap().ends_with(hint), "{}", refused.text);

    let next = expect_data(&taken, 201)["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(next, session);
    assert_eq!(fixture.delete(&format!("{ENV}/sessions/{next}")).await.status, 200);
    let refused = fixture.retry_stage("qa-1", &failed, &json!({})).await;
    refused.assert_problem(409, "session_not_active");
    assert_eq!(count().await, 2);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_in_environment_of_an_unstarted_deployment_starts_it_again() {
    let fixture = PipelineFixture::start().await;
    let ledger = fixture.file_path("ledger");
    fixture
        .create_pipeline(&format!(
            "  stages: [{{ name: staging }}]
  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - {{ name: One, type: script, env: {{ T: '${{{{ secrets.LATER }}}}' }}, params: {{ run: 'echo one >> {ledger}' }} }}
"
        ))
        .await;
    let (_, failed) = fixture.claim("4f2a1c9").await;
    assert_eq!(fixture.wait_for_end(&failed).await["cause"], "not_runnable");
    fixture.retry_stage("staging", &failed, &json!({})).await.assert_problem(404, "not_found");
    let made = fixture.post("/secrets", &json!({"name": "LATER", "value": "hush-hush-hush"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let retried = expect_data(&fixture.retry_stage("qa-1", &failed, &json!({})).await, 202);
    let ended = fixture.wait_for_end(retried["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(fixture.read_file("ledger"), "one\n");
    fixture.shut_down().await;
}
