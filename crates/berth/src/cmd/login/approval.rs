//! Login that a person approves in a browser: with a redirect to this machine (RFC 8252, PKCE), or with a code that the
//! person enters in any browser (RFC 8628).

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::cli_login::{
    CliLoginExchange, CliLoginNew, CliLoginResult, CliLoginStarted, WireCliLoginStatus,
};

use super::callback::{CallbackListener, CallbackOutcome};
use crate::client::{ApiClient, ServerLogin};
use crate::cmd::open::open_in_browser;
use crate::output::{bold, print_note, strip_control_chars};

const START_PATH: &str = "/api/v1/auth/cli-logins";
const TOKEN_PATH: &str = "/api/v1/auth/cli-logins/token";
const MACHINE_CHARS_MAX: usize = 100;
/// The CLI waits at most this long, whatever the server says.
const WAIT_MAX: Duration = Duration::from_secs(15 * 60);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Where the person approves the login.
#[derive(Clone, Copy)]
pub(super) enum ApprovalChannel {
    /// In a browser on this machine, which is redirected to a port of this process.
    Browser,
    /// In any browser, by entering a code.
    Code,
}

pub(super) fn log_in(server: &str, channel: ApprovalChannel) -> anyhow::Result<ServerLogin> {
    let client = ApiClient::new(ServerLogin::without_token(server));
    let (started, result) = match channel {
        ApprovalChannel::Browser => approve_with_redirect(&client)?,
        ApprovalChannel::Code => approve_with_code(&client)?,
    };
    match result.status {
        WireCliLoginStatus::Approved => {}
        WireCliLoginStatus::Denied => bail!("the login was denied in the browser"),
        WireCliLoginStatus::Pending | WireCliLoginStatus::SlowDown | WireCliLoginStatus::Expired => {
            let minutes = started.expires_in_seconds / 60;
            bail!("the login was not approved within {minutes} minutes; run `berth login` again")
        }
    }
    let unexpected = "unexpected response; does the server run another version of Berth?";
    Ok(ServerLogin {
        organization: result.organization.context(unexpected)?,
        token: result.token.context(unexpected)?,
        token_id: result.token_id,
        ..ServerLogin::without_token(server)
    })
}

fn approve_with_redirect(client: &ApiClient) -> anyhow::Result<(CliLoginStarted, CliLoginResult)> {
    let listener = CallbackListener::bind()?;
    let (verifier, state) = (random_text()?, random_text()?);
    let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
    let new = CliLoginNew {
        machine: machine_name(),
        redirect_port: Some(i64::from(listener.port())),
        code_challenge: Some(challenge),
        state: Some(state.clone()),
    };
    let started: CliLoginStarted = client.post(START_PATH, &new)?.data;
    let page = strip_control_chars(&started.verification_uri_complete);
    print_note(&format!("Approve the login in your browser; its code is {}.", bold(&code_of(&started))));
    if open_in_browser(&page) {
        print_note(&format!("If no page opens, go to {page}"));
    } else {
        print_note(&format!("Cannot open a browser; go to {page}, or use `berth login --device`."));
    }
    let result = match listener.wait(&state, deadline(&started))? {
        None => without_token(WireCliLoginStatus::Expired),
        Some(CallbackOutcome::Denied) => without_token(WireCliLoginStatus::Denied),
        Some(CallbackOutcome::Code(code)) => {
            let proof = CliLoginExchange {
                device_code: started.device_code.clone(),
                code: Some(code),
                code_verifier: Some(verifier),
            };
            client.post(TOKEN_PATH, &proof)?.data
        }
    };
    Ok((started, result))
}

fn approve_with_code(client: &ApiClient) -> anyhow::Result<(CliLoginStarted, CliLoginResult)> {
    let new = CliLoginNew { machine: machine_name(), redirect_port: None, code_challenge: None, state: None };
    let started: CliLoginStarted = client.post(START_PATH, &new)?.data;
    let page = strip_control_chars(&started.verification_uri);
    print_note(&format!("Go to {page} and enter the code {}", bold(&code_of(&started))));
    let (end, mut interval) = (deadline(&started), started.interval_seconds);
    loop {
        std::thread::sleep(interval_duration(interval).min(end.saturating_duration_since(Instant::now())));
        let proof =
            CliLoginExchange { device_code: started.device_code.clone(), code: None, code_verifier: None };
        let result: CliLoginResult = client.post(TOKEN_PATH, &proof)?.data;
        let is_open = matches!(result.status, WireCliLoginStatus::Pending | WireCliLoginStatus::SlowDown);
        if !is_open || Instant::now() >= end {
            return Ok((started, result));
        }
        interval = result.interval_seconds;
    }
}

fn interval_duration(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1)).min(INTERVAL_MAX)
}

fn deadline(started: &CliLoginStarted) -> Instant {
    let seconds = u64::try_from(started.expires_in_seconds).unwrap_or(0);
    Instant::now() + Duration::from_secs(seconds).min(WAIT_MAX)
}

fn code_of(started: &CliLoginStarted) -> String {
    strip_control_chars(&started.user_code)
}

fn without_token(status: WireCliLoginStatus) -> CliLoginResult {
    CliLoginResult {
        status,
        interval_seconds: 1,
        token: None,
        token_id: None,
        organization: None,
        expires_at: None,
    }
}

/// Returns the name of this machine, from the kernel or from the shell.
fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    let name = name.unwrap_or_default();
    let name: String = name.trim().chars().filter(|it| !it.is_control()).take(MACHINE_CHARS_MAX).collect();
    if name.is_empty() { "an unnamed machine".to_owned() } else { name }
}

/// Returns 256 random bits as text.
fn random_text() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 32];
    rand::fill(&mut bytes).map_err(|_| anyhow::anyhow!("cannot get random bytes from the system"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
