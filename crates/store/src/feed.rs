//! The feed: publishes committed events, in order, to the followers of their organization.
//!
//! The writer hands over each batch of events without waiting; the feed's own thread wakes the followers. The feed
//! stores nothing. Its queues are bounded, and events that do not fit are dropped. A follower that notices a gap reads
//! the missing events from the database.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use berth_core::event::Event;
use berth_core::id::OrgId;
use tokio::sync::broadcast;

use crate::audit;
use crate::error::StoreError;

/// Maximum number of commits that may be queued for the feed.
const BATCHES_MAX: usize = 1_024;
/// Maximum number of events that may be queued for a follower. A follower that is slower must read the database.
const BEHIND_MAX: usize = 1_024;
/// How long the feed pauses for each follower after a batch: about the time that it takes to wake the follower and
/// write to its socket.
const PAUSE_PER_FOLLOWER: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// An event with its JSON, which is serialized once for all followers.
#[derive(Debug)]
pub struct PublishedEvent {
    pub event: Event,
    pub line: String,
}

pub(crate) struct EventFeed {
    shared: Arc<FeedState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct FeedState {
    followers: AtomicUsize,
    /// Organizations with at least one follower.
    organizations: Mutex<HashMap<OrgId, broadcast::Sender<Arc<PublishedEvent>>>>,
}

/// The writer's side of the feed.
pub(crate) struct FeedPublisher {
    shared: Arc<FeedState>,
    batches: SyncSender<Vec<Event>>,
}

impl FeedPublisher {
    /// Organizations with at least one follower.
    pub(crate) fn followed_organizations(&self) -> Vec<OrgId> {
        let organizations = self.shared.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        organizations.keys().copied().collect()
    }

    /// Never blocks. A follower that subscribes later finds the events in the database.
    pub(crate) fn publish(&self, events: Vec<Event>) {
        if events.is_empty() || self.shared.followers.load(Ordering::SeqCst) == 0 {
            return;
        }
        if self.batches.try_send(events).is_err() {
            tracing::debug!("feed queue full; followers read from the database");
        }
    }
}

impl EventFeed {
    pub(crate) fn start() -> Result<(Self, FeedPublisher), StoreError> {
        let shared = Arc::new(FeedState::default());
        let (batches, queue) = sync_channel(BATCHES_MAX);
        let telling = shared.clone();
        let thread = std::thread::Builder::new()
            .name("store-feed".into())
            .spawn(move || run_feed(&queue, &telling))
            .map_err(|error| StoreError::Unavailable(format!("cannot start the feed: {error}")))?;
        let publisher = FeedPublisher { shared: shared.clone(), batches };
        Ok((Self { shared, thread: Some(thread) }, publisher))
    }

    pub(crate) fn follow(&self, org: OrgId) -> EventFollower {
        let mut organizations = self.shared.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = organizations.entry(org).or_insert_with(|| broadcast::Sender::new(BEHIND_MAX));
        let receiver = sender.subscribe();
        self.shared.followers.fetch_add(1, Ordering::SeqCst);
        EventFollower { org, receiver: Some(receiver), shared: self.shared.clone() }
    }
}

impl Drop for EventFeed {
    fn drop(&mut self) {
        // The writer has already dropped its side of the queue, so the thread publishes the remaining events and ends.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run_feed(queue: &Receiver<Vec<Event>>, shared: &FeedState) {
    while let Ok(first) = queue.recv() {
        for event in std::iter::once(first).chain(queue.try_iter()).flatten() {
            publish_event(event, shared);
        }
        // Pauses, so that the next events are published together. If all of many followers were woken for every single
        // event, the writer would get too little CPU time.
        let followers = u32::try_from(shared.followers.load(Ordering::SeqCst)).unwrap_or(u32::MAX);
        std::thread::sleep(PAUSE_PER_FOLLOWER.saturating_mul(followers).min(PAUSE_MAX));
    }
    shared.organizations.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn publish_event(event: Event, shared: &FeedState) {
    // Releases the mutex before it wakes the followers, because there may be thousands of them.
    let organizations = shared.organizations.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(followed) = organizations.get(&event.org).cloned() else { return };
    drop(organizations);
    match audit::canonical_line(&event) {
        Ok(line) => drop(followed.send(Arc::new(PublishedEvent { event, line }))),
        Err(error) => tracing::error!(%error, "event cannot be serialized"),
    }
}

/// What a follower receives.
#[derive(Debug)]
pub enum FeedItem {
    Event(Arc<PublishedEvent>),
    /// The follower was too slow and must read the missed events from the database.
    Missed,
    /// The store is closing.
    End,
}

pub struct EventFollower {
    org: OrgId,
    receiver: Option<broadcast::Receiver<Arc<PublishedEvent>>>,
    shared: Arc<FeedState>,
}

impl EventFollower {
    pub async fn next(&mut self) -> FeedItem {
        let Some(receiver) = &mut self.receiver else { return FeedItem::End };
        match receiver.recv().await {
            Ok(event) => FeedItem::Event(event),
            Err(broadcast::error::RecvError::Lagged(_)) => FeedItem::Missed,
            Err(broadcast::error::RecvError::Closed) => FeedItem::End,
        }
    }
}

impl EventFollower {
    /// Drops the events received so far. Used by a follower before it reads them from the database.
    pub fn skip(&mut self) {
        self.receiver = self.receiver.as_ref().map(broadcast::Receiver::resubscribe);
    }
}

impl Drop for EventFollower {
    fn drop(&mut self) {
        let mut organizations = self.shared.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        self.receiver = None;
        if organizations.get(&self.org).is_some_and(|sender| sender.receiver_count() == 0) {
            organizations.remove(&self.org);
        }
        self.shared.followers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use berth_core::time::Timestamp;

    use super::*;

    #[test]
    fn feed_drops_organization_with_its_last_follower() {
        let (feed, publisher) = EventFeed::start().unwrap();
        let org = OrgId::from_parts(Timestamp::from_micros(1), [0; 10]);
        let (one, two) = (feed.follow(org), feed.follow(org));
        let followed = || feed.shared.organizations.lock().unwrap().len();
        drop(one);
        assert_eq!(followed(), 1);
        drop(two);
        assert_eq!((followed(), feed.shared.followers.load(Ordering::SeqCst)), (0, 0));
        drop(publisher);
        drop(feed);
    }
}
