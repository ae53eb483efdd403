//! `dummy`: simulates work, for trying out pipelines and for tests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_api::runner::FailureCause;
use serde_json::Value;

use super::BuiltinStep;
use crate::attempt::{RunningAttempt, StepResult, failed_outcome};
use crate::stop_signal::StopReason;

pub(super) struct DummyStep;

impl BuiltinStep for DummyStep {
    fn name(&self) -> &'static str {
        "dummy"
    }

    fn run(&self, attempt: &RunningAttempt<'_>) -> StepResult {
        attempt.has_run.set(true);
        if let Some(message) = attempt.text_param("message") {
            attempt.log.write_line(message);
        }
        let outcome = attempt.text_param("outcome").unwrap_or("succeed");
        let stop_after = attempt.duration_param("stop_after")?.unwrap_or_default();
        let until = match attempt.duration_param("duration")? {
            _ if outcome == "hang" => None,
            Some(length) => Some(Instant::now() + length),
            None => Some(Instant::now()),
        };
        let by = until.map_or(attempt.deadline, |until| until.min(attempt.deadline));
        while Instant::now() < by {
            let left = by.saturating_duration_since(Instant::now());
            if let Some(why) = attempt.wait(left) {
                delay_stop(attempt, &why, stop_after);
                return Err(attempt.stopped_outcome(&why));
            }
        }
        if until.is_none_or(|until| until > attempt.deadline) {
            return Err(attempt.timeout_outcome());
        }
        if outcome == "fail" {
            return Err(failed_outcome(FailureCause::Exited, "failed, as it was told".into()));
        }
        Ok(declared_outputs(attempt))
    }
}

/// Delays the stop by `stop_after`, but at most by the grace period that a real step would get.
fn delay_stop(attempt: &RunningAttempt<'_>, why: &StopReason, stop_after: Duration) {
    let settings = attempt.settings();
    let grace = match why {
        StopReason::Shutdown => settings.shutdown_grace,
        StopReason::Cancelled { .. } | StopReason::Stale | StopReason::Silence => settings.stop_grace,
    };
    let until = Instant::now() + stop_after.min(grace);
    loop {
        let until = attempt.control.kill_by().map_or(until, |earlier| earlier.min(until));
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        attempt.log.tick();
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}

fn declared_outputs(attempt: &RunningAttempt<'_>) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    let given = attempt.assignment.params.get("outputs").and_then(Value::as_object);
    for (name, value) in given.into_iter().flatten() {
        if !attempt.assignment.outputs.contains(name) {
            attempt.log.write_line(&format!(
                "[berth] warning: `{}` is not among the step's `outputs` and is not kept",
                name.escape_debug()
            ));
        } else if let Some(value) = value.as_str() {
            kept.insert(name.clone(), value.to_owned());
        }
    }
    kept
}
