//! Login of the CLI, approved by a person in a browser.
//!
//! The CLI starts a login and gets two codes: the device code stays with the CLI, the user code is shown to the person.
//! If the CLI runs next to the browser, it listens on the loopback address, and approval redirects the browser there
//! with a code that is bound to the CLI by PKCE (RFC 8252, RFC 7636). Otherwise, the CLI polls until the person has
//! entered the user code (RFC 8628). The token is created when the CLI fetches it, so it is never stored.

use aws_lc_rs::{constant_time, digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::cli_login as wire;
use berth_api::problem::{Code, ProblemDetails};
use berth_core::access::permit;
use berth_core::client_info::ClientInfo;
use berth_core::event::EventKind;
use berth_core::id::UserId;
use berth_core::name::DisplayName;
use berth_engine::credential::RedactedString;
use berth_store::tables::cli_login::{self, CliLogin, CliLoginStatus, NewCliLogin};
use berth_store::tables::{member, organization, sign_in, user};
use berth_store::{Tx, TxContext};

use super::sign_in::{account_event, actor, record_event_at_home};
use super::throttle::network_of;
use super::tokens::issue_token;
use super::{ApiResponse, App, IdempotentResponse, RuleOutcome};
use crate::auth::authorize::{AuthMethod, AuthorizedCaller, Principal};
use crate::auth::tokens::{TokenKind, generate_token, hash_token, is_well_formed};
use crate::error::AppError;
use crate::limits::{
    CLI_CODE_GUESSES_MAX, CLI_LOGIN_INTERVAL_S, CLI_LOGIN_INTERVAL_S_MAX, CLI_LOGIN_S, CLI_LOGINS_MAX,
    CLI_LOGINS_PER_NETWORK_MAX, LOGIN_FAILURE_WINDOW_S,
};

/// Characters of user codes: consonants, so that no words appear and no characters look alike (RFC 8628, section 6.1).
const USER_CODE_ALPHABET: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const USER_CODE_CHARS: usize = 8;
/// A poll this much earlier than the interval is still accepted, because clocks are read at different times.
const POLL_TOLERANCE_S: i64 = 1;

pub struct CliLoginRequest {
    pub machine: String,
    pub redirect: Option<LoopbackRedirect>,
    pub client: ClientInfo,
    pub request_id: String,
}

/// How the browser returns to the CLI. The host is always 127.0.0.1.
pub struct LoopbackRedirect {
    pub port: i64,
    pub state: String,
    pub code_challenge: String,
}

/// What the CLI sends to fetch its token.
pub struct CliLoginProof {
    pub device_code: RedactedString,
    pub code: Option<RedactedString>,
    pub code_verifier: Option<RedactedString>,
}

impl App {
    pub async fn start_cli_login(
        &self,
        new: CliLoginRequest,
        dashboard: &str,
    ) -> Result<wire::CliLoginStarted, AppError> {
        token_name(&new.machine)?;
        let (device_code, user_code) = (generate_token(TokenKind::CliLogin), generate_user_code()?);
        let device_hash = hash_token(device_code.reveal());
        let user_code_hash = self.hash_user_code(&user_code);
        let context = TxContext { request_id: Some(new.request_id), ..TxContext::system(None) };
        self.services
            .store
            .transact(context, move |tx| {
                let network = network_of(new.client.address());
                if cli_login::count_of_network(tx, &network)? >= CLI_LOGINS_PER_NETWORK_MAX
                    || cli_login::count(tx)? >= CLI_LOGINS_MAX
                {
                    return Err(too_many_error("too many logins of the CLI wait for approval", CLI_LOGIN_S));
                }
                let (port, state, challenge) = match new.redirect {
                    Some(it) => (Some(it.port), Some(it.state), Some(it.code_challenge)),
                    None => (None, None, None),
                };
                let request = NewCliLogin {
                    device_hash,
                    user_code_hash,
                    machine: new.machine,
                    client: new.client,
                    network,
                    redirect_port: port,
                    state,
                    code_challenge: challenge,
                    expires_at: tx.now().plus_seconds(CLI_LOGIN_S),
                    interval_s: CLI_LOGIN_INTERVAL_S,
                };
                Ok::<_, AppError>(cli_login::insert(tx, &request)?)
            })
            .await?;
        Ok(wire::CliLoginStarted {
            device_code: device_code.reveal().to_owned(),
            verification_uri: format!("{dashboard}/device"),
            verification_uri_complete: format!("{dashboard}/device#{user_code}"),
            user_code,
            expires_in_seconds: CLI_LOGIN_S,
            interval_seconds: CLI_LOGIN_INTERVAL_S,
        })
    }

    /// Returns what the person has to confirm.
    pub async fn find_cli_login(
        &self,
        who: &Principal,
        user_code: &str,
    ) -> Result<wire::PendingCliLogin, AppError> {
        check_browser(who)?;
        let (user, hash) = (who.user, self.hash_user_code(user_code));
        let found = self.services.store.transact(self.context(who), move |tx| look_up(tx, user, &hash));
        let found = found.await??;
        Ok(wire::PendingCliLogin {
            machine: found.machine,
            address: found.address,
            is_local: found.redirect_port.is_some(),
            created_at: found.created_at.to_string(),
            expires_at: found.expires_at.to_string(),
        })
    }

    pub async fn approve_cli_login(
        &self,
        who: &AuthorizedCaller<permit::TokensOwn>,
        user_code: &str,
        token_days: i64,
    ) -> Result<IdempotentResponse<wire::CliLoginDecision>, AppError> {
        check_browser(who.principal())?;
        let (org, user, hash) = (who.org(), who.principal().user, self.hash_user_code(user_code));
        self.run_rule(who, None, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let found = match look_up(tx, user, &hash)? {
                Ok(found) => found,
                Err(refused) => return Ok(RuleOutcome::No(refused)),
            };
            let code = found.redirect_port.map(|_| generate_token(TokenKind::CliLogin));
            let code_hash = code.as_ref().map(|code| hash_token(code.reveal()));
            if !cli_login::approve(tx, &hash, (org, user), token_days, code_hash.as_deref())? {
                return Err(unknown_code_error());
            }
            let account =
                user::by_id(tx, user)?.ok_or_else(|| AppError::bug("the caller's account is gone"))?;
            let event = account_event(EventKind::CliLoginApproved, &account);
            tx.record(event.with("machine", found.machine.as_str()).with("address", found.address.as_str()))?;
            let redirect_to = code.and_then(|code| redirect_url(&found, "code", code.reveal()));
            Ok(RuleOutcome::Yes(ApiResponse::ok(wire::CliLoginDecision { redirect_to })))
        })
        .await
    }

    pub async fn deny_cli_login(
        &self,
        who: &Principal,
        user_code: &str,
    ) -> Result<wire::CliLoginDecision, AppError> {
        check_browser(who)?;
        let (user, hash) = (self.load_user(who.user).await?, self.hash_user_code(user_code));
        let denied = self.services.store.transact(self.context(who), move |tx| {
            let found = match look_up(tx, user.id, &hash)? {
                Ok(found) => found,
                Err(refused) => return Ok::<_, AppError>(Err(refused)),
            };
            cli_login::deny(tx, &hash)?;
            let event = account_event(EventKind::CliLoginDenied, &user);
            let event = event.with("machine", found.machine.as_str()).with("address", found.address.as_str());
            record_event_at_home(tx, &user, event)?;
            Ok(Ok(redirect_url(&found, "error", "access_denied")))
        });
        Ok(wire::CliLoginDecision { redirect_to: denied.await?? })
    }

    /// Creates the token of an approved login, once. For a pending login, counts a poll.
    pub async fn exchange_cli_login(
        &self,
        proof: CliLoginProof,
        request_id: String,
    ) -> Result<wire::CliLoginResult, AppError> {
        if !is_well_formed(TokenKind::CliLogin, proof.device_code.reveal()) {
            return Err(AppError::invalid_member("/deviceCode", "is not a device code"));
        }
        let context = TxContext { request_id: Some(request_id), ..TxContext::system(None) };
        self.services.store.transact(context, move |tx| exchange(tx, &proof)).await?
    }

    fn hash_user_code(&self, user_code: &str) -> Vec<u8> {
        let letters = user_code.chars().filter(char::is_ascii_alphanumeric);
        let normal: String = letters.take(USER_CODE_CHARS + 1).collect::<String>().to_ascii_uppercase();
        self.services.vault.keyed_hashes().user_code_hash(&normal)
    }
}

