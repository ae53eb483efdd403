//! Idempotency keys on claims: a claim has one effect and one stored response. Refusals are not stored.

use serde_json::{Value, json};

use super::{Shop, at, data, in_session};
use crate::world::{Account, Call, post};

fn keyed(path: &str, who: &Account, body: &Value) -> Call {
    post(path).by(who).header("idempotency-key", "k-1").json(body)
}

#[tokio::test]
async fn claim_repeated_with_its_key_returns_the_same_session() {
    let shop = Shop::open().await;
    let body = json!({"commitId": "9fceb02"});
    let first = shop.send(keyed(&at("qa-1/sessions"), &shop.grace, &body)).await;
    assert_eq!((first.status.as_u16(), first.header("idempotent-replayed")), (201, ""));
    shop.force(&shop.ada, &json!({})).await;
    let before = shop.dump().await;
    for path in [at("qa-1/sessions"), at("qa-1/sessions/").replace("/api/v1", "")] {
        let again = shop.send(keyed(&path, &shop.grace, &body)).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text), "{path}");
        for header in ["location", "etag"] {
            assert_eq!(again.header(header), first.header(header));
        }
        assert_eq!(again.header("idempotent-replayed"), "true");
    }
    shop.send(keyed(&at("qa-1/sessions"), &shop.grace, &json!({}))).await.is(422, "idempotency_key_reused");
    assert_eq!(shop.dump().await, before);
}

#[tokio::test]
async fn refused_claim_has_no_stored_response() {
    let shop = Shop::open().await;
    let session = shop.claimed(&shop.ada, &json!({})).await;
    let claim = || keyed(&at("qa-1/sessions"), &shop.grace, &Value::Object(serde_json::Map::new()));
    shop.send(claim()).await.is(409, "environment_locked");
    shop.release(&shop.ada, &session).await;
    let claimed = shop.send(claim()).await;
    assert_eq!((claimed.status.as_u16(), claimed.header("idempotent-replayed")), (201, ""));
}

#[tokio::test]
async fn session_requests_with_a_key_happen_once() {
    let shop = Shop::open().await;
    let me = shop.me(&shop.ada).await;
    let session = shop.claimed(&shop.grace, &json!({"ttlSeconds": 600})).await;
    for (verb, body) in [
        ("deploy", json!({"commitId": "main"})),
        ("extend", json!({"ttlSeconds": 900})),
        ("hand-over", json!({"to": me})),
    ] {
        let path = format!("{}/{verb}", in_session(&session));
        let first = shop.send(keyed(&path, &shop.grace, &body)).await;
        assert!(first.status.is_success(), "{verb}: {}", first.text);
        let before = shop.dump().await;
        let again = shop.send(keyed(&path, &shop.grace, &body)).await;
        assert_eq!((again.header("idempotent-replayed"), &again.text), ("true", &first.text), "{verb}");
        assert_eq!(shop.dump().await, before, "{verb}");
    }
}

#[tokio::test]
async fn queued_claim_with_a_key_creates_one_ticket() {
    let shop = Shop::open().await;
    shop.claimed(&shop.grace, &json!({})).await;
    let join = || keyed(&at("qa-1/sessions"), &shop.ada, &json!({"queue": true}));
    let ticket = data(shop.send(join()).await, 202);
    assert_eq!(data(shop.send(join()).await, 202), ticket);
    assert_eq!(shop.see("qa-1").await["queueLength"], 1);
}
