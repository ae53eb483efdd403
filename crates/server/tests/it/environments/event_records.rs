//! Events about environments: every change of a lock or a queue records one event with its actor and subjects.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str};
use crate::world::{call, post};

/// Kinds and actors of all events after the first `since`.
async fn kinds_and_actors(shop: &EnvironmentsFixture, since: usize) -> Vec<(String, String)> {
    let events = shop.events(since).await;
    events.iter().map(|event| (expect_str(&event["kind"]), expect_str(&event["actor"]["name"]))).collect()
}

fn kinds_by(who: &str, kinds: &[&str]) -> Vec<(String, String)> {
    kinds.iter().map(|kind| ((*kind).to_owned(), who.to_owned())).collect()
}

#[tokio::test]
async fn claim_records_session_and_deployment_events() {
    let shop = EnvironmentsFixture::new().await;
    let since = shop.events(0).await.len();
    let body = json!({"commitId": "9fceb02", "context": "load test", "ttlSeconds": 600});
    let asked = post(&environments_path("qa-1/sessions"))
        .with_account(&shop.grace)
        .header("x-request-id", "request-1")
        .json(&body);
    let session = expect_data(shop.send(asked).await, 201);
    let events = shop.events(since).await;
    assert_eq!(
        kinds_and_actors(&shop, since).await,
        kinds_by("grace", &["session_claimed", "deployment_queued"])
    );
    let (claimed, queued) = (&events[0], &events[1]);
    let environment = shop.fetch("qa-1").await;
    assert_eq!(
        claimed["subjects"],
        json!([
            {"type": "environment", "id": environment["id"], "name": "qa-1"},
            {"type": "pipeline", "id": shop.pipeline, "name": null},
        ])
    );
    assert_eq!(
        claimed["data"],
        json!({
            "sessionId": session["sessionId"], "fence": 1, "holder": "grace", "holderId": shop.user_id(&shop.grace).await,
            "previousFence": 0, "commitId": "9fceb02", "context": "load test", "expiresAt": session["expiresAt"],
        })
    );
    assert_eq!((&claimed["requestId"], &claimed["actor"]["type"]), (&json!("request-1"), &json!("user")));
    assert_eq!(queued["data"], json!({"commitId": "9fceb02", "fence": 1, "sessionId": session["sessionId"]}));
    assert_eq!(queued["subjects"][0]["id"], session["deploymentId"]);
}

#[tokio::test]
async fn takeover_records_the_end_before_the_new_session() {
    let shop = EnvironmentsFixture::new().await;
    let lost = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    let since = shop.events(0).await.len();
    let taken = expect_data(shop.force_claim(&shop.ada, &json!({"reason": "hotfix"})).await, 201);
    assert_eq!(
        kinds_and_actors(&shop, since).await,
        kinds_by("ada", &["deployment_cancelled", "session_overridden", "session_claimed"])
    );
    let events = shop.events(since).await;
    let (overridden, claimed) = (&events[1]["data"], &events[2]["data"]);
    assert_eq!((&overridden["sessionId"], &overridden["fence"]), (&lost["sessionId"], &json!(1)));
    assert_eq!((&overridden["holder"], &overridden["endedBy"]), (&json!("grace"), &json!("ada")));
    assert_eq!((&overridden["reason"], &overridden["endReason"]), (&json!("hotfix"), &json!("overridden")));
    assert_eq!((&claimed["sessionId"], &claimed["fence"]), (&taken["sessionId"], &json!(2)));
    assert_eq!(claimed["previousFence"], 1);
}

