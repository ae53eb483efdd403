//! Round trips and transactions: the latency of a request depends on them, not on the number of statements.

use berth_store::ReadTx;
use berth_store::tables::commit_status;
use serde_json::json;

use super::EnvironmentsFixture;

const PAIRS: u64 = 20;
/// Upper bound for a claim and its release together, with an idempotency key for the claim. It includes what threads in
/// the background need.
const PAIR_MAX: u64 = 20;

#[tokio::test]
async fn claim_and_release_take_few_round_trips() {
    let shop = EnvironmentsFixture::new().await;
    // The first requests of a connection also prepare statements.
    for _ in 0..PAIRS {
        let session = shop.claim_session(&shop.grace, &json!({})).await;
        shop.release(&shop.grace, &session).await;
    }
    let before = shop.world.app.store().commit_stats().round_trips;
    for _ in 0..PAIRS {
        let session = shop.claim_session(&shop.grace, &json!({})).await;
        shop.release(&shop.grace, &session).await;
    }
    let taken = shop.world.app.store().commit_stats().round_trips - before;
    println!("{} round trips for each claim and release", taken / PAIRS);
    match shop.world.postgres {
        None => assert_eq!(taken, 0, "SQLite is in the same process"),
        Some(_) => assert!((1..=PAIRS * PAIR_MAX).contains(&taken), "{taken} for {PAIRS} pairs"),
    }
}

#[tokio::test]
async fn events_that_change_nothing_on_a_forge_are_read_without_a_transaction() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    shop.release(&shop.grace, &session).await;
    berth_server::jobs::write_commit_statuses(shop.world.app.jobs()).await.unwrap();
    let lagging = |db: &mut ReadTx<'_>| commit_status::list_lagging(db, None, 10);
    let lagging = shop.world.app.store().read(None, lagging).await.unwrap();
    assert!(lagging.iter().any(|it| it.sequence == 0), "the stored cursor has not moved: {lagging:?}");
}
