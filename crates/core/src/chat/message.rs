//! Messages in the outbox of a chat, and their retries.

use crate::id::ChatMessageId;
use crate::notification::{NotificationCause, NotificationSubject, retry_time};
use crate::time::Timestamp;

/// The longest pause in seconds that a chat may request with `Retry-After`.
const RETRY_AFTER_S_MAX: i64 = 60 * 60;

/// A message about one event for a destination, or for a person as a direct message.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage {
    pub id: ChatMessageId,
    /// The id of the destination, or of the person.
    pub target: String,
    /// Sequence number of the event. `None` for a test message.
    pub sequence: Option<i64>,
    pub cause: Option<NotificationCause>,
    pub summary: String,
    pub subject: NotificationSubject,
    pub created_at: Timestamp,
    /// When the next attempt is due. `None` if none is due any more.
    pub due_at: Option<Timestamp>,
    pub failures: i64,
    pub sent_at: Option<Timestamp>,
}

/// The outcome of an attempt to send messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatAttempt {
    Sent,
    Failed { why: String, retry_after_s: Option<i64> },
}

impl ChatMessage {
    /// Records the outcome of an attempt that contained this message.
    #[must_use]
    pub fn record_attempt(&self, attempt: &ChatAttempt, now: Timestamp) -> Self {
        match attempt {
            ChatAttempt::Sent => Self { due_at: None, sent_at: Some(now), ..self.clone() },
            ChatAttempt::Failed { retry_after_s, .. } => {
                let failures = self.failures + 1;
                let asked = now.plus_seconds(retry_after_s.unwrap_or(0).clamp(0, RETRY_AFTER_S_MAX));
                let due_at = retry_time(failures, now).map(|due| due.max(asked));
                Self { due_at, failures, ..self.clone() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notification::SEND_TRIES_MAX;

    const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

    fn message() -> ChatMessage {
        ChatMessage {
            id: ChatMessageId::from_parts(NOW, [0; 10]),
            target: String::new(),
            sequence: Some(1),
            cause: None,
            summary: String::new(),
            subject: NotificationSubject::default(),
            created_at: NOW,
            due_at: Some(NOW),
            failures: 0,
            sent_at: None,
        }
    }

    fn failed(retry_after_s: Option<i64>) -> ChatAttempt {
        ChatAttempt::Failed { why: "down".into(), retry_after_s }
    }

    #[test]
    fn failed_message_is_retried_for_a_day_and_not_before_the_time_that_the_chat_asks_for() {
        let (mut it, mut now) = (message(), NOW);
        while let Some(due) = it.due_at {
            now = due;
            it = it.record_attempt(&failed(None), now);
        }
        let hours = now.seconds_since(NOW) / 3_600;
        assert!((24..26).contains(&hours), "{hours}");
        assert_eq!((it.failures, it.sent_at), (SEND_TRIES_MAX, None));
        for (asked, wanted) in [(1, 5), (30, 30), (1_000_000, RETRY_AFTER_S_MAX), (-5, 5)] {
            let next = message().record_attempt(&failed(Some(asked)), NOW);
            assert_eq!(next.due_at, Some(NOW.plus_seconds(wanted)), "{asked}");
        }
    }

    #[test]
    fn sent_message_is_not_due_again() {
        let sent = message().record_attempt(&ChatAttempt::Sent, NOW);
        assert_eq!((sent.due_at, sent.sent_at), (None, Some(NOW)));
    }
}
