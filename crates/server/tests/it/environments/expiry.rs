//! Expiry and idle timeouts. When a session has expired, the next request sees that, even if no sweep ran in between.

use berth_core::environment::claim::{ClaimCommand, ClaimOutcome, claim};
use berth_core::environment::{ClaimTerms, DecisionContext, LockHolder};
use berth_core::event::ActorType;
use berth_core::id::UserId;
use berth_core::name::EnvName;
use berth_store::tables::environment;
use berth_store::{StoreError, TxContext};
use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str};
use crate::audit_export::acme_org_id;
use crate::world::post;

const HOUR_S: i64 = 60 * 60;

/// Creates a session that Grace claimed two hours ago with this TTL.
async fn create_old_session(shop: &EnvironmentsFixture, ttl_seconds: Option<i64>) -> Value {
    claim_earlier(shop, 2 * HOUR_S, ClaimTerms { ttl_seconds, ..ClaimTerms::default() }).await
}

/// Creates a session that Grace claimed `seconds` ago.
pub(super) async fn claim_earlier(shop: &EnvironmentsFixture, seconds: i64, wish: ClaimTerms) -> Value {
    let (org, id) =
        (acme_org_id(&shop.world).await, shop.user_id(&shop.grace).await.parse::<UserId>().unwrap());
    let claimed = shop.world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let lock = environment::find(tx, "shop", &EnvName::parse("qa-1").unwrap())?.unwrap();
        let moment = DecisionContext { now: tx.now().plus_seconds(-seconds), ..tx.moment()? };
        let by =
            LockHolder { kind: ActorType::User, id, name: "grace".into(), session_token: None, agent: None };
        let ruling =
            claim(&lock, &ClaimCommand { by, token: None, terms: wish, wait_seconds: None }, &moment);
        match tx.commit(ruling)? {
            Ok(ClaimOutcome::Session(opened)) => Ok::<_, StoreError>(opened.session.id.to_string()),
            other => panic!("{other:?}"),
        }
    });
    json!({"sessionId": claimed.await.unwrap()})
}

#[tokio::test]
async fn expired_session_is_replaced_by_the_next_claim() {
    let shop = EnvironmentsFixture::new().await;
    let old = create_old_session(&shop, Some(HOUR_S)).await;
    let since = shop.events(0).await.len();
    let new = shop.claim_session(&shop.ada, &json!({})).await;
    assert_eq!(new["fence"], 2);
    let ended = shop.session_status(&old).await;
    assert_eq!(
        [&ended["status"], &ended["endReason"], &ended["endedBy"]["type"], &ended["overridden"]],
        [&json!("expired"), &json!("expired"), &json!("system"), &json!(false)]
    );
    let events = shop.events(since).await;
    let told: Vec<_> = events.iter().map(|event| (&event["kind"], &event["actor"]["type"])).collect();
    assert_eq!(
        told,
        [(&json!("session_expired"), &json!("system")), (&json!("session_claimed"), &json!("user"))]
    );
}

#[tokio::test]
async fn expired_session_refuses_its_holder_with_the_reason() {
    let shop = EnvironmentsFixture::new().await;
    let old = create_old_session(&shop, Some(HOUR_S)).await;
    for (verb, body) in [("deploy", json!({"commitId": "main"})), ("extend", json!({}))] {
        let refused = shop.post_to_session(&shop.grace, &old, verb, &body).await;
        refused.assert_problem(409, "session_not_active");
        assert_eq!(
            (&refused.body["sessionStatus"], &refused.body["overriddenBy"]),
            (&json!("expired"), &json!(null))
        );
    }
    let released = expect_data(shop.release(&shop.grace, &old).await, 200);
    assert_eq!((&released["released"], &released["status"]), (&json!(false), &json!("expired")));
    let ends = shop.kinds_since(0).await.into_iter().filter(|kind| kind == "session_expired").count();
    assert_eq!(ends, 1, "it ended once, although every one of these was refused");
}

#[tokio::test]
async fn expired_session_is_granted_to_the_queue_before_a_new_claim() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"ttlSeconds": 60})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({"commitId": "main"})).await;
    sweep_two_minutes_later(&shop).await;
    let (_, token) = shop.world.create_service_account("ci@acme.test", "deployer").await;
    let refused = shop.send(post(&environments_path("qa-1/sessions")).token(&token)).await;
    refused.assert_problem(409, "environment_locked");
    assert_eq!(refused.body["holder"]["name"], "ada", "the refusal names the holder of this moment");
    let granted = shop.fetch(&format!("qa-1/queue/{}", expect_str(&ticket["ticketId"]))).await;
    assert_eq!((&granted["status"], &granted["sessionId"]), (&json!("granted"), &refused.body["sessionId"]));
    assert!(granted["deploymentId"].is_string(), "with the commit it came for");
    assert_eq!(shop.session_status(&session).await["endReason"], "expired");
}

/// Runs the sweep of qa-1 as if it were two minutes later.
pub(super) async fn sweep_two_minutes_later(shop: &EnvironmentsFixture) {
    let org = acme_org_id(&shop.world).await;
    let settled = shop.world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let lock = environment::find(tx, "shop", &EnvName::parse("qa-1").unwrap())?.unwrap();
        let moment = DecisionContext { now: tx.now().plus_seconds(120), ..tx.moment()? };
        let decision = berth_core::environment::settle(&lock, &moment);
        tx.commit(decision)?;
        Ok::<_, StoreError>(())
    });
    settled.await.unwrap();
}

#[tokio::test]
async fn idle_session_ends_after_the_idle_timeout() {
    let shop = EnvironmentsFixture::new().await;
    let idle = super::DEFINITION.replace("qa-1: {}", "qa-1: { release: [{ on: timeout, after_idle: 1h }] }");
    let put = crate::world::call("PUT", &format!("{}/definition", super::PIPELINE)).with_account(&shop.ada);
    assert_eq!(shop.send(put.json(&json!({"definition": idle}))).await.status, 200);
    let old = create_old_session(&shop, None).await;
    shop.claim_session(&shop.ada, &json!({})).await;
    let ended = shop.session_status(&old).await;
    assert_eq!((&ended["status"], &ended["endReason"]), (&json!("expired"), &json!("idle")));
}
