//! Takeovers: at once, only from an expected holder, or after a grace period.

use berth_core::deployment::environment::grant::{GrantCommand, grant};
use berth_core::id::DeploymentId;
use berth_store::tables::{deployment, environment};
use berth_store::{StoreError, TxContext};
use serde_json::{Value, json};

use super::{Shop, at, data, text};
use crate::history::org;
use crate::world::{get, post};

#[tokio::test]
async fn force_claim_of_a_free_environment_claims_it() {
    let shop = Shop::open().await;
    let claimed =
        shop.force(&shop.grace, &json!({"commitId": "main", "context": "hotfix", "reason": "x"})).await;
    assert_eq!(claimed.header("etag"), "\"1.2\"");
    let shown = data(shop.send(get(claimed.header("location")).by(&shop.ada)).await, 200);
    let session = data(claimed, 201);
    assert_eq!((&session["fence"], &session["context"]), (&json!(1), &json!("hotfix")));
    assert_eq!(session["deploymentId"], shown["deployments"][0]["id"]);
    assert!(!shop.kinds_since(0).await.contains(&"session_overridden".to_owned()));
}

#[tokio::test]
async fn force_claim_shows_the_loser_who_when_and_why() {
    let shop = Shop::open().await;
    let lost = shop.claimed(&shop.grace, &json!({"commitId": "9fceb02"})).await;
    let taken = data(shop.force(&shop.ada, &json!({"reason": "production is down"})).await, 201);
    assert_eq!((&taken["fence"], &taken["holder"]["name"]), (&json!(2), &json!("ada")));
    let shown = shop.status(&lost).await;
    assert_eq!(
        [&shown["status"], &shown["overridden"], &shown["endReason"], &shown["overriddenBy"]["name"]],
        [&json!("overridden"), &json!(true), &json!("overridden"), &json!("ada")]
    );
    assert_eq!(shown["overrideReason"], "production is down");
    assert_eq!(
        (&shown["overriddenAt"], &shown["endedAt"]),
        (&taken["claimedAt"], &taken["claimedAt"]),
        "in one moment"
    );
    assert_eq!(shown["deploymentHistory"][0]["status"], "cancelled", "what had not started never will");
    assert_eq!(shown["environment"]["lock"]["sessionId"], taken["sessionId"]);
}

#[tokio::test]
async fn force_claim_without_a_reason_uses_the_context() {
    let shop = Shop::open().await;
    let lost = shop.claimed(&shop.grace, &json!({})).await;
    shop.force(&shop.ada, &json!({"context": "hotfix"})).await;
    assert_eq!(shop.status(&lost).await["overrideReason"], "hotfix");
}

#[tokio::test]
async fn force_claim_with_if_match_takes_only_that_holder() {
    let shop = Shop::open().await;
    let force = |tag: &str| post(&at("qa-1/force-claim")).by(&shop.ada).header("if-match", tag);
    let session = shop.claimed(&shop.grace, &json!({})).await;
    let seen = text(&json!(shop.send(get(&at("qa-1")).by(&shop.ada)).await.header("etag")));
    shop.release(&shop.grace, &session).await;
    let before = shop.dump().await;
    let refused = shop.send(force(&seen)).await;
    refused.is(412, "precondition_failed");
    assert_eq!(refused.body["currentFence"], json!(null), "nobody holds it");
    assert_eq!(shop.dump().await, before);

    shop.claimed(&shop.grace, &json!({})).await;
    let refused = shop.send(force(&seen)).await;
    refused.is(412, "precondition_failed");
    assert_eq!(refused.body["currentFence"], 2, "somebody else than seen");
    let seen = text(&json!(shop.send(get(&at("qa-1")).by(&shop.ada)).await.header("etag")));
    assert_eq!(data(shop.send(force(&seen)).await, 201)["fence"], 3);
    shop.send(force("\"x\"")).await.is(400, "invalid_parameter");
}

#[tokio::test]
async fn force_claim_with_grace_is_announced_and_first_in_the_queue() {
    let shop = Shop::open().await;
    let held = shop.claimed(&shop.grace, &json!({})).await;
    let (_, token) = shop.world.service("ci@acme.test", "deployer").await;
    let waits = post(&at("qa-1/sessions")).token(&token).json(&json!({"queue": true}));
    let earlier = data(shop.send(waits).await, 202);
    let body = json!({"mode": "grace", "graceSeconds": 300, "reason": "release day"});
    let announced = shop.force(&shop.ada, &body).await;
    let shown = data(shop.send(get(announced.header("location")).by(&shop.grace)).await, 200);
    let ticket = data(announced, 202);
    assert_eq!(shown, masked_eta(&ticket, &shown));
    assert_eq!((&ticket["status"], &ticket["position"]), (&json!("waiting"), &json!(1)));
    let eta = ticket["etaSeconds"].as_i64().unwrap();
    assert!((295..=300).contains(&eta), "{eta}");

    let session = shop.status(&held).await;
    assert_eq!((&session["status"], &session["fence"]), (&json!("active"), &json!(1)), "it still holds");
    let by = json!({"type": "user", "id": shop.me(&shop.ada).await, "name": "ada"});
    assert_eq!(session["takeover"], json!({"by": by, "at": ticket["takeoverAt"], "reason": "release day"}));
    let queue = shop.see("qa-1/queue").await;
    assert_eq!((&queue[0]["ticketId"], &queue[1]["ticketId"]), (&ticket["ticketId"], &earlier["ticketId"]));

    let released = data(shop.release(&shop.grace, &held).await, 200);
    assert_eq!(released["environment"]["lock"]["holder"]["name"], "ada", "the head of the line comes first");
}

