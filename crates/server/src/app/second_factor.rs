//! Second factors: set-up with an authenticator app, verification of codes, recovery codes, and reset.

use aws_lc_rs::rand;
use berth_api::auth as wire;
use berth_api::member::WireMember;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{SignInId, UserId};
use berth_core::name::Email;
use berth_engine::credential::RedactedString;
use berth_engine::vault::SecretVault;
use berth_store::tables::second_factor::{self, SecondFactor};
use berth_store::tables::user::{self, User};
use berth_store::tables::{environment, member, sign_in};
use berth_store::{StoreRead, Tx, TxContext};

use super::members::{self, check_reach};
use super::sign_in::{check_unchanged, password_hash, record_at_home};
use super::throttle::ThrottleKeys;
use super::{App, IdempotentResponse};
use crate::auth::authorize::{AuthMethod, AuthorizedCaller, Principal, check_recent_confirmation};
use crate::auth::totp;
use crate::error::AppError;
use crate::limits::{RECOVERY_CODES, SECOND_FACTOR_CODE_CHARS_MAX, SECOND_FACTOR_ENROLMENT_S};

/// Characters of recovery codes: without letters and digits that look alike. 32 of them, so that a byte maps to each
/// with the same probability.
const RECOVERY_ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const RECOVERY_CHARS: usize = 10;
const WRONG_CODE: &str = "is wrong or was already used; enter the next code that the app shows";

/// The result of checking the second factor of a login or a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FactorCheck {
    /// The code is valid and is used up now, or the account has no second factor.
    Passed,
    CodeMissing,
    CodeWrong,
}

impl App {
    /// Creates the secret of a new second factor. The factor is not in effect before it is confirmed.
    pub async fn begin_second_factor(
        &self,
        who: &Principal,
    ) -> Result<wire::SecondFactorEnrolment, AppError> {
        let (browser, user) = (require_browser(who)?, self.load_user(who.user).await?);
        if password_hash(&user).is_none() {
            let text = "your account has no password, so it needs no second factor";
            return Err(AppError::new(Code::InvalidState, text));
        }
        let secret = totp::generate_secret()?;
        let (id, sealed) = (user.id, self.services.vault.seal_second_factor(user.id, &secret)?);
        self.services
            .store
            .transact(self.context(who), move |tx| {
                check_browser_confirmed(tx, browser)?;
                if find_confirmed(tx, id)?.is_some() {
                    let text = "you already have a second factor; switch it off first to set up another app";
                    return Err(AppError::new(Code::InvalidState, text));
                }
                Ok(second_factor::begin(tx, id, &sealed)?)
            })
            .await?;
        Ok(wire::SecondFactorEnrolment {
            secret: totp::encode_secret(&secret),
            uri: totp::otpauth_uri(&secret, user.email.as_str()),
        })
    }

    /// Puts the second factor into effect after the user has entered a code of it. Returns recovery codes.
    pub async fn confirm_second_factor(
        &self,
        who: &Principal,
        code: RedactedString,
    ) -> Result<wire::RecoveryCodes, AppError> {
        let (browser, user) = (require_browser(who)?, self.load_user(who.user).await?);
        let tried = ThrottleKeys::for_own_account(&user.email);
        self.count_attempt(self.context(who), tried.clone()).await?;
        let vault = self.services.vault.clone();
        self.services
            .store
            .transact(self.context(who), move |tx| {
                check_browser_confirmed(tx, browser)?;
                let oldest = tx.now().plus_seconds(-SECOND_FACTOR_ENROLMENT_S);
                let begun = second_factor::by_user(tx, user.id)?;
                let begun = begun.filter(|it| it.confirmed_at.is_none() && it.created_at > oldest);
                let begun = begun.ok_or_else(|| {
                    let text = "no set-up of a second factor is in progress; start it again";
                    AppError::new(Code::InvalidState, text)
                })?;
                let secret = vault.open_second_factor(user.id, &begun.sealed)?;
                let step = match parse_code(code.reveal()) {
                    Some(GivenCode::Totp(code)) => totp::find_step(&secret, &code, tx.now()),
                    _ => None,
                };
                let step = step.ok_or_else(|| {
                    let text =
                        "is wrong; enter the code that the app shows now, and check the clock of the phone";
                    AppError::invalid_member("/code", text)
                })?;
                Self::uncount_attempt(tx, &tried)?;
                second_factor::confirm(tx, user.id, step)?;
                record_at_home(tx, &user, EventKind::SecondFactorEnabled)?;
                replace_recovery_codes(tx, &vault, user.id)
            })
            .await
    }

