//! Who may use the protocol, and what they see.

use serde_json::json;

use super::super::EnvironmentsFixture;
use super::{PROTOCOL, assert_error, basic, expect_state};
use crate::world::{get, post};

#[tokio::test]
async fn only_a_token_is_accepted_and_basic_authentication_only_here() {
    let shop = EnvironmentsFixture::new().await;
    let lock = json!({"lockRequest": {"resource": "shop/qa-1"}});
    let acquire = || post(&format!("{PROTOCOL}/acquire/")).json(&lock);
    let token = &shop.ada.token;
    for authorization in [
        basic("ada", "wrong"),
        basic("ada@acme.test", &shop.ada.password),
        basic(token, ""),
        "Basic !".to_owned(),
        "Basic YWRh".to_owned(),
        "Digest x".to_owned(),
        "Bearer wrong".to_owned(),
    ] {
        let refused = shop.send(acquire().header("authorization", &authorization)).await;
        assert_error(&refused, 401, "UNAUTHENTICATED");
        assert_eq!(refused.header("www-authenticate"), "Bearer", "a browser asks for no password");
    }
    assert_error(&shop.send(acquire()).await, 401, "UNAUTHENTICATED");
    let browser = shop.world.log_in(&shop.ada.email, &shop.ada.password).await;
    let cookie = browser.post(&format!("{PROTOCOL}/acquire/")).json(&lock);
    assert_error(&shop.send(cookie).await, 401, "UNAUTHENTICATED");
    let twice = acquire().header("authorization", &basic("ada", token)).header("authorization", "Basic x");
    assert_error(&shop.send(twice).await, 401, "UNAUTHENTICATED");
    let from_page =
        acquire().header("authorization", &basic("ada", token)).header("origin", "https://evil.test");
    assert_error(&shop.send(from_page).await, 403, "FORBIDDEN");

    for path in ["/api/v1/me", "/api/v1/organizations/acme", "/mcp"] {
        let request = if path == "/mcp" { post(path).json(&json!({})) } else { get(path) };
        let refused = shop.send(request.header("authorization", &basic("ada", token))).await;
        refused.assert_problem(401, "unauthenticated");
        assert_eq!(refused.body.get("errorCode"), None);
    }
    for authorization in [basic("any name", token), format!("Bearer {token}")] {
        let listed =
            shop.send(get(&format!("{PROTOCOL}/resources/")).header("authorization", &authorization));
        assert_eq!(listed.await.status, 200);
    }
}

#[tokio::test]
async fn account_without_the_permission_is_refused_and_recorded() {
    let shop = EnvironmentsFixture::new().await;
    let viewer = shop.create_viewer().await;
    let jenkins = shop.jenkins_with(&viewer.token);
    let refused = jenkins.try_acquire(&json!({"resource": "shop/qa-1"})).await;
    assert_error(&refused, 403, "FORBIDDEN");
    assert_eq!(refused.body["permission"], "environments:claim");
    assert!(shop.kinds_since(0).await.contains(&"access_denied".to_owned()));
}

#[tokio::test]
async fn restricted_token_sees_and_locks_only_its_environments() {
    let shop = EnvironmentsFixture::new().await;
    let token = shop.restricted_token("environment:shop/qa-1").await;
    let jenkins = shop.jenkins_with(&token);
    let listed = jenkins.send(get(&format!("{PROTOCOL}/resources/"))).await;
    let resource = json!({"name": "shop/qa-1", "labels": [], "description": "", "state": "FREE"});
    assert_eq!(listed.body, json!({"acceptNewAcquires": true, "resources": [resource]}));
    let refused = jenkins.try_acquire(&json!({"resource": "shop/qa-2"})).await;
    assert_error(&refused, 404, "UNKNOWN_RESOURCE");
    let refused = jenkins.try_acquire(&json!({"label": "shop/small", "quantity": 1})).await;
    assert_error(&refused, 404, "UNKNOWN_LABEL");
    let id = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "ACQUIRED").await;

    // The same account with all of its permissions.
    let ada = shop.jenkins_with(&shop.ada.token);
    let elsewhere = ada.acquire(&json!({"resource": "shop/qa-2"}), "ACQUIRED").await;
    assert_error(&jenkins.try_poll(&elsewhere).await, 404, "LOCK_NOT_FOUND");
    assert_error(&jenkins.heartbeat(&elsewhere).await, 410, "LOCK_NOT_FOUND");
    jenkins.release(&elsewhere).await;
    assert_eq!(ada.state(&elsewhere).await, expect_state("ACQUIRED", None), "its release had no effect");
    assert_eq!(ada.state(&id).await, expect_state("ACQUIRED", None));
}

#[tokio::test]
async fn lock_of_another_account_does_not_exist() {
    let shop = EnvironmentsFixture::new().await;
    let (jenkins, other) = (shop.jenkins().await, shop.jenkins_with(&shop.grace.token));
    let held = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "ACQUIRED").await;
    let queued = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "QUEUED").await;
    let foreign = shop.jenkins_with(&shop.world.hank.token);
    for client in [&other, &foreign] {
        for id in [&held, &queued] {
            assert_error(&client.try_poll(id).await, 404, "LOCK_NOT_FOUND");
            assert_error(&client.heartbeat(id).await, 410, "LOCK_NOT_FOUND");
            client.release(id).await;
        }
    }
    assert_eq!(jenkins.state(&held).await, expect_state("ACQUIRED", None));
    assert_eq!(jenkins.state(&queued).await, expect_state("QUEUED", None));
    let refused = foreign.try_acquire(&json!({"resource": "shop/qa-1"})).await;
    assert_error(&refused, 404, "UNKNOWN_RESOURCE");

    let listed = other.send(get(&format!("{PROTOCOL}/resources/"))).await;
    let qa = &listed.body["resources"][0];
    assert_eq!((&qa["name"], &qa["state"]), (&json!("shop/qa-1"), &json!("LOCKED")), "{}", listed.text);
    assert!(
        qa["since"].is_i64() && qa["heldByClientId"].as_str().is_some_and(|it| it.contains("jenkins")),
        "{qa}"
    );
    let labels: Vec<_> =
        listed.body["resources"].as_array().unwrap().iter().map(|it| &it["labels"]).collect();
    assert_eq!(
        labels[1..],
        [&json!(["shop/small"]), &json!(["shop/small"]), &json!(["shop/large", "shop/slow"])]
    );
}
