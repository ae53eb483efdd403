//! Notifies other servers of commits with LISTEN and NOTIFY.
//!
//! A notification is sent after the commit, on a separate connection, because NOTIFY inside a transaction would
//! serialize all commits. Notifications can get lost, so servers also poll the events table every second. A
//! notification contains no events: servers always read them from that table.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ::postgres::Client;
use ::postgres::fallible_iterator::FallibleIterator as _;
use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use tokio::sync::watch;

use super::address::{ConnectionPurpose, PostgresAddress};
use super::conn::PgConn;
use crate::error::StoreError;
use crate::feed::FeedPublisher;
use crate::tables::event;
use crate::tx::ReadTx;

const CHANNEL: &str = "berth_events";
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Delay before reconnecting after the connection was lost.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of queued notifications; further ones are dropped.
const NUDGES_MAX: usize = 1_024;
/// Pause between two notifications, because each one is a transaction. One notification announces all commits that were
/// made during the pause.
const NUDGE_PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of an organization's events that are published at once.
const TOLD_MAX: i64 = 512;

pub(super) struct CommitNotifier {
    /// Changes when another server commits.
    nudged: watch::Receiver<()>,
    /// The thread that sends notifications. It ends when the last writer is dropped.
    sender: Option<JoinHandle<()>>,
    /// `None` once the store is closed. The listener thread then ends at its next poll; nothing waits for it.
    publisher: Arc<Mutex<Option<FeedPublisher>>>,
}

impl CommitNotifier {
    pub(super) fn start(
        address: &PostgresAddress,
        publisher: FeedPublisher,
    ) -> Result<(Self, SyncSender<OrgId>), StoreError> {
        let (nudges, queue) = sync_channel(NUDGES_MAX);
        let publisher = Arc::new(Mutex::new(Some(publisher)));
        let (to_send, to_listen, telling) = (address.clone(), address.clone(), publisher.clone());
        // Identifies this process in notifications, so that it can ignore those that it sent itself.
        let us = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let (nudge, nudged) = watch::channel(());
        let listener =
            CommitListener { us: us.clone(), nudge, publisher: telling, published: HashMap::new() };
        let failed = |error| StoreError::Unavailable(format!("cannot start the listener: {error}"));
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let sender =
            named("store-nudge").spawn(move || send_notifications(&to_send, &us, &queue)).map_err(failed)?;
        named("store-news").spawn(move || listener.run(&to_listen)).map_err(failed)?;
        Ok((Self { nudged, sender: Some(sender), publisher }, nudges))
    }
}

impl CommitNotifier {
    pub(super) fn watch_remote_commits(&self) -> watch::Receiver<()> {
        self.nudged.clone()
    }
}

impl Drop for CommitNotifier {
    fn drop(&mut self) {
        drop(self.publisher.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }
}

/// Sends the queued notifications together, one per organization.
fn send_notifications(address: &PostgresAddress, us: &str, queue: &Receiver<OrgId>) {
    let mut client: Option<Client> = None;
    while let Ok(first) = queue.recv() {
        let orgs: BTreeSet<String> =
            std::iter::once(first).chain(queue.try_iter()).map(|org| org.to_string()).collect();
        if client.is_none() {
            client = address.connect(ConnectionPurpose::Listen).ok();
        }
        let Some(connected) = &mut client else { continue };
        // Ids consist of letters, digits and underscores, so they need no quoting.
        let calls: Vec<String> =
            orgs.iter().map(|org| format!("pg_notify('{CHANNEL}', '{us} {org}')")).collect();
        if let Err(error) = connected.batch_execute(&format!("SELECT {}", calls.join(", "))) {
            tracing::debug!(%error, "NOTIFY failed");
            client = None;
        }
        std::thread::sleep(NUDGE_PAUSE);
    }
}

/// The thread that listens for notifications and publishes events that other servers committed.
struct CommitListener {
    us: String,
    nudge: watch::Sender<()>,
    publisher: Arc<Mutex<Option<FeedPublisher>>>,
    /// For each followed organization, the number of the last published event.
    published: HashMap<OrgId, i64>,
}

impl CommitListener {
    fn run(mut self, address: &PostgresAddress) {
        loop {
            let ended = self.follow_events(address);
            if self.is_closed() {
                return;
            }
            if let Err(error) = ended {
                tracing::warn!(%error, "LISTEN connection lost; reconnecting");
            }
            std::thread::sleep(RECONNECT_PAUSE);
        }
    }

    fn is_closed(&self) -> bool {
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Returns when the connection is lost or the store is closed.
    fn follow_events(&mut self, address: &PostgresAddress) -> Result<(), StoreError> {
        let mut conn = PgConn::open(address, ConnectionPurpose::Listen)?;
        let mut client = address.open_connection(ConnectionPurpose::Listen)?;
        client.batch_execute(&format!("LISTEN {CHANNEL}")).map_err(listen_error)?;
        loop {
            self.publish_new_events(&mut conn)?;
            let mut waiting = client.notifications();
            let mut heard = waiting.timeout_iter(LOOK_EVERY).next().map_err(listen_error)?;
            // Takes all notifications that have arrived, because one poll covers all of them.
            let mut is_foreign = false;
            while let Some(nudge) = heard {
                is_foreign |= !nudge.payload().starts_with(&self.us);
                heard = waiting.iter().next().map_err(listen_error)?;
            }
            if is_foreign {
                self.nudge.send_replace(());
            }
            if self.is_closed() {
                return Ok(());
            }
        }
    }

    /// Publishes the new events of every followed organization.
    fn publish_new_events(&mut self, conn: &mut PgConn) -> Result<(), StoreError> {
        let followed = match &*self.publisher.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(publisher) => publisher.followed_organizations(),
            None => return Ok(()),
        };
        self.published.retain(|org, _| followed.contains(org));
        for org in followed {
            let mut db = ReadTx::new(conn, Some(org), Timestamp::from_micros(0));
            // Starts at the last event when an organization is first followed. A follower that missed earlier events
            // notices the gap and reads them itself.
            let from = match self.published.get(&org) {
                Some(from) => *from,
                None => (event::chain_head(&mut db)?.sequence - 1).max(0),
            };
            let news = event::list_after(&mut db, from, i64::MAX, TOLD_MAX)?;
            self.published.insert(org, news.last().map_or(from, |event| event.sequence));
            if let Some(publisher) = &*self.publisher.lock().unwrap_or_else(PoisonError::into_inner) {
                publisher.publish(news);
            }
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn listen_error(error: ::postgres::Error) -> StoreError {
    StoreError::Unavailable(format!("the LISTEN connection was lost: {error}"))
}
