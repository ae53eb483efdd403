//! Authorization: only [`authorize`] creates an [`AuthorizedCaller`], which use cases require as proof.

use std::marker::PhantomData;
use std::sync::Arc;

use berth_api::problem::Code;
use berth_core::access::{Action, ActionPermit, EffectiveAccess, Role};
use berth_core::agent;
use berth_core::event::{Actor, ActorType};
use berth_core::id::{OrgId, SignInId, TokenId, UserId};
use berth_core::name::{DisplayName, Slug};
use berth_core::time::Timestamp;
use berth_store::sql::BoundRead;
use berth_store::tables::sign_in::SignIn;
use berth_store::tables::token::TokenAccess;
use berth_store::tables::{grant, member, provider_identity, provider_login, second_factor, sign_in, token};
use berth_store::{StoreRead, Tx, TxContext};

use crate::error::AppError;
use crate::limits::PASSWORD_CONFIRMED_S;

/// An authenticated caller.
#[derive(Debug, Clone)]
pub struct Principal {
    pub user: UserId,
    pub name: DisplayName,
    pub is_service: bool,
    /// Whether it is an agent. Agents are service accounts, too.
    pub is_agent: bool,
    pub via: AuthMethod,
    pub request_id: String,
}

#[derive(Debug, Clone)]
pub enum AuthMethod {
    /// A token gives access to one organization. `access` is the store's access generation at the time of the token
    /// lookup; it changes whenever permissions change.
    Token {
        id: TokenId,
        membership: Membership,
        expires_at: Option<Timestamp>,
        access: Option<u64>,
        /// Whether it is the token of one session.
        is_of_session: bool,
    },
    /// A browser session gives access to all organizations of the user.
    SignIn { id: SignInId },
}

/// A principal's membership in an organization, at the time of the request.
#[derive(Debug, Clone)]
pub struct Membership {
    pub org: OrgId,
    pub org_slug: Slug,
    pub access: EffectiveAccess,
}

impl Principal {
    pub fn actor(&self) -> Actor {
        let kind = if self.is_service { ActorType::Service } else { ActorType::User };
        Actor { kind, id: Some(self.user), name: self.name.to_string(), token: self.token() }
    }

    /// Returns the API token that authenticated the request, if there was one.
    pub fn token(&self) -> Option<TokenId> {
        match &self.via {
            AuthMethod::Token { id, .. } => Some(*id),
            AuthMethod::SignIn { .. } => None,
        }
    }

    /// Returns the session token that authenticated the request, if there was one.
    pub fn session_token(&self) -> Option<TokenId> {
        match &self.via {
            AuthMethod::Token { id, is_of_session: true, .. } => Some(*id),
            AuthMethod::Token { .. } | AuthMethod::SignIn { .. } => None,
        }
    }

    /// Returns the scope in which idempotency keys are unique: the API token, or the user for a browser session.
    pub fn key_scope(&self) -> String {
        match &self.via {
            AuthMethod::Token { id, .. } => id.to_string(),
            AuthMethod::SignIn { .. } => self.user.to_string(),
        }
    }
}

/// Proof that a principal may perform the action `P` somewhere in an organization. For actions that can be granted on a
/// part of the organization, the use case also checks the resource; see `app::resource_access`.
#[derive(Debug, Clone)]
pub struct AuthorizedCaller<P> {
    principal: Arc<Principal>,
    membership: Membership,
    permit: PhantomData<P>,
}

/// An authorization whose action is known only at run time. The middleware creates it, and the handler converts it to
/// an [`AuthorizedCaller`].
#[derive(Debug, Clone)]
pub struct RouteGrant {
    principal: Arc<Principal>,
    membership: Membership,
    action: Action,
}

/// Checks whether a principal may perform an action somewhere in an organization.
pub fn authorize(
    principal: &Arc<Principal>,
    action: Action,
    membership: &Membership,
) -> Result<RouteGrant, AppError> {
    if membership.access.is_factor_missing {
        return Err(AppError::second_factor_required());
    }
    if principal.is_agent && agent::is_reserved_for_others(action) {
        let text = format!(
            "agents cannot have the {action} permission, which could lift their limits; ask an admin"
        );
        return Err(AppError::new(Code::Forbidden, text));
    }
    if !membership.access.may_somewhere(action) {
        return Err(AppError::forbidden(action, None));
    }
    Ok(RouteGrant { principal: principal.clone(), membership: membership.clone(), action })
}

/// A principal's access at the time of a transaction.
#[derive(Debug, Clone)]
pub struct CurrentAccess {
    pub access: EffectiveAccess,
    /// Expiry of the token that authenticated the request. Tokens created with that token do not outlive it.
    pub token_expires_at: Option<Timestamp>,
    /// When the password was last checked in this browser session. `None` for a token.
    confirmed_at: Option<Timestamp>,
}

impl CurrentAccess {
    /// The role in the whole organization.
    pub fn role(&self) -> Role {
        self.access.role
    }

    /// Requires that the user has confirmed the password recently. Access to an unattended browser must not be enough
    /// to create lasting access.
    pub fn check_confirmed(&self, now: Timestamp) -> Result<(), AppError> {
        check_confirmed_at(self.confirmed_at, now)
    }
}

/// Requires that the password was checked recently. `confirmed_at` is `None` for a token, which has none.
pub(super) fn check_confirmed_at(confirmed_at: Option<Timestamp>, now: Timestamp) -> Result<(), AppError> {
    confirmed_at.map_or(Ok(()), |at| check_recent_confirmation(at, now))
}

