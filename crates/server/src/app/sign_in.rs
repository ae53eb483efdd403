//! Log in, log out, and authentication by token or cookie.

use std::net::IpAddr;

use berth_api::auth as wire;
use berth_api::problem::Code;
use berth_core::event::{Actor, ActorType, EventKind, NewEvent, EventSubject};
use berth_core::id::{SignInId, UserId};
use berth_core::name::Email;
use berth_engine::credential::RedactedString;
use berth_store::tables::token::{self, TokenCaller};
use berth_store::tables::user::{self, Account, User};
use berth_store::tables::{member, sign_in};
use berth_store::{Context, Tx};

use super::App;
use super::throttle::Try;
use crate::auth::authorize::{Membership, Principal, Via};
use crate::auth::tokens::{TokenKind, hash, is_well_formed, make};
use crate::error::AppError;
use crate::limits::LAST_USED_EVERY_S;

pub struct LoginAttempt {
    pub email: Email,
    pub password: RedactedString,
    pub address: IpAddr,
    /// Cookie of a browser in which an account has logged in before.
    pub known_browser: Option<String>,
    pub request_id: String,
}

pub struct SignedIn {
    /// Value of the session cookie.
    pub secret: RedactedString,
    /// Value of the cookie that identifies this browser at the next login.
    pub known_browser: String,
    pub me: wire::Me,
}

impl App {
    pub async fn log_in(&self, attempt: LoginAttempt) -> Result<SignedIn, AppError> {
        let sent = attempt.known_browser.as_deref();
        let browser =
            sent.and_then(|sent| self.services.vault.keyed_hashes().verify_browser_cookie(&attempt.email.key(), sent));
        let tried = match browser {
            Some(id) => Try::known_browser(id),
            None => Try::new(&attempt.email, attempt.address),
        };
        let context = Context { request_id: Some(attempt.request_id.clone()), ..Context::system(None) };
        self.begin_try(context.clone(), tried.clone()).await?;

        let email = attempt.email.clone();
        let known =
            self.services.store.read(None, move |db| Ok::<_, AppError>(user::by_email(db, &email)?)).await?;
        let stored = known.as_ref().and_then(password_hash);
        let right = self.passwords.verify(attempt.password, stored).await?;
        let Some(user) = known.clone().filter(|_| right) else {
            self.record_failure(context, known).await?;
            return Err(AppError::unauthenticated("the e-mail address or the password is wrong"));
        };

        let signed = user.clone();
        let begun = self.services.store.transact(context, move |tx| {
            check_unchanged(tx, &signed)?;
            Self::take_back(tx, &tried)?;
            begin_sign_in(tx, &signed)
        });
        let (id, secret) = begun.await?;
        self.signed_in(&user, id, secret, attempt.request_id).await
    }

    pub(super) async fn signed_in(
        &self,
        user: &User,
        id: SignInId,
        secret: RedactedString,
        request_id: String,
    ) -> Result<SignedIn, AppError> {
        let principal = principal(user, Via::SignIn { id }, request_id);
        let known_browser = self.services.vault.keyed_hashes().new_browser_cookie(&user.email.key());
        Ok(SignedIn { secret, known_browser, me: self.me(&principal).await? })
    }

    /// Records a failed login in the audit log of the organization that created the account.
    pub(super) async fn record_failure(&self, context: Context, user: Option<User>) -> Result<(), AppError> {
        let Some(user) = user else { return Ok(()) };
        self.services
            .store
            .transact(context, move |tx| record_at_home(tx, &user, EventKind::LoginFailed))
            .await
    }

    /// Ends the login of this browser. Refused for API tokens, which are revoked instead.
    pub async fn log_out(&self, who: &Principal) -> Result<(), AppError> {
        let Via::SignIn { id } = who.via else {
            return Err(AppError::new(
                Code::InvalidState,
                "you authenticated with an API token; revoke the token instead of logging out",
            ));
        };
        let user = self.user(who.user).await?;
        self.services
            .store
            .transact(self.context(who), move |tx| {
                sign_in::end(tx, id)?;
                record_at_home(tx, &user, EventKind::LoginEnded)
            })
            .await
    }

    pub async fn me(&self, who: &Principal) -> Result<wire::Me, AppError> {
        let user = self.user(who.user).await?;
        let csrf_token = match &who.via {
            Via::SignIn { id } => Some(self.services.vault.keyed_hashes().csrf_token(&id.to_string())),
            Via::Token { .. } => None,
        };
        let generated = matches!(user.account, Account::Person { password_is_generated: true, .. });
        Ok(wire::Me {
            user: wire::User {
                id: user.id.to_string(),
                email: user.email.to_string(),
                name: user.name.to_string(),
                kind: crate::wire::user_kind(matches!(user.account, Account::Service { .. })),
                password_is_generated: generated,
            },
            organizations: self.organizations_of(who).await?,
            csrf_token,
            demo: self.config.demo_sites.as_ref().map(|sites| wire::Demo { sites: shown_sites(sites) }),
        })
    }

