//! The runner resource: runners are listed, removed, and created with a token that is shown only once.

use berth_api::runner::Isolation;
use berth_server::config::AppConfig;
use serde_json::json;

use super::world::{TestWorld, call, get, post};

const RUNNERS: &str = "/api/v1/organizations/acme/runners";

#[tokio::test]
async fn embedded_runner_is_listed_and_cannot_be_removed() {
    let world = TestWorld::new().await;
    let list = world.send(get(RUNNERS).with_account(&world.ada)).await;
    assert_eq!(list.body["pagination"]["total"], 1, "{}", list.text);
    let own = &list.body["data"][0];
    assert_eq!(
        (&own["id"], &own["state"], &own["isEmbedded"]),
        (&json!("embedded"), &json!("online"), &json!(true))
    );
    assert!(own["labels"].as_array().unwrap().contains(&json!("local")));
    let one = world.send(get(&format!("{RUNNERS}/embedded")).with_account(&world.ada)).await;
    assert_eq!(one.body["data"]["id"], "embedded");
    world
        .send(call("DELETE", &format!("{RUNNERS}/embedded")).with_account(&world.ada))
        .await
        .assert_problem(409, "invalid_state");

    let without = AppConfig { runner_labels: None, ..AppConfig::local(([127, 0, 0, 1], 8080).into()) };
    let world = TestWorld::with_config(without).await;
    assert_eq!(world.send(get(RUNNERS).with_account(&world.ada)).await.body["data"], json!([]));
    world
        .send(get(&format!("{RUNNERS}/embedded")).with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");
}

#[tokio::test]
async fn runner_registration_token_is_shown_once() {
    let world = TestWorld::new().await;
    let add = || {
        post(RUNNERS)
            .with_account(&world.ada)
            .json(&json!({"name": "build-1"}))
            .header("idempotency-key", "k")
    };
    let made = world.send(add()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let token = made.body["data"]["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("berth_runner_"));
    let again = world.send(add()).await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(
        (&again.body["data"]["id"], &again.body["data"]["token"]),
        (&made.body["data"]["id"], &json!(null))
    );

    let view = world.send(get(made.header("location")).with_account(&world.ada)).await;
    assert_eq!(
        (&view.body["data"]["name"], &view.body["data"]["state"]),
        (&json!("build-1"), &json!("pending"))
    );
    assert!(view.body["data"]["tokenExpiresAt"].is_string());
    for path in [RUNNERS, &format!("{RUNNERS}/build-1"), "/api/v1/organizations/acme/events"] {
        assert!(
            !world.send(get(path).with_account(&world.ada)).await.text.contains(&token),
            "{path} shows the token"
        );
    }
    // A registration token is not accepted by the API for users.
    world.send(get(RUNNERS).token(&token)).await.assert_problem(401, "unauthenticated");
}

#[tokio::test]
async fn runner_names_are_unique_and_reusable() {
    let world = TestWorld::new().await;
    let add = async |name: &str| {
        world.send(post(RUNNERS).with_account(&world.ada).json(&json!({"name": name}))).await
    };
    assert_eq!(add("build-1").await.status, 201);
    add("build-1").await.assert_problem(409, "already_exists");
    add("embedded").await.assert_problem(409, "already_exists");
    add("Not a name").await.assert_problem(400, "invalid_request");
    let removed = world.send(call("DELETE", &format!("{RUNNERS}/build-1")).with_account(&world.ada)).await;
    assert_eq!(removed.status, 200, "{}", removed.text);
    assert!(removed.body["data"]["deletedAt"].is_string());
    world
        .send(get(&format!("{RUNNERS}/build-1")).with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");
    assert_eq!(add("build-1").await.status, 201);
    // A runner that was created without a name gets one when it registers.
    let unnamed = world.send(post(RUNNERS).with_account(&world.ada)).await;
    assert_eq!((unnamed.status.as_u16(), &unnamed.body["data"]["name"]), (201, &json!(null)));
    let kinds = world.event_kinds().await;
    let told: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("runner_")).collect();
    assert_eq!(told, ["runner_created", "runner_deleted", "runner_created", "runner_created"]);
}

#[tokio::test]
async fn runners_are_listed_in_pages_and_belong_to_one_organization() {
    let world = TestWorld::new().await;
    for name in ["a", "b", "c"] {
        world.send(post(RUNNERS).with_account(&world.ada).json(&json!({"name": name}))).await;
    }
    let mut names = Vec::new();
    let mut path = format!("{RUNNERS}?limit=1");
    loop {
        let page = world.send(get(&path).with_account(&world.ada)).await;
        names.push(page.body["data"][0]["name"].as_str().unwrap().to_owned());
        let Some(next) = page.body["pagination"]["nextCursor"].as_str() else { break };
        path = format!("{RUNNERS}?limit=1&cursor={next}");
    }
    assert_eq!(names, ["embedded", "a", "b", "c"]);
    let theirs = "/api/v1/organizations/globex/runners";
    assert_eq!(world.send(get(theirs).with_account(&world.hank)).await.body["pagination"]["total"], 1);
    world
        .send(call("DELETE", &format!("{theirs}/a")).with_account(&world.hank))
        .await
        .assert_problem(404, "not_found");
}

#[tokio::test]
async fn embedded_runner_shows_its_isolation() {
    let config = AppConfig {
        isolation: Some(Isolation::Bubblewrap),
        exposed: vec!["/run/docker.sock".into()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    };
    let world = TestWorld::with_config(config).await;
    let own = world.send(get(&format!("{RUNNERS}/embedded")).with_account(&world.ada)).await;
    assert_eq!(
        (&own.body["data"]["isolation"], &own.body["data"]["exposed"]),
        (&json!("bubblewrap"), &json!(["/run/docker.sock"]))
    );
    let ready = world.send(get("/readyz")).await;
    assert_eq!(
        (&ready.body["data"]["isolation"], &ready.body["data"]["runsSteps"]),
        (&json!("bubblewrap"), &json!(true))
    );
    assert!(!ready.text.contains("docker.sock"), "{}", ready.text);
}