/// The outer result rolls back the transaction; the inner one is a refusal after which it commits.
type Committed<T> = Result<Result<T, AppError>, AppError>;

fn exchange(tx: &mut Tx<'_>, proof: &CliLoginProof) -> Committed<wire::CliLoginResult> {
    let device_hash = hash_token(proof.device_code.reveal());
    let Some(found) = cli_login::by_device_code(tx, &device_hash)? else {
        return Ok(Ok(result(wire::WireCliLoginStatus::Expired, CLI_LOGIN_INTERVAL_S)));
    };
    match found.status {
        CliLoginStatus::Denied => Ok(Ok(result(wire::WireCliLoginStatus::Denied, found.interval_s))),
        CliLoginStatus::Pending => poll(tx, &device_hash, &found).map(Ok),
        // The CLI has not received the redirect yet.
        CliLoginStatus::Approved if found.redirect_port.is_some() && proof.code.is_none() => {
            poll(tx, &device_hash, &found).map(Ok)
        }
        CliLoginStatus::Approved => {
            // Delete the login before the proof is checked, so that a code can be tried only once.
            if !cli_login::delete(tx, &device_hash)? {
                return Ok(Ok(result(wire::WireCliLoginStatus::Expired, found.interval_s)));
            }
            if !is_proven(&found, proof) {
                let text = "is wrong, or codeVerifier does not match the challenge; run `berth login` again";
                return Ok(Err(AppError::invalid_member("/code", text)));
            }
            issue(tx, &found).map(Ok)
        }
    }
}

