//! Notify: webhooks are told what happened, at least once and with an id that stays the same.
//!
//! The audit trail is the outbox. `fan_out` reads it behind everybody's back, makes deliveries of what somebody wants to
//! know and moves the cursor in the same transaction; `deliver` sends what is due. Nothing here is decided in memory:
//! what was read but not written down is read again after a crash, and what was sent but not written down is sent again.

mod deliver;
mod fan_out;
mod message;
mod send;
mod sign;

pub(crate) use message::ping;
pub(crate) use send::Letter;
pub(crate) use sign::new_secret;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_core::id::{OrgId, WebhookId};
use berth_engine::admission::{Admission, Pass};
use berth_engine::limits::{PINGS_AT_ONCE, SENDS_AT_ONCE};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::Notify as Bell;

use crate::error::AppError;
use crate::worker::{Job, Turn};
use berth_engine::Services;

/// Between two looks, unless something was just done.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Positions in the cache; others are read from the rows.
const POSITIONS_MAX: usize = 100_000;

/// Tells webhooks what happened.
#[derive(Clone)]
pub(crate) struct Notify {
    services: Arc<Services>,
    /// For links in payloads.
    public_url: Option<String>,
    /// Events a webhook may be behind before the oldest are dropped.
    behind_max: i64,
    slots: SendSlots,
}

impl Notify {
    pub(crate) fn new(services: Arc<Services>, public_url: Option<String>, behind_max: i64) -> Self {
        Self { services, public_url, behind_max, slots: SendSlots::default() }
    }

    /// There may be something to do.
    pub(crate) fn nudge(&self) {
        self.slots.bell.notify_one();
    }

    /// Up to where this webhook has looked, as far as is known here.
    pub(crate) fn position(&self, webhook: WebhookId) -> i64 {
        self.slots.position(webhook)
    }

    /// A turn to try a webhook out. `None`: too many are under way, in all or of this organization.
    pub(crate) fn take_ping(&self, org: OrgId) -> Option<Pass> {
        self.slots.take_ping(org)
    }
}

/// Requests to webhooks that are under way, and how far each webhook has read.
#[derive(Clone)]
struct SendSlots {
    bell: Arc<Bell>,
    /// Up to where there is nothing for a webhook: it saves writing a cursor for every event that no webhook wants.
    positions: Arc<Cache<WebhookId, i64>>,
    /// Webhooks with a delivery under way.
    sending: Arc<Mutex<HashSet<WebhookId>>>,
    sends: Arc<Admission>,
    pings: Arc<Admission>,
}

impl Default for SendSlots {
    fn default() -> Self {
        let [sends, pings] = [SENDS_AT_ONCE, PINGS_AT_ONCE].map(|it| Arc::new(Admission::without_queue(it)));
        let positions = Arc::new(Cache::new(POSITIONS_MAX));
        Self { bell: Arc::default(), positions, sending: Arc::default(), sends, pings }
    }
}

impl SendSlots {
    /// Up to where this webhook has looked, as far as is known here.
    fn position(&self, webhook: WebhookId) -> i64 {
        self.positions.get(&webhook).unwrap_or(0)
    }

    fn remember(&self, webhook: WebhookId, sequence: i64) {
        self.positions.insert(webhook, sequence);
    }

    /// A place to send from. `None`: this webhook is being told something, or too many are.
    fn take(&self, org: OrgId, webhook: WebhookId) -> Option<Place> {
        let pass = self.sends.try_enter(org)?;
        let is_new = self.sending.lock().insert(webhook);
        let (bell, sending) = (self.bell.clone(), self.sending.clone());
        is_new.then(|| Place { webhook, bell, sending, pass: Some(pass) })
    }

    fn take_ping(&self, org: OrgId) -> Option<Pass> {
        self.pings.try_enter(org)
    }
}

/// The one try of a webhook that is under way; its end makes room.
struct Place {
    webhook: WebhookId,
    bell: Arc<Bell>,
    sending: Arc<Mutex<HashSet<WebhookId>>>,
    pass: Option<Pass>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.sending.lock().remove(&self.webhook);
        drop(self.pass.take());
        self.bell.notify_one();
    }
}

impl Job for Notify {
    const NAME: &'static str = "webhooks";

    async fn turn(&self) -> Result<Turn, AppError> {
        let read = fan_out::fan_out(self).await;
        deliver::deliver(self).await?;
        read.map(|()| Turn::Idle)
    }

    async fn wait(&self) {
        // The timeout is the regular look.
        let _ = tokio::time::timeout(LOOK_EVERY, self.slots.bell.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use berth_core::time::Timestamp;

    use super::*;

    #[test]
    fn one_try_of_a_webhook_at_a_time_so_many_of_an_organization_and_so_many_in_all() {
        let notify = SendSlots::default();
        let org = |byte| OrgId::from_parts(Timestamp::from_micros(1), [byte; 10]);
        let webhook = |number: i64| WebhookId::from_parts(Timestamp::from_micros(number), [0; 10]);
        let first = notify.take(org(1), webhook(0));
        assert!(first.is_some() && notify.take(org(1), webhook(0)).is_none());
        let mut places: Vec<_> =
            (1..100).filter_map(|number| notify.take(org(1), webhook(number * 1_000))).collect();
        assert_eq!(places.len() + 1, SENDS_AT_ONCE.share);
        drop(first);
        assert!(notify.take(org(1), webhook(0)).is_some(), "there is room again");
        for byte in 2..50 {
            let more = (0..20).filter_map(|number| {
                notify.take(org(byte), webhook(i64::from(byte) * 1_000_000 + number * 1_000))
            });
            places.extend(more);
        }
        assert_eq!(places.len(), SENDS_AT_ONCE.total);
    }

    #[test]
    fn so_many_try_outs_of_an_organization_and_so_many_in_all() {
        let notify = SendSlots::default();
        let org = |byte| OrgId::from_parts(Timestamp::from_micros(1), [byte; 10]);
        let mut turns: Vec<_> = (0..100).filter_map(|_| notify.take_ping(org(1))).collect();
        assert_eq!(turns.len(), PINGS_AT_ONCE.share);
        turns.pop();
        turns.push(notify.take_ping(org(1)).unwrap());
        assert!(notify.take_ping(org(1)).is_none() && notify.take_ping(org(2)).is_some());
        turns.extend(
            (2..100).flat_map(|byte| [notify.take_ping(org(byte)), notify.take_ping(org(byte))]).flatten(),
        );
        assert_eq!(turns.len(), PINGS_AT_ONCE.total);
    }
}
