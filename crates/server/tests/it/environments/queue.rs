//! The queue of an environment. Tickets are granted in order, members can see them, and cancelling a ticket leaves the
//! queue.

use serde_json::{Value, json};

use super::{Shop, at, data, text};
use crate::world::{Account, Reply, call, get};

fn place(ticket: &Value) -> String {
    at(&format!("qa-1/queue/{}", ticket["ticketId"].as_str().unwrap()))
}

async fn leave(shop: &Shop, who: &Account, ticket: &Value) -> Reply {
    shop.send(call("DELETE", &place(ticket)).by(who)).await
}

#[tokio::test]
async fn queued_claim_returns_a_ticket_and_its_location() {
    let shop = Shop::open().await;
    shop.claimed(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let body = json!({"queue": true, "waitSeconds": 120, "commitId": "main", "context": "demo"});
    let accepted = shop.claim(&shop.ada, &body).await;
    let shown = data(shop.send(get(accepted.header("location")).by(&shop.grace)).await, 200);
    let ticket = data(accepted, 202);
    assert_eq!((&shown["ticketId"], &shown["id"]), (&ticket["ticketId"], &ticket["ticketId"]));
    assert_eq!((&shown["status"], &shown["position"]), (&json!("waiting"), &json!(1)));
    assert_eq!((&shown["commitId"], &shown["context"]), (&json!("main"), &json!("demo")));
    let eta = ticket["etaSeconds"].as_i64().unwrap();
    assert!((590..=600).contains(&eta), "the holder's end is known: {eta}");
    assert_eq!(
        (&shop.see("qa-1/queue").await[0]["ticketId"], &shop.see("qa-1").await["queueLength"]),
        (&ticket["ticketId"], &json!(1))
    );
}

#[tokio::test]
async fn queued_claim_of_a_free_environment_claims_it() {
    let shop = Shop::open().await;
    assert_eq!(data(shop.claim(&shop.ada, &json!({"queue": true})).await, 201)["status"], "active");
}

#[tokio::test]
async fn release_grants_the_next_ticket_and_deploys_its_commit() {
    let shop = Shop::open().await;
    let held = shop.claimed(&shop.grace, &json!({})).await;
    let first =
        shop.queued(&shop.ada, &json!({"commitId": "main", "context": "demo", "ttlSeconds": 900})).await;
    let second = shop.queued(&shop.grace, &json!({})).await;
    assert_eq!((&first["position"], &second["position"]), (&json!(1), &json!(2)));
    let released = data(shop.release(&shop.grace, &held).await, 200);
    let granted = data(shop.send(get(&place(&first)).by(&shop.ada)).await, 200);
    assert_eq!((&granted["status"], &granted["position"]), (&json!("granted"), &json!(null)));
    assert_eq!(released["environment"]["lock"]["sessionId"], granted["sessionId"], "in the same moment");
    let session = shop.status(&granted).await;
    assert_eq!((&session["holder"]["name"], &session["fence"]), (&json!("ada"), &json!(2)));
    assert_eq!((&session["context"], &session["commitId"]), (&json!("demo"), &json!("main")));
    assert_eq!(session["deployments"][0]["id"], granted["deploymentId"]);
    assert!(session["expiresAt"].is_string(), "with the length it asked for");
    assert_eq!(data(shop.send(get(&place(&second)).by(&shop.ada)).await, 200)["position"], 1);
}

#[tokio::test]
async fn cancelled_ticket_is_skipped_and_cancelling_is_idempotent() {
    let shop = Shop::open().await;
    let held = shop.claimed(&shop.grace, &json!({})).await;
    let ticket = shop.queued(&shop.ada, &json!({})).await;
    let left = data(leave(&shop, &shop.ada, &ticket).await, 200);
    assert_eq!(
        (&left["status"], &left["cause"], &left["position"]),
        (&json!("cancelled"), &json!("requested"), &json!(null))
    );
    let before = shop.dump().await;
    assert_eq!(data(leave(&shop, &shop.ada, &ticket).await, 200), left);
    assert_eq!(shop.dump().await, before);
    shop.release(&shop.grace, &held).await;
    assert_eq!(shop.see("qa-1").await["lockStatus"], "unlocked");
}

#[tokio::test]
async fn ticket_of_another_user_is_cancelled_only_with_take_over_permission() {
    let shop = Shop::open().await;
    let vera = shop.viewer().await;
    shop.claimed(&shop.grace, &json!({})).await;
    let ticket = shop.queued(&shop.ada, &json!({})).await;
    leave(&shop, &vera, &ticket).await.is(403, "forbidden");
    leave(&shop, &shop.world.hank, &ticket).await.is(404, "not_found");
    assert_eq!(shop.see("qa-1").await["queueLength"], 1);
    assert_eq!(data(leave(&shop, &shop.grace, &ticket).await, 200)["status"], "cancelled");
}

#[tokio::test]
async fn ticket_of_a_revoked_token_or_demoted_user_is_not_granted() {
    let shop = Shop::open().await;
    let held = shop.claimed(&shop.ada, &json!({})).await;
    let tokens = "/api/v1/organizations/acme/api-tokens";
    let made = shop.send(crate::world::post(tokens).by(&shop.ada).json(&json!({"name": "gone"}))).await;
    let token = data(made, 201);
    let join = crate::world::post(&at("qa-1/sessions")).token(token["token"].as_str().unwrap());
    let by_token = data(shop.send(join.json(&json!({"queue": true}))).await, 202);
    let by_grace = shop.queued(&shop.grace, &json!({})).await;
    let revoke = call("DELETE", &format!("{tokens}/{}", text(&token["id"]))).by(&shop.ada);
    assert_eq!(shop.send(revoke).await.status, 200);
    let member = format!("/api/v1/organizations/acme/members/{}", shop.me(&shop.grace).await);
    let demote = call("PATCH", &member).by(&shop.ada).json(&json!({"role": "viewer"}));
    assert_eq!(shop.send(demote).await.status, 200);

    shop.release(&shop.ada, &held).await;
    assert_eq!(shop.see("qa-1").await["lockStatus"], "unlocked");
    for ticket in [by_token, by_grace] {
        let shown = data(shop.send(get(&place(&ticket)).by(&shop.ada)).await, 200);
        assert_eq!((&shown["status"], &shown["cause"]), (&json!("cancelled"), &json!("revoked")));
    }
}

#[tokio::test]
async fn queue_is_limited_to_a_hundred_tickets() {
    let shop = Shop::open().await;
    shop.claimed(&shop.grace, &json!({})).await;
    for _ in 0..100 {
        shop.queued(&shop.ada, &json!({})).await;
    }
    let before = shop.see("qa-1").await;
    shop.claim(&shop.ada, &json!({"queue": true})).await.is(409, "invalid_state");
    shop.force(&shop.ada, &json!({"mode": "grace"})).await.is(409, "invalid_state");
    assert_eq!(shop.see("qa-1").await, before);
    assert_eq!(shop.force(&shop.ada, &json!({})).await.status, 201, "a takeover now needs no place");
}

#[tokio::test]
async fn ticket_wait_limit_needs_queue_and_is_bounded() {
    let shop = Shop::open().await;
    shop.claimed(&shop.grace, &json!({})).await;
    let before = shop.dump().await;
    for body in [
        json!({"waitSeconds": 60}),
        json!({"queue": false, "waitSeconds": 60}),
        json!({"queue": true, "waitSeconds": 0}),
        json!({"queue": true, "waitSeconds": 604_801}),
    ] {
        let refused = shop.claim(&shop.ada, &body).await;
        refused.is(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/waitSeconds");
    }
    assert_eq!(shop.dump().await, before);
}
