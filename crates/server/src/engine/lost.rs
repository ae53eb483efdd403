//! Lost: attempts whose runner is gone are reported as such.
//!
//! How long a runner has been silent is measured on this process's own monotonic clock. The first look is special: a
//! data directory belongs to one process at a time, so the attempts of another one's embedded runner ended with it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_core::run::Outcome;
use berth_store::Context;
use berth_store::query::runs::{self, Live};

use super::EMBEDDED;
use super::report::{Named, told};
use super::whole::Whole;
use crate::app::App;
use crate::error::AppError;
use crate::logs::{LogKey, LogStream};

/// Attempts looked at in one go; more than all the runners of an installation execute.
pub(super) const LIVE_MAX: i64 = 16_384;

/// How long each attempt has been silent, by nonce.
#[derive(Default)]
pub(crate) struct Watches {
    watched: HashMap<String, Watch>,
    has_looked: bool,
}

struct Watch {
    renewal: i64,
    lost_at: Instant,
}

impl Watches {
    /// Which of these are lost by now. What is no longer among them is forgotten.
    fn lost(&mut self, live: Vec<Live>, boot: &str, after: Duration, now: Instant) -> Vec<Live> {
        let mut before = std::mem::take(&mut self.watched);
        let is_first_look = !std::mem::replace(&mut self.has_looked, true);
        let mut lost = Vec::new();
        for attempt in live {
            let is_gone = is_first_look && attempt.runner.starts_with(EMBEDDED) && attempt.runner != boot;
            let patience = if is_gone { Duration::ZERO } else { after };
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
pub(crate) async fn reap(app: &App) -> Result<(), AppError> {
    let live = app.store.read(None, |db| Ok::<_, AppError>(runs::live(db, LIVE_MAX)?)).await?;
    let after = app.config.runner_times.lost;
    let lost = app.engine.watches().lost(live, app.engine.boot(), after, Instant::now());
    for attempt in lost {
        let (deployment, runner) = (attempt.deployment, attempt.runner.clone());
        match report_ended(app, attempt, Outcome::Lost).await {
            Ok(()) => tracing::warn!(%deployment, runner, "an attempt is lost: its runner is gone"),
            Err(error) => tracing::error!(?error, %deployment, "a lost attempt could not be reported"),
        }
    }
    Ok(())
}

/// Tells the end of an attempt whose runner will not.
pub(super) async fn report_ended(app: &App, lost: Live, outcome: Outcome) -> Result<(), AppError> {
    let plans = app.engine.plans().clone();
    let Live { org, deployment, step, number, .. } = lost;
    let named = Named::from(lost);
    let done = app.store.transact(Context::system(Some(org)), move |tx| {
        let Some(mut whole) = Whole::load(tx, &plans, deployment)? else { return Ok(false) };
        told(tx, &mut whole, &named, outcome)?;
        Ok::<_, AppError>(whole.run.goes_on_with(step, number))
    });
    let goes_on = done.await?;
    let key = LogKey { org, deployment, step, attempt: number, stream: LogStream::Step };
    if !goes_on {
        app.logs.seal_later(&key);
    }
    app.engine.late.forget(app, &key);
    app.nudge();
    Ok(())
}

#[cfg(test)]
mod tests {
    use berth_core::id::{DeploymentId, OrgId, StepRunId};
    use berth_core::time::Timestamp;

    use super::*;

    const RUNNER_LOST: Duration = Duration::from_secs(45);

    fn attempt(runner: &str, nonce: &str, renewal: i64) -> Live {
        let at = Timestamp::from_micros(1);
        Live {
            org: OrgId::from_parts(at, [0; 10]),
            deployment: DeploymentId::from_parts(at, [0; 10]),
            step: StepRunId::from_parts(at, [0; 10]),
            number: 1,
            runner: runner.into(),
            nonce: nonce.into(),
            renewal,
        }
    }

    fn nonces(lost: &[Live]) -> Vec<&str> {
        lost.iter().map(|it| it.nonce.as_str()).collect()
    }

    #[test]
    fn what_an_earlier_process_left_is_lost_at_the_first_look_and_until_it_is_reported() {
        let (mut watches, now) = (Watches::default(), Instant::now());
        let found = || vec![attempt("boot_old", "a", 3), attempt("boot_me", "b", 0), attempt("far", "c", 0)];
        assert_eq!(nonces(&watches.lost(found(), "boot_me", RUNNER_LOST, now)), ["a"]);
        assert_eq!(nonces(&watches.lost(found(), "boot_me", RUNNER_LOST, now)), ["a"]);
        assert_eq!(
            nonces(&watches.lost(found(), "boot_me", RUNNER_LOST, now + RUNNER_LOST)),
            ["a", "b", "c"]
        );
    }

    #[test]
    fn a_silent_runner_is_lost_after_a_while_and_one_that_renews_is_not() {
        let (mut watches, start) = (Watches::default(), Instant::now());
        let mut at = |seconds: u64, found: Vec<Live>| {
            let lost = watches.lost(found, "boot_me", RUNNER_LOST, start + Duration::from_secs(seconds));
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