    /// Replaces the recovery codes of the caller.
    pub async fn replace_recovery_codes(&self, who: &Principal) -> Result<wire::RecoveryCodes, AppError> {
        let (browser, user) = (require_browser(who)?, self.load_user(who.user).await?);
        let vault = self.services.vault.clone();
        self.services
            .store
            .transact(self.context(who), move |tx| {
                check_browser_confirmed(tx, browser)?;
                find_confirmed(tx, user.id)?.ok_or_else(no_factor_error)?;
                record_at_home(tx, &user, EventKind::RecoveryCodesReplaced)?;
                replace_recovery_codes(tx, &vault, user.id)
            })
            .await
    }

    /// Switches off the caller's second factor. Requires the password and a code.
    pub async fn disable_second_factor(
        &self,
        who: &Principal,
        password: RedactedString,
        code: RedactedString,
    ) -> Result<wire::CurrentUser, AppError> {
        require_browser(who)?;
        let id = who.user;
        let found = self.services.store.read(None, move |db| find_confirmed(db, id)).await?;
        found.ok_or_else(no_factor_error)?;
        let (user, tried) = self.verify_own_password(who, password, Some(code), "/password").await?;
        self.services
            .store
            .transact(self.context(who), move |tx| {
                check_unchanged(tx, &user)?;
                Self::uncount_attempt(tx, &tried)?;
                second_factor::delete(tx, user.id)?;
                record_at_home(tx, &user, EventKind::SecondFactorDisabled)
            })
            .await?;
        self.me(who).await
    }

