//! Notifications: which people are notified of an event, and through which channels.
//!
//! [`NotificationCause::of_event`] and [`concerned_people`] decide whom an event concerns. [`route`] applies the rules of one
//! person: whether the notification appears in the inbox, and when it is sent by email.

mod link;
mod mail;
mod recipients;
mod rules;
mod subject;

pub use link::LinkAction;
pub use mail::{SEND_TRIES_MAX, record_mail, retry_time};
pub use recipients::{EventPeople, NotificationCause, concerned_people};
pub use rules::{
    DIGEST_MINUTES_MAX, KINDS_PER_RULE_MAX, LastSent, NotificationChannel, NotificationRoute,
    NotificationRule, QuietHours, RULES_PER_OWNER_MAX, RuleInput, RuleSubject, default_rules, route,
    route_to_destinations,
};
pub use subject::NotificationSubject;

use crate::id::{EventId, NotificationId, UserId};
use crate::time::Timestamp;

/// A notification of one event for one person.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    pub id: NotificationId,
    pub user: UserId,
    pub event: EventId,
    pub sequence: i64,
    pub event_kind: String,
    /// Why the event concerns the person. `None` if the person only subscribed to it.
    pub cause: Option<NotificationCause>,
    /// A copy, because retention may remove the event first.
    pub summary: String,
    pub subject: NotificationSubject,
    /// Whether the inbox lists it. If not, it exists only to be sent by email.
    pub in_inbox: bool,
    pub created_at: Timestamp,
    pub read_at: Option<Timestamp>,
    /// When the next attempt to send it by email is due. `None` if none is due any more.
    pub mail_due_at: Option<Timestamp>,
    pub mail_failures: i64,
    pub mailed_at: Option<Timestamp>,
}
