//! `http_check`: sends requests until the response has the expected status.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_api::runner::FailureCause;
use berth_core::pipeline::seconds::DurationSeconds;

use super::BuiltinStep;
use crate::attempt::{RunningAttempt, StepResult, failed_outcome, invalid_outcome};
use crate::http::{self, HttpMethod};

const WITHIN: Duration = Duration::from_secs(60);
const EXPECTED: u64 = 200;
/// Pauses between requests. They are short at first, because most services are up soon.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

pub(super) struct HttpCheck;

impl BuiltinStep for HttpCheck {
    fn name(&self) -> &'static str {
        "http_check"
    }

    fn run(&self, attempt: &RunningAttempt<'_>) -> StepResult {
        let url =
            attempt.text_param("url").ok_or_else(|| invalid_outcome("the param `url` is missing".into()))?;
        let method = match attempt.text_param("method") {
            Some("HEAD") => HttpMethod::Head,
            _ => HttpMethod::Get,
        };
        let expected = attempt.assignment.params.get("expect_status");
        // If the status comes from an expression, it is a string instead of a number.
        let expected = match expected {
            None => EXPECTED,
            Some(value) => value
                .as_u64()
                .or_else(|| value.as_str()?.parse().ok())
                .ok_or_else(|| invalid_outcome("the param `expect_status` is not a number".into()))?,
        };
        let within = attempt.duration_param("within")?.unwrap_or(WITHIN);
        let until = Instant::now() + within;
        let mut pauses = PAUSES.iter();
        let mut pause = PAUSES[0];
        loop {
            let began = Instant::now();
            let said = match http::send_request(attempt, method, url, until.min(attempt.deadline))? {
                Ok(status) => {
                    let took = began.elapsed().as_millis();
                    attempt.log.write_line(&format!("[berth] {method} {url} answered {status} in {took} ms"));
                    if u64::from(status) == expected {
                        return Ok(BTreeMap::new());
                    }
                    format!("answered {status}")
                }
                Err(problem) => {
                    attempt.log.write_line(&format!("[berth] {method} {url}: {problem}"));
                    problem
                }
            };
            let now = Instant::now();
            if now >= attempt.deadline {
                return Err(attempt.timeout_outcome());
            }
            if now >= until {
                let within = DurationSeconds::from_secs(within.as_secs());
                let detail = format!("expected {expected} within {within}, but it {said}");
                return Err(failed_outcome(FailureCause::Exited, detail));
            }
            pause = pauses.next().copied().unwrap_or(pause);
            if let Some(why) = attempt.wait(pause.min(until - now)) {
                return Err(attempt.stopped_outcome(&why));
            }
        }
    }
}
