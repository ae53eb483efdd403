//! `wait_for`: repeats a command or a request until it succeeds.

use std::time::{Duration, Instant};

use berth_api::runner::{FailureCause, StepRunOutcome};
use berth_core::pipeline::seconds::DurationSeconds;

use super::{BuiltinStep, script};
use crate::attempt::{RunningAttempt, StepResult, exit, failed_outcome, invalid_outcome};
use crate::executor::HaltReason;
use crate::http::{self, HttpMethod};

const WITHIN: Duration = Duration::from_secs(600);
const EVERY: Duration = Duration::from_secs(5);

pub(super) struct WaitFor;

impl BuiltinStep for WaitFor {
    fn name(&self) -> &'static str {
        "wait_for"
    }

    fn run(&self, attempt: &RunningAttempt<'_>) -> StepResult {
        let within = attempt.duration_param("within")?.unwrap_or(WITHIN);
        let every = attempt.duration_param("every")?.unwrap_or(EVERY);
        let until = Instant::now() + within;
        loop {
            let problem = match (attempt.text_param("run"), attempt.text_param("url")) {
                (Some(run), None) => try_command(attempt, run, until.min(attempt.deadline))?,
                (None, Some(url)) => try_address(attempt, url, until.min(attempt.deadline))?,
                _ => return Err(invalid_outcome("give exactly one of `run` and `url`".into())),
            };
            let Some(problem) = problem else { break };
            let now = Instant::now();
            if now >= attempt.deadline {
                return Err(attempt.timeout_outcome());
            }
            if now >= until {
                let within = DurationSeconds::from_secs(within.as_secs());
                return Err(failed_outcome(FailureCause::Exited, format!("not within {within}: {problem}")));
            }
            attempt.log.write_line(&format!("[berth] not yet: {problem}"));
            if let Some(why) = attempt.wait(every.min(until - now)) {
                return Err(attempt.stopped_outcome(&why));
            }
        }
        match attempt.text_param("run") {
            Some(_) => script::collect_outputs(attempt),
            None => Ok(std::collections::BTreeMap::new()),
        }
    }
}

/// Runs the command once. Returns `None` if it succeeded, otherwise what went wrong.
fn try_command(
    attempt: &RunningAttempt<'_>,
    run: &str,
    by: Instant,
) -> Result<Option<String>, StepRunOutcome> {
    let ended = script::run_shell(attempt, run, by)?;
    match ended.halt {
        Some(HaltReason::Stopped(why)) => Err(attempt.stopped_outcome(&why)),
        Some(HaltReason::TimedOut) => Ok(Some("the command was still running".into())),
        Some(HaltReason::MonitorDone) | None => {
            Ok(exit::failure_outcome(ended.status, exit::MemoryState::Unlimited).map(
                |outcome| match outcome {
                    StepRunOutcome::Failed { detail, .. } => detail,
                    other => format!("{other:?}"),
                },
            ))
        }
    }
}

fn try_address(
    attempt: &RunningAttempt<'_>,
    url: &str,
    by: Instant,
) -> Result<Option<String>, StepRunOutcome> {
    let answer = http::send_request(attempt, HttpMethod::Get, url, by)?;
    Ok(match answer {
        Ok(status) if (200..300).contains(&status) => None,
        Ok(status) => Some(format!("answered {status}")),
        Err(problem) => Some(problem),
    })
}
