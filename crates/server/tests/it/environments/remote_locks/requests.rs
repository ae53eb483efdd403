//! Requests at and beyond the edges of the protocol.

use serde_json::{Value, json};

use super::super::EnvironmentsFixture;
use super::{PROTOCOL, assert_error};
use crate::world::post;

const BODY_BYTES_MAX: usize = 1024 * 1024;

#[tokio::test]
async fn malformed_requests_are_refused_with_the_codes_of_the_protocol() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    let before = shop.snapshot().await;
    let lock = |members: Value| json!({ "lockRequest": members }).to_string();
    let qa = |name: &str, value: Value| lock(json!({"resource": "shop/qa-1", name: value}));
    let beat = |value: Value| {
        json!({"lockRequest": {"resource": "shop/qa-1"}, "heartbeatIntervalSeconds": value}).to_string()
    };
    for (body, status, code) in [
        ("{not json".to_owned(), 400, "INVALID_JSON"),
        ("[]".to_owned(), 400, "INVALID_JSON"),
        (String::new(), 400, "INVALID_JSON"),
        (format!("{{\"a\": {}1{}}}", "[".repeat(70), "]".repeat(70)), 400, "INVALID_JSON"),
        ("{}".to_owned(), 400, "MISSING_LOCK_REQUEST"),
        (json!({"lockRequest": "x"}).to_string(), 400, "MISSING_LOCK_REQUEST"),
        (lock(json!({})), 400, "MISSING_TARGET"),
        (lock(json!({"resource": null, "label": " "})), 400, "MISSING_TARGET"),
        (qa("label", json!("shop/small")), 400, "INVALID_REQUEST"),
        (lock(json!({"label": "shop/small", "quantity": 2})), 400, "INVALID_REQUEST"),
        (lock(json!({"label": "shop/small", "quantity": -1})), 400, "INVALID_REQUEST"),
        (lock(json!({"label": "shop/small", "quantity": "abc"})), 400, "INVALID_FIELD_VALUE"),
        (qa("extra", json!([{"resource": "shop/qa-2"}])), 400, "INVALID_EXTRA"),
        (lock(json!({"extra": [{}]})), 400, "INVALID_EXTRA"),
        (qa("resourceSelectStrategy", json!("NOPE")), 400, "INVALID_SELECT_STRATEGY"),
        (qa("timeoutUnit", json!("MINUTE")), 400, "INVALID_FIELD_VALUE"),
        (qa("timeoutForAllocateResource", json!("soon")), 400, "INVALID_FIELD_VALUE"),
        (qa("variable", json!("not a name")), 400, "INVALID_FIELD_VALUE"),
        (qa("skipIfLocked", json!("yes")), 400, "INVALID_FIELD_VALUE"),
        (beat(json!(0)), 400, "INVALID_HEARTBEAT_INTERVAL"),
        (beat(json!(-1)), 400, "INVALID_HEARTBEAT_INTERVAL"),
        (beat(json!("abc")), 400, "INVALID_HEARTBEAT_INTERVAL"),
        (beat(json!(101)), 400, "INVALID_HEARTBEAT_INTERVAL"),
        (lock(json!({"resource": "shop/qa-9"})), 404, "UNKNOWN_RESOURCE"),
        (lock(json!({"resource": "nowhere/qa-1"})), 404, "UNKNOWN_RESOURCE"),
        (lock(json!({"resource": "qa-1"})), 404, "UNKNOWN_RESOURCE"),
        (lock(json!({"label": "shop/none", "quantity": 1})), 404, "UNKNOWN_LABEL"),
        (lock(json!({"label": "shop/none"})), 404, "UNKNOWN_LABEL"),
        (lock(json!({"label": "nowhere/small", "quantity": 1})), 404, "UNKNOWN_LABEL"),
        (lock(json!({"label": "small"})), 404, "UNKNOWN_LABEL"),
    ] {
        let request = post(&format!("{PROTOCOL}/acquire/")).header("content-type", "application/json");
        let reply = jenkins.send(request.raw(body.clone())).await;
        assert_eq!(reply.status.as_u16(), status, "{body}: {}", reply.text);
        assert_error(&reply, status, code);
    }
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn unknown_lock_is_not_found_and_its_release_succeeds() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    for id in
        ["no-such-lock", "ses_00000000000000000000000000", "tkt_00000000000000000000000000.QA", "skipped.QA"]
    {
        assert_error(&jenkins.try_poll(id).await, 404, "LOCK_NOT_FOUND");
        assert_error(&jenkins.heartbeat(id).await, 410, "LOCK_NOT_FOUND");
        jenkins.release(id).await;
    }
    let nowhere = jenkins.send(post(&format!("{PROTOCOL}/acquire/x/cancel"))).await;
    assert_error(&nowhere, 404, "NOT_FOUND");
    let wrong_method = jenkins.send(crate::world::get(&format!("{PROTOCOL}/acquire"))).await;
    assert_error(&wrong_method, 405, "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn body_is_accepted_up_to_a_mebibyte() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    let sized = |bytes: usize| {
        let body = |pad: usize| {
            json!({"lockRequest": {"resource": "shop/qa-1", "reason": "x".repeat(pad)}}).to_string()
        };
        body(bytes - body(0).len())
    };
    let send = async |body: String| {
        let request = post(&format!("{PROTOCOL}/acquire/")).header("content-type", "application/json");
        jenkins.send(request.raw(body)).await
    };
    assert_error(&send(sized(BODY_BYTES_MAX + 1)).await, 413, "PAYLOAD_TOO_LARGE");
    let accepted = send(sized(BODY_BYTES_MAX)).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let context = shop.fetch("qa-1").await["lock"]["context"].clone();
    assert_eq!(context.as_str().unwrap().len(), 4_000, "the reason is shortened");
}

#[tokio::test]
async fn repeated_acquire_with_an_idempotency_key_returns_the_same_lock() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    let body = json!({"lockRequest": {"resource": "shop/qa-1", "variable": "QA"}, "clientId": "script"});
    let send = async |key: &str, body: &Value| {
        let request = post(&format!("{PROTOCOL}/acquire/")).header("idempotency-key", key).json(body);
        jenkins.send(request).await
    };
    for key in ["first", "second"] {
        let (lost, repeated) = (send(key, &body).await, send(key, &body).await);
        assert_eq!((lost.status.as_u16(), repeated.status.as_u16()), (202, 202), "{}", repeated.text);
        assert_eq!(lost.body, repeated.body);
    }
    assert_eq!(shop.fetch("qa-1").await["queueLength"], 1, "a session and a ticket");
    let other = json!({"lockRequest": {"resource": "shop/qa-2"}});
    assert_error(&send("first", &other).await, 422, "IDEMPOTENCY_KEY_REUSED");
}
