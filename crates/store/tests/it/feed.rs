//! The feed publishes committed events in order, to the followers of their organization only.

use berth_core::event::{Event, EventKind, EventSubject, NewEvent};
use berth_store::feed::{EventFollower, FeedItem};
use berth_store::{StoreError, TxContext};

use super::{Ground, create, new_organization};

/// Returns the next event. Skips event 1, which was committed before the follower subscribed but may still be received.
async fn next(follower: &mut EventFollower) -> Event {
    match follower.next().await {
        FeedItem::Event(told) if told.event.sequence == 1 => Box::pin(next(follower)).await,
        FeedItem::Event(told) => {
            let shown: serde_json::Value = serde_json::from_str(&told.line).unwrap();
            assert_eq!(shown["hash"], told.event.hash.as_str());
            told.event.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn follower_receives_committed_events_in_order() {
    let ground = tokio::task::spawn_blocking(Ground::new).await.unwrap();
    let (store, org) = (&ground.store, ground.org);
    let mut follower = store.follow(org);
    let mut second = store.follow(org);
    for number in 0..20 {
        let refused = store.transact(TxContext::system(Some(org)), |tx| {
            tx.record(NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", "x", None)))?;
            Err::<(), _>(StoreError::Bug("on purpose".into()))
        });
        refused.await.unwrap_err();
        let name = format!("p-{number}");
        store.transact(TxContext::system(Some(org)), move |tx| create(tx, &name, tx.now())).await.unwrap();
    }
    for wanted in 2..=21 {
        assert_eq!(next(&mut follower).await.sequence, wanted);
        assert_eq!(next(&mut second).await.sequence, wanted);
    }
}

#[tokio::test]
async fn follower_receives_no_events_of_another_organization() {
    let ground = tokio::task::spawn_blocking(Ground::new).await.unwrap();
    let mut follower = ground.store.follow(ground.org);
    let ground = tokio::task::spawn_blocking(move || {
        new_organization(&ground.store, "globex");
        ground
    });
    let ground = ground.await.unwrap();
    let context = TxContext::system(Some(ground.org));
    let made = ground.store.transact(context, |tx| create(tx, "shop", tx.now())).await.unwrap();
    assert_eq!(next(&mut follower).await.subjects[0].id, made.id.to_string());
}

#[tokio::test]
async fn slow_follower_is_notified_of_its_lag() {
    let ground = tokio::task::spawn_blocking(Ground::new).await.unwrap();
    let mut follower = ground.store.follow(ground.org);
    let mut quick = ground.store.follow(ground.org);
    let many = ground.store.transact(TxContext::system(Some(ground.org)), |tx| {
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
    let ground = tokio::task::spawn_blocking(Ground::new).await.unwrap();
    let mut follower = ground.store.follow(ground.org);
    tokio::task::spawn_blocking(move || drop(ground)).await.unwrap();
    // An event that was committed just before the call may arrive first.
    while let FeedItem::Event(told) = follower.next().await {
        assert_eq!(told.event.sequence, 1);
    }
    assert!(matches!(follower.next().await, FeedItem::End));
}
