//! A changed definition updates its environments but does not end sessions.

use serde_json::{Value, json};

use super::{
    DEFINITION, EnvironmentsFixture, PIPELINE, environments_path, expect_data, expect_str, session_path,
};
use crate::world::{TestResponse, call, get, post};

async fn put_definition(shop: &EnvironmentsFixture, definition: &str) {
    let body = json!({"definition": definition});
    let put = call("PUT", &format!("{PIPELINE}/definition")).with_account(&shop.ada).json(&body);
    expect_data(shop.send(put).await, 200);
}

fn definition_without_qa_1() -> String {
    DEFINITION.replace("    qa-1: {}\n", "")
}

async fn delete_pipeline(shop: &EnvironmentsFixture, query: &str) -> TestResponse {
    shop.send(call("DELETE", &format!("{PIPELINE}{query}")).with_account(&shop.ada)).await
}

#[tokio::test]
async fn removed_environment_stays_until_its_session_ends() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"context": "load test"})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    put_definition(&shop, &definition_without_qa_1()).await;
    assert_eq!(shop.fetch("qa-1").await["lock"]["sessionId"], session["sessionId"]);
    assert_eq!(shop.fetch("").await.as_array().unwrap().len(), 4, "it is shown while it is held");
    assert_eq!(shop.post_to_session(&shop.grace, &session, "extend", &json!({})).await.status, 200);
    assert_eq!(
        shop.post_to_session(&shop.grace, &session, "deploy", &json!({"commitId": "main"})).await.status,
        202
    );
    for path in ["qa-1/sessions", "qa-1/force-claim"] {
        shop.send(post(&environments_path(path)).with_account(&shop.ada))
            .await
            .assert_problem(404, "not_found");
    }
    let waited = shop.fetch(&format!("qa-1/queue/{}", expect_str(&ticket["ticketId"]))).await;
    assert_eq!((&waited["status"], &waited["cause"]), (&json!("cancelled"), &json!("environment_deleted")));

    assert_eq!(expect_data(shop.release(&shop.grace, &session).await, 200)["released"], true);
    shop.send(get(&environments_path("qa-1")).with_account(&shop.ada)).await.assert_problem(404, "not_found");
    assert_eq!(shop.fetch("").await.as_array().unwrap().len(), 3);
    assert_eq!(shop.session_status(&session).await["context"], "load test", "its sessions stay readable");
    assert_eq!(shop.fetch("qa-1/history").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn redeclared_environment_continues_its_fence() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    shop.release(&shop.grace, &session).await;
    let id = shop.fetch("qa-1").await["id"].clone();
    put_definition(&shop, &definition_without_qa_1()).await;
    put_definition(&shop, DEFINITION).await;
    let seen = shop.fetch("qa-1").await;
    assert_eq!((&seen["id"], &seen["fence"], &seen["lockStatus"]), (&id, &json!(1), &json!("unlocked")));
    assert_eq!(shop.claim_session(&shop.ada, &json!({})).await["fence"], 2);
}

#[tokio::test]
async fn changed_definition_applies_to_new_sessions_only() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    put_definition(&shop, &DEFINITION.replace("qa-1: {}", "qa-1: { ttl: 1h, labels: [small] }")).await;
    assert_eq!(shop.fetch("qa-1").await["configuration"]["ttlSeconds"], 3_600);
    assert_eq!(
        shop.session_status(&session).await["expiresAt"],
        json!(null),
        "it was claimed without an end"
    );
    shop.release(&shop.grace, &session).await;
    assert!(shop.claim_session(&shop.grace, &json!({})).await["expiresAt"].is_string());
}

#[tokio::test]
async fn pipeline_with_a_held_environment_is_not_deleted() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    shop.join_queue(&shop.ada, &json!({})).await;
    let before = shop.snapshot().await;
    let refused = delete_pipeline(&shop, "").await;
    refused.assert_problem(409, "invalid_state");
    let detail = expect_str(&refused.body["detail"]);
    assert!(detail.contains("qa-1 by grace") && detail.contains("?force=true"), "{detail}");
    delete_pipeline(&shop, "?force=false").await.assert_problem(409, "invalid_state");
    delete_pipeline(&shop, "?force=yes").await.assert_problem(400, "invalid_parameter");
    assert_eq!(shop.snapshot().await, before);

    let since = shop.events(0).await.len();
    assert_eq!(delete_pipeline(&shop, "?force=true").await.status, 200);
    let kinds = shop.kinds_since(since).await;
    for kind in ["pipeline_deleted", "ticket_cancelled", "deployment_cancelled", "session_released"] {
        assert_eq!(kinds.iter().filter(|it| *it == kind).count(), 1, "{kind} in {kinds:?}");
    }
    let ended =
        shop.events(since).await.into_iter().find(|event| event["kind"] == "session_released").unwrap();
    assert_eq!(
        (&ended["data"]["endReason"], &ended["actor"]["name"]),
        (&json!("environment_deleted"), &json!("ada"))
    );
    assert_eq!(ended["data"]["sessionId"], session["sessionId"]);
    shop.send(get(&environments_path("qa-1")).with_account(&shop.ada)).await.assert_problem(404, "not_found");
}

#[tokio::test]
async fn recreated_pipeline_continues_the_fences() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let taken = expect_data(shop.force_claim(&shop.ada, &json!({})).await, 201);
    assert_eq!(delete_pipeline(&shop, "?force=true").await.status, 200);
    let id = super::create_pipeline(&shop.world, "shop").await;
    assert_ne!(id, shop.pipeline);
    let seen = shop.fetch("qa-1").await;
    assert_eq!((&seen["fence"], &seen["lock"], &seen["state"]), (&json!(2), &json!(null), &json!("clean")));
    assert_eq!(shop.claim_session(&shop.grace, &json!({})).await["fence"], 3);
    for old in [session, taken] {
        shop.send(get(&session_path(&old)).with_account(&shop.ada)).await.assert_problem(404, "not_found");
    }
    assert_eq!(shop.fetch("qa-1/history").await.as_array().unwrap().len(), 1, "the history is the new one's");
}

#[tokio::test]
async fn stopped_pipeline_allows_claims_and_blocks_deployments() {
    let shop = EnvironmentsFixture::new().await;
    let stop = |verb: &str| post(&format!("{PIPELINE}/{verb}")).with_account(&shop.ada);
    shop.send(stop("stop")).await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    let waits = |session: &Value| session["deployments"][0].clone();
    assert_eq!(waits(&session)["status"], "queued");
    assert_eq!(waits(&session)["blockedBy"][0]["kind"], "pipeline_stopped");
    let stopped = shop.send(get(&session_path(&session)).with_account(&shop.ada)).await;
    shop.send(stop("resume")).await;
    let known =
        get(&session_path(&session)).with_account(&shop.ada).header("if-none-match", stopped.header("etag"));
    let resumed = shop.send(known).await;
    assert_eq!(resumed.status, 200, "it reads differently now");
    assert_eq!(waits(&resumed.body["data"])["blockedBy"], json!([]));
    assert_eq!(expect_data(shop.force_claim(&shop.ada, &json!({})).await, 201)["fence"], 2);
}
