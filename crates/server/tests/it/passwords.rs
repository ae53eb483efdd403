//! Passwords: reset links, reauthentication before credentials are created, and revocation of tokens.

use berth_core::name::Email;
use berth_server::app::issue_reset_link;
use berth_store::TxContext;
use serde_json::json;

use super::world::{BrowserSession, TestWorld, call, get, post};

const TOKENS: &str = "/api/v1/organizations/acme/api-tokens";
const SECRETS: &str = "/api/v1/organizations/acme/secrets";
const MEMBERS: &str = "/api/v1/organizations/acme/members";
const NEW_PASSWORD: &str = "a lighthouse on the cape";

async fn create_reset_link(world: &TestWorld, email: &str) -> String {
    let email = Email::parse(email).unwrap();
    let issued = world.app.store().transact(TxContext::system(None), move |tx| issue_reset_link(tx, &email));
    issued.await.unwrap().token.reveal().to_owned()
}

#[tokio::test]
async fn reset_link_works_once_and_ends_every_log_in() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "deployer").await;
    let browser = world.log_in(&grace.email, &grace.password).await;
    let (replaced, link) =
        (create_reset_link(&world, &grace.email).await, create_reset_link(&world, &grace.email).await);
    let reset = |token: &str, revoke: bool| {
        let body = json!({"token": token, "newPassword": NEW_PASSWORD, "revokeTokens": revoke});
        post("/api/v1/auth/reset-password").json(&body)
    };
    world.send(reset(&replaced, false)).await.assert_problem(404, "not_found");
    let weak = json!({"token": link, "newPassword": "grace@acme.test"});
    world.send(post("/api/v1/auth/reset-password").json(&weak)).await.assert_problem(400, "invalid_request");

    let done = world.send(reset(&link, false)).await;
    assert_eq!(done.body["data"], json!({"email": grace.email, "tokensRevoked": 0}), "{}", done.text);
    world.send(browser.get("/api/v1/me")).await.assert_problem(401, "unauthenticated");
    assert_eq!(
        world.send(get("/api/v1/me").with_account(&grace)).await.status,
        200,
        "tokens stay unless asked"
    );
    world.send(reset(&link, false)).await.assert_problem(404, "not_found");
    world.log_in(&grace.email, NEW_PASSWORD).await;

    let done = world.send(reset(&create_reset_link(&world, &grace.email).await, true)).await;
    assert_eq!(done.body["data"]["tokensRevoked"], 1, "{}", done.text);
    world.send(get("/api/v1/me").with_account(&grace)).await.assert_problem(401, "unauthenticated");

    let link = create_reset_link(&world, &grace.email).await;
    world.run_sql("UPDATE password_resets SET expires_at = 1");
    world.send(reset(&link, false)).await.assert_problem(404, "not_found");
    let kinds = world.event_kinds().await;
    assert!(kinds.contains(&"password_reset_requested".to_owned()), "{kinds:?}");
}

#[tokio::test]
async fn changed_password_revokes_tokens_of_every_organization_when_asked() {
    let world = TestWorld::new().await;
    let link = world.invite(&world.hank.email, "viewer").await;
    let hank = world.log_in(&world.hank.email, &world.hank.password).await;
    world.send(hank.post("/api/v1/me/organizations").json(&json!({"token": link}))).await;
    let made = world.send(hank.post(TOKENS).json(&json!({"name": "here"}))).await;
    let here = made.body["data"]["token"].as_str().unwrap().to_owned();
    let change = json!({
        "currentPassword": world.hank.password, "newPassword": NEW_PASSWORD, "revokeTokens": true
    });
    assert_eq!(world.send(hank.post("/api/v1/me/password").json(&change)).await.status, 200);
    for token in [&here, &world.hank.token] {
        world.send(get("/api/v1/me").token(token)).await.assert_problem(401, "unauthenticated");
    }
    assert_eq!(world.send(hank.get("/api/v1/me")).await.status, 200);
    assert_eq!(world.event_kinds().await.last().map(String::as_str), Some("token_revoked"));
}

#[tokio::test]
async fn browser_needs_reauthentication_to_create_credentials() {
    let world = TestWorld::new().await;
    let vera = world.create_member("vera@acme.test", "viewer").await;
    let vera = world.send(get("/api/v1/me").with_account(&vera)).await.body["data"]["user"]["id"].clone();
    let vera = format!("{MEMBERS}/{}", vera.as_str().unwrap());
    let secret = json!({"name": "TOKEN", "value": "value-of-it"});
    assert_eq!(world.send(post(SECRETS).with_account(&world.ada).json(&secret)).await.status, 201);
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let secret_path = format!("{SECRETS}/TOKEN");
    let calls = |ada: &BrowserSession| {
        [
            ada.post(TOKENS).json(&json!({"name": "x"})),
            ada.post("/api/v1/organizations/acme/invitations")
                .json(&json!({"email": "x@acme.test", "role": "viewer"})),
            ada.post(MEMBERS).json(&json!({"email": "ci@acme.test", "role": "viewer", "kind": "service"})),
            ada.write_request("PATCH", &vera).json(&json!({"role": "deployer"})),
            ada.post(SECRETS).json(&json!({"name": "OTHER", "value": "another-value"})),
            ada.write_request("PATCH", &secret_path).json(&json!({"description": "x"})),
            ada.write_request("PUT", &secret_path).json(&json!({"value": "a-new-value"})),
            ada.write_request("DELETE", &secret_path),
        ]
    };
    let age = |minutes: i64| {
        format!("UPDATE sign_ins SET confirmed_at = confirmed_at - {}", minutes * 60 * 1_000_000)
    };
    world.run_sql(&age(59));
    assert_eq!(world.send(ada.post(TOKENS).json(&json!({"name": "early"}))).await.status, 201);
    world.run_sql(&age(2));
    let before = world.event_kinds().await.len();
    for call in calls(&ada) {
        world.send(call).await.assert_problem(403, "reauthentication_required");
    }
    assert_eq!(world.event_kinds().await.len(), before, "nothing was changed or recorded as denied");
    assert_eq!(world.send(ada.get("/api/v1/me")).await.status, 200);

    let confirm = |password: &str| ada.post("/api/v1/auth/confirm").json(&json!({"password": password}));
    world.send(confirm("wrong")).await.assert_problem(400, "invalid_request");
    world
        .send(ada.post(TOKENS).json(&json!({"name": "x"})))
        .await
        .assert_problem(403, "reauthentication_required");
    assert_eq!(world.send(confirm(&world.ada.password)).await.status, 200);
    for call in calls(&ada) {
        let reply = world.send(call).await;
        assert!(reply.status.is_success(), "{}", reply.text);
    }
    // Only browsers need to reauthenticate. A request with a token needs no confirmation, and cannot confirm a
    // password.
    let own = json!({"password": world.ada.password});
    world
        .send(post("/api/v1/auth/confirm").with_account(&world.ada).json(&own))
        .await
        .assert_problem(409, "invalid_state");
    assert_eq!(world.send(call("DELETE", &vera).with_account(&world.ada)).await.status, 200);
}

#[tokio::test]
async fn reauthentication_is_rate_limited() {
    let world = TestWorld::new().await;
    let ada = world.log_in(&world.ada.email, &world.ada.password).await;
    let guess = || ada.post("/api/v1/auth/confirm").json(&json!({"password": "a wrong one"}));
    for _ in 0..10 {
        world.send(guess()).await.assert_problem(400, "invalid_request");
    }
    world.send(guess()).await.assert_problem(429, "rate_limited");
    // The account's owner can still log in elsewhere.
    world.log_in(&world.ada.email, &world.ada.password).await;
}
