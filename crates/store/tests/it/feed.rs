//! The feed publishes committed events in order, to the followers of their organization only.

use std::time::Duration;

use berth_core::event::{Event, EventKind, EventSubject, NewEvent};
use berth_store::feed::{EventFollower, FeedItem};
use berth_store::{StoreError, TxContext};

use super::{StoreFixture, create_organization, create_pipeline};

const FIRST_EVENTS_MAX: i64 = 200;
const FIRST_EVENT_WAIT: Duration = Duration::from_millis(100);

/// Returns the next event. Skips event 1, which was committed before the follower subscribed but may still be received.
async fn next_event(follower: &mut EventFollower) -> Event {
    match follower.next().await {
        FeedItem::Event(told) if told.event.sequence == 1 => Box::pin(next_event(follower)).await,
        FeedItem::Event(told) => {
            let shown: serde_json::Value = serde_json::from_str(&told.line).unwrap();
            assert_eq!(shown["hash"], told.event.hash.as_str());
            told.event.clone()
        }
        other => panic!("{other:?}"),
    }
}

/// Creates pipelines until the follower receives one: on PostgreSQL, it receives what is committed after the listener has
/// first polled. Returns their number, and that of the received event.
async fn wait_for_first_event(fixture: &StoreFixture, follower: &mut EventFollower) -> (i64, i64) {
    for number in 1..=FIRST_EVENTS_MAX {
        let name = format!("first-{number}");
        let context = TxContext::system(Some(fixture.org));
        let made = fixture.store.transact(context, move |tx| create_pipeline(tx, &name, tx.now()));
        made.await.unwrap();
        if let Ok(event) = tokio::time::timeout(FIRST_EVENT_WAIT, next_event(follower)).await {
            return (number, event.sequence);
        }
    }
    panic!("no event after {FIRST_EVENTS_MAX} commits");
}

#[tokio::test]
async fn follower_receives_committed_events_in_order() {
    let fixture = tokio::task::spawn_blocking(StoreFixture::new).await.unwrap();
    let (store, org) = (&fixture.store, fixture.org);
    let mut follower = store.follow(org);
    let mut second = store.follow(org);
    let (created, first) = wait_for_first_event(&fixture, &mut follower).await;
    for number in 0..20 {
        let refused = store.transact(TxContext::system(Some(org)), |tx| {
            tx.record(NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", "x", None)))?;
            Err::<(), _>(StoreError::Bug("on purpose".into()))
        });
        refused.await.unwrap_err();
        let name = format!("p-{number}");
        store
            .transact(TxContext::system(Some(org)), move |tx| create_pipeline(tx, &name, tx.now()))
            .await
            .unwrap();
    }
    assert_eq!(next_event(&mut second).await.sequence, first);
    // The organization itself is the first event.
    for wanted in first + 1..=1 + created + 20 {
        assert_eq!(next_event(&mut follower).await.sequence, wanted);
        assert_eq!(next_event(&mut second).await.sequence, wanted);
    }
}

#[tokio::test]
async fn follower_receives_no_events_of_another_organization() {
    let fixture = tokio::task::spawn_blocking(StoreFixture::new).await.unwrap();
    let mut follower = fixture.store.follow(fixture.org);
    wait_for_first_event(&fixture, &mut follower).await;
    let fixture = tokio::task::spawn_blocking(move || {
        create_organization(&fixture.store, "globex");
        fixture
    });
    let fixture = fixture.await.unwrap();
    let context = TxContext::system(Some(fixture.org));
    let made = fixture.store.transact(context, |tx| create_pipeline(tx, "shop", tx.now())).await.unwrap();
    assert_eq!(next_event(&mut follower).await.subjects[0].id, made.id.to_string());
}

#[tokio::test]
async fn slow_follower_is_notified_of_its_lag() {
    let fixture = tokio::task::spawn_blocking(StoreFixture::new).await.unwrap();
    let mut follower = fixture.store.follow(fixture.org);
    let mut quick = fixture.store.follow(fixture.org);
    let many = fixture.store.transact(TxContext::system(Some(fixture.org)), |tx| {
        for number in 0..2_000 {
            tx.record(NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", number, None)))?;
        }
        Ok::<_, StoreError>(())
    });
    many.await.unwrap();
    // Events arrive in order, so after the last one, all have been published.
    loop {
        match quick.next().await {
            FeedItem::Event(told) if told.event.sequence == 2_001 => break,
            FeedItem::Event(_) | FeedItem::Missed => {}
            FeedItem::End => panic!("it ended"),
        }
    }
    assert!(matches!(follower.next().await, FeedItem::Missed));
}

#[tokio::test]
async fn follower_ends_when_the_store_closes() {
    let fixture = tokio::task::spawn_blocking(StoreFixture::new).await.unwrap();
    let mut follower = fixture.store.follow(fixture.org);
    tokio::task::spawn_blocking(move || drop(fixture)).await.unwrap();
    // An event that was committed just before the call may arrive first.
    while let FeedItem::Event(told) = follower.next().await {
        assert_eq!(told.event.sequence, 1);
    }
    assert!(matches!(follower.next().await, FeedItem::End));
}
