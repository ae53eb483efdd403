//! Estimates when a ticket will be granted.
//!
//! The active session must end first, and then every ticket ahead gets its own session. Time limits bound how long a
//! session can last; the lengths of earlier sessions show how long it usually lasts.

use super::lock::Lock;
use super::settle::ends_at;
use super::state::Ticket;
use crate::id::TicketId;
use crate::pipeline::model::ReleaseCondition;
use crate::time::Timestamp;

/// Maximum number of ended sessions that an estimate uses; the newest are used.
pub const SESSIONS_MAX: i64 = 32;
/// With fewer ended sessions than this, the estimate uses the time limits instead.
const SESSIONS_MIN: usize = 3;

/// What an estimate is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimateBasis {
    /// Only time limits: by the estimated time, every session ahead has expired.
    Expiry,
    /// At least one session ahead is expected to last as long as earlier ones.
    History,
    /// No estimate: a session ahead has no time limit, and there are no ended sessions to compare it with.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitEstimate {
    /// `None` if and only if the basis is unknown.
    pub seconds: Option<i64>,
    pub basis: EstimateBasis,
}

/// Timing of the active session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTiming {
    /// Seconds until the session expires or is taken over; `None` if neither is scheduled.
    pub ends_in: Option<i64>,
    /// Seconds since the session was claimed.
    pub elapsed: i64,
}

/// A ticket ahead in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TicketAhead {
    /// Seconds after the grant at which the ticket's session will expire; `None` without a limit.
    pub lasts: Option<i64>,
    /// Seconds until the ticket itself expires.
    pub expires_in: i64,
}

/// Estimates how long a ticket will wait. `None` if the ticket is not waiting. `lengths` are the durations of ended
/// sessions, in seconds.
pub fn estimate_wait(lock: &Lock, id: TicketId, lengths: &[i64], now: Timestamp) -> Option<WaitEstimate> {
    let index = lock.position(id)?.checked_sub(1)?;
    let until = |at: Timestamp| at.seconds_since(now).max(0);
    let holder = lock.session.as_ref().map(|session| {
        let takeover = lock.pending_takeover().and_then(|(_, takeover)| takeover.at);
        let end = ends_at(lock).map(|(at, _)| at).into_iter().chain(takeover).min();
        SessionTiming { ends_in: end.map(until), elapsed: now.seconds_since(session.claimed_at).max(0) }
    });
    let ahead = lock.tickets[..index]
        .iter()
        .map(|ticket| TicketAhead { lasts: limit_of(lock, ticket), expires_in: until(ticket.expires_at) });
    Some(estimate(holder, ahead, lengths))
}

/// The time limit in seconds that the ticket's session will have, if any.
fn limit_of(lock: &Lock, ticket: &Ticket) -> Option<i64> {
    let configuration = &lock.environment.configuration;
    let seconds = |length: u64| i64::try_from(length).unwrap_or(i64::MAX);
    let ttl = ticket.terms.ttl_seconds.or(configuration.ttl.map(|ttl| seconds(ttl.as_secs())));
    let idle = configuration.release.iter().filter_map(|rule| match rule {
        ReleaseCondition::Timeout { after_idle } => Some(seconds(after_idle.as_secs())),
        ReleaseCondition::PrClosed => None,
    });
    idle.chain(ttl).min()
}

/// `holder` is `None` while the environment is free.
pub fn estimate(
    holder: Option<SessionTiming>,
    ahead: impl IntoIterator<Item = TicketAhead>,
    lengths: &[i64],
) -> WaitEstimate {
    let mut lengths = lengths.to_vec();
    lengths.sort_unstable();
    let first =
        holder.map_or(Some((0, EstimateBasis::Expiry)), |it| remaining(it.ends_in, it.elapsed, &lengths));
    let Some((mut seconds, mut basis)) = first else {
        return WaitEstimate { seconds: None, basis: EstimateBasis::Unknown };
    };
    for ticket in ahead {
        // This ticket expires before it could be granted.
        if ticket.expires_in <= seconds {
            continue;
        }
        let Some((more, its)) = remaining(ticket.lasts, 0, &lengths) else {
            return WaitEstimate { seconds: None, basis: EstimateBasis::Unknown };
        };
        seconds = seconds.saturating_add(more);
        basis = if its == EstimateBasis::History { its } else { basis };
    }
    WaitEstimate { seconds: Some(seconds), basis }
}

/// Remaining seconds of a session that has lasted `elapsed` seconds; `lengths` are sorted.
fn remaining(limit: Option<i64>, elapsed: i64, lengths: &[i64]) -> Option<(i64, EstimateBasis)> {
    let is_told = lengths.len() >= SESSIONS_MIN || limit.is_none();
    match (limit, typical_remaining(elapsed, lengths).filter(|_| is_told)) {
        (Some(limit), Some(typical)) if typical < limit => Some((typical, EstimateBasis::History)),
        (Some(limit), _) => Some((limit, EstimateBasis::Expiry)),
        (None, typical) => typical.map(|seconds| (seconds, EstimateBasis::History)),
    }
}

/// The median remaining time of the earlier sessions that lasted longer than `elapsed` seconds. A session that has
/// already outlasted all of them is expected to last for the length of another typical session.
fn typical_remaining(elapsed: i64, lengths: &[i64]) -> Option<i64> {
    let longer = &lengths[lengths.partition_point(|length| *length <= elapsed)..];
    match median(longer) {
        Some(length) => Some(length - elapsed),
        None => median(lengths),
    }
}

