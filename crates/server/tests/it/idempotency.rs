//! Idempotency keys: a repeated request has one effect and one stored response.

use serde_json::json;

use super::world::{DEFINITION, TestWorld, call, get, post};

const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";

#[tokio::test]
async fn idempotency_key_repeat_has_one_effect_and_the_same_response() {
    let world = TestWorld::new().await;
    let body = json!({"slug": "shop", "definition": DEFINITION});
    let create =
        |path: &str| post(path).with_account(&world.ada).header("idempotency-key", "k-1").json(&body);
    let first = world.send(create(PIPELINES)).await;
    assert_eq!((first.status.as_u16(), first.header("idempotent-replayed")), (201, ""));
    // The path without the version prefix denotes the same operation.
    for path in [PIPELINES, "/organizations/acme/pipelines/"] {
        let again = world.send(create(path)).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text));
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!(
            (again.header("location"), again.header("etag")),
            (first.header("location"), first.header("etag"))
        );
    }
    let other = json!({"slug": "other", "definition": DEFINITION});
    let reused = post(PIPELINES).with_account(&world.ada).header("idempotency-key", "k-1").json(&other);
    world.send(reused).await.assert_problem(422, "idempotency_key_reused");
    assert_eq!(world.event_kinds().await.iter().filter(|kind| *kind == "pipeline_created").count(), 1);
}

#[tokio::test]
async fn idempotency_key_of_a_refusal_stores_no_response() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let body = json!({"slug": "shop", "definition": DEFINITION});
    let create = || post(PIPELINES).with_account(&world.ada).header("idempotency-key", "k-2").json(&body);
    world.send(create()).await.assert_problem(409, "already_exists");
    world.send(call("DELETE", &format!("{PIPELINES}/shop")).with_account(&world.ada)).await;
    assert_eq!(world.send(create()).await.status, 201);
}

#[tokio::test]
async fn idempotency_key_stores_no_secret() {
    let world = TestWorld::new().await;
    let create = || {
        let call = post("/api/v1/organizations/acme/api-tokens").with_account(&world.ada);
        call.header("idempotency-key", "k-3").json(&json!({"name": "x"}))
    };
    let first = world.send(create()).await;
    let again = world.send(create()).await;
    assert!(first.body["data"]["token"].is_string());
    assert_eq!(again.body["data"]["token"], json!(null));
    assert_eq!(again.body["data"]["id"], first.body["data"]["id"]);

    let add = || {
        let call = post("/api/v1/organizations/acme/invitations")
            .with_account(&world.ada)
            .header("idempotency-key", "k-4");
        call.json(&json!({"email": "grace@acme.test", "role": "viewer"}))
    };
    assert!(world.send(add()).await.body["data"]["url"].is_string());
    let again = world.send(add()).await;
    assert_eq!((again.status.as_u16(), &again.body["data"]["url"]), (201, &json!(null)));
}

#[tokio::test]
async fn idempotency_key_of_concurrent_requests_has_one_effect() {
    let world = TestWorld::new().await;
    let body = json!({"slug": "shop", "definition": DEFINITION});
    let send =
        || world.send(post(PIPELINES).with_account(&world.ada).header("idempotency-key", "k-5").json(&body));
    let replies = futures_util::future::join_all((0..32).map(|_| send())).await;
    assert!(replies.iter().all(|reply| reply.status == 201 && reply.text == replies[0].text));
    assert_eq!(replies.iter().filter(|reply| reply.header("idempotent-replayed").is_empty()).count(), 1);
}

#[tokio::test]
async fn idempotency_key_must_be_single_and_short() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let stop = |key: &str| {
        post(&format!("{PIPELINES}/shop/stop")).with_account(&world.ada).header("idempotency-key", key)
    };
    assert_eq!(world.send(stop(&"k".repeat(255))).await.status, 200);
    world.send(stop(&"k".repeat(256))).await.assert_problem(400, "invalid_parameter");
    world.send(stop("")).await.assert_problem(400, "invalid_parameter");
    world.send(stop("a\tb")).await.assert_problem(400, "invalid_parameter");
    world.send(stop("a").header("idempotency-key", "b")).await.assert_problem(400, "invalid_parameter");
    let list = world.send(get(PIPELINES).with_account(&world.ada).header("idempotency-key", "a")).await;
    assert_eq!(list.status, 200, "it means nothing on a GET");
}
