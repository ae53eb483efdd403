//! Outgoing webhooks: who is told of which events, and what becomes of each telling.
//!
//! The audit trail is the outbox: a webhook remembers up to where it has read, and everything it is told of becomes a
//! delivery with an id that stays the same however often it is tried.

mod kinds;
mod retry;

pub use kinds::{InvalidKind, KINDS_PER_WEBHOOK_MAX, Kinds, is_known, known};
pub use retry::{RETRY_AFTER_S_MAX, RETRY_PAUSES_S, TRIES_MAX, Tried, settle};

use std::fmt;
use std::str::FromStr;

use crate::id::{DeliveryId, EventId, WebhookId};
use crate::name::Slug;
use crate::time::Timestamp;

/// How long a signing secret that was replaced is still good: receivers learn the new one meanwhile.
pub const OLD_SECRET_S: i64 = 24 * 60 * 60;
/// Secrets of one webhook that are good at a time: the present one, and those before it.
pub const SECRETS_PER_WEBHOOK_MAX: i64 = 3;
/// Failures in a row after which a success means that the receiver is back.
pub const FAILURES_BROKEN: i64 = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    /// What definitions call it.
    pub name: Slug,
    /// Where it goes: an address the egress layer has looked at. Part of it may be a secret.
    pub url: String,
    pub kinds: Kinds,
    pub format: Format,
    pub state: State,
    /// Rises with every change; what `ETag` and `If-Match` speak of.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Active,
    Inactive {
        since: Timestamp,
        /// Why the server did it; `None` where somebody wanted it so.
        why: Option<String>,
    },
}

impl State {
    pub const fn is_active(&self) -> bool {
        matches!(self, State::Active)
    }
}

impl Webhook {
    /// The receiver has said that it is gone for good.
    #[must_use]
    pub fn gone(&self, now: Timestamp) -> Self {
        let why = Some("the receiver answered 410: it is gone for good".to_owned());
        Self {
            state: State::Inactive { since: now, why },
            version: self.version + 1,
            updated_at: now,
            ..self.clone()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Standard Webhooks: the event as the API shows it.
    #[default]
    Standard,
    /// A line of text, as Slack and those like it take it.
    Slack,
}

impl Format {
    pub const ALL: [Format; 2] = [Format::Standard, Format::Slack];

    pub const fn as_str(self) -> &'static str {
        match self {
            Format::Standard => "standard",
            Format::Slack => "slack",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Format::ALL.into_iter().find(|format| format.as_str() == text).ok_or(UnknownWord)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a word this program knows")]
pub struct UnknownWord;

/// One event on its way to one webhook. What is sent was fixed when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub webhook: WebhookId,
    pub event: EventId,
    pub sequence: i64,
    pub kind: String,
    pub status: DeliveryStatus,
    /// Of this round: a redelivery begins a new one.
    pub tries: i64,
    /// Of all rounds.
    pub attempts: i64,
    /// When it is tried next; only while it is pending.
    pub next_try_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    Pending,
    Delivered,
    /// Tried for a day, or given up with its webhook: it is not tried again unless somebody asks.
    Failed,
}

impl DeliveryStatus {
    pub const ALL: [DeliveryStatus; 3] =
        [DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed];

    pub const fn as_str(self) -> &'static str {
        match self {
            DeliveryStatus::Pending => "pending",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Failed => "failed",
        }
    }
}

impl fmt::Display for DeliveryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DeliveryStatus {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        DeliveryStatus::ALL.into_iter().find(|status| status.as_str() == text).ok_or(UnknownWord)
    }
}

impl Delivery {
    /// From the beginning, and now.
    #[must_use]
    pub fn again(&self, now: Timestamp) -> Self {
        Self {
            status: DeliveryStatus::Pending,
            tries: 0,
            next_try_at: Some(now),
            ended_at: None,
            ..self.clone()
        }
    }
}
