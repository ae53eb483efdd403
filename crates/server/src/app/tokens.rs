//! API tokens. Members manage their own tokens; managing tokens of other members requires a permission.

use berth_api::problem::Code;
use berth_api::token as wire;
use berth_core::access::{Action, TokenRestriction, permit};
use berth_core::client_info::describe_user_agent;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{TokenId, UserId};
use berth_core::name::DisplayName;
use berth_core::time::Timestamp;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::token::{self, TOKENS_PER_USER_MAX, Token};
use berth_store::tables::{environment, member};
use berth_store::{StoreRead, Tx};

use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::auth::tokens::{TokenKind, display_prefix, generate_token, hash_token};
use crate::error::AppError;

/// The version is constant because tokens are immutable: they are created, then revoked.
const TOKEN_VERSION: i64 = 1;

pub struct NewToken {
    pub name: DisplayName,
    /// `0` means that the token does not expire.
    pub expires_in_days: i64,
    /// The service account that will own the token. `None` means the caller.
    pub owner: Option<UserId>,
    /// What the token is limited to. `None` for all permissions of its owner.
    pub restriction: Option<Vec<TokenRestriction>>,
}

impl App {
    /// Lists the caller's tokens, or all tokens of the organization if the caller may manage them.
    pub async fn list_tokens(
        &self,
        who: &AuthorizedCaller<permit::TokensOwn>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::ApiToken>, AppError> {
        let of = if who.may(Action::TokensManage) { None } else { Some(who.principal().user) };
        let slice = self.read(who, move |db| Ok(token::list(db, of, &from, limit)?)).await?;
        Ok(ResponsePage::from_list_page(&slice, |token| token.id.to_string(), to_response))
    }

    pub async fn create_token(
        &self,
        who: &AuthorizedCaller<permit::TokensOwn>,
        new: NewToken,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::ApiTokenCreated>, AppError> {
        let own = who.principal().user;
        let other = new.owner.filter(|owner| *owner != own);
        if other.is_some() && !who.may(Action::TokensManage) {
            return Err(AppError::forbidden(Action::TokensManage, None));
        }
        let org = who.org();
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            if standing.access.restriction.is_some() {
                let text =
                    "a restricted token cannot create tokens; use a token without restrictions, or log in";
                return Err(AppError::new(Code::Forbidden, text));
            }
            if let Some(other) = other {
                // Only for service accounts: with a token of another person, the caller could impersonate that person.
                let owner = member::find_view(tx, other)?.filter(|member| member.is_service);
                let owner = owner.ok_or_else(|| {
                    AppError::invalid_member("/ownerId", "must be a service account of this organization")
                })?;
                if !standing.role().includes(owner.role) {
                    let text = format!("the service account's role is {}, above yours", owner.role);
                    return Err(AppError::new(Code::Forbidden, text));
                }
            }
            let days = Some(new.expires_in_days).filter(|days| *days > 0);
            let asked = days.map(|days| tx.now().plus_seconds(days * 24 * 60 * 60));
            // A token that was created with another token must not outlive that token.
            let expires_at = [asked, standing.token_expires_at].into_iter().flatten().min();
            let (record, token) =
                issue_token(tx, other.unwrap_or(own), new.name, expires_at, new.restriction)?;
            let location = format!("/api/v1/organizations/{org}/api-tokens/{}", record.id);
            let body = wire::ApiTokenCreated {
                record: to_response(&record),
                token: Some(token.reveal().to_owned()),
            };
            Ok(ApiResponse::created(location, body).with_version(TOKEN_VERSION))
        })
        .await
    }

    pub async fn view_token(
        &self,
        who: &AuthorizedCaller<permit::TokensOwn>,
        id: TokenId,
    ) -> Result<ApiResponse<wire::ApiToken>, AppError> {
        let (own, all) = (who.principal().user, who.may(Action::TokensManage));
        self.read(who, move |db| {
            let found = find(db, id, own, all)?;
            let used = found.last_used_at.map_or(0, Timestamp::as_micros);
            Ok(ApiResponse::ok(to_response(&found)).with_version(TOKEN_VERSION).with_variant(used))
        })
        .await
    }

