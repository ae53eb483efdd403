//! API tokens: they are shown once, work until they are revoked, and never have more permissions than their user.

use serde_json::{Value, json};

use super::world::{TestWorld, call, get, post};

const TOKENS: &str = "/api/v1/organizations/acme/api-tokens";

#[tokio::test]
async fn token_is_shown_once_and_stored_as_a_hash() {
    let world = TestWorld::new().await;
    let body = json!({"name": "laptop", "expiresInDays": 90});
    let made = world.send(post(TOKENS).with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201);
    let token = made.body["data"]["token"].as_str().unwrap();
    assert!(token.starts_with(made.body["data"]["prefix"].as_str().unwrap()));
    assert!(made.body["data"]["expiresAt"].is_string());
    let id = made.body["data"]["id"].as_str().unwrap();
    for path in [TOKENS, &format!("{TOKENS}/{id}"), "/api/v1/organizations/acme/events"] {
        let reply = world.send(get(path).token(token)).await;
        assert_eq!(reply.status, 200);
        assert!(!reply.text.contains(token), "{path} shows the token");
    }
}

#[tokio::test]
async fn token_list_shows_own_tokens_and_all_to_managers() {
    let world = TestWorld::new().await;
    let viewer = world.create_member("vera@acme.test", "viewer").await;
    let list = world.send(get(TOKENS).with_account(&viewer)).await;
    assert_eq!(list.body["pagination"]["total"], 1);
    let all = world.send(get(TOKENS).with_account(&world.ada)).await;
    assert_eq!(all.body["pagination"]["total"], 2);
    let others = all.body["data"][0]["id"].as_str().unwrap();
    world
        .send(get(&format!("{TOKENS}/{others}")).with_account(&viewer))
        .await
        .assert_problem(404, "not_found");
    world
        .send(call("DELETE", &format!("{TOKENS}/{others}")).with_account(&viewer))
        .await
        .assert_problem(404, "not_found");
    let own = list.body["data"][0]["id"].as_str().unwrap();
    assert_eq!(
        world.send(call("DELETE", &format!("{TOKENS}/{own}")).with_account(&viewer)).await.status,
        200
    );
    world.send(get(TOKENS).with_account(&viewer)).await.assert_problem(401, "unauthenticated");
}

#[tokio::test]
async fn token_for_another_person_or_stronger_account_is_refused() {
    let world = TestWorld::new().await;
    let admin = world.create_member("otto@acme.test", "admin").await;
    let viewer = world.create_member("vera@acme.test", "viewer").await;
    let me =
        async |who| world.send(get("/api/v1/me").with_account(who)).await.body["data"]["user"]["id"].clone();
    let for_owner = json!({"name": "x", "ownerId": me(&world.ada).await});
    world
        .send(post(TOKENS).with_account(&admin).json(&for_owner))
        .await
        .assert_problem(400, "invalid_request");
    world.send(post(TOKENS).with_account(&viewer).json(&for_owner)).await.assert_problem(403, "forbidden");
    let machine = json!({"email": "root@acme.test", "role": "owner", "kind": "service"});
    let members = "/api/v1/organizations/acme/members";
    world
        .send(post(members).with_account(&world.ada).json(&machine))
        .await
        .assert_problem(400, "invalid_request");
    let (weak, token) = world.create_service_account("ci@acme.test", "deployer").await;
    assert_eq!(
        world
            .send(post(TOKENS).with_account(&admin).json(&json!({"name": "x", "ownerId": weak})))
            .await
            .status,
        201
    );
    let actor = world.send(get("/api/v1/me").token(&token)).await;
    assert_eq!(actor.body["data"]["user"]["kind"], "service");
}

#[tokio::test]
async fn token_expires_after_ninety_days_by_default() {
    let world = TestWorld::new().await;
    let expiry = async |body: Value| {
        let made = world.send(post(TOKENS).with_account(&world.ada).json(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["data"]["expiresAt"].clone()
    };
    assert_eq!(expiry(json!({"name": "x", "expiresInDays": 0})).await, json!(null));
    let usual = expiry(json!({"name": "x"})).await;
    let asked = expiry(json!({"name": "x", "expiresInDays": 90})).await;
    assert_eq!(usual.as_str().map(|text| &text[..10]), asked.as_str().map(|text| &text[..10]));
}

#[tokio::test]
async fn invalid_token_requests_are_refused() {
    let world = TestWorld::new().await;
    for (body, pointer) in [
        (json!({"name": ""}), "/name"),
        (json!({"name": "x", "expiresInDays": -1}), "/expiresInDays"),
        (json!({"name": "x", "expiresInDays": 367}), "/expiresInDays"),
        (json!({"name": "x", "expiresInDays": 1.5}), "/expiresInDays"),
        (json!({"name": "x", "ownerId": "ada"}), "/ownerId"),
        (json!({"name": "x", "role": "owner"}), "/role"),
    ] {
        let reply = world.send(post(TOKENS).with_account(&world.ada).json(&body)).await;
        reply.assert_invalid_input();
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.text);
    }
    assert_eq!(
        world.send(get(TOKENS).with_account(&world.ada)).await.body["pagination"]["total"],
        1,
        "nothing was made"
    );
}