#[tokio::test]
async fn extend_hand_over_and_release_record_one_event_each() {
    let shop = EnvironmentsFixture::new().await;
    let first = shop.claim_session(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let since = shop.events(0).await.len();
    shop.post_to_session(&shop.grace, &first, "extend", &json!({"ttlSeconds": 900})).await;
    let second = expect_data(
        shop.post_to_session(&shop.grace, &first, "hand-over", &json!({"to": "ada@acme.test"})).await,
        200,
    );
    shop.release(&shop.ada, &second).await;
    let wanted = [
        kinds_by("grace", &["session_extended", "session_handed_over"]),
        kinds_by("ada", &["session_released"]),
    ];
    assert_eq!(kinds_and_actors(&shop, since).await, wanted.concat());
    let events = shop.events(since).await;
    assert_eq!(events[0]["data"]["extension"], 1);
    let handed = &events[1]["data"];
    assert_eq!((&handed["fence"], &handed["newFence"]), (&json!(1), &json!(2)));
    assert_eq!((&handed["to"], &handed["successorId"]), (&json!("ada"), &second["sessionId"]));
    assert_eq!(events[2]["data"]["endReason"], "released");
}

#[tokio::test]
async fn queue_changes_record_events_and_grants_are_by_the_system() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({})).await;
    let since = shop.events(0).await.len();
    let gives_up = shop.join_queue(&shop.ada, &json!({})).await;
    let stays = shop.join_queue(&shop.ada, &json!({"commitId": "main"})).await;
    let path = environments_path(&format!("qa-1/queue/{}", expect_str(&gives_up["ticketId"])));
    shop.send(call("DELETE", &path).with_account(&shop.ada)).await;
    shop.release(&shop.grace, &held).await;
    let kinds = shop.kinds_since(since).await;
    assert_eq!(
        kinds,
        [
            "ticket_queued",
            "ticket_queued",
            "ticket_cancelled",
            "session_released",
            "session_claimed",
            "deployment_queued",
            "ticket_granted"
        ]
    );
    let events = shop.events(since).await;
    assert_eq!((&events[1]["data"]["position"], &events[1]["data"]["commitId"]), (&json!(2), &json!("main")));
    let granted = &events[6]["data"];
    assert_eq!((&granted["ticketId"], &granted["holder"]), (&stays["ticketId"], &json!("ada")));
    assert_eq!(
        (&granted["sessionId"], &events[4]["data"]["fence"]),
        (&events[4]["data"]["sessionId"], &json!(2))
    );
    assert!(granted["deploymentId"].is_string(), "{granted}");
}

#[tokio::test]
async fn forbidden_requests_record_an_event_and_other_refusals_do_not() {
    let shop = EnvironmentsFixture::new().await;
    let vera = shop.create_viewer().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let since = shop.events(0).await.len();
    shop.claim(&shop.ada, &json!({})).await.assert_problem(409, "environment_locked");
    shop.claim(&shop.ada, &json!({"ttlSeconds": 1})).await.assert_problem(400, "invalid_request");
    assert_eq!(kinds_and_actors(&shop, since).await, []);
    shop.post_to_session(&shop.ada, &session, "deploy", &json!({"commitId": "main"}))
        .await
        .assert_problem(403, "not_session_holder");
    shop.force_claim(&vera, &json!({})).await.assert_problem(403, "forbidden");
    let denied = [kinds_by("ada", &["access_denied"]), kinds_by("vera", &["access_denied"])].concat();
    assert_eq!(kinds_and_actors(&shop, since).await, denied);
    let why: Vec<Value> = shop.events(since).await.iter().map(|event| event["data"].clone()).collect();
    let missing = json!({"permission": "environments:force_claim"});
    assert_eq!(why, [json!({"code": "not_session_holder"}), missing]);
}

#[tokio::test]
async fn refused_takeover_records_an_event() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({})).await;
    let announced = json!({"mode": "grace", "graceSeconds": 600});
    expect_data(shop.force_claim(&shop.ada, &announced).await, 202);
    let since = shop.events(0).await.len();
    shop.force_claim(&shop.ada, &announced).await.assert_problem(409, "invalid_state");
    assert_eq!(kinds_and_actors(&shop, since).await, kinds_by("ada", &["access_denied"]));
    assert_eq!(shop.events(since).await[0]["data"], json!({"code": "invalid_state"}));
}

#[tokio::test]
async fn events_of_an_environment_are_found_by_its_id() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    shop.send(post(&environments_path("qa-2/sessions")).with_account(&shop.grace)).await;
    let id = expect_str(&shop.fetch("qa-1").await["id"]);
    let list = format!("/api/v1/organizations/acme/events?environment={id}");
    let list = shop.send(crate::world::get(&list).with_account(&shop.ada)).await;
    let found = list.body["data"].as_array().unwrap();
    assert_eq!(found.len(), 2, "{}", list.text);
    assert!(found.iter().all(|event| event["data"]["sessionId"] == session["sessionId"]));
}
