//! The feed: what was committed, told to those who follow its organization, in order and only then.
//!
//! The writer hands a batch over and goes on; a thread of the feed's own wakes the followers. Nothing here is kept:
//! every queue is bounded, what does not fit is dropped, and a follower that sees a gap reads it from the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use berth_core::event::Event;
use berth_core::id::OrgId;
use tokio::sync::broadcast;

use crate::chain;
use crate::error::StoreError;

/// Commits the feed may be behind the writer.
const BATCHES_MAX: usize = 1_024;
/// Events a follower may be behind the feed; it reads the rest from the store.
const BEHIND_MAX: usize = 1_024;
/// About what it takes to wake one and to write to its socket.
const PAUSE_PER_FOLLOWER: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// An event with its wire form, written once for all followers.
#[derive(Debug)]
pub struct Published {
    pub event: Event,
    pub line: String,
}

pub(crate) struct Feed {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    followers: AtomicUsize,
    /// Only organizations that somebody follows.
    organizations: Mutex<HashMap<OrgId, broadcast::Sender<Arc<Published>>>>,
}

/// The writer's end.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    batches: SyncSender<Vec<Event>>,
}

impl Publisher {
    /// Organizations that somebody follows.
    pub(crate) fn followed(&self) -> Vec<OrgId> {
        let organizations = self.shared.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        organizations.keys().copied().collect()
    }

    /// Never waits. Whoever begins to follow after this finds the events in the store.
    pub(crate) fn publish(&self, events: Vec<Event>) {
        if events.is_empty() || self.shared.followers.load(Ordering::SeqCst) == 0 {
            return;
        }
        if self.batches.try_send(events).is_err() {
            tracing::debug!("the feed is behind; followers read from the store");
        }
    }
}

impl Feed {
    pub(crate) fn start() -> Result<(Self, Publisher), StoreError> {
        let shared = Arc::new(Shared::default());
        let (batches, queue) = sync_channel(BATCHES_MAX);
        let telling = shared.clone();
        let thread = std::thread::Builder::new()
            .name("store-feed".into())
            .spawn(move || run(&queue, &telling))
            .map_err(|error| StoreError::Unavailable(format!("cannot start the feed: {error}")))?;
        let publisher = Publisher { shared: shared.clone(), batches };
        Ok((Self { shared, thread: Some(thread) }, publisher))
    }

    pub(crate) fn follow(&self, org: OrgId) -> Follower {
        let mut organizations = self.shared.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = organizations.entry(org).or_insert_with(|| broadcast::Sender::new(BEHIND_MAX));
        let receiver = sender.subscribe();
        self.shared.followers.fetch_add(1, Ordering::SeqCst);
        Follower { org, receiver: Some(receiver), shared: self.shared.clone() }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // The writer is gone, and with it the queue: the thread tells what it still has and ends.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(queue: &Receiver<Vec<Event>>, shared: &Shared) {
    while let Ok(first) = queue.recv() {
        for event in std::iter::once(first).chain(queue.try_iter()).flatten() {
            tell(event, shared);
        }
        // While many follow and much is written, what happens in a short while is told in one go: waking everybody
        // for each event would take the machine from those who write.
        let followers = u32::try_from(shared.followers.load(Ordering::SeqCst)).unwrap_or(u32::MAX);
        std::thread::sleep(PAUSE_PER_FOLLOWER.saturating_mul(followers).min(PAUSE_MAX));
    }
    shared.organizations.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn tell(event: Event, shared: &Shared) {
    // The lock is not held while followers are woken: there may be thousands.
    let organizations = shared.organizations.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(followed) = organizations.get(&event.org).cloned() else { return };
    drop(organizations);
    match chain::line(&event) {
        Ok(line) => drop(followed.send(Arc::new(Published { event, line }))),
        Err(error) => tracing::error!(%error, "an event cannot be told"),
    }
}

/// What a follower hears next.
#[derive(Debug)]
pub enum Heard {
    Event(Arc<Published>),
    /// It was too slow; what it missed is in the store.
    Missed,
    /// The store is closing.
    End,
}

pub struct Follower {
    org: OrgId,
    receiver: Option<broadcast::Receiver<Arc<Published>>>,
    shared: Arc<Shared>,
}

impl Follower {
    pub async fn next(&mut self) -> Heard {
        let Some(receiver) = &mut self.receiver else { return Heard::End };
        match receiver.recv().await {
            Ok(event) => Heard::Event(event),
            Err(broadcast::error::RecvError::Lagged(_)) => Heard::Missed,
            Err(broadcast::error::RecvError::Closed) => Heard::End,
        }
    }
}

impl Follower {
    /// Leaves out what was told so far, for those who are about to look at the store themselves.
    pub fn skip(&mut self) {
        self.receiver = self.receiver.as_ref().map(broadcast::Receiver::resubscribe);
    }
}

impl Drop for Follower {
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
    fn an_organization_nobody_follows_any_more_is_forgotten() {
        let (feed, publisher) = Feed::start().unwrap();
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