fn poll(tx: &mut Tx<'_>, device_hash: &[u8], found: &CliLogin) -> Result<wire::CliLoginResult, AppError> {
    let is_early = found
        .polled_at
        .is_some_and(|last| tx.now().seconds_since(last) < found.interval_s - POLL_TOLERANCE_S);
    let (status, interval_s) = match is_early {
        true => {
            let raised = (found.interval_s + CLI_LOGIN_INTERVAL_S).min(CLI_LOGIN_INTERVAL_S_MAX);
            (wire::WireCliLoginStatus::SlowDown, raised)
        }
        false => (wire::WireCliLoginStatus::Pending, found.interval_s),
    };
    cli_login::record_poll(tx, device_hash, interval_s)?;
    Ok(result(status, interval_s))
}

/// Whether the CLI that fetches the token is the one that started the login and received the redirect.
fn is_proven(found: &CliLogin, proof: &CliLoginProof) -> bool {
    if found.redirect_port.is_none() {
        return proof.code.is_none() && proof.code_verifier.is_none();
    }
    let (Some(code), Some(verifier), Some(code_hash), Some(challenge)) =
        (&proof.code, &proof.code_verifier, &found.code_hash, &found.code_challenge)
    else {
        return false;
    };
    let sent = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.reveal().as_bytes()));
    let is_equal = |a: &[u8], b: &[u8]| constant_time::verify_slices_are_equal(a, b).is_ok();
    is_equal(&hash_token(code.reveal()), code_hash) & is_equal(sent.as_bytes(), challenge.as_bytes())
}

/// Creates the token for the person who approved the login, if that person is still a member.
fn issue(tx: &mut Tx<'_>, found: &CliLogin) -> Result<wire::CliLoginResult, AppError> {
    let (Some(org), Some(user), Some(days)) = (found.approved_org, found.approved_by, found.token_days)
    else {
        return Err(AppError::bug("an approved CLI login without approval"));
    };
    let account = user::by_id(tx, user)?;
    let is_member = member::role_in(tx, user, org)?.is_some();
    let (Some(account), Some(organization), true) = (account, organization::by_id(tx, org)?, is_member)
    else {
        return Ok(result(wire::WireCliLoginStatus::Denied, found.interval_s));
    };
    tx.set_actor(actor(&account));
    let (name, expires_at) = (token_name(&found.machine)?, tx.now().plus_seconds(days * 24 * 60 * 60));
    let (record, token) = tx.within_org(org, |tx| issue_token(tx, user, name, Some(expires_at), None))?;
    Ok(wire::CliLoginResult {
        token: Some(token.reveal().to_owned()),
        token_id: Some(record.id.to_string()),
        organization: Some(organization.slug.to_string()),
        expires_at: Some(expires_at.to_string()),
        ..result(wire::WireCliLoginStatus::Approved, found.interval_s)
    })
}

