//! Detects attempts whose runner is lost, and reports them as lost.
//!
//! The time without a heartbeat is measured with the monotonic clock of this process. If no other server shares the
//! database, the first pass after a start also declares the attempts of earlier embedded runners lost, because those
//! runners ended with their process. If servers share the database, embedded runners of other servers may be alive. In
//! that case, time during which the database was unreachable is not counted, because no runner could renew its
//! attempts.
//!
//! The server tells each runner its timeout when the runner starts, and stores it with the runner's attempts. A changed
//! server setting therefore cannot declare a runner lost before that runner has stopped its work.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_core::deployment::run::AttemptOutcome;
use berth_store::tables::attempt;
use berth_store::tables::attempt::LiveAttempt;
use berth_store::{Store, TxContext};

use super::aggregate::DeploymentAggregate;
use super::report::{AttemptLocator, apply_outcome};
use super::run_cache::RunCache;
use crate::engine::EMBEDDED;
use crate::error::EngineError;
use crate::logs::{LogKey, LogStream};
use crate::services::Services;

/// Maximum number of attempts checked per pass. The runners of an installation execute fewer than this.
pub(super) const LIVE_MAX: i64 = 16_384;

/// Safety limit for [`end_all`]. Exceeding it indicates a bug.
const LIVE_ALL_MAX: usize = 1_000_000;

/// Maximum expected time between two passes. Any additional time counts as a database outage, during which no runner
/// could renew its attempts.
const LOOK_GAP_MAX: Duration = Duration::from_secs(5);

/// For each live attempt, by nonce, when it will be lost unless its runner renews it.
#[derive(Default)]
pub struct AttemptWatches {
    watched: HashMap<String, AttemptWatch>,
    looked_at: Option<Instant>,
}

/// When an attempt counts as lost.
#[derive(Clone, Copy)]
struct LostRule {
    /// Timeout for attempts without a stored timeout.
    after: Duration,
    /// No other server uses this database.
    is_alone: bool,
}

struct AttemptWatch {
    renewal: i64,
    lost_at: Instant,
}

impl AttemptWatches {
    /// Returns the attempts in `live` that are lost by now. Drops the watches of attempts that are not in `live`.
    fn take_lost(
        &mut self,
        live: Vec<LiveAttempt>,
        boot: &str,
        rule: LostRule,
        now: Instant,
    ) -> Vec<LiveAttempt> {
        let LostRule { after, is_alone } = rule;
        let mut before = std::mem::take(&mut self.watched);
        let looked_at = self.looked_at.replace(now);
        let is_first_look = looked_at.is_none() && is_alone;
        let since = looked_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let blind = if is_alone { Duration::ZERO } else { since.saturating_sub(LOOK_GAP_MAX) };
        let mut lost = Vec::new();
        for attempt in live {
            let is_gone = is_first_look && attempt.runner.starts_with(EMBEDDED) && attempt.runner != boot;
            let told = attempt.lost_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
            let patience = if is_gone { Duration::ZERO } else { told.unwrap_or(after) };
            let watch = match before.remove(&attempt.nonce) {
                Some(watch) if watch.renewal == attempt.renewal => {
                    AttemptWatch { lost_at: watch.lost_at + blind, ..watch }
                }
                _ => AttemptWatch { renewal: attempt.renewal, lost_at: now + patience },
            };
            let is_lost = watch.lost_at <= now;
            self.watched.insert(attempt.nonce.clone(), watch);
            if is_lost {
                lost.push(attempt);
            }
        }
        lost
    }
}

/// Reports lost attempts. If a report fails, the next pass retries it.
pub async fn reap(services: &Services) -> Result<(), EngineError> {
    let live =
        services.store.read(None, |db| Ok::<_, EngineError>(attempt::list_live(db, LIVE_MAX)?)).await?;
    let rule = LostRule { after: services.config.runner_times.lost, is_alone: !services.store.is_shared() };
    let lost = services.engine.watches.lock().take_lost(live, services.engine.boot(), rule, Instant::now());
    for attempt in lost {
        let (deployment, runner) = (attempt.deployment, attempt.runner.clone());
        match report_ended(services, attempt, AttemptOutcome::Lost).await {
            Ok(()) => tracing::warn!(%deployment, runner, "attempt lost; its runner is silent"),
            Err(error) => tracing::error!(?error, %deployment, "reporting a lost attempt failed"),
        }
    }
    Ok(())
}

/// Reports the end of an attempt on behalf of its runner.
pub(super) async fn report_ended(
    services: &Services,
    lost: LiveAttempt,
    outcome: AttemptOutcome,
) -> Result<(), EngineError> {
    let plans = services.engine.run_cache().clone();
    let LiveAttempt { org, deployment, step, number, .. } = lost;
    let named = AttemptLocator::from(lost);
    let done = services.store.transact(TxContext::system(Some(org)), move |tx| {
        let Some(mut aggregate) = DeploymentAggregate::load(tx, &plans, deployment)? else {
            return Ok(false);
        };
        apply_outcome(tx, &mut aggregate, &named, outcome)?;
        Ok::<_, EngineError>(aggregate.run.continues_attempt(step, number))
    });
    let goes_on = done.await?;
    let key = LogKey { org, deployment, step, attempt: number, stream: LogStream::Step };
    if !goes_on {
        services.logs.seal_later(&key);
    }
    services.engine.late.remove_log(services, &key);
    services.wake_engine();
    Ok(())
}

