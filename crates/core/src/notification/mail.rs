//! Retries of emails and chat messages.

use super::Notification;
use crate::time::Timestamp;

/// The pause in seconds after the first failed attempt. It doubles with each further one, up to [`PAUSE_S_MAX`].
const PAUSE_S: i64 = 5;
const PAUSE_S_MAX: i64 = 10 * 60;
/// After this many failed attempts, which take a little more than a day, a message is given up.
pub const SEND_TRIES_MAX: i64 = 152;

/// Returns when the next attempt is due after this many failed ones. `None` if the message is given up.
pub fn retry_time(failures: i64, now: Timestamp) -> Option<Timestamp> {
    let doublings = u32::try_from((failures - 1).clamp(0, 16)).unwrap_or(0);
    let pause = (PAUSE_S << doublings).min(PAUSE_S_MAX);
    (failures < SEND_TRIES_MAX).then(|| now.plus_seconds(pause))
}

/// Records that an email with this notification was sent, or that the attempt failed.
#[must_use]
pub fn record_mail(notification: &Notification, is_sent: bool, now: Timestamp) -> Notification {
    if is_sent {
        return Notification { mail_due_at: None, mailed_at: Some(now), ..notification.clone() };
    }
    let mail_failures = notification.mail_failures + 1;
    Notification { mail_due_at: retry_time(mail_failures, now), mail_failures, ..notification.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::NotificationSubject;
    use super::*;
    use crate::id::{EventId, NotificationId, UserId};

    const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

    fn notification() -> Notification {
        Notification {
            id: NotificationId::from_parts(NOW, [0; 10]),
            user: UserId::from_parts(NOW, [0; 10]),
            event: EventId::from_parts(NOW, [0; 10]),
            sequence: 1,
            event_kind: "deployment_failed".into(),
            cause: None,
            summary: String::new(),
            subject: NotificationSubject::default(),
            in_inbox: true,
            created_at: NOW,
            read_at: None,
            mail_due_at: Some(NOW),
            mail_failures: 0,
            mailed_at: None,
        }
    }

    #[test]
    fn failed_email_is_retried_for_a_day() {
        let (mut it, mut now, mut longest) = (notification(), NOW, 0);
        while let Some(due) = it.mail_due_at {
            longest = longest.max(due.seconds_since(now));
            now = due;
            it = record_mail(&it, false, now);
        }
        let hours = now.seconds_since(NOW) / 3_600;
        assert!((24..26).contains(&hours), "{hours}");
        assert_eq!((longest, it.mail_failures, it.mailed_at), (PAUSE_S_MAX, SEND_TRIES_MAX, None));
    }

    #[test]
    fn sent_email_is_not_due_again() {
        let failed = record_mail(&notification(), false, NOW);
        assert_eq!((failed.mail_due_at, failed.mail_failures), (Some(NOW.plus_seconds(5)), 1));
        let sent = record_mail(&failed, true, NOW);
        assert_eq!((sent.mail_due_at, sent.mailed_at, sent.mail_failures), (None, Some(NOW), 1));
    }
}
