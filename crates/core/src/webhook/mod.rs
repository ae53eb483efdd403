//! Outgoing webhooks and their deliveries.
//!
//! The audit log serves as the outbox: each webhook stores a cursor into it, and every matching event becomes a
//! delivery, whose id stays the same across retries.

mod kinds;
mod retry;

pub use kinds::{EventKindFilter, InvalidKind, KINDS_PER_WEBHOOK_MAX, all_event_kinds, is_event_kind};
pub use retry::{DeliveryResult, RETRY_AFTER_S_MAX, RETRY_PAUSES_S, TRIES_MAX, record_attempt};

use std::fmt;
use std::str::FromStr;

use crate::id::{DeliveryId, EventId, WebhookId};
use crate::name::Slug;
use crate::time::Timestamp;

/// How many seconds an old signing secret stays valid after a rotation, so that receivers can switch.
pub const OLD_SECRET_S: i64 = 24 * 60 * 60;
/// Maximum number of valid signing secrets per webhook: the current one and recently rotated ones.
pub const SECRETS_PER_WEBHOOK_MAX: i64 = 3;
/// A success after at least this many consecutive failures is reported as a recovery.
pub const FAILURES_BROKEN: i64 = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    /// The name by which definitions refer to the webhook.
    pub name: Slug,
    /// Checked against the egress rules. Parts of the URL may be secret.
    pub url: String,
    pub kinds: EventKindFilter,
    pub format: PayloadFormat,
    pub state: WebhookState,
    /// Increases with every change; sent in `ETag` and compared with `If-Match`.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookState {
    Active,
    Inactive {
        since: Timestamp,
        /// Why the server disabled the webhook; `None` if a user disabled it.
        why: Option<String>,
    },
}

impl WebhookState {
    pub const fn is_active(&self) -> bool {
        matches!(self, WebhookState::Active)
    }
}

impl Webhook {
    /// Disables the webhook because the receiver responded with 410 Gone.
    #[must_use]
    pub fn deactivate_gone(&self, now: Timestamp) -> Self {
        let why = Some("the receiver responded with 410 Gone".to_owned());
        Self {
            state: WebhookState::Inactive { since: now, why },
            version: self.version + 1,
            updated_at: now,
            ..self.clone()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PayloadFormat {
    /// The event as in the API, sent according to the Standard Webhooks specification.
    #[default]
    Standard,
    /// One line of text, for Slack and compatible receivers.
    Slack,
}

impl PayloadFormat {
    pub const ALL: [PayloadFormat; 2] = [PayloadFormat::Standard, PayloadFormat::Slack];

    pub const fn as_str(self) -> &'static str {
        match self {
            PayloadFormat::Standard => "standard",
            PayloadFormat::Slack => "slack",
        }
    }
}

impl fmt::Display for PayloadFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PayloadFormat {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        PayloadFormat::ALL.into_iter().find(|format| format.as_str() == text).ok_or(UnknownWord)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a word this program knows")]
pub struct UnknownWord;

/// One event to be delivered to one webhook. The payload never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub webhook: WebhookId,
    pub event: EventId,
    pub sequence: i64,
    pub kind: String,
    pub status: DeliveryState,
    /// Number of attempts since the delivery was created or last redelivered.
    pub tries: i64,
    /// Total number of attempts.
    pub attempts: i64,
    /// Set while the delivery is pending.
    pub next_try_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    Pending,
    Delivered,
    /// All retries failed, over about a day, or the webhook was disabled. Only a manual redelivery sends the event
    /// again.
    Failed,
}

impl DeliveryState {
    pub const ALL: [DeliveryState; 3] =
        [DeliveryState::Pending, DeliveryState::Delivered, DeliveryState::Failed];

    pub const fn as_str(self) -> &'static str {
        match self {
            DeliveryState::Pending => "pending",
            DeliveryState::Delivered => "delivered",
            DeliveryState::Failed => "failed",
        }
    }
}

impl fmt::Display for DeliveryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DeliveryState {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        DeliveryState::ALL.into_iter().find(|status| status.as_str() == text).ok_or(UnknownWord)
    }
}

impl Delivery {
    /// Schedules the delivery again, due now and with the full number of retries.
    #[must_use]
    pub fn redeliver(&self, now: Timestamp) -> Self {
        Self {
            status: DeliveryState::Pending,
            tries: 0,
            next_try_at: Some(now),
            ended_at: None,
            ..self.clone()
        }
    }
}
