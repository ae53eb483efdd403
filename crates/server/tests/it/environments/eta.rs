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

use super::{DEFINITION, PIPELINE, Shop};
use crate::history::org;
use crate::world::call;

/// Records past sessions of Grace in qa-1, starting one day ago. `lengths` are their durations in seconds.
async fn held_before(shop: &Shop, lengths: &'static [i64]) {
    let (org, id) = (org(&shop.world).await, shop.me(&shop.grace).await.parse::<UserId>().unwrap());
    let done = shop.world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let mut now = tx.now().plus_seconds(-24 * 60 * 60);
        for length in lengths {
            let by = LockHolder { kind: ActorType::User, id, name: "grace".into(), session_token: None };
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
async fn estimates(shop: &Shop) -> Vec<(i64, Option<i64>, String)> {
    let queue = shop.see("qa-1/queue").await;
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
    let shop = Shop::open().await;
    shop.claimed(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let first = shop.queued(&shop.ada, &json!({"ttlSeconds": 900})).await;
    shop.queued(&shop.grace, &json!({})).await;
    shop.queued(&shop.ada, &json!({})).await;
    assert!(is_about(first["etaSeconds"].as_i64(), 600), "{first}");
    let told = estimates(&shop).await;
    assert_eq!(told.iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(is_about(told[0].1, 600) && is_about(told[1].1, 1_500), "{told:?}");
    assert_eq!((told[0].2.as_str(), told[1].2.as_str()), ("expiry", "expiry"));
    // The ticket before the third one has no time limit, and there are no past sessions for an estimate.
    assert_eq!((told[2].1, told[2].2.as_str()), (None, "unknown"));
}

#[tokio::test]
async fn eta_without_a_limit_and_without_history_is_null_and_says_unknown() {
    let shop = Shop::open().await;
    shop.claimed(&shop.grace, &json!({})).await;
    let ticket = shop.queued(&shop.ada, &json!({})).await;
    assert_eq!((&ticket["position"], &ticket["etaSeconds"]), (&json!(1), &json!(null)));
    assert_eq!((&ticket["etaBasis"], &ticket["groupId"]), (&json!("unknown"), &json!(null)));
}

#[tokio::test]
async fn eta_comes_from_enough_earlier_sessions() {
    let shop = Shop::open().await;
    held_before(&shop, &[500, 600, 700, 86]).await;
    shop.claimed(&shop.grace, &json!({"ttlSeconds": 7_200})).await;
    let ticket = shop.queued(&shop.ada, &json!({})).await;
    shop.queued(&shop.grace, &json!({"ttlSeconds": 60})).await;
    shop.queued(&shop.ada, &json!({})).await;
    assert_eq!(ticket["etaBasis"], "history", "{ticket}");
    let told = estimates(&shop).await;
    assert!(is_about(told[0].1, 500), "the median of four: {told:?}");
    assert!(is_about(told[1].1, 1_000), "{told:?}");
    assert!(is_about(told[2].1, 1_060), "a limit ends it sooner: {told:?}");
    assert!(told.iter().all(|it| it.2 == "history"), "{told:?}");
}

#[tokio::test]
async fn eta_is_null_once_a_ticket_no_longer_waits() {
    let shop = Shop::open().await;
    let held = shop.claimed(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let ticket = shop.queued(&shop.ada, &json!({})).await;
    shop.release(&shop.grace, &held).await;
    let granted = shop.see(&format!("qa-1/queue/{}", ticket["ticketId"].as_str().unwrap())).await;
    assert_eq!(granted["status"], "granted");
    assert_eq!((&granted["etaSeconds"], &granted["etaBasis"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn eta_uses_the_ttl_of_the_definition() {
    let shop = Shop::open().await;
    let limited = DEFINITION.replace("qa-1: {}", "qa-1: { ttl: 1h }");
    let put = call("PUT", &format!("{PIPELINE}/definition")).by(&shop.ada);
    assert_eq!(shop.send(put.json(&json!({"definition": limited}))).await.status, 200);
    shop.claimed(&shop.grace, &json!({})).await;
    shop.queued(&shop.ada, &json!({"waitSeconds": 604_800})).await;
    shop.queued(&shop.grace, &json!({})).await;
    let told = estimates(&shop).await;
    assert!(is_about(told[0].1, 3_600) && is_about(told[1].1, 7_200), "{told:?}");
}

#[tokio::test]
async fn eta_ignores_tickets_that_expire_earlier() {
    let shop = Shop::open().await;
    shop.claimed(&shop.grace, &json!({"ttlSeconds": 600})).await;
    shop.queued(&shop.ada, &json!({"waitSeconds": 60})).await;
    shop.queued(&shop.grace, &json!({})).await;
    let told = estimates(&shop).await;
    assert!(is_about(told[0].1, 600) && is_about(told[1].1, 600), "{told:?}");
}