    /// Removes the second factor of a member who has lost it. Only admins of the organization that created the account
    /// may do this, because the factor protects the account in all organizations.
    pub async fn reset_member_second_factor(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        user: UserId,
    ) -> Result<IdempotentResponse<WireMember>, AppError> {
        let (own, org) = (who.principal().user, who.org());
        self.change(who, None, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let found = members::find_member(tx, user)?;
            check_reach(standing.role(), found.role)?;
            let refused = |text: &str| Err(AppError::new(Code::InvalidState, text));
            if user == own {
                return refused("switch off your own second factor under Profile, with your password and a code");
            }
            if member::find_home(tx, user)? != Some(org) {
                return refused(
                    "the account was created in another organization; ask its admins, or the operator of the server",
                );
            }
            if !found.has_second_factor {
                return refused("the member has no second factor");
            }
            second_factor::delete(tx, user)?;
            environment::make_queues_due(tx, user)?;
            let subject = EventSubject::new("user", user, Some(found.name.as_str()));
            tx.record(NewEvent::new(EventKind::SecondFactorReset, subject))?;
            Ok(members::build_response(&members::find_member(tx, user)?))
        })
        .await
    }

    /// Returns the state of an account's second factor.
    pub(super) async fn second_factor_state(&self, user: &User) -> Result<wire::SecondFactorState, AppError> {
        let (id, has_password) = (user.id, password_hash(user).is_some());
        self.services
            .store
            .read(None, move |db| {
                let found = find_confirmed(db, id)?;
                let status = match (&found, has_password) {
                    (Some(_), _) => wire::SecondFactorStatus::Enabled,
                    (None, true) => wire::SecondFactorStatus::Disabled,
                    (None, false) => wire::SecondFactorStatus::Unavailable,
                };
                Ok(wire::SecondFactorState {
                    status,
                    enabled_at: found.and_then(|it| it.confirmed_at).map(|at| at.to_string()),
                    recovery_codes_left: second_factor::count_recovery_codes(db, id)?,
                })
            })
            .await
    }

    /// Counts an attempt to guess a code, before the code is verified. The counter covers all networks, because only an
    /// attacker who knows the password gets this far. Browsers in which the account has logged in before have their
    /// own, so that the attacker cannot lock out the user.
    pub(super) async fn count_code(
        &self,
        context: &TxContext,
        user: &User,
        code: Option<&RedactedString>,
        browser: Option<&str>,
    ) -> Result<Option<ThrottleKeys>, AppError> {
        if code.is_none() {
            return Ok(None);
        }
        let tried = ThrottleKeys::for_code(&user.email, browser);
        self.count_attempt(context.clone(), tried.clone()).await?;
        Ok(Some(tried))
    }

    /// Checks the second factor of a logged-in user who has just entered the correct password.
    pub(super) async fn verify_own_code(
        &self,
        who: &Principal,
        user: &User,
        code: Option<RedactedString>,
        tried: &ThrottleKeys,
    ) -> Result<(), AppError> {
        let (vault, of, counted) = (self.services.vault.clone(), user.clone(), tried.clone());
        let checked = self.services.store.transact(self.context(who), move |tx| {
            let checked = verify_code(tx, &vault, &of, code.as_ref())?;
            if checked == FactorCheck::CodeMissing {
                Self::uncount_attempt(tx, &counted)?;
            }
            Ok::<_, AppError>(checked)
        });
        match checked.await? {
            FactorCheck::Passed => Ok(()),
            FactorCheck::CodeMissing => Err(code_required_error()),
            FactorCheck::CodeWrong => {
                self.record_failure(self.context(who), Some(user.clone())).await?;
                Err(AppError::invalid_member("/code", WRONG_CODE))
            }
        }
    }

    /// Returns the error for a login whose password was correct and whose code was not.
    pub(super) async fn refuse_login_code(
        &self,
        context: TxContext,
        user: User,
        checked: FactorCheck,
    ) -> Result<AppError, AppError> {
        if checked == FactorCheck::CodeMissing {
            return Ok(code_required_error());
        }
        self.record_failure(context, Some(user)).await?;
        Ok(AppError::unauthenticated(&format!("the code {WRONG_CODE}")))
    }
}

/// Removes the second factor of an account, for the operator of the installation.
pub fn reset_second_factor(tx: &mut Tx<'_>, email: &Email) -> Result<(), AppError> {
    let user = user::by_email(tx, email)?;
    let user = user
        .ok_or_else(|| AppError::new(Code::NotFound, format!("there is no user with the address {email}")))?;
    if find_confirmed(tx, user.id)?.is_none() {
        return Err(AppError::new(Code::InvalidState, format!("{email} has no second factor")));
    }
    second_factor::delete(tx, user.id)?;
    record_at_home(tx, &user, EventKind::SecondFactorReset)
}

/// Verifies the code of an account's second factor and uses it up.
pub(super) fn verify_code(
    tx: &mut Tx<'_>,
    vault: &SecretVault,
    user: &User,
    code: Option<&RedactedString>,
) -> Result<FactorCheck, AppError> {
    let Some(factor) = find_confirmed(tx, user.id)? else { return Ok(FactorCheck::Passed) };
    let Some(code) = code else { return Ok(FactorCheck::CodeMissing) };
    let is_valid = match parse_code(code.reveal()) {
        None => false,
        Some(GivenCode::Totp(code)) => {
            let secret = vault.open_second_factor(user.id, &factor.sealed)?;
            match totp::find_step(&secret, &code, tx.now()) {
                Some(step) => second_factor::use_step(tx, user.id, step)?,
                None => false,
            }
        }
        Some(GivenCode::Recovery(code)) => {
            let hash = vault.keyed_hashes().recovery_code(&user.id.to_string(), &code);
            let is_known = second_factor::use_recovery_code(tx, user.id, &hash)?;
            if is_known {
                record_at_home(tx, user, EventKind::RecoveryCodeUsed)?;
            }
            is_known
        }
    };
    Ok(if is_valid { FactorCheck::Passed } else { FactorCheck::CodeWrong })
}