    pub async fn revoke_token(
        &self,
        who: &AuthorizedCaller<permit::TokensOwn>,
        id: TokenId,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::ApiToken>, AppError> {
        let own = who.principal().user;
        self.change(who, None, move |tx, standing| {
            let (role, all) = (standing.role(), standing.access.may_everywhere(Action::TokensManage));
            let found = find(tx, id, own, all)?;
            super::check_version(TOKEN_VERSION, expected)?;
            let owner_role = member::find_view(tx, found.user)?.map(|member| member.role);
            if found.user != own && owner_role.is_some_and(|owner| !role.includes(owner)) {
                return Err(AppError::new(
                    Code::Forbidden,
                    "this token belongs to a member with a higher role",
                ));
            }
            token::revoke(tx, id)?;
            environment::make_queues_due(tx, found.user)?;
            tx.record(token_event(EventKind::TokenRevoked, &found))?;
            Ok(ApiResponse::ok(to_response(&Token { revoked_at: Some(tx.now()), ..found })))
        })
        .await
    }
}

/// Creates a token in the transaction's organization.
pub fn issue_token(
    tx: &mut Tx<'_>,
    user: UserId,
    name: DisplayName,
    expires_at: Option<Timestamp>,
    restriction: Option<Vec<TokenRestriction>>,
) -> Result<(Token, berth_engine::credential::RedactedString), AppError> {
    if token::count_of_user(tx, user, tx.now())? >= TOKENS_PER_USER_MAX {
        let text = format!(
            "a user can have at most {TOKENS_PER_USER_MAX} active tokens in an organization; revoke one first"
        );
        return Err(AppError::new(Code::InvalidState, text));
    }
    let secret = generate_token(TokenKind::Api);
    let record = Token {
        id: TokenId::from_parts(tx.now(), tx.entropy()?),
        user,
        name,
        prefix: display_prefix(&secret),
        created_at: tx.now(),
        expires_at,
        restriction,
        environment: None,
        last_used_at: None,
        last_used_address: None,
        last_used_client: None,
        revoked_at: None,
    };
    token::insert(tx, &record, &hash_token(secret.reveal()))?;
    tx.record(token_event(EventKind::TokenCreated, &record).with("ownerId", user.to_string()))?;
    Ok((record, secret))
}

fn find(db: &mut impl StoreRead, id: TokenId, own: UserId, all: bool) -> Result<Token, AppError> {
    token::by_id(db, id)?
        .filter(|token| token.revoked_at.is_none() && (all || token.user == own))
        .ok_or_else(|| AppError::not_found("token"))
}

fn token_event(kind: EventKind, token: &Token) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("token", token.id, Some(token.name.as_str())))
}

fn to_response(token: &Token) -> wire::ApiToken {
    wire::ApiToken {
        id: token.id.to_string(),
        name: token.name.to_string(),
        prefix: token.prefix.clone(),
        owner_id: token.user.to_string(),
        created_at: token.created_at.to_string(),
        expires_at: token.expires_at.map(|time| time.to_string()),
        last_used_at: token.last_used_at.map(|time| time.to_string()),
        last_used_address: token.last_used_address.clone(),
        last_used_client: token.last_used_client.as_deref().and_then(describe_user_agent),
        revoked_at: token.revoked_at.map(|time| time.to_string()),
        restrict_to: token.restriction.as_ref().map(|all| all.iter().map(restriction_to_wire).collect()),
    }
}

fn restriction_to_wire(it: &TokenRestriction) -> wire::TokenRestrictionBody {
    wire::TokenRestrictionBody {
        permissions: it.permissions.iter().map(ToString::to_string).collect(),
        scope: it.scope.to_string(),
    }
}