fn result(status: wire::WireCliLoginStatus, interval_seconds: i64) -> wire::CliLoginResult {
    wire::CliLoginResult {
        status,
        interval_seconds,
        token: None,
        token_id: None,
        organization: None,
        expires_at: None,
    }
}

/// Finds a pending login by its user code. Wrong codes are counted per user, because a code is short.
fn look_up(tx: &mut Tx<'_>, user: UserId, user_code_hash: &[u8]) -> Committed<CliLogin> {
    let subject = format!("cli login code:{user}");
    let since = tx.now().plus_seconds(-LOGIN_FAILURE_WINDOW_S);
    if sign_in::count_failures(tx, &subject, since)? >= CLI_CODE_GUESSES_MAX {
        return Err(too_many_error("too many wrong codes", LOGIN_FAILURE_WINDOW_S));
    }
    match cli_login::by_user_code(tx, user_code_hash)? {
        Some(found) => Ok(Ok(found)),
        None => {
            sign_in::record_failure(tx, &subject, since)?;
            Ok(Err(unknown_code_error()))
        }
    }
}

/// Only a person who is logged in to the dashboard can decide. With a stolen token, a caller could otherwise create
/// tokens that outlive it.
fn check_browser(who: &Principal) -> Result<(), AppError> {
    match who.via {
        AuthMethod::SignIn { .. } => Ok(()),
        AuthMethod::Token { .. } => {
            let text = "a CLI login is approved in the dashboard, not with an API token";
            Err(AppError::new(Code::InvalidState, text))
        }
    }
}

fn unknown_code_error() -> AppError {
    AppError::new(Code::NotFound, "this code is wrong, was used or has expired; run `berth login` again")
}

fn too_many_error(text: &str, wait_s: i64) -> AppError {
    let text = format!("{text}; wait {wait_s} s and try again");
    ProblemDetails::new(Code::RateLimited, text).with_member("retryAfterSeconds", wait_s).into()
}

fn redirect_url(found: &CliLogin, name: &str, value: &str) -> Option<String> {
    let (port, state) = (found.redirect_port?, found.state.as_deref()?);
    Some(format!("http://127.0.0.1:{port}/callback?{name}={value}&state={state}"))
}

fn token_name(machine: &str) -> Result<DisplayName, AppError> {
    DisplayName::parse(&format!("berth CLI on {machine}"))
        .map_err(|error| AppError::invalid_member("/machine", error.to_string()))
}

/// Generates a code such as `BDFG-KLMN`, with 34 random bits.
fn generate_user_code() -> Result<String, AppError> {
    // The largest multiple of the alphabet's length in a byte; larger bytes would make some characters more likely.
    const BYTE_END: u8 = 240;
    let mut code = String::new();
    while code.len() <= USER_CODE_CHARS {
        let mut byte = [0u8; 1];
        rand::fill(&mut byte).map_err(|_| AppError::bug("the system gave no random bytes"))?;
        if code.len() == USER_CODE_CHARS / 2 {
            code.push('-');
        }
        if byte[0] < BYTE_END {
            code.push(char::from(USER_CODE_ALPHABET[usize::from(byte[0]) % USER_CODE_ALPHABET.len()]));
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_code_has_two_groups_of_consonants() {
        let codes: std::collections::BTreeSet<_> = (0..100).map(|_| generate_user_code().unwrap()).collect();
        assert_eq!(codes.len(), 100);
        for code in &codes {
            let (first, second) = code.split_once('-').unwrap();
            assert_eq!((first.len(), second.len()), (4, 4), "{code}");
            assert!(format!("{first}{second}").bytes().all(|it| USER_CODE_ALPHABET.contains(&it)), "{code}");
        }
    }
}