fn median(sorted: &[i64]) -> Option<i64> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;

    fn session_timing() -> impl Strategy<Value = Option<SessionTiming>> {
        of((of(0..100_000i64), 0..100_000i64)
            .prop_map(|(ends_in, elapsed)| SessionTiming { ends_in, elapsed }))
    }

    fn tickets_ahead() -> impl Strategy<Value = Vec<TicketAhead>> {
        let ticket = (of(60..100_000i64), 0..1_000_000i64);
        vec(ticket.prop_map(|(lasts, expires_in)| TicketAhead { lasts, expires_in }), 0..20)
    }

    fn lengths() -> impl Strategy<Value = Vec<i64>> {
        vec(0..50_000i64, 0..20)
    }

    proptest! {
        #[test]
        fn eta_is_none_only_if_basis_is_unknown(
            h in session_timing(), line in tickets_ahead(), past in lengths(),
        ) {
            let eta = estimate(h, line, &past);
            prop_assert_eq!(eta.seconds.is_none(), eta.basis == EstimateBasis::Unknown);
            prop_assert!(eta.seconds.is_none_or(|seconds| seconds >= 0));
        }

        #[test]
        fn eta_is_unknown_only_without_history_and_limits(
            h in session_timing(), line in tickets_ahead(), past in lengths(),
        ) {
            let eta = estimate(h, line.clone(), &past);
            let has_limits = h.is_none_or(|it| it.ends_in.is_some()) && line.iter().all(|it| it.lasts.is_some());
            if !past.is_empty() || has_limits {
                prop_assert_ne!(eta.basis, EstimateBasis::Unknown);
            }
            if past.is_empty() {
                prop_assert_ne!(eta.basis, EstimateBasis::History);
            }
        }

        #[test]
        fn eta_never_decreases_towards_end_of_queue(
            h in session_timing(), line in tickets_ahead(), past in lengths(),
        ) {
            let etas: Vec<_> = (0..=line.len()).map(|ahead| estimate(h, line[..ahead].to_vec(), &past)).collect();
            for pair in etas.windows(2) {
                match (pair[0].seconds, pair[1].seconds) {
                    (Some(before), Some(behind)) => prop_assert!(before <= behind, "{:?}", etas),
                    (None, Some(_)) => prop_assert!(false, "known behind what is unknown: {:?}", etas),
                    (_, None) => {}
                }
            }
        }

        #[test]
        fn eta_never_exceeds_time_limits(h in session_timing(), line in tickets_ahead(), past in lengths()) {
            let with_limits = estimate(h, line.clone(), &[]);
            if let (Some(most), Some(seconds)) = (with_limits.seconds, estimate(h, Vec::new(), &past).seconds) {
                prop_assert!(seconds <= most);
            }
            // If no ticket expires, the time limits are an upper bound for the whole queue as well.
            let patient: Vec<_> = line.iter().map(|it| TicketAhead { expires_in: i64::MAX, ..*it }).collect();
            let (limits, both) = (estimate(h, patient.clone(), &[]), estimate(h, patient, &past));
            if let Some(most) = limits.seconds {
                prop_assert!(both.seconds.is_some_and(|seconds| seconds <= most));
            }
        }
    }

    fn estimate_alone(ends_in: Option<i64>, elapsed: i64, past: &[i64]) -> (Option<i64>, EstimateBasis) {
        let eta = estimate(Some(SessionTiming { ends_in, elapsed }), [], past);
        (eta.seconds, eta.basis)
    }

    #[test]
    fn eta_prefers_history_unless_scarce_or_later_than_limit() {
        assert_eq!(
            estimate_alone(Some(3_600), 0, &[600, 600]),
            (Some(3_600), EstimateBasis::Expiry),
            "two sessions say little"
        );
        assert_eq!(estimate_alone(Some(3_600), 0, &[500, 600, 700]), (Some(600), EstimateBasis::History));
        assert_eq!(estimate_alone(Some(60), 0, &[500, 600, 700]), (Some(60), EstimateBasis::Expiry));
        assert_eq!(
            estimate_alone(None, 0, &[600]),
            (Some(600), EstimateBasis::History),
            "better than nothing"
        );
        assert_eq!(estimate_alone(None, 0, &[]), (None, EstimateBasis::Unknown));
    }

    #[test]
    fn eta_ignores_sessions_shorter_than_elapsed_time() {
        assert_eq!(estimate_alone(None, 550, &[500, 600, 700, 800]), (Some(150), EstimateBasis::History));
        assert_eq!(estimate_alone(None, 900, &[500, 600, 700, 800]), (Some(600), EstimateBasis::History));
    }

    #[test]
    fn eta_ignores_tickets_that_expire_before_their_grant() {
        let holder = Some(SessionTiming { ends_in: Some(100), elapsed: 0 });
        let ahead = |expires_in| TicketAhead { lasts: Some(1_000), expires_in };
        let eta = estimate(holder, [ahead(100), ahead(500), ahead(600)], &[]);
        assert_eq!((eta.seconds, eta.basis), (Some(1_100), EstimateBasis::Expiry));
    }
}
