//! Links between accounts here and at the provider.

use serde_json::{Value, json};

use super::super::world::{BrowserSession, TestResponse, TestWorld, call, get};
use super::{StartedLogin, TestProvider, start_login};

const LINK: &str = "/api/v1/auth/providers/corp/link";

async fn finish_in(
    world: &TestWorld,
    provider: &TestProvider,
    started: &StartedLogin,
    browser: &BrowserSession,
) -> TestResponse {
    let path = provider.open(&started.url);
    let cookies = format!("{}; {}", started.cookie, browser.cookie);
    world.send(get(&path).header("cookie", &cookies)).await
}

fn person(subject: &str, email: &str) -> Value {
    json!({"claims": {"sub": subject, "email": email, "email_verified": true}})
}

#[tokio::test]
async fn account_with_the_same_address_is_linked_only_by_its_user() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&person("u-ada", "ada@acme.test"));
    let refused = provider.log_in(&world).await;
    refused.assert_problem(403, "provider_login_failed");
    assert!(refused.body["detail"].as_str().unwrap().contains("already is an account"), "{}", refused.text);

    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let started = start_login(&world, ada.post(LINK).json(&json!({"next": "/profile"}))).await;
    let linked = finish_in(&world, &provider, &started, &ada).await;
    assert_eq!((linked.status.as_u16(), linked.header("location")), (303, "/profile"), "{}", linked.text);
    assert!(world.event_kinds().await.contains(&"identity_linked".to_owned()));
    let browser = provider.browser(&world).await;
    let me = world.send(browser.get("/api/v1/me")).await;
    assert_eq!(me.body["data"]["user"]["email"], "ada@acme.test");
    // The link is to the account, not to the address.
    provider.set(&person("u-ada", "changed@acme.test"));
    let browser = provider.browser(&world).await;
    let me = world.send(browser.get("/api/v1/me")).await;
    assert_eq!(me.body["data"]["user"]["email"], "ada@acme.test");
    provider.set(&person("u-eve", "ada@acme.test"));
    provider.log_in(&world).await.assert_problem(403, "provider_login_failed");
}

#[tokio::test]
async fn link_needs_recent_confirmation_and_the_same_browser() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&person("u-ada", "ada@acme.test"));
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    let started = start_login(&world, ada.post(LINK)).await;
    finish_in(&world, &provider, &started, &hank).await.assert_problem(401, "unauthenticated");
    let started = start_login(&world, ada.post(LINK)).await;
    assert_eq!(finish_in(&world, &provider, &started, &ada).await.status, 303);
    // One account at the provider belongs to one account here.
    let started = start_login(&world, hank.post(LINK)).await;
    finish_in(&world, &provider, &started, &hank).await.assert_problem(403, "provider_login_failed");

    world.run_sql("UPDATE sign_ins SET confirmed_at = 0");
    world.send(ada.post(LINK)).await.assert_problem(403, "reauthentication_required");
    let token = super::super::world::post(LINK).with_account(&world.ada);
    world.send(token).await.assert_problem(409, "invalid_state");
}

#[tokio::test]
async fn unlinking_ends_the_logins_from_the_provider() {
    let Some(provider) = TestProvider::start() else { return };
    let world = provider.world(|_| ()).await;
    provider.set(&person("u-ada", "ada@acme.test"));
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let started = start_login(&world, ada.post(LINK)).await;
    assert_eq!(finish_in(&world, &provider, &started, &ada).await.status, 303);
    let browser = provider.browser(&world).await;
    let listed = world.send(ada.get("/api/v1/me/identities")).await;
    let id = listed.body["data"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/me/identities/{id}");
    world.send(call("DELETE", &path).with_account(&world.ada)).await.assert_problem(409, "invalid_state");
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    world.send(hank.write_request("DELETE", &path)).await.assert_problem(404, "not_found");
    let unlinked = world.send(ada.write_request("DELETE", &path)).await;
    assert_eq!((unlinked.status.as_u16(), &unlinked.body["data"]["provider"]), (200, &json!("corp")));
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");
    assert_eq!(world.send(ada.get("/api/v1/me")).await.status, 200);

    // An account without a password keeps its only way to log in.
    provider.set(&person("u-1", "grace@acme.test"));
    let grace = provider.browser(&world).await;
    let listed = world.send(grace.get("/api/v1/me/identities")).await;
    let path = format!("/api/v1/me/identities/{}", listed.body["data"][0]["id"].as_str().unwrap());
    world.send(grace.write_request("DELETE", &path)).await.assert_problem(409, "invalid_state");
}