/// The ticket with the ETA of `shown`, because ETAs change over time and cannot be compared.
fn masked_eta(ticket: &Value, shown: &Value) -> Value {
    let mut ticket = ticket.clone();
    ticket["etaSeconds"] = shown["etaSeconds"].clone();
    ticket
}

#[tokio::test]
async fn force_claim_after_deployment_is_immediate_when_none_runs() {
    let shop = Shop::open().await;
    let held = shop.claimed(&shop.grace, &json!({})).await;
    let taken = shop.force(&shop.ada, &json!({"mode": "after_current_deployment"})).await;
    assert_eq!(data(taken, 201)["fence"], 2);
    assert_eq!(shop.status(&held).await["status"], "overridden");
}

#[tokio::test]
async fn force_claim_after_deployment_waits_for_the_running_one() {
    let shop = Shop::open().await;
    let held = shop.claimed(&shop.grace, &json!({"commitId": "main"})).await;
    start(&shop, &text(&held["deploymentId"])).await;
    let announced =
        shop.force(&shop.ada, &json!({"mode": "after_current_deployment", "reason": "soon"})).await;
    let ticket = data(announced, 202);
    assert_eq!((&ticket["position"], &ticket["takeoverAt"]), (&json!(1), &json!(null)));
    let session = shop.status(&held).await;
    assert_eq!((&session["status"], &session["takeover"]["reason"]), (&json!("active"), &json!("soon")));
    assert_eq!(session["takeover"]["at"], json!(null), "nobody knows yet");
}

#[tokio::test]
async fn force_claim_during_a_deployment_is_contested_until_it_stops() {
    let shop = Shop::open().await;
    let lost = shop.claimed(&shop.grace, &json!({"commitId": "main"})).await;
    let running = text(&lost["deploymentId"]);
    start(&shop, &running).await;
    let taken = data(shop.force(&shop.ada, &json!({"commitId": "hotfix"})).await, 201);
    assert_eq!(taken["drain"]["pending"], json!([running]));
    assert!(taken["drain"]["deadline"].is_string() && taken["drain"]["completedAt"].is_null(), "{taken}");
    let waits = &taken["deployments"][0];
    assert_eq!(
        (&waits["status"], &waits["blockedBy"][0]["kind"]),
        (&json!("queued"), &json!("environment_contested"))
    );
    assert_eq!(waits["blockedBy"][0]["clearsAt"], taken["drain"]["deadline"]);
    assert_eq!(shop.see("qa-1").await["state"], "contested");
    assert_eq!(shop.status(&lost).await["deployments"][0]["status"], "cancelling");

    let body = json!({"commitId": "hotfix", "overrideDrain": {"reason": "the target is gone"}});
    let skipped = data(shop.act(&shop.ada, &taken, "deploy", &body).await, 202);
    let kinds: Vec<_> = skipped["blockedBy"].as_array().unwrap().iter().map(|it| text(&it["kind"])).collect();
    assert_eq!(kinds, ["queue"], "{skipped}");
    let first = &shop.status(&taken).await["deployments"][1];
    assert_eq!(first["blockedBy"], json!([]), "nothing keeps the one before it: {first}");
    assert!(shop.kinds_since(0).await.contains(&"drain_overridden".to_owned()));
}

#[tokio::test]
async fn force_claim_with_an_unknown_mode_is_refused() {
    let shop = Shop::open().await;
    shop.claimed(&shop.grace, &json!({})).await;
    let before = shop.dump().await;
    for (body, pointer) in [
        (json!({"mode": "soon"}), "/mode"),
        (json!({"graceSeconds": 5}), "/graceSeconds"),
        (json!({"mode": "now", "graceSeconds": 5}), "/graceSeconds"),
        (json!({"mode": "grace", "graceSeconds": 0}), "/graceSeconds"),
        (json!({"mode": "grace", "graceSeconds": 86_401}), "/graceSeconds"),
        (json!({"reason": "x".repeat(4_001)}), "/reason"),
        (json!({"queue": true}), "/queue"),
    ] {
        let refused = shop.force(&shop.ada, &body).await;
        refused.is_invalid_input();
        assert_eq!(refused.body["errors"][0]["pointer"], pointer);
    }
    assert_eq!(shop.dump().await, before);
}

/// Grants the deployment to a runner, so that it has a running attempt.
async fn start(shop: &Shop, deployment: &str) {
    let (org, id) = (org(&shop.world).await, deployment.parse::<DeploymentId>().unwrap());
    let granted = shop.world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let found = deployment::by_id(tx, id)?.unwrap().into_environment().unwrap();
        let lock = environment::by_id(tx, found.target.environment)?.unwrap();
        let cmd = GrantCommand { deployment: id, runner: "runner".into(), nonce: "nonce".into() };
        let ruling = grant(&lock, &cmd, &tx.moment()?);
        tx.commit(ruling)?.expect("nothing is in its way");
        Ok::<_, StoreError>(())
    });
    granted.await.unwrap();
}
