//! Estimated waiting times of tickets, and what they are based on.

use berth_core::environment::DecisionContext;
use berth_core::environment::claim::{ClaimCommand, ClaimOutcome, claim};
use berth_core::environment::release::{self, ReleaseCommand};
use berth_core::environment::{ClaimTerms, LockHolder, NamedSession};
use berth_core::event::ActorType;
use berth_core::id::UserId;
use berth_core::name::EnvName;
use berth_store::tables::environment;
use berth_store::{StoreError, TxContext};
use serde_json::{Value, json};

use super::{DEFINITION, EnvironmentsFixture, PIPELINE};
use crate::audit_export::acme_org_id;
use crate::world::call;

/// Records past sessions of Grace in qa-1, starting one day ago. `lengths` are their durations in seconds.
async fn record_past_sessions(shop: &EnvironmentsFixture, lengths: &'static [i64]) {
    let (org, id) =
        (acme_org_id(&shop.world).await, shop.user_id(&shop.grace).await.parse::<UserId>().unwrap());
    let done = shop.world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let mut now = tx.now().plus_seconds(-24 * 60 * 60);
        for length in lengths {
            let by = LockHolder {
                kind: ActorType::User,
                id,
                name: "grace".into(),
                session_token: None,
                agent: None,
            };
            let load = |tx: &mut _| environment::find(tx, "shop", &EnvName::parse("qa-1").unwrap());
            let lock = load(tx)?.unwrap();
            let claimed = ClaimCommand {
                by: by.clone(),
                token: None,
                terms: ClaimTerms::default(),
                wait_seconds: None,
            };
            let ruling = claim(&lock, &claimed, &DecisionContext { now, ..tx.moment()? });
            let Ok(ClaimOutcome::Session(opened)) = tx.commit(ruling)? else { panic!("it is free") };
            now = now.plus_seconds(*length);
            let lock = load(tx)?.unwrap();
            let named = NamedSession { session: &opened.session, expected: None };
            let cmd = ReleaseCommand { by, may_force: false };
            let ruling = release::release(&lock, &named, &cmd, &DecisionContext { now, ..tx.moment()? });
            assert!(tx.commit(ruling)?.unwrap().released);
        }
        Ok::<_, StoreError>(())
    });
    done.await.unwrap();
}

/// The position of each ticket in the queue of qa-1, its ETA in seconds, and what the ETA is based on.
async fn queue_estimates(shop: &EnvironmentsFixture) -> Vec<(i64, Option<i64>, String)> {
    let queue = shop.fetch("qa-1/queue").await;
    let row = |it: &Value| {
        let basis = it["etaBasis"].as_str().unwrap().to_owned();
        (it["position"].as_i64().unwrap(), it["etaSeconds"].as_i64(), basis)
    };
    queue.as_array().unwrap().iter().map(row).collect()
}

fn is_about(seen: Option<i64>, wanted: i64) -> bool {
    seen.is_some_and(|seen| (wanted - 20..=wanted).contains(&seen))
}

#[tokio::test]
async fn eta_of_every_ticket_adds_up_the_time_limits_ahead() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let first = shop.join_queue(&shop.ada, &json!({"ttlSeconds": 900})).await;
    shop.join_queue(&shop.grace, &json!({})).await;
    shop.join_queue(&shop.ada, &json!({})).await;
    assert!(is_about(first["etaSeconds"].as_i64(), 600), "{first}");
    let told = queue_estimates(&shop).await;
    assert_eq!(told.iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(is_about(told[0].1, 600) && is_about(told[1].1, 1_500), "{told:?}");
    assert_eq!((told[0].2.as_str(), told[1].2.as_str()), ("expiry", "expiry"));
    // The ticket before the third one has no time limit, and there are no past sessions for an estimate.
    assert_eq!((told[2].1, told[2].2.as_str()), (None, "unknown"));
}

#[tokio::test]
async fn eta_without_a_limit_and_without_history_is_null_and_says_unknown() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    assert_eq!((&ticket["position"], &ticket["etaSeconds"]), (&json!(1), &json!(null)));
    assert_eq!((&ticket["etaBasis"], &ticket["groupId"]), (&json!("unknown"), &json!(null)));
}

#[tokio::test]
async fn eta_comes_from_enough_earlier_sessions() {
    let shop = EnvironmentsFixture::new().await;
    record_past_sessions(&shop, &[500, 600, 700, 86]).await;
    shop.claim_session(&shop.grace, &json!({"ttlSeconds": 7_200})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    shop.join_queue(&shop.grace, &json!({"ttlSeconds": 60})).await;
    shop.join_queue(&shop.ada, &json!({})).await;
    assert_eq!(ticket["etaBasis"], "history", "{ticket}");
    let told = queue_estimates(&shop).await;
    assert!(is_about(told[0].1, 500), "the median of four: {told:?}");
    assert!(is_about(told[1].1, 1_000), "{told:?}");
    assert!(is_about(told[2].1, 1_060), "a limit ends it sooner: {told:?}");
    assert!(told.iter().all(|it| it.2 == "history"), "{told:?}");
}

#[tokio::test]
async fn eta_is_null_once_a_ticket_no_longer_waits() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    shop.release(&shop.grace, &held).await;
    let granted = shop.fetch(&format!("qa-1/queue/{}", ticket["ticketId"].as_str().unwrap())).await;
    assert_eq!(granted["status"], "granted");
    assert_eq!((&granted["etaSeconds"], &granted["etaBasis"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn eta_uses_the_ttl_of_the_definition() {
    let shop = EnvironmentsFixture::new().await;
    let limited = DEFINITION.replace("qa-1: {}", "qa-1: { ttl: 1h }");
    let put = call("PUT", &format!("{PIPELINE}/definition")).with_account(&shop.ada);
    assert_eq!(shop.send(put.json(&json!({"definition": limited}))).await.status, 200);
    shop.claim_session(&shop.grace, &json!({})).await;
    shop.join_queue(&shop.ada, &json!({"waitSeconds": 604_800})).await;
    shop.join_queue(&shop.grace, &json!({})).await;
    let told = queue_estimates(&shop).await;
    assert!(is_about(told[0].1, 3_600) && is_about(told[1].1, 7_200), "{told:?}");
}

#[tokio::test]
async fn eta_ignores_tickets_that_expire_earlier() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({"ttlSeconds": 600})).await;
    shop.join_queue(&shop.ada, &json!({"waitSeconds": 60})).await;
    shop.join_queue(&shop.grace, &json!({})).await;
    let told = queue_estimates(&shop).await;
    assert!(is_about(told[0].1, 600) && is_about(told[1].1, 600), "{told:?}");
}