    /// Authenticates a bearer token.
    pub async fn by_token(&self, text: &str, request_id: String) -> Result<Option<Principal>, AppError> {
        if !is_well_formed(TokenKind::Api, text) {
            return Ok(None);
        }
        let hashed = hash(text);
        let access = self.services.store.access();
        let known = access.and_then(|access| self.callers.find(access, &hashed));
        let caller = match known {
            Some(caller) => caller,
            None => match self.look_up_caller(hashed.clone()).await? {
                None => return Ok(None),
                Some(caller) => {
                    if let Some((mark, _)) = access {
                        self.callers.keep(mark, hashed, caller.clone());
                    }
                    caller
                }
            },
        };
        let membership = Membership { org: caller.org, org_slug: caller.org_slug, role: caller.role };
        Ok(Some(Principal {
            user: caller.user,
            name: caller.user_name,
            is_service: caller.is_service,
            via: Via::Token {
                id: caller.token,
                membership,
                expires_at: caller.expires_at,
                access: access.map(|(generation, _)| generation),
            },
            request_id,
        }))
    }

    async fn look_up_caller(&self, hashed: Vec<u8>) -> Result<Option<TokenCaller>, AppError> {
        let found = self.services.store.read(None, move |db| {
            let now = db.now();
            Ok::<_, AppError>(token::caller(db, &hashed, now)?.map(|caller| (caller, now)))
        });
        let Some((mut caller, now)) = found.await? else { return Ok(None) };
        if caller.last_used_at.is_none_or(|last| now.seconds_since(last) >= LAST_USED_EVERY_S) {
            let id = caller.token;
            let context = Context::system(Some(caller.org));
            let used = self
                .services
                .store
                .transact(context, move |tx| Ok::<_, AppError>(token::used(tx, id)?))
                .await;
            bookkept(used);
            caller.last_used_at = Some(now);
        }
        Ok(Some(caller))
    }

    /// Authenticates a session cookie.
    pub async fn by_cookie(&self, text: &str, request_id: String) -> Result<Option<Principal>, AppError> {
        if !is_well_formed(TokenKind::SignIn, text) {
            return Ok(None);
        }
        let hashed = hash(text);
        let found = self.services.store.read(None, move |db| {
            let now = db.now();
            let Some(found) = sign_in::by_hash(db, &hashed, now)? else { return Ok::<_, AppError>(None) };
            Ok(user::by_id(db, found.user)?.map(|user| (found, user, now)))
        });
        let Some((found, user, now)) = found.await? else { return Ok(None) };
        if now.seconds_since(found.last_seen_at) >= LAST_USED_EVERY_S {
            let seen = move |tx: &mut Tx<'_>| Ok::<_, AppError>(sign_in::seen(tx, found.id)?);
            bookkept(self.services.store.transact(Context::system(None), seen).await);
        }
        Ok(Some(principal(&user, Via::SignIn { id: found.id }, request_id)))
    }

    pub(super) async fn user(&self, id: UserId) -> Result<User, AppError> {
        let found = self.services.store.read(None, move |db| Ok::<_, AppError>(user::by_id(db, id)?)).await?;
        found.ok_or_else(|| AppError::bug("the caller's account is gone"))
    }

    pub(super) fn context(&self, who: &Principal) -> Context {
        Context { actor: who.actor(), request_id: Some(who.request_id.clone()), ..Context::system(None) }
    }
}

fn shown_sites(sites: &[(String, String)]) -> Vec<wire::DemoSite> {
    sites.iter().map(|(place, url)| wire::DemoSite { place: place.clone(), url: url.clone() }).collect()
}

/// Logs a failed update of a last-used time. It does not fail the request, so that reads still work on a full disk.
fn bookkept(written: Result<(), AppError>) {
    if let Err(error) = written {
        tracing::warn!(?error, "updating a last-used time failed");
    }
}

/// Fails if the password was changed while it was being verified.
pub(super) fn check_unchanged(tx: &mut Tx<'_>, verified: &User) -> Result<(), AppError> {
    let now = user::by_id(tx, verified.id)?.as_ref().and_then(password_hash);
    if now == password_hash(verified) {
        return Ok(());
    }
    Err(AppError::unauthenticated("the password was changed in the meantime"))
}

pub(super) fn password_hash(user: &User) -> Option<String> {
    match &user.account {
        Account::Person { password_hash, .. } => Some(password_hash.clone()),
        Account::Service { .. } => None,
    }
}

pub(super) fn principal(user: &User, via: Via, request_id: String) -> Principal {
    let is_service = matches!(user.account, Account::Service { .. });
    Principal { user: user.id, name: user.name.clone(), is_service, via, request_id }
}

pub(super) fn actor(user: &User) -> Actor {
    Actor { kind: ActorType::User, id: Some(user.id), name: user.name.to_string(), token: None }
}

/// Creates a login and the secret for its cookie. The caller has authenticated the user.
pub(super) fn begin_sign_in(tx: &mut Tx<'_>, user: &User) -> Result<(SignInId, RedactedString), AppError> {
    let secret = make(TokenKind::SignIn);
    let id = SignInId::from_parts(tx.now(), tx.entropy()?);
    sign_in::begin(tx, id, user.id, &hash(secret.reveal()))?;
    tx.set_actor(actor(user));
    record_at_home(tx, user, EventKind::LoginSucceeded)?;
    Ok((id, secret))
}

/// Records an event of an account in the audit log of the organization that created it, not in those that added it
/// later.
pub(super) fn record_at_home(tx: &mut Tx<'_>, user: &User, kind: EventKind) -> Result<(), AppError> {
    if let Some(org) = member::home(tx, user.id)? {
        let event = NewEvent::new(kind, EventSubject::new("user", user.id, Some(user.name.as_str())));
        tx.within(org, |tx| tx.record(event))?;
    }
    Ok(())
}
