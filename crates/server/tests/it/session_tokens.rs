//! Session tokens: credentials of one session, so that jobs of one account are different holders.

use serde_json::{Value, json};

use super::scoped_access::{env_path, shop};
use super::world::{TestWorld, call, get, post};

#[tokio::test]
async fn session_token_uses_only_its_session_and_ends_with_it() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let (_, ci) = world.create_service_account("ci@acme.test", "tester").await;
    let claim = async |token: &str, body: Value| {
        world.send(post(&env_path("qa-1", "/sessions")).token(token).json(&body)).await
    };
    let first = claim(&ci, json!({"sessionToken": true})).await;
    assert_eq!(first.status, 201, "{}", first.text);
    let session = first.body["data"]["sessionId"].as_str().unwrap().to_owned();
    let token = first.body["data"]["sessionToken"].as_str().unwrap().to_owned();
    let at = |rest: &str| env_path("qa-1", &format!("/sessions/{session}{rest}"));

    let second = claim(&ci, json!({})).await;
    second.assert_problem(409, "environment_locked");
    assert_eq!(second.body["self"], false, "another job of the same account is another holder");
    let deploy = json!({"commitId": "9fceb02"});
    let other_job = world.send(post(&at("/deploy")).token(&ci).json(&deploy)).await;
    other_job.assert_problem(403, "not_session_holder");

    let deployed = world.send(post(&at("/deploy")).token(&token).json(&deploy)).await;
    assert_eq!(deployed.status, 202, "{}", deployed.text);
    let cancel = deployed.body["data"]["id"].as_str().unwrap().to_owned();
    let cancel = format!("/api/v1/organizations/acme/deployments/{cancel}/cancel");
    world.send(post(&cancel).token(&ci)).await.assert_problem(403, "forbidden");
    let extended = world.send(post(&at("/extend")).token(&token).json(&json!({"ttlSeconds": 600}))).await;
    assert_eq!(extended.status, 200, "{}", extended.text);
    assert_eq!(world.send(get(&at("")).token(&token)).await.status, 200);
    claim(&token, json!({})).await.assert_problem(403, "forbidden");
    world
        .send(post(&env_path("qa-2", "/sessions")).token(&token).json(&json!({})))
        .await
        .assert_problem(403, "forbidden");
    world.send(get(&env_path("qa-2", "")).token(&token)).await.assert_problem(404, "not_found");
    world.send(post(&env_path("qa-1", "/force-claim")).token(&token)).await.assert_problem(403, "forbidden");
    world
        .send(get("/api/v1/organizations/acme/members").token(&token))
        .await
        .assert_problem(403, "forbidden");
    let create = post("/api/v1/organizations/acme/api-tokens").token(&token).json(&json!({"name": "more"}));
    world.send(create).await.assert_problem(403, "forbidden");
    let listed = world.send(get("/api/v1/organizations/acme/api-tokens").with_account(&world.ada)).await;
    assert!(!listed.text.contains("session token"), "{}", listed.text);

    assert_eq!(world.send(call("DELETE", &at("")).token(&token)).await.status, 200);
    let after = world.send(get(&at("")).token(&token)).await;
    after.assert_problem(401, "unauthenticated");
    assert!(after.text.contains("no longer valid"), "{}", after.text);
}

#[tokio::test]
async fn session_token_of_a_ticket_works_once_the_ticket_is_granted() {
    let world = TestWorld::new().await;
    shop(&world).await;
    let claim = async |body: Value| {
        world.send(post(&env_path("qa-1", "/sessions")).with_account(&world.ada).json(&body)).await.body["data"].clone()
    };
    let first = claim(json!({"sessionToken": true})).await;
    let waiting = claim(json!({"sessionToken": true, "queue": true})).await;
    let [held, queued] = [&first, &waiting].map(|it| it["sessionToken"].as_str().unwrap().to_owned());
    assert_ne!(held, queued);
    let path = env_path("qa-1", &format!("/sessions/{}", first["sessionId"].as_str().unwrap()));
    world.send(call("DELETE", &path).token(&queued)).await.assert_problem(403, "not_session_holder");
    assert_eq!(world.send(call("DELETE", &path).token(&held)).await.status, 200);
    let environment = world.send(get(&env_path("qa-1", "")).token(&queued)).await;
    let session = environment.body["data"]["lock"]["sessionId"].as_str().unwrap().to_owned();
    let path = env_path("qa-1", &format!("/sessions/{session}"));
    assert_eq!(world.send(call("DELETE", &path).token(&queued)).await.status, 200);
}

#[tokio::test]
async fn waiting_claim_tells_who_owns_the_environment() {
    let world = TestWorld::new().await;
    let definition = "version: 1\npipeline:\n  name: Shop\n  steps:\n    - name: Deploy\n      type: dummy\n  ephemeral_environments:\n    qa-1: { owner: \"team:qa\" }\n";
    let body = json!({"slug": "shop", "definition": definition});
    let made =
        world.send(post("/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let environment = world.send(get(&env_path("qa-1", "")).with_account(&world.ada)).await;
    assert_eq!(environment.body["data"]["configuration"]["owner"], "team:qa", "{}", environment.text);
    let claim = post(&env_path("qa-1", "/sessions"));
    assert_eq!(world.send(claim.with_account(&world.ada)).await.status, 201);
    let grace = world.create_member("grace@acme.test", "deployer").await;
    let wait = post(&env_path("qa-1", "/sessions")).with_account(&grace).json(&json!({"queue": true}));
    assert_eq!(world.send(wait).await.status, 202);
    let events = "/api/v1/organizations/acme/events?kind=ticket_queued";
    let events = world.send(get(events).with_account(&world.ada)).await;
    assert_eq!(events.body["data"][0]["data"]["owner"], "team:qa", "{}", events.text);

    let create =
        post("/api/v1/organizations/acme/teams").with_account(&world.ada).json(&json!({"slug": "qa"}));
    assert_eq!(world.send(create).await.status, 201);
    let me = async || world.send(get("/api/v1/me").with_account(&grace)).await.body["data"].clone();
    let join = me().await["user"]["id"].as_str().unwrap().to_owned();
    let join = format!("/api/v1/organizations/acme/teams/qa/members/{join}");
    assert_eq!(world.send(call("PUT", &join).with_account(&world.ada)).await.status, 200);
    assert_eq!(me().await["organizations"][0]["teams"], json!(["qa"]));
}
