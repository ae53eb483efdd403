//! The queue of an environment. Tickets are granted in order, members can see them, and cancelling a ticket leaves the
//! queue.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str};
use crate::world::{MemberAccount, TestResponse, call, get};

fn ticket_path(ticket: &Value) -> String {
    environments_path(&format!("qa-1/queue/{}", ticket["ticketId"].as_str().unwrap()))
}

async fn cancel_ticket(shop: &EnvironmentsFixture, who: &MemberAccount, ticket: &Value) -> TestResponse {
    shop.send(call("DELETE", &ticket_path(ticket)).with_account(who)).await
}

#[tokio::test]
async fn queued_claim_returns_a_ticket_and_its_location() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let body = json!({"queue": true, "waitSeconds": 120, "commitId": "main", "context": "demo"});
    let accepted = shop.claim(&shop.ada, &body).await;
    let shown = expect_data(shop.send(get(accepted.header("location")).with_account(&shop.grace)).await, 200);
    let ticket = expect_data(accepted, 202);
    assert_eq!((&shown["ticketId"], &shown["id"]), (&ticket["ticketId"], &ticket["ticketId"]));
    assert_eq!((&shown["status"], &shown["position"]), (&json!("waiting"), &json!(1)));
    assert_eq!((&shown["commitId"], &shown["context"]), (&json!("main"), &json!("demo")));
    let eta = ticket["etaSeconds"].as_i64().unwrap();
    assert!((590..=600).contains(&eta), "the holder's end is known: {eta}");
    assert_eq!(
        (&shop.fetch("qa-1/queue").await[0]["ticketId"], &shop.fetch("qa-1").await["queueLength"]),
        (&ticket["ticketId"], &json!(1))
    );
}

#[tokio::test]
async fn queued_claim_of_a_free_environment_claims_it() {
    let shop = EnvironmentsFixture::new().await;
    assert_eq!(expect_data(shop.claim(&shop.ada, &json!({"queue": true})).await, 201)["status"], "active");
}

#[tokio::test]
async fn release_grants_the_next_ticket_and_deploys_its_commit() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({})).await;
    let first =
        shop.join_queue(&shop.ada, &json!({"commitId": "main", "context": "demo", "ttlSeconds": 900})).await;
    let second = shop.join_queue(&shop.grace, &json!({})).await;
    assert_eq!((&first["position"], &second["position"]), (&json!(1), &json!(2)));
    let released = expect_data(shop.release(&shop.grace, &held).await, 200);
    let granted = expect_data(shop.send(get(&ticket_path(&first)).with_account(&shop.ada)).await, 200);
    assert_eq!((&granted["status"], &granted["position"]), (&json!("granted"), &json!(null)));
    assert_eq!(released["environment"]["lock"]["sessionId"], granted["sessionId"], "in the same moment");
    let session = shop.session_status(&granted).await;
    assert_eq!((&session["holder"]["name"], &session["fence"]), (&json!("ada"), &json!(2)));
    assert_eq!((&session["context"], &session["commitId"]), (&json!("demo"), &json!("main")));
    assert_eq!(session["deployments"][0]["id"], granted["deploymentId"]);
    assert!(session["expiresAt"].is_string(), "with the length it asked for");
    assert_eq!(
        expect_data(shop.send(get(&ticket_path(&second)).with_account(&shop.ada)).await, 200)["position"],
        1
    );
}

#[tokio::test]
async fn cancelled_ticket_is_skipped_and_cancelling_is_idempotent() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    let left = expect_data(cancel_ticket(&shop, &shop.ada, &ticket).await, 200);
    assert_eq!(
        (&left["status"], &left["cause"], &left["position"]),
        (&json!("cancelled"), &json!("requested"), &json!(null))
    );
    let before = shop.snapshot().await;
    assert_eq!(expect_data(cancel_ticket(&shop, &shop.ada, &ticket).await, 200), left);
    assert_eq!(shop.snapshot().await, before);
    shop.release(&shop.grace, &held).await;
    assert_eq!(shop.fetch("qa-1").await["lockStatus"], "unlocked");
}

#[tokio::test]
async fn ticket_of_another_user_is_cancelled_only_with_take_over_permission() {
    let shop = EnvironmentsFixture::new().await;
    let vera = shop.create_viewer().await;
    shop.claim_session(&shop.grace, &json!({})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    cancel_ticket(&shop, &vera, &ticket).await.assert_problem(403, "forbidden");
    cancel_ticket(&shop, &shop.world.hank, &ticket).await.assert_problem(404, "not_found");
    assert_eq!(shop.fetch("qa-1").await["queueLength"], 1);
    assert_eq!(expect_data(cancel_ticket(&shop, &shop.grace, &ticket).await, 200)["status"], "cancelled");
}

#[tokio::test]
async fn ticket_of_a_revoked_token_or_demoted_user_is_not_granted() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.ada, &json!({})).await;
    let tokens = "/api/v1/organizations/acme/api-tokens";
    let made =
        shop.send(crate::world::post(tokens).with_account(&shop.ada).json(&json!({"name": "gone"}))).await;
    let token = expect_data(made, 201);
    let join =
        crate::world::post(&environments_path("qa-1/sessions")).token(token["token"].as_str().unwrap());
    let by_token = expect_data(shop.send(join.json(&json!({"queue": true}))).await, 202);
    let by_grace = shop.join_queue(&shop.grace, &json!({})).await;
    let revoke = call("DELETE", &format!("{tokens}/{}", expect_str(&token["id"]))).with_account(&shop.ada);
    assert_eq!(shop.send(revoke).await.status, 200);
    let member = format!("/api/v1/organizations/acme/members/{}", shop.user_id(&shop.grace).await);
    let demote = call("PATCH", &member).with_account(&shop.ada).json(&json!({"role": "viewer"}));
    assert_eq!(shop.send(demote).await.status, 200);

    shop.release(&shop.ada, &held).await;
    assert_eq!(shop.fetch("qa-1").await["lockStatus"], "unlocked");
    for ticket in [by_token, by_grace] {
        let shown = expect_data(shop.send(get(&ticket_path(&ticket)).with_account(&shop.ada)).await, 200);
        assert_eq!((&shown["status"], &shown["cause"]), (&json!("cancelled"), &json!("revoked")));
    }
}

#[tokio::test]
async fn queue_is_limited_to_a_hundred_tickets() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({})).await;
    for _ in 0..100 {
        shop.join_queue(&shop.ada, &json!({})).await;
    }
    let before = shop.fetch("qa-1").await;
    shop.claim(&shop.ada, &json!({"queue": true})).await.assert_problem(409, "invalid_state");
    shop.force_claim(&shop.ada, &json!({"mode": "grace"})).await.assert_problem(409, "invalid_state");
    assert_eq!(shop.fetch("qa-1").await, before);
    assert_eq!(shop.force_claim(&shop.ada, &json!({})).await.status, 201, "a takeover now needs no place");
}

#[tokio::test]
async fn ticket_wait_limit_needs_queue_and_is_bounded() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({})).await;
    let before = shop.snapshot().await;
    for body in [
        json!({"waitSeconds": 60}),
        json!({"queue": false, "waitSeconds": 60}),
        json!({"queue": true, "waitSeconds": 0}),
        json!({"queue": true, "waitSeconds": 604_801}),
    ] {
        let refused = shop.claim(&shop.ada, &body).await;
        refused.assert_problem(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/waitSeconds");
    }
    assert_eq!(shop.snapshot().await, before);
}
