//! `http_check`: sends requests until the response has the expected status.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_api::runner::FailureCause;
use berth_core::pipeline::seconds::Seconds;

use super::StepKind;
use crate::attempt::{Attempt, Done, failed, invalid};
use crate::http::{self, Method};

const WITHIN: Duration = Duration::from_secs(60);
const EXPECTED: u64 = 200;
/// Pauses between requests, short at first because most services are up soon.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

pub(super) struct HttpCheck;

impl StepKind for HttpCheck {
    fn name(&self) -> &'static str {
        "http_check"
    }

    fn run(&self, attempt: &Attempt<'_>) -> Done {
        let url = attempt.text_param("url").ok_or_else(|| invalid("the param `url` is missing".into()))?;
        let method = match attempt.text_param("method") {
            Some("HEAD") => Method::Head,
            _ => Method::Get,
        };
        let expected = attempt.assignment.params.get("expect_status");
        // An expression yields a string where the definition has a number.
        let expected = match expected {
            None => EXPECTED,
            Some(value) => value
                .as_u64()
                .or_else(|| value.as_str()?.parse().ok())
                .ok_or_else(|| invalid("the param `expect_status` is not a number".into()))?,
        };
        let within = attempt.duration_param("within")?.unwrap_or(WITHIN);
        let until = Instant::now() + within;
        let mut pauses = PAUSES.iter();
        let mut pause = PAUSES[0];
        loop {
            let began = Instant::now();
            let said = match http::ask(attempt, method, url, until.min(attempt.by))? {
                Ok(status) => {
                    let took = began.elapsed().as_millis();
                    attempt.log.line(&format!("[berth] {method} {url} answered {status} in {took} ms"));
                    if u64::from(status) == expected {
                        return Ok(BTreeMap::new());
                    }
                    format!("answered {status}")
                }
                Err(problem) => {
                    attempt.log.line(&format!("[berth] {method} {url}: {problem}"));
                    problem
                }
            };
            let now = Instant::now();
            if now >= attempt.by {
                return Err(attempt.timed_out());
            }
            if now >= until {
                let within = Seconds::from_secs(within.as_secs());
                let detail = format!("expected {expected} within {within}, but it {said}");
                return Err(failed(FailureCause::Exited, detail));
            }
            pause = pauses.next().copied().unwrap_or(pause);
            if let Some(why) = attempt.wait(pause.min(until - now)) {
                return Err(attempt.halted(&why));
            }
        }
    }
}