/// Reports all live attempts as lost, because the database was restored from a backup that is older than their current
/// state. Returns the number of attempts.
pub fn end_all(store: &Store) -> Result<usize, EngineError> {
    let (plans, mut ended) = (RunCache::default(), 0);
    loop {
        let live = store.read_blocking(None, |db| Ok::<_, EngineError>(attempt::list_live(db, LIVE_MAX)?))?;
        if live.is_empty() {
            return Ok(ended);
        }
        for attempt in live {
            let (plans, deployment, named) =
                (plans.clone(), attempt.deployment, AttemptLocator::from(attempt));
            store.transact_blocking(TxContext::system(Some(named.org)), move |tx| {
                let aggregate = DeploymentAggregate::load(tx, &plans, deployment)?;
                let mut aggregate = aggregate.ok_or_else(|| EngineError::bug("an attempt without a run"))?;
                apply_outcome(tx, &mut aggregate, &named, AttemptOutcome::Lost).map(drop)
            })?;
            ended += 1;
        }
        if ended > LIVE_ALL_MAX {
            return Err(EngineError::bug("attempts that were ended are still under way"));
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core::id::{DeploymentId, OrgId, StepRunId};
    use berth_core::time::Timestamp;

    use super::*;

    const RUNNER_LOST: Duration = Duration::from_secs(45);
    const ALONE: LostRule = LostRule { after: RUNNER_LOST, is_alone: true };
    const SHARED: LostRule = LostRule { after: RUNNER_LOST, is_alone: false };

    fn attempt(runner: &str, nonce: &str, renewal: i64) -> LiveAttempt {
        let at = Timestamp::from_micros(1);
        LiveAttempt {
            org: OrgId::from_parts(at, [0; 10]),
            deployment: DeploymentId::from_parts(at, [0; 10]),
            step: StepRunId::from_parts(at, [0; 10]),
            number: 1,
            runner: runner.into(),
            nonce: nonce.into(),
            renewal,
            lost_ms: None,
        }
    }

    fn nonces(lost: &[LiveAttempt]) -> Vec<&str> {
        lost.iter().map(|it| it.nonce.as_str()).collect()
    }

    #[test]
    fn attempts_of_earlier_process_are_lost_from_first_pass_until_reported() {
        let (mut watches, now) = (AttemptWatches::default(), Instant::now());
        let found = || vec![attempt("boot_old", "a", 3), attempt("boot_me", "b", 0), attempt("far", "c", 0)];
        assert_eq!(nonces(&watches.take_lost(found(), "boot_me", ALONE, now)), ["a"]);
        assert_eq!(nonces(&watches.take_lost(found(), "boot_me", ALONE, now)), ["a"]);
        assert_eq!(nonces(&watches.take_lost(found(), "boot_me", ALONE, now + RUNNER_LOST)), ["a", "b", "c"]);
    }

    #[test]
    fn shared_database_outage_does_not_count_towards_lost_timeout() {
        let (mut watches, start) = (AttemptWatches::default(), Instant::now());
        let mut at = |seconds: u64| {
            let found = vec![attempt("boot_other", "a", 3)];
            let lost = watches.take_lost(found, "boot_me", SHARED, start + Duration::from_secs(seconds));
            !lost.is_empty()
        };
        assert!(!at(0), "another server's runner");
        assert!(!(1..10).any(|round| at(4 * round)), "40 s");
        assert!(!at(200), "the database was away");
        assert!(!at(203) && at(206));
    }

    #[test]
    fn silent_attempt_is_lost_after_timeout_unless_renewed() {
        let (mut watches, start) = (AttemptWatches::default(), Instant::now());
        let mut at = |seconds: u64, found: Vec<LiveAttempt>| {
            let lost = watches.take_lost(found, "boot_me", ALONE, start + Duration::from_secs(seconds));
            nonces(&lost).concat()
        };
        assert_eq!(at(0, vec![]), "");
        let both = |renewal| vec![attempt("x", "silent", 7), attempt("y", "alive", renewal)];
        assert_eq!(at(1, both(1)), "");
        assert_eq!(at(45, both(2)), "");
        assert_eq!(at(46, both(2)), "silent");
        assert_eq!(at(89, both(2)), "silent");
        assert_eq!(at(90, vec![attempt("y", "alive", 2)]), "alive");
        assert_eq!(at(91, vec![attempt("x", "silent", 7)]), "", "forgotten when it was not there");
    }

    #[test]
    fn attempt_is_lost_after_its_stored_timeout() {
        let (mut watches, start) = (AttemptWatches::default(), Instant::now());
        let mut at = |seconds: u64| {
            let told = |nonce, s: i64| LiveAttempt { lost_ms: Some(1_000 * s), ..attempt("x", nonce, 1) };
            let found = vec![told("patient", 90), told("hasty", 6), attempt("y", "old", 1)];
            nonces(&watches.take_lost(found, "boot_me", ALONE, start + Duration::from_secs(seconds)))
                .join(" ")
        };
        assert_eq!([0, 5, 6].map(&mut at), ["", "", "hasty"]);
        assert_eq!([44, 45, 89, 90].map(&mut at), ["hasty", "hasty old", "hasty old", "patient hasty old"]);
    }
}
