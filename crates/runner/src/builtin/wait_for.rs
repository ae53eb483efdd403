//! `wait_for`: repeats a command or a request until it succeeds.

use std::time::{Duration, Instant};

use berth_api::runner::{FailureCause, Outcome};
use berth_core::pipeline::seconds::Seconds;

use super::{StepKind, script};
use crate::attempt::{Attempt, Done, exit, failed, invalid};
use crate::http::{self, Method};
use crate::process::Halt;

const WITHIN: Duration = Duration::from_secs(600);
const EVERY: Duration = Duration::from_secs(5);

pub(super) struct WaitFor;

impl StepKind for WaitFor {
    fn name(&self) -> &'static str {
        "wait_for"
    }

    fn run(&self, attempt: &Attempt<'_>) -> Done {
        let within = attempt.duration_param("within")?.unwrap_or(WITHIN);
        let every = attempt.duration_param("every")?.unwrap_or(EVERY);
        let until = Instant::now() + within;
        loop {
            let problem = match (attempt.text_param("run"), attempt.text_param("url")) {
                (Some(run), None) => try_command(attempt, run, until.min(attempt.by))?,
                (None, Some(url)) => try_address(attempt, url, until.min(attempt.by))?,
                _ => return Err(invalid("give exactly one of `run` and `url`".into())),
            };
            let Some(problem) = problem else { break };
            let now = Instant::now();
            if now >= attempt.by {
                return Err(attempt.timed_out());
            }
            if now >= until {
                let within = Seconds::from_secs(within.as_secs());
                return Err(failed(FailureCause::Exited, format!("not within {within}: {problem}")));
            }
            attempt.log.line(&format!("[berth] not yet: {problem}"));
            if let Some(why) = attempt.wait(every.min(until - now)) {
                return Err(attempt.halted(&why));
            }
        }
        match attempt.text_param("run") {
            Some(_) => script::collect(attempt),
            None => Ok(std::collections::BTreeMap::new()),
        }
    }
}

/// Returns `None` if the command succeeded, otherwise what went wrong.
fn try_command(attempt: &Attempt<'_>, run: &str, by: Instant) -> Result<Option<String>, Outcome> {
    let ended = script::shell(attempt, run, by)?;
    match ended.halt {
        Some(Halt::Told(why)) => Err(attempt.halted(&why)),
        Some(Halt::TimedOut) => Ok(Some("the command was still running".into())),
        Some(Halt::Enough) | None => Ok(exit::failure(ended.status, false).map(|outcome| match outcome {
            Outcome::Failed { detail, .. } => detail,
            other => format!("{other:?}"),
        })),
    }
}

fn try_address(attempt: &Attempt<'_>, url: &str, by: Instant) -> Result<Option<String>, Outcome> {
    let answer = http::ask(attempt, Method::Get, url, by)?;
    Ok(match answer {
        Ok(status) if (200..300).contains(&status) => None,
        Ok(status) => Some(format!("answered {status}")),
        Err(problem) => Some(problem),
    })
}