fn find_confirmed(db: &mut impl StoreRead, user: UserId) -> Result<Option<SecondFactor>, AppError> {
    Ok(second_factor::by_user(db, user)?.filter(|it| it.confirmed_at.is_some()))
}

fn code_required_error() -> AppError {
    let text = "enter the code from your authenticator app, or a recovery code";
    AppError::new(Code::SecondFactorCodeRequired, text)
}

fn no_factor_error() -> AppError {
    AppError::new(Code::InvalidState, "you have no second factor")
}

/// Requires a login in a browser. A leaked API token must not be enough to change how its owner logs in.
fn require_browser(who: &Principal) -> Result<SignInId, AppError> {
    match who.via {
        AuthMethod::SignIn { id } => Ok(id),
        AuthMethod::Token { .. } => {
            let text = "API tokens cannot change the second factor; log in to the dashboard";
            Err(AppError::new(Code::InvalidState, text))
        }
    }
}

fn check_browser_confirmed(tx: &mut Tx<'_>, browser: SignInId) -> Result<(), AppError> {
    let now = tx.now();
    let found = sign_in::by_id(tx, browser, now)?;
    let found = found.ok_or_else(|| AppError::unauthenticated("your login has ended; log in again"))?;
    check_recent_confirmation(found.confirmed_at, now)
}

fn replace_recovery_codes(
    tx: &mut Tx<'_>,
    vault: &SecretVault,
    user: UserId,
) -> Result<wire::RecoveryCodes, AppError> {
    let codes = (0..RECOVERY_CODES).map(|_| generate_recovery_code()).collect::<Result<Vec<_>, _>>()?;
    let hash = |code: &String| vault.keyed_hashes().recovery_code(&user.to_string(), code);
    second_factor::put_recovery_codes(tx, user, &codes.iter().map(hash).collect::<Vec<_>>())?;
    let show = |code: &String| {
        let (first, second) = code.split_at(RECOVERY_CHARS / 2);
        format!("{first}-{second}")
    };
    Ok(wire::RecoveryCodes { recovery_codes: codes.iter().map(show).collect() })
}

fn generate_recovery_code() -> Result<String, AppError> {
    let mut bytes = [0; RECOVERY_CHARS];
    rand::fill(&mut bytes).map_err(|_| AppError::bug("the system gave no random bytes"))?;
    Ok(bytes.iter().map(|byte| char::from(RECOVERY_ALPHABET[usize::from(byte & 31)])).collect())
}

/// A code that a user has entered, without separators.
#[derive(Debug, PartialEq, Eq)]
enum GivenCode {
    Totp(String),
    Recovery(String),
}

fn parse_code(text: &str) -> Option<GivenCode> {
    if text.len() > SECOND_FACTOR_CODE_CHARS_MAX {
        return None;
    }
    let is_separator = |c: char| c.is_whitespace() || c == '-';
    let code: String = text.chars().filter(|c| !is_separator(*c)).map(|c| c.to_ascii_lowercase()).collect();
    let is_totp = code.len() == totp::DIGITS && code.bytes().all(|byte| byte.is_ascii_digit());
    let is_recovery =
        code.len() == RECOVERY_CHARS && code.bytes().all(|byte| RECOVERY_ALPHABET.contains(&byte));
    match (is_totp, is_recovery) {
        (true, _) => Some(GivenCode::Totp(code)),
        (_, true) => Some(GivenCode::Recovery(code)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_parsed_without_separators() {
        let totp = |text: &str| Some(GivenCode::Totp(text.to_owned()));
        let recovery = |text: &str| Some(GivenCode::Recovery(text.to_owned()));
        assert_eq!(parse_code(" 123 456 "), totp("123456"));
        assert_eq!(parse_code("ABCDE-fgh23"), recovery("abcdefgh23"));
        for wrong in ["", "12345", "1234567", "abcde-fgh2l", "abcdé-fgh23", &"1 ".repeat(100)] {
            assert_eq!(parse_code(wrong), None, "{wrong}");
        }
    }
}
