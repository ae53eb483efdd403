//! Session tokens: credentials that may only use the one session that a claim opened.

use berth_api::problem::Code;
use berth_core::environment::{InactiveSession, Lock, LockHolder};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{EnvironmentId, TokenId};
use berth_core::name::DisplayName;
use berth_engine::credential::RedactedString;
use berth_store::tables::token::{self, Token, TokenCaller};
use berth_store::tables::{environment, session};
use berth_store::{StoreRead, Tx};

use super::response;
use crate::app::App;
use crate::auth::authorize::{AuthMethod, Membership, Principal};
use crate::auth::tokens::{TokenKind, display_prefix, generate_token, hash_token};
use crate::error::AppError;

/// Session tokens are deleted after this time, even if their session has no expiry.
const SESSION_TOKEN_DAYS_MAX: i64 = 90;
/// Number of sessions searched for the one that a token belonged to, to explain why the token is invalid.
const ENDED_SEARCHED_MAX: i64 = 20;

impl App {
    /// Authenticates a session token. It is valid while its session is active or its ticket waits.
    pub(in crate::app) async fn session_principal(
        &self,
        caller: TokenCaller,
        request_id: String,
    ) -> Result<Option<Principal>, AppError> {
        let Some(environment) = caller.environment else { return Ok(None) };
        let (org, id) = (caller.org, caller.token);
        let found = self.services.store.read(Some(org), move |db| {
            let Some(lock) = environment::by_id(db, environment)? else { return Ok(false) };
            check_live(db, &lock, id)?;
            Ok::<_, AppError>(true)
        });
        if !found.await? {
            return Ok(None);
        }
        Ok(Some(Principal {
            user: caller.user,
            name: caller.user_name,
            is_service: caller.is_service,
            is_agent: caller.is_agent,
            via: AuthMethod::Token {
                id,
                membership: Membership { org, org_slug: caller.org_slug, access: caller.access },
                expires_at: caller.expires_at,
                access: None,
                is_of_session: true,
            },
            request_id,
        }))
    }
}

/// Fails with the reason if the session of this token has ended.
fn check_live(db: &mut impl StoreRead, lock: &Lock, id: TokenId) -> Result<(), AppError> {
    let is_its = |holder: &LockHolder| holder.session_token == Some(id);
    let is_active = lock.session.as_ref().is_some_and(|session| is_its(&session.holder));
    if is_active || lock.tickets.iter().any(|ticket| is_its(&ticket.holder)) {
        return Ok(());
    }
    let recent =
        session::list_before(db, lock.environment.id, lock.environment.sessions, ENDED_SEARCHED_MAX)?;
    let detail = match recent.into_iter().find(|session| is_its(&session.holder)) {
        None => "the session of this token has ended, or its ticket was cancelled".to_owned(),
        Some(session) => {
            let current_fence = lock.session.as_ref().map_or(lock.environment.fence, |it| it.fence);
            response::session_not_active(&InactiveSession { session, current_fence }).detail
        }
    };
    Err(AppError::unauthenticated(&format!("this session token is no longer valid: {detail}")))
}

/// Refuses requests that a session token may not make.
pub(in crate::app) fn refuse_session_token(who: &Principal) -> Result<(), AppError> {
    match who.session_token() {
        None => Ok(()),
        Some(_) => Err(AppError::new(
            Code::Forbidden,
            "a session token can only read, deploy in, extend and release its own session; use an API token",
        )),
    }
}

/// Creates the id for a session token, so that the claim can name it as the holder.
pub(super) fn new_token_id(tx: &mut Tx<'_>) -> Result<TokenId, AppError> {
    Ok(TokenId::from_parts(tx.now(), tx.entropy()?))
}

/// Stores a session token for the holder and returns its value.
pub(super) fn issue_session_token(
    tx: &mut Tx<'_>,
    holder: &LockHolder,
    id: TokenId,
    environment: EnvironmentId,
) -> Result<RedactedString, AppError> {
    let secret = generate_token(TokenKind::Session);
    let name = DisplayName::parse("session token").map_err(|error| AppError::bug(error.to_string()))?;
    let record = Token {
        id,
        user: holder.id,
        name,
        prefix: display_prefix(&secret),
        created_at: tx.now(),
        expires_at: Some(tx.now().plus_seconds(SESSION_TOKEN_DAYS_MAX * 24 * 60 * 60)),
        restriction: None,
        environment: Some(environment),
        last_used_at: None,
        last_used_address: None,
        last_used_client: None,
        revoked_at: None,
    };
    token::insert(tx, &record, &hash_token(secret.reveal()))?;
    let subject = EventSubject::new("token", id, Some(record.name.as_str()));
    tx.record(NewEvent::new(EventKind::TokenCreated, subject).with("ownerId", holder.id.to_string()))?;
    Ok(secret)
}
