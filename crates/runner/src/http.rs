//! HTTP requests that the runner sends on behalf of steps. Redirects are not followed.

use std::fmt;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::{Duration, Instant};

use berth_api::runner::{Network, StepRunOutcome};
use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::typestate::AgentScope;

use crate::attempt::{RunningAttempt, invalid_outcome};

/// Timeout of one request.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(10);
/// Interval between two checks for a reason to stop while waiting for a response.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpMethod {
    Get,
    Head,
}

impl fmt::Display for HttpMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HttpMethod::Get => "GET",
            HttpMethod::Head => "HEAD",
        })
    }
}

static AGENT: LazyLock<Agent> =
    LazyLock::new(|| Agent::new_with_config(client_config().max_idle_connections(0).build()));

/// Configuration shared by all HTTP clients of the runner.
pub(crate) fn client_config() -> ConfigBuilder<AgentScope> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        // Trust the machine's certificate store, which may contain the operator's own CA.
        .root_certs(RootCerts::PlatformVerifier)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent("berth")
}

/// Sends one request and returns its status or an error text. The request runs on a thread of its own. If the step has
/// to stop, that thread is abandoned and ends when its timeout expires.
pub(crate) fn send_request(
    attempt: &RunningAttempt<'_>,
    method: HttpMethod,
    url: &str,
    by: Instant,
) -> Result<Result<u16, String>, StepRunOutcome> {
    // The runner sends the request outside of the step's sandbox, so the step's network setting has to be checked here.
    if attempt.assignment.network == Network::None {
        return Err(invalid_outcome("a step with `network: none` cannot send requests".into()));
    }
    attempt
        .record_start()
        .map_err(|error| StepRunOutcome::never_started(format!("cannot begin: {error}")))?;
    attempt.has_run.set(true);
    let limit =
        by.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(100), REQUEST_TIMEOUT_MAX);
    let (sender, answers) = mpsc::sync_channel(1);
    let url = url.to_owned();
    let started = std::thread::Builder::new().name("step-http".into()).spawn(move || {
        // Sending fails if the step was stopped in the meantime.
        sender.send(perform_request(method, &url, limit)).ok();
    });
    if let Err(error) = started {
        return Ok(Err(format!("cannot start a thread: {error}")));
    }
    loop {
        match answers.recv_timeout(STOP_POLL_INTERVAL) {
            Ok(answer) => return Ok(answer),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(Err("the request failed".into())),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                attempt.log.tick();
                if let Some(why) = attempt.stop_reason() {
                    return Err(attempt.stopped_outcome(&why));
                }
            }
        }
    }
}

fn perform_request(method: HttpMethod, url: &str, limit: Duration) -> Result<u16, String> {
    let request = match method {
        HttpMethod::Get => AGENT.get(url),
        HttpMethod::Head => AGENT.head(url),
    };
    let answer = request.config().timeout_global(Some(limit)).build().call();
    match answer {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(ureq::Error::Timeout(_)) => Err(format!("no response within {} ms", limit.as_millis())),
        Err(error) => Err(format!("request failed: {error}")),
    }
}
