//! A release ends exactly the session that it names, or nothing.

use serde_json::json;

use super::{EnvironmentsFixture, expect_data, session_path};
use crate::world::call;

#[tokio::test]
async fn release_returns_the_ended_session() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"context": "load test"})).await;
    let released = expect_data(shop.release(&shop.grace, &session).await, 200);
    assert_eq!(
        [&released["released"], &released["status"], &released["endReason"], &released["endedBy"]["name"]],
        [&json!(true), &json!("released"), &json!("released"), &json!("grace")]
    );
    assert_eq!(
        (&released["lockStatus"], &released["environment"]["lock"]),
        (&json!("unlocked"), &json!(null))
    );
    let mut shown = shop.session_status(&session).await;
    shown["released"] = json!(true);
    assert_eq!(shown, released);
}

#[tokio::test]
async fn release_is_idempotent() {
    let shop = EnvironmentsFixture::new().await;
    let first = shop.claim_session(&shop.grace, &json!({})).await;
    shop.release(&shop.grace, &first).await;
    let ended = shop.session_status(&first).await;
    shop.claim_session(&shop.ada, &json!({})).await;
    let before = shop.snapshot().await;
    for who in [&shop.grace, &shop.ada] {
        let again = expect_data(shop.release(who, &first).await, 200);
        assert_eq!((&again["released"], &again["endedAt"]), (&json!(false), &ended["endedAt"]));
        assert_eq!((&again["status"], &again["endedBy"]), (&json!("released"), &ended["endedBy"]));
    }
    assert_eq!(shop.snapshot().await, before, "the next holder keeps the environment");
}

#[tokio::test]
async fn release_for_another_user_needs_take_over_permission() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.ada, &json!({})).await;
    let released = expect_data(shop.release(&shop.grace, &session).await, 200);
    assert_eq!((&released["status"], &released["endedBy"]["name"]), (&json!("released"), &json!("grace")));
    assert_eq!(released["holder"]["name"], "ada");
}

#[tokio::test]
async fn release_with_a_stale_etag_is_refused() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let release =
        |tag: &str| call("DELETE", &session_path(&session)).with_account(&shop.grace).header("if-match", tag);
    let before = shop.snapshot().await;
    for stale in ["\"2.2\"", "\"0.1\""] {
        let refused = shop.send(release(stale)).await;
        refused.assert_problem(412, "precondition_failed");
        assert_eq!(refused.body["currentFence"], 1);
    }
    for nonsense in ["1", "\"x.1\"", "W/\"1.2\"", "\"1.2\", \"2.2\""] {
        shop.send(release(nonsense)).await.assert_problem(400, "invalid_parameter");
    }
    assert_eq!(shop.snapshot().await, before);
    assert_eq!(shop.send(release("\"1.99\"")).await.status, 200, "the fence counts, not the version");
    let refused = shop.send(release("\"1.2\"")).await;
    refused.assert_problem(412, "precondition_failed");
    assert_eq!(refused.body["currentFence"], json!(null), "the environment is free");
}
