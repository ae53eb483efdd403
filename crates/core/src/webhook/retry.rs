//! The retry policy of webhook deliveries.

use super::{Delivery, DeliveryState};
use crate::time::Timestamp;

/// Pauses in seconds before each retry: backoff over about a day.
pub const RETRY_PAUSES_S: [i64; 10] = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800];
pub const TRIES_MAX: i64 = RETRY_PAUSES_S.len() as i64 + 1;
/// Maximum random extension of a pause, so that failed deliveries are not all retried at the same time.
const JITTER_PERCENT_MAX: i64 = 20;
/// The longest pause in seconds that a receiver may request with `Retry-After`.
pub const RETRY_AFTER_S_MAX: i64 = 60 * 60;

/// The outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryResult {
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// The error message shown in the delivery log.
    pub error: Option<String>,
    pub duration_ms: i64,
    /// The response's `Retry-After`, in seconds.
    pub retry_after_s: Option<i64>,
}

impl DeliveryResult {
    pub fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether the receiver responded with 410 Gone.
    pub fn is_gone(&self) -> bool {
        self.status == Some(410)
    }
}

/// Applies the result of an attempt to the delivery. `chance` is a random byte for the jitter.
#[must_use]
pub fn record_attempt(delivery: &Delivery, tried: &DeliveryResult, chance: u8, now: Timestamp) -> Delivery {
    let next = Delivery { tries: delivery.tries + 1, attempts: delivery.attempts + 1, ..delivery.clone() };
    let ended = |status| Delivery { status, next_try_at: None, ended_at: Some(now), ..next.clone() };
    if tried.is_success() {
        return ended(DeliveryState::Delivered);
    }
    let pause = usize::try_from(delivery.tries).ok().and_then(|tries| RETRY_PAUSES_S.get(tries));
    match pause {
        Some(pause) if !tried.is_gone() => {
            let asked = tried.retry_after_s.unwrap_or(0).clamp(0, RETRY_AFTER_S_MAX);
            let stretch = pause * JITTER_PERCENT_MAX * i64::from(chance) / (100 * i64::from(u8::MAX));
            Delivery { next_try_at: Some(now.plus_seconds((*pause).max(asked) + stretch)), ..next }
        }
        _ => ended(DeliveryState::Failed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{DeliveryId, EventId, WebhookId};

    const NOON: Timestamp = Timestamp::from_micros(1_763_200_800_000_000);
    const DAY_S: i64 = 24 * 60 * 60;

    fn new_delivery() -> Delivery {
        Delivery {
            id: DeliveryId::from_parts(NOON, [1; 10]),
            webhook: WebhookId::from_parts(NOON, [2; 10]),
            event: EventId::from_parts(NOON, [3; 10]),
            sequence: 7,
            kind: "step_failed".into(),
            status: DeliveryState::Pending,
            tries: 0,
            attempts: 0,
            next_try_at: Some(NOON),
            created_at: NOON,
            ended_at: None,
        }
    }

    fn response_result(status: u16, retry_after_s: Option<i64>) -> DeliveryResult {
        DeliveryResult { status: Some(status), error: None, duration_ms: 3, retry_after_s }
    }

    proptest! {
        /// Whatever the receiver responds, a delivery ends after a fixed number of attempts within about a day.
        #[test]
        fn delivery_ends_after_fixed_number_of_attempts(
            answers in proptest::collection::vec(
                (prop_oneof![Just(None), (300u16..600).prop_filter("gone", |status| *status != 410).prop_map(Some)],
                 proptest::option::of(-10i64..i64::MAX), any::<u8>()), 11..20),
        ) {
            let (mut delivery, mut now, mut tries) = (new_delivery(), NOON, 0);
            for (status, retry_after_s, chance) in answers {
                let tried = DeliveryResult { status, error: None, duration_ms: 0, retry_after_s };
                delivery = record_attempt(&delivery, &tried, chance, now);
                tries += 1;
                let Some(next) = delivery.next_try_at else { break };
                prop_assert!(next > now && next.seconds_since(now) <= 28_800 * 12 / 10 + RETRY_AFTER_S_MAX);
                now = next;
            }
            prop_assert_eq!((tries, delivery.status), (TRIES_MAX, DeliveryState::Failed));
            let seconds = now.seconds_since(NOON);
            prop_assert!(seconds >= DAY_S * 9 / 10, "{}", seconds);
            prop_assert!(seconds <= 2 * DAY_S, "{}", seconds);
            prop_assert_eq!(delivery.id, new_delivery().id);
        }
    }

    #[test]
    fn delivery_status_follows_response_status() {
        let seconds = |delivery: &Delivery| delivery.next_try_at.map(|at| at.seconds_since(NOON));
        for (status, retry_after, wanted, next) in [
            (200, None, DeliveryState::Delivered, None),
            (204, None, DeliveryState::Delivered, None),
            (302, None, DeliveryState::Pending, Some(5)),
            (404, None, DeliveryState::Pending, Some(5)),
            (410, None, DeliveryState::Failed, None),
            (500, None, DeliveryState::Pending, Some(5)),
            (429, Some(60), DeliveryState::Pending, Some(60)),
            (503, Some(1), DeliveryState::Pending, Some(5)),
            (503, Some(RETRY_AFTER_S_MAX), DeliveryState::Pending, Some(3_600)),
            (503, Some(RETRY_AFTER_S_MAX + 1), DeliveryState::Pending, Some(3_600)),
        ] {
            let settled = record_attempt(&new_delivery(), &response_result(status, retry_after), 0, NOON);
            assert_eq!((settled.status, seconds(&settled)), (wanted, next), "{status} {retry_after:?}");
        }
        assert_eq!(
            seconds(&record_attempt(&new_delivery(), &response_result(500, None), u8::MAX, NOON)),
            Some(6)
        );
    }

    #[test]
    fn redelivery_resets_tries_and_keeps_id() {
        let dead = Delivery {
            tries: TRIES_MAX,
            attempts: TRIES_MAX,
            status: DeliveryState::Failed,
            ..new_delivery()
        };
        let again = dead.redeliver(NOON);
        assert_eq!((again.id, again.tries, again.attempts), (dead.id, 0, TRIES_MAX));
        assert_eq!(
            record_attempt(&again, &response_result(500, None), 0, NOON).status,
            DeliveryState::Pending
        );
    }
}