/// Fails if the password was confirmed too long ago.
pub(crate) fn check_recent_confirmation(confirmed_at: Timestamp, now: Timestamp) -> Result<(), AppError> {
    if now.seconds_since(confirmed_at) > PASSWORD_CONFIRMED_S {
        let text = "you entered your password more than an hour ago; confirm it and try again";
        return Err(AppError::new(Code::ReauthenticationRequired, text));
    }
    Ok(())
}

/// What [`load_current_access`] reads for a token, to be read ahead.
pub fn reads_of_current_access(tx: &Tx<'_>, who: &Principal) -> Vec<BoundRead> {
    match &who.via {
        AuthMethod::Token { id, .. } if !tx.is_access_unchanged() => {
            token::reads_of_access(tx, *id, who.user)
        }
        AuthMethod::Token { .. } | AuthMethod::SignIn { .. } => Vec::new(),
    }
}

/// Returns the principal's current access. For a token, the access found by the middleware is reused unless the store's
/// access generation has changed since.
pub fn load_current_access(tx: &mut Tx<'_>, who: &Principal) -> Result<CurrentAccess, AppError> {
    let now = tx.now();
    let found = match &who.via {
        AuthMethod::Token { id, membership, expires_at, .. } => {
            let is_live = expires_at.is_none_or(|end| end > now);
            let known = || TokenAccess { access: membership.access.clone(), expires_at: *expires_at };
            let found = match tx.is_access_unchanged() {
                true => is_live.then(known),
                false => token::find_access(tx, *id)?,
            };
            found.map(|TokenAccess { access, expires_at: token_expires_at }| CurrentAccess {
                access,
                token_expires_at,
                confirmed_at: None,
            })
        }
        AuthMethod::SignIn { id } => match find_browser_login(tx, *id)? {
            None => None,
            Some(_) if provider_identity::is_suspended(tx, who.user)? => None,
            Some(browser) => load_member_access(tx, who.user)?.map(|access| CurrentAccess {
                access,
                token_expires_at: None,
                confirmed_at: Some(browser.confirmed_at),
            }),
        },
    };
    found.ok_or_else(|| AppError::unauthenticated("your access was revoked while the request was sent"))
}

/// Finds a browser login that is still valid. `None` if it has ended, or if the identity provider that it came from no
/// longer vouches for the person.
pub fn find_browser_login(db: &mut impl StoreRead, id: SignInId) -> Result<Option<SignIn>, AppError> {
    let now = db.now();
    let Some(found) = sign_in::by_id(db, id, now)? else { return Ok(None) };
    Ok(provider_login::load_standing(db, id)?.is_good().then_some(found))
}

/// Returns what a member of the transaction's organization may do. `None` if the user is not a member.
pub fn load_member_access(
    db: &mut impl StoreRead,
    user: UserId,
) -> Result<Option<EffectiveAccess>, AppError> {
    let Some(member) = member::by_user(db, user)? else { return Ok(None) };
    let grants = grant::list_of_member(db, user)?;
    let is_factor_missing = second_factor::is_missing(db, user)?;
    Ok(Some(EffectiveAccess { grants, is_factor_missing, ..EffectiveAccess::of_role(member.role) }))
}

/// Returns what a member may do who acts without a login, such as by a comment on a forge. `None` if the user is not a
/// member, is suspended or not vouched for by an identity provider, or lacks a required second factor.
pub fn load_unattended_access(
    db: &mut impl StoreRead,
    org: OrgId,
    user: UserId,
) -> Result<Option<EffectiveAccess>, AppError> {
    let standing = provider_identity::load_standing(db, org, user)?;
    if !standing.is_good() || provider_identity::is_suspended(db, user)? {
        return Ok(None);
    }
    Ok(load_member_access(db, user)?.filter(|access| !access.is_factor_missing))
}

impl RouteGrant {
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Fails if a route was registered for a different action than its handler requires.
    pub fn into_authorized<P: ActionPermit>(self) -> Result<AuthorizedCaller<P>, AppError> {
        if self.action != P::ACTION {
            return Err(AppError::bug(format!("route for {} asks for {}", self.action, P::ACTION)));
        }
        Ok(AuthorizedCaller { principal: self.principal, membership: self.membership, permit: PhantomData })
    }
}

impl<P> AuthorizedCaller<P> {
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    pub fn org(&self) -> OrgId {
        self.membership.org
    }

    pub fn org_slug(&self) -> &Slug {
        &self.membership.org_slug
    }

    pub fn access(&self) -> &EffectiveAccess {
        &self.membership.access
    }

    /// Whether the caller may also perform another action, in the whole organization. For rules that depend on more
    /// than the action of the route.
    pub fn may(&self, action: Action) -> bool {
        self.access().may_everywhere(action)
    }

    /// Returns the proof for a second action in the same request.
    pub fn authorize_also<Q: ActionPermit>(&self) -> Result<AuthorizedCaller<Q>, AppError> {
        authorize(&self.principal, Q::ACTION, &self.membership)?.into_authorized()
    }

    pub fn context(&self) -> TxContext {
        let access = match &self.principal.via {
            AuthMethod::Token { access, .. } => *access,
            AuthMethod::SignIn { .. } => None,
        };
        TxContext {
            org: Some(self.membership.org),
            actor: self.principal.actor(),
            request_id: Some(self.principal.request_id.clone()),
            access,
        }
    }
}
