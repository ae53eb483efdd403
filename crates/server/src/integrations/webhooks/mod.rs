//! Webhook notifications, delivered at least once with a stable id.
//!
//! The audit log serves as the outbox. In the background, `fan_out` reads events, creates deliveries and advances each
//! webhook's cursor in the same transaction; `deliver` sends due deliveries. A crash loses nothing: events after the
//! stored cursor are read again, and deliveries without a stored outcome are sent again.

mod deliver;
mod fan_out;
mod payload;
mod send;
mod sign;

pub(crate) use payload::ping_payload;
pub(crate) use send::WebhookRequest;
pub(crate) use sign::new_secret;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_core::id::{OrgId, WebhookId};
use berth_engine::admission::{AdmissionControl, AdmissionPermit};
use berth_engine::limits::{PINGS_AT_ONCE, SENDS_AT_ONCE};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::Notify;

use crate::error::AppError;
use crate::worker::{BackgroundJob, TurnResult};
use berth_engine::Services;

/// How often the job runs if nothing wakes it.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Maximum number of webhooks whose read position is cached. Other positions are read from the database.
const POSITIONS_MAX: usize = 100_000;

/// The background job that delivers webhooks.
#[derive(Clone)]
pub(crate) struct WebhookNotifier {
    services: Arc<Services>,
    /// Base URL for links in payloads.
    public_url: Option<String>,
    /// How many events a webhook may lag behind before the oldest are dropped.
    behind_max: i64,
    slots: SendSlots,
}

impl WebhookNotifier {
    pub(crate) fn new(services: Arc<Services>, public_url: Option<String>, behind_max: i64) -> Self {
        Self { services, public_url, behind_max, slots: SendSlots::default() }
    }

    pub(crate) fn wake(&self) {
        self.slots.wakeup.notify_one();
    }

    /// Returns the sequence number of the last event read for this webhook, from the cache. 0 if it is not cached.
    pub(crate) fn position(&self, webhook: WebhookId) -> i64 {
        self.slots.position(webhook)
    }

    /// Acquires a permit to send a test message. `None` if the limit of this organization or the total limit is
    /// reached.
    pub(crate) fn take_ping(&self, org: OrgId) -> Option<AdmissionPermit> {
        self.slots.take_ping(org)
    }
}

/// Limits on webhook requests in flight, and the read position of each webhook.
#[derive(Clone)]
struct SendSlots {
    wakeup: Arc<Notify>,
    /// Sequence number of the last event read for each webhook. With this cache, the cursor need not be stored for
    /// every event that the webhook does not subscribe to.
    positions: Arc<Cache<WebhookId, i64>>,
    /// Webhooks with an attempt in flight.
    sending: Arc<Mutex<HashSet<WebhookId>>>,
    sends: Arc<AdmissionControl>,
    pings: Arc<AdmissionControl>,
}

impl Default for SendSlots {
    fn default() -> Self {
        let [sends, pings] =
            [SENDS_AT_ONCE, PINGS_AT_ONCE].map(|it| Arc::new(AdmissionControl::without_queue(it)));
        let positions = Arc::new(Cache::new(POSITIONS_MAX));
        Self { wakeup: Arc::default(), positions, sending: Arc::default(), sends, pings }
    }
}

impl SendSlots {
    fn position(&self, webhook: WebhookId) -> i64 {
        self.positions.get(&webhook).unwrap_or(0)
    }

    fn cache_position(&self, webhook: WebhookId, sequence: i64) {
        self.positions.insert(webhook, sequence);
    }

    /// Acquires a slot for one attempt. `None` if this webhook already has an attempt in flight, or a limit is reached.
    fn take(&self, org: OrgId, webhook: WebhookId) -> Option<SendSlot> {
        let pass = self.sends.try_enter(org)?;
        let is_new = self.sending.lock().insert(webhook);
        let (bell, sending) = (self.wakeup.clone(), self.sending.clone());
        is_new.then(|| SendSlot { webhook, wakeup: bell, sending, pass: Some(pass) })
    }

    fn take_ping(&self, org: OrgId) -> Option<AdmissionPermit> {
        self.pings.try_enter(org)
    }
}

/// An attempt in flight; dropping it frees the slot and wakes the job.
struct SendSlot {
    webhook: WebhookId,
    wakeup: Arc<Notify>,
    sending: Arc<Mutex<HashSet<WebhookId>>>,
    pass: Option<AdmissionPermit>,
}

impl Drop for SendSlot {
    fn drop(&mut self) {
        self.sending.lock().remove(&self.webhook);
        drop(self.pass.take());
        self.wakeup.notify_one();
    }
}

impl BackgroundJob for WebhookNotifier {
    const NAME: &'static str = "webhooks";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let read = fan_out::fan_out(self).await;
        deliver::deliver(self).await?;
        read.map(|()| TurnResult::Idle)
    }

    async fn wait(&self) {
        // On a timeout, the job polls without having been woken.
        let _ = tokio::time::timeout(LOOK_EVERY, self.slots.wakeup.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use berth_core::time::Timestamp;

    use super::*;

    #[test]
    fn send_slots_are_limited_per_webhook_organization_and_total() {
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
    fn pings_are_limited_per_organization_and_total() {
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
