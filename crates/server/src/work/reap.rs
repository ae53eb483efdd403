//! Reap: attempts whose runner is gone are reported as lost.
//!
//! How long a runner has been silent is measured on this process's own monotonic clock. The first look is special: a
//! data directory belongs to one process at a time, so the attempts of another one ended with it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_core::deployment::report::{self, Outcome};
use berth_core::environment::limits::RUNNER_LOST_S;
use berth_store::query::environments::Running;

use super::decide;
use crate::app::App;
use crate::error::AppError;

const RUNNER_LOST: Duration = Duration::from_secs(RUNNER_LOST_S.unsigned_abs());

/// Attempts that this process does not execute, by nonce.
#[derive(Default)]
pub(super) struct Watches {
    watched: HashMap<String, Watch>,
    has_looked: bool,
}

struct Watch {
    renewal: i64,
    lost_at: Instant,
}

impl Watches {
    /// Which of these are lost by now. What is no longer among them is forgotten.
    fn lost(&mut self, others: Vec<Running>, boot: &str, now: Instant) -> Vec<Running> {
        let mut before = std::mem::take(&mut self.watched);
        let is_first_look = !std::mem::replace(&mut self.has_looked, true);
        let mut lost = Vec::new();
        for attempt in others {
            // One under this process's own name may be a moment away from being executed.
            let patience = if is_first_look && attempt.runner != boot { Duration::ZERO } else { RUNNER_LOST };
            let watch = match before.remove(&attempt.nonce) {
                Some(watch) if watch.renewal == attempt.renewal => watch,
                _ => Watch { renewal: attempt.renewal, lost_at: now + patience },
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

/// One that cannot be reported is tried again at the next look.
pub(super) async fn reap(app: &App, running: Vec<Running>) {
    let others = {
        let ours = app.runner.attempts();
        running.into_iter().filter(|it| !ours.contains_key(&it.nonce)).collect()
    };
    let lost = app.runner.watches().lost(others, app.runner.boot(), Instant::now());
    for attempt in lost {
        let (deployment, runner) = (attempt.deployment, attempt.runner.clone());
        match report_lost(app, attempt).await {
            Ok(()) => tracing::warn!(%deployment, runner, "deployment lost: its runner is gone"),
            Err(error) => tracing::error!(?error, %deployment, "a lost deployment could not be reported"),
        }
    }
}

async fn report_lost(app: &App, lost: Running) -> Result<(), AppError> {
    let Running { org, environment, deployment, nonce, .. } = lost;
    let rule = move |lock: &_, moment: &_| report::report(lock, deployment, &nonce, &Outcome::Lost, moment);
    decide(app, org, environment, rule).await.map(drop)
}

#[cfg(test)]
mod tests {
    use berth_core::id::{DeploymentId, EnvironmentId, OrgId};
    use berth_core::time::Timestamp;

    use super::*;

    fn attempt(runner: &str, nonce: &str, renewal: i64) -> Running {
        let at = Timestamp::from_micros(1);
        Running {
            org: OrgId::from_parts(at, [0; 10]),
            environment: EnvironmentId::from_parts(at, [0; 10]),
            deployment: DeploymentId::from_parts(at, [0; 10]),
            runner: runner.into(),
            nonce: nonce.into(),
            renewal,
            is_cancelling: false,
        }
    }

    fn nonces(lost: &[Running]) -> Vec<&str> {
        lost.iter().map(|it| it.nonce.as_str()).collect()
    }

    #[test]
    fn what_an_earlier_process_left_is_lost_at_the_first_look_and_until_it_is_reported() {
        let (mut watches, now) = (Watches::default(), Instant::now());
        let found = || vec![attempt("old", "a", 3), attempt("me", "b", 0)];
        assert_eq!(nonces(&watches.lost(found(), "me", now)), ["a"]);
        assert_eq!(nonces(&watches.lost(found(), "me", now)), ["a"]);
        assert_eq!(nonces(&watches.lost(found(), "me", now + RUNNER_LOST)), ["a", "b"]);
    }

    #[test]
    fn a_silent_runner_is_lost_after_a_while_and_one_that_renews_is_not() {
        let (mut watches, start) = (Watches::default(), Instant::now());
        let mut at = |seconds: u64, found: Vec<Running>| {
            let lost = watches.lost(found, "me", start + Duration::from_secs(seconds));
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
}
