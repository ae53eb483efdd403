//! The audit log: every change is recorded and can be found by its subjects.

use serde_json::json;

use super::world::{TestWorld, get, post};

const EVENTS: &str = "/api/v1/organizations/acme/events";

#[tokio::test]
async fn event_has_kind_actor_time_and_request_id() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let stop = post("/api/v1/organizations/acme/pipelines/shop/stop")
        .with_account(&world.ada)
        .header("x-request-id", "req-7");
    world.send(stop.json(&json!({"reason": "because"}))).await;
    let list = world.send(get(&format!("{EVENTS}?limit=1")).with_account(&world.ada)).await;
    let event = &list.body["data"][0];
    assert_eq!(event["kind"], "pipeline_stopped");
    assert_eq!(event["requestId"], "req-7");
    assert_eq!(event["data"], json!({"reason": "because"}));
    assert_eq!(event["subjects"][0]["name"], "shop");
    assert_eq!((&event["actor"]["type"], &event["actor"]["name"]), (&json!("user"), &json!("ada")));
    assert!(event["actor"]["tokenId"].as_str().unwrap().starts_with("tok_"));
    let id = event["id"].as_str().unwrap();
    let one = world.send(get(&format!("{EVENTS}/{id}")).with_account(&world.ada)).await;
    assert_eq!(one.body["data"], *event);
    world
        .send(get(&format!("{EVENTS}/evt_nonsense")).with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");
}

#[tokio::test]
async fn event_filters_combine() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "deployer").await;
    let grace_id =
        world.send(get("/api/v1/me").with_account(&grace)).await.body["data"]["user"]["id"].clone();
    let grace_id = grace_id.as_str().unwrap();
    let shop = world.create_pipeline("shop").await;
    world.create_pipeline("blog").await;
    for (who, action) in [(&world.ada, "stop"), (&grace, "resume"), (&grace, "stop")] {
        world
            .send(post(&format!("/api/v1/organizations/acme/pipelines/shop/{action}")).with_account(who))
            .await;
    }
    let found = async |query: &str| {
        let list = world.send(get(&format!("{EVENTS}?{query}")).with_account(&world.ada)).await;
        assert_eq!(list.status, 200, "{}", list.text);
        let events = list.body["data"].as_array().unwrap().clone();
        events.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let moves = ["pipeline_stopped", "pipeline_resumed", "pipeline_stopped", "pipeline_created"];
    assert_eq!(found(&format!("pipeline={shop}")).await, moves);
    assert_eq!(found("pipeline=shop").await, moves);
    assert_eq!(found(&format!("pipeline=shop&actor={grace_id}")).await, moves[..2]);
    assert_eq!(found(&format!("kind=pipeline_stopped&pipeline=shop&actor={grace_id}")).await.len(), 1);
    assert_eq!(found("kind=pipeline_created").await.len(), 2);
    assert_eq!(found("pipeline=unknown").await, Vec::<String>::new());
    assert_eq!(found("environment=x&deployment=y").await, Vec::<String>::new());
    assert_eq!(found("to=2020-01-01T00:00:00Z").await, Vec::<String>::new());
    assert_eq!(found("from=2020-01-01T00:00:00%2B01:00&pipeline=blog").await, ["pipeline_created"]);
    world
        .send(get(&format!("{EVENTS}?from=yesterday")).with_account(&world.ada))
        .await
        .assert_problem(400, "invalid_parameter");
    let unknown = world.send(get(&format!("{EVENTS}?kind=pipeline_stoped")).with_account(&world.ada)).await;
    unknown.assert_problem(400, "invalid_parameter");
    assert!(unknown.text.contains("did you mean `pipeline_stopped`?"), "{}", unknown.text);
}

#[tokio::test]
async fn event_pages_have_no_gaps_and_count_on_request() {
    let world = TestWorld::new().await;
    for n in 0..5 {
        world.create_pipeline(&format!("p-{n}")).await;
    }
    let (mut sequences, mut query) = (Vec::new(), "limit=3".to_owned());
    loop {
        let list = world.send(get(&format!("{EVENTS}?{query}")).with_account(&world.ada)).await;
        let events = list.body["data"].as_array().unwrap().clone();
        sequences.extend(events.iter().map(|event| event["sequence"].as_i64().unwrap()));
        assert_eq!(list.body["pagination"]["total"], json!(null));
        let Some(cursor) = list.body["pagination"]["nextCursor"].as_str() else { break };
        query = format!("limit=3&cursor={cursor}");
    }
    assert_eq!(sequences, (1..=8).rev().collect::<Vec<_>>());
    let counted = world.send(get(&format!("{EVENTS}?total=true&limit=1")).with_account(&world.ada)).await;
    assert_eq!(counted.body["pagination"]["total"], 8);
}
