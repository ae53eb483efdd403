//! Passwords: change, confirm, and reset with a link.

use berth_api::auth as wire;
use berth_api::problem::Code;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::UserId;
use berth_core::name::Email;
use berth_core::time::Timestamp;
use berth_engine::credential::RedactedString;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::token::{self, TOKENS_PER_USER_MAX};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{environment, member, organization, password_reset, provider_login, sign_in};
use berth_store::{Tx, TxContext};

use super::sign_in::{actor, check_unchanged, password_hash, record_at_home};
use super::throttle::ThrottleKeys;
use super::{ApiResponse, App, IdempotentResponse, RuleOutcome};
use crate::auth::authorize::{AuthMethod, Principal};
use crate::auth::passwords;
use crate::auth::tokens::{TokenKind, generate_token, hash_token, is_well_formed};
use crate::error::AppError;
use crate::limits::PASSWORD_RESET_HOURS;

/// A password reset token. The reset link carries it after the `#`.
pub struct ResetLink {
    pub token: RedactedString,
    pub expires_at: Timestamp,
}

impl App {
    /// Sets a new password and ends the caller's other browser sessions.
    pub async fn change_password(
        &self,
        who: &Principal,
        current: RedactedString,
        code: Option<RedactedString>,
        new: RedactedString,
        revoke_tokens: bool,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::CurrentUser>, AppError> {
        // Look up the stored response first. On a retry, the old password is no longer valid and would be rejected.
        if let Some(earlier) = self.find_stored_response(self.context(who), once.clone()).await? {
            return Ok(IdempotentResponse::Replayed(earlier));
        }
        // Check the new password first, so that a weak one does not use up the code.
        self.check_strength(&self.load_user(who.user).await?, &new, "/newPassword").await?;
        let (user, tried) = self.verify_own_password(who, current, code, "/currentPassword").await?;
        let password_hash = self.passwords.hash(new).await?;
        let me = self.me(who).await?;
        let me = wire::CurrentUser { user: wire::WireUser { password_is_generated: false, ..me.user }, ..me };
        let via = who.via.clone();
        self.transact(self.context(who), once, move |tx| {
            check_unchanged(tx, &user)?;
            Self::uncount_attempt(tx, &tried)?;
            set_password(tx, &user, password_hash)?;
            match via {
                AuthMethod::SignIn { id } => {
                    sign_in::end_others(tx, user.id, id)?;
                    sign_in::confirm(tx, id)?;
                }
                AuthMethod::Token { .. } => {
                    sign_in::end_all(tx, user.id)?;
                }
            }
            if revoke_tokens {
                revoke_all_tokens(tx, user.id)?;
            }
            Ok(RuleOutcome::Yes(ApiResponse::ok(me)))
        })
        .await
    }

    /// Records that the user has just confirmed the password in this browser session, which sensitive actions require.
    pub async fn confirm_password(
        &self,
        who: &Principal,
        password: RedactedString,
        code: Option<RedactedString>,
    ) -> Result<wire::CurrentUser, AppError> {
        let AuthMethod::SignIn { id } = who.via else {
            let text = "API tokens have no password and never need to confirm one";
            return Err(AppError::new(Code::InvalidState, text));
        };
        let login =
            self.services.store.read(None, move |db| Ok::<_, AppError>(provider_login::by_sign_in(db, id)?));
        if login.await?.is_some() {
            let text = "you logged in through an identity provider; confirm there that it is you";
            return Err(AppError::new(Code::InvalidState, text));
        }
        let (user, tried) = self.verify_own_password(who, password, code, "/password").await?;
        self.services
            .store
            .transact(self.context(who), move |tx| {
                check_unchanged(tx, &user)?;
                Self::uncount_attempt(tx, &tried)?;
                Ok::<_, AppError>(sign_in::confirm(tx, id)?)
            })
            .await?;
        self.me(who).await
    }

    /// Sets a new password with a reset link. The link works once, and all browser sessions of the account end.
    pub async fn reset_password(
        &self,
        link: &RedactedString,
        new: RedactedString,
        revoke_tokens: bool,
        request_id: String,
    ) -> Result<wire::PasswordResetDone, AppError> {
        let link_hash = hash_token(link.reveal());
        let user = match is_well_formed(TokenKind::PasswordReset, link.reveal()) {
            true => {
                let hash = link_hash.clone();
                self.services.store.read(None, move |db| find_user_of_link(db, &hash)).await?
            }
            false => return Err(link_over_error()),
        };
        self.check_strength(&user, &new, "/newPassword").await?;
        let password_hash = self.passwords.hash(new).await?;
        let context = TxContext { request_id: Some(request_id), ..TxContext::system(None) };
        self.services
            .store
            .transact(context, move |tx| {
                let user = find_user_of_link(tx, &link_hash)?;
                tx.set_actor(actor(&user));
                password_reset::delete(tx, user.id)?;
                set_password(tx, &user, password_hash)?;
                sign_in::end_all(tx, user.id)?;
                let tokens_revoked = if revoke_tokens { revoke_all_tokens(tx, user.id)? } else { 0 };
                Ok(wire::PasswordResetDone { email: user.email.to_string(), tokens_revoked })
            })
            .await
    }

    /// Verifies the caller's password and, if the account has a second factor, the code.
    pub(super) async fn verify_own_password(
        &self,
        who: &Principal,
        password: RedactedString,
        code: Option<RedactedString>,
        pointer: &str,
    ) -> Result<(User, ThrottleKeys), AppError> {
        let user = self.load_user(who.user).await?;
        let tried = ThrottleKeys::for_own_account(&user.email);
        self.count_attempt(self.context(who), tried.clone()).await?;
        if !self.passwords.verify(password, password_hash(&user)).await? {
            self.record_failure(self.context(who), Some(user)).await?;
            return Err(AppError::invalid_member(pointer, "is not your password"));
        }
        self.verify_own_code(who, &user, code, &tried).await?;
        Ok((user, tried))
    }

    async fn check_strength(&self, user: &User, new: &RedactedString, pointer: &str) -> Result<(), AppError> {
        let id = user.id;
        let organizations = self
            .services
            .store
            .read(None, move |db| Ok::<_, AppError>(organization::list_of_user(db, id)?))
            .await?;
        let mut names = vec![user.email.as_str(), user.name.as_str()];
        names.extend(organizations.iter().map(|org| org.slug.as_str()));
        if let Some(weakness) = passwords::weakness(new.reveal(), &names) {
            return Err(AppError::invalid_member(pointer, weakness));
        }
        Ok(())
    }
}

/// Creates a password reset link. Only operators of the installation may do this, because they can access every account
/// anyway. Admins of an organization may not, because the account may also belong to other organizations.
pub fn issue_reset_link(tx: &mut Tx<'_>, email: &Email) -> Result<ResetLink, AppError> {
    let user = user::by_email(tx, email)?;
    let user = user
        .filter(|user| matches!(user.account, UserAccount::Person { .. }))
        .ok_or_else(|| AppError::new(Code::NotFound, format!("there is no user with the address {email}")))?;
    let token = generate_token(TokenKind::PasswordReset);
    let expires_at = tx.now().plus_seconds(PASSWORD_RESET_HOURS * 60 * 60);
    password_reset::put(tx, user.id, &hash_token(token.reveal()), expires_at)?;
    record_at_home(tx, &user, EventKind::PasswordResetRequested)?;
    Ok(ResetLink { token, expires_at })
}

fn find_user_of_link(db: &mut impl berth_store::StoreRead, link_hash: &[u8]) -> Result<User, AppError> {
    let id = password_reset::user_by_hash(db, link_hash)?.ok_or_else(link_over_error)?;
    user::by_id(db, id)?.ok_or_else(link_over_error)
}

fn link_over_error() -> AppError {
    AppError::new(Code::NotFound, "this link was used, replaced or has expired; ask for a new one")
}

fn set_password(tx: &mut Tx<'_>, user: &User, password_hash: String) -> Result<(), AppError> {
    let account = UserAccount::Person { password_hash: Some(password_hash), password_is_generated: false };
    user::put(tx, &User { account, ..user.clone() })?;
    record_at_home(tx, user, EventKind::PasswordChanged)
}

/// Revokes the user's tokens in every organization and records an event for each.
pub(super) fn revoke_all_tokens(tx: &mut Tx<'_>, user: UserId) -> Result<u64, AppError> {
    let mut revoked = 0;
    for org in member::list_organizations(tx, user)? {
        tx.within_org(org, |tx| {
            loop {
                let live = token::list(tx, Some(user), &PageStart::Offset(0), TOKENS_PER_USER_MAX)?.items;
                if live.is_empty() {
                    break Ok::<_, AppError>(());
                }
                for found in live {
                    token::revoke(tx, found.id)?;
                    let subject = EventSubject::new("token", found.id, Some(found.name.as_str()));
                    tx.record(NewEvent::new(EventKind::TokenRevoked, subject))?;
                    revoked += 1;
                }
                environment::make_queues_due(tx, user)?;
            }
        })?;
    }
    Ok(revoked)
}
