//! Idempotency keys on claims: a claim has one effect and one stored response. Refusals are not stored.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, session_path};
use crate::world::{MemberAccount, TestRequest, post};

fn post_with_key(path: &str, who: &MemberAccount, body: &Value) -> TestRequest {
    post(path).with_account(who).header("idempotency-key", "k-1").json(body)
}

#[tokio::test]
async fn claim_repeated_with_its_key_returns_the_same_session() {
    let shop = EnvironmentsFixture::new().await;
    let body = json!({"commitId": "9fceb02"});
    let first = shop.send(post_with_key(&environments_path("qa-1/sessions"), &shop.grace, &body)).await;
    assert_eq!((first.status.as_u16(), first.header("idempotent-replayed")), (201, ""));
    shop.force_claim(&shop.ada, &json!({})).await;
    let before = shop.snapshot().await;
    for path in
        [environments_path("qa-1/sessions"), environments_path("qa-1/sessions/").replace("/api/v1", "")]
    {
        let again = shop.send(post_with_key(&path, &shop.grace, &body)).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text), "{path}");
        for header in ["location", "etag"] {
            assert_eq!(again.header(header), first.header(header));
        }
        assert_eq!(again.header("idempotent-replayed"), "true");
    }
    shop.send(post_with_key(&environments_path("qa-1/sessions"), &shop.grace, &json!({})))
        .await
        .assert_problem(422, "idempotency_key_reused");
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn refused_claim_has_no_stored_response() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.ada, &json!({})).await;
    let claim = || {
        post_with_key(
            &environments_path("qa-1/sessions"),
            &shop.grace,
            &Value::Object(serde_json::Map::new()),
        )
    };
    shop.send(claim()).await.assert_problem(409, "environment_locked");
    shop.release(&shop.ada, &session).await;
    let claimed = shop.send(claim()).await;
    assert_eq!((claimed.status.as_u16(), claimed.header("idempotent-replayed")), (201, ""));
}

#[tokio::test]
async fn session_requests_with_a_key_happen_once() {
    let shop = EnvironmentsFixture::new().await;
    let me = shop.user_id(&shop.ada).await;
    let session = shop.claim_session(&shop.grace, &json!({"ttlSeconds": 600})).await;
    for (verb, body) in [
        ("deploy", json!({"commitId": "main"})),
        ("extend", json!({"ttlSeconds": 900})),
        ("hand-over", json!({"to": me})),
    ] {
        let path = format!("{}/{verb}", session_path(&session));
        let first = shop.send(post_with_key(&path, &shop.grace, &body)).await;
        assert!(first.status.is_success(), "{verb}: {}", first.text);
        let before = shop.snapshot().await;
        let again = shop.send(post_with_key(&path, &shop.grace, &body)).await;
        assert_eq!((again.header("idempotent-replayed"), &again.text), ("true", &first.text), "{verb}");
        assert_eq!(shop.snapshot().await, before, "{verb}");
    }
}

#[tokio::test]
async fn queued_claim_with_a_key_creates_one_ticket() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({})).await;
    let join = || post_with_key(&environments_path("qa-1/sessions"), &shop.ada, &json!({"queue": true}));
    let ticket = expect_data(shop.send(join()).await, 202);
    assert_eq!(expect_data(shop.send(join()).await, 202), ticket);
    assert_eq!(shop.fetch("qa-1").await["queueLength"], 1);
}
