//! Login, logout, and authentication by token or cookie.

use berth_api::auth as wire;
use berth_api::problem::Code;
use berth_core::client_info::{ClientInfo, describe_user_agent};
use berth_core::event::{Actor, ActorType, EventKind, EventSubject, NewEvent};
use berth_core::id::{SignInId, UserId};
use berth_core::name::{Email, Slug};
use berth_engine::credential::RedactedString;
use berth_store::tables::token::{self, TokenCaller};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{member, provider_identity, provider_login, sign_in};
use berth_store::{Tx, TxContext};

use super::App;
use super::provider_login::check_standing;
use super::second_factor::{FactorCheck, verify_code};
use super::throttle::ThrottleKeys;
use crate::auth::authorize::{AuthMethod, Membership, Principal};
use crate::auth::instance_admin::is_instance_admin;
use crate::auth::tokens::{TokenKind, generate_token, hash_token, is_well_formed};
use crate::error::AppError;
use crate::integrations::oidc::PasswordLogin;
use crate::jobs::provider_checks;
use crate::limits::LAST_USED_EVERY_S;

pub struct LoginAttempt {
    pub email: Email,
    pub password: RedactedString,
    /// Code of the second factor, if the user has entered one.
    pub code: Option<RedactedString>,
    pub client: ClientInfo,
    /// Cookie that identifies a browser in which an account has logged in before.
    pub known_browser: Option<String>,
    pub request_id: String,
}

pub struct SignedIn {
    /// Value of the session cookie.
    pub secret: RedactedString,
    /// Value of the cookie that identifies this browser at the next login.
    pub known_browser: String,
    pub me: wire::CurrentUser,
}

impl App {
    pub async fn log_in(&self, attempt: LoginAttempt) -> Result<SignedIn, AppError> {
        let sent = attempt.known_browser.as_deref();
        let browser = sent.and_then(|sent| {
            self.services.vault.keyed_hashes().verify_browser_cookie(&attempt.email.key(), sent)
        });
        let tried = match browser {
            Some(id) => ThrottleKeys::for_known_browser(id),
            None => ThrottleKeys::new(&attempt.email, attempt.client.address()),
        };
        let context = TxContext { request_id: Some(attempt.request_id.clone()), ..TxContext::system(None) };
        self.count_attempt(context.clone(), tried.clone()).await?;

        let email = attempt.email.clone();
        let known =
            self.services.store.read(None, move |db| Ok::<_, AppError>(user::by_email(db, &email)?)).await?;
        let stored = known.as_ref().and_then(password_hash);
        let right = self.passwords.verify(attempt.password, stored).await?;
        let Some(user) = known.clone().filter(|_| right) else {
            self.record_failure(context, known).await?;
            return Err(AppError::unauthenticated("the e-mail address or the password is wrong"));
        };

        let (code, rule) = (attempt.code, self.config.password_login);
        let code_tried = self.count_code(&context, &user, code.as_ref(), browser).await?;
        let (signed, vault) = (user.clone(), self.services.vault.clone());
        let begun = self.services.store.transact(context.clone(), move |tx| {
            check_unchanged(tx, &signed)?;
            tx.set_actor(actor(&signed));
            let checked = verify_code(tx, &vault, &signed, code.as_ref())?;
            if checked == FactorCheck::CodeWrong {
                return Ok(Err(checked));
            }
            Self::uncount_attempt(tx, &tried)?;
            code_tried.iter().try_for_each(|tried| Self::uncount_attempt(tx, tried))?;
            if checked != FactorCheck::Passed {
                return Ok(Err(checked));
            }
            check_password_login(tx, rule, &signed)?;
            if provider_checks::let_password_decide(tx, rule, signed.id)? {
                record_at_home(tx, &signed, EventKind::AccessRestored)?;
            }
            begin_sign_in(tx, &signed, &attempt.client, None).map(Ok)
        });
        let (id, secret) = match begun.await? {
            Ok(begun) => begun,
            Err(checked) => return Err(self.refuse_login_code(context, user, checked).await?),
        };
        self.build_signed_in(&user, id, secret, attempt.request_id).await
    }

    pub(super) async fn build_signed_in(
        &self,
        user: &User,
        id: SignInId,
        secret: RedactedString,
        request_id: String,
    ) -> Result<SignedIn, AppError> {
        let principal = principal_of(user, AuthMethod::SignIn { id }, request_id);
        let known_browser = self.services.vault.keyed_hashes().new_browser_cookie(&user.email.key());
        Ok(SignedIn { secret, known_browser, me: self.me(&principal).await? })
    }

    /// Records a failed login in the audit log of the organization that created the account.
    pub(super) async fn record_failure(
        &self,
        context: TxContext,
        user: Option<User>,
    ) -> Result<(), AppError> {
        let Some(user) = user else { return Ok(()) };
        self.services
            .store
            .transact(context, move |tx| record_at_home(tx, &user, EventKind::LoginFailed))
            .await
    }

    /// Ends the browser session. Refused for API tokens, which must be revoked instead. Returns the URL that also logs
    /// the person out at the identity provider, if the login came from one.
    pub async fn log_out(&self, who: &Principal) -> Result<Option<String>, AppError> {
        let AuthMethod::SignIn { id } = who.via else {
            return Err(AppError::new(
                Code::InvalidState,
                "you authenticated with an API token; revoke the token instead of logging out",
            ));
        };
        let user = self.load_user(who.user).await?;
        let provider_url = self.provider_logout_url(id).await;
        self.services
            .store
            .transact(self.context(who), move |tx| {
                sign_in::end(tx, id)?;
                record_at_home(tx, &user, EventKind::LoginEnded)
            })
            .await?;
        Ok(provider_url)
    }

    pub async fn me(&self, who: &Principal) -> Result<wire::CurrentUser, AppError> {
        let user = self.load_user(who.user).await?;
        let csrf_token = match &who.via {
            AuthMethod::SignIn { id } => Some(self.services.vault.keyed_hashes().csrf_token(&id.to_string())),
            AuthMethod::Token { .. } => None,
        };
        let caller = who.clone();
        let read = self.services.store.read(None, move |db| is_instance_admin(db, &caller));
        let is_instance_admin = read.await?;
        let provider = match who.via {
            AuthMethod::SignIn { id } => self.find_login_provider(id).await?,
            AuthMethod::Token { .. } => None,
        };
        let generated = matches!(user.account, UserAccount::Person { password_is_generated: true, .. });
        Ok(wire::CurrentUser {
            user: wire::WireUser {
                id: user.id.to_string(),
                email: user.email.to_string(),
                name: user.name.to_string(),
                kind: crate::wire::user_kind(
                    matches!(user.account, UserAccount::Service { .. }),
                    matches!(user.account, UserAccount::Service { is_agent: true, .. }),
                ),
                password_is_generated: generated,
                has_password: password_hash(&user).is_some(),
            },
            second_factor: self.second_factor_state(&user).await?,
            organizations: self.list_organizations_of(who).await?,
            csrf_token,
            is_instance_admin,
            provider,
            demo: self
                .config
                .demo_sites
                .as_ref()
                .map(|sites| wire::DemoInfo { sites: sites_to_response(sites) }),
        })
    }

    /// Returns the name of the identity provider that a browser login came from.
    async fn find_login_provider(&self, id: SignInId) -> Result<Option<String>, AppError> {
        let login = self.services.store.read(None, move |db| {
            Ok::<_, AppError>(provider_login::by_sign_in(db, id)?.map(|login| login.provider))
        });
        login.await
    }

    /// Authenticates a bearer token.
    pub async fn authenticate_token(
        &self,
        text: &str,
        client: &ClientInfo,
        request_id: String,
    ) -> Result<Option<Principal>, AppError> {
        if ![TokenKind::Api, TokenKind::Session].iter().any(|kind| is_well_formed(*kind, text)) {
            return Ok(None);
        }
        let hashed = hash_token(text);
        let access = self.services.store.access_generation();
        let known = access.and_then(|access| self.callers.find(access, &hashed));
        let caller = match known {
            Some(caller) => caller,
            None => match self.look_up_caller(hashed.clone(), client).await? {
                None => return Ok(None),
                // A session token becomes invalid with its session, which does not change the access generation.
                Some(caller) if caller.environment.is_some() => {
                    return self.session_principal(caller, request_id).await;
                }
                Some(caller) => {
                    if let Some((mark, _)) = access {
                        self.callers.insert(mark, hashed, caller.clone());
                    }
                    caller
                }
            },
        };
        let membership = Membership { org: caller.org, org_slug: caller.org_slug, access: caller.access };
        Ok(Some(Principal {
            user: caller.user,
            name: caller.user_name,
            is_service: caller.is_service,
            is_agent: caller.is_agent,
            via: AuthMethod::Token {
                id: caller.token,
                membership,
                expires_at: caller.expires_at,
                access: access.map(|(generation, _)| generation),
                is_of_session: false,
            },
            request_id,
        }))
    }

    async fn look_up_caller(
        &self,
        hashed: Vec<u8>,
        client: &ClientInfo,
    ) -> Result<Option<TokenCaller>, AppError> {
        let found = self.services.store.read(None, move |db| {
            let now = db.now();
            Ok::<_, AppError>(token::find_caller(db, &hashed, now)?.map(|caller| (caller, now)))
        });
        let Some((mut caller, now)) = found.await? else { return Ok(None) };
        check_standing(&caller.standing)?;
        if caller.last_used_at.is_none_or(|last| now.seconds_since(last) >= LAST_USED_EVERY_S) {
            let (id, client) = (caller.token, client.clone());
            let context = TxContext::system(Some(caller.org));
            let used = self
                .services
                .store
                .transact(context, move |tx| Ok::<_, AppError>(token::touch(tx, id, &client)?))
                .await;
            log_bookkeeping_error(used);
            caller.last_used_at = Some(now);
        }
        Ok(Some(caller))
    }

    /// Authenticates a session cookie.
    pub async fn authenticate_cookie(
        &self,
        text: &str,
        client: &ClientInfo,
        request_id: String,
    ) -> Result<Option<Principal>, AppError> {
        if !is_well_formed(TokenKind::SignIn, text) {
            return Ok(None);
        }
        let hashed = hash_token(text);
        let found = self.services.store.read(None, move |db| {
            let now = db.now();
            let Some(found) = sign_in::by_hash(db, &hashed, now)? else { return Ok::<_, AppError>(None) };
            check_standing(&provider_login::load_standing(db, found.id)?)?;
            Ok(user::by_id(db, found.user)?.map(|user| (found, user, now)))
        });
        let Some((found, user, now)) = found.await? else { return Ok(None) };
        if now.seconds_since(found.last_seen_at) >= LAST_USED_EVERY_S {
            let client = client.clone();
            let seen = move |tx: &mut Tx<'_>| Ok::<_, AppError>(sign_in::touch(tx, found.id, &client)?);
            log_bookkeeping_error(self.services.store.transact(TxContext::system(None), seen).await);
        }
        Ok(Some(principal_of(&user, AuthMethod::SignIn { id: found.id }, request_id)))
    }

    pub(super) async fn load_user(&self, id: UserId) -> Result<User, AppError> {
        let found = self.services.store.read(None, move |db| Ok::<_, AppError>(user::by_id(db, id)?)).await?;
        found.ok_or_else(|| AppError::bug("the caller's account is gone"))
    }

    pub(super) fn context(&self, who: &Principal) -> TxContext {
        TxContext { actor: who.actor(), request_id: Some(who.request_id.clone()), ..TxContext::system(None) }
    }
}

fn sites_to_response(sites: &[(String, String)]) -> Vec<wire::DemoSite> {
    sites.iter().map(|(place, url)| wire::DemoSite { place: place.clone(), url: url.clone() }).collect()
}

/// Logs a failure to update a last-used time instead of failing the request, so that reads still work when the disk is
/// full.
fn log_bookkeeping_error(written: Result<(), AppError>) {
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

/// Refuses a login with a password if only owners may use one. Called after the password was verified, so that the
/// refusal reveals nothing about other accounts.
fn check_password_login(tx: &mut Tx<'_>, rule: PasswordLogin, user: &User) -> Result<(), AppError> {
    if rule == PasswordLogin::Everyone || provider_identity::is_local_owner(tx, user.id, None)? {
        return Ok(());
    }
    let text = "on this server, only owners log in with a password; log in through your identity provider";
    Err(AppError::new(Code::Forbidden, text))
}

pub(super) fn password_hash(user: &User) -> Option<String> {
    match &user.account {
        UserAccount::Person { password_hash, .. } => password_hash.clone(),
        UserAccount::Service { .. } => None,
    }
}

pub(super) fn principal_of(user: &User, via: AuthMethod, request_id: String) -> Principal {
    let is_service = matches!(user.account, UserAccount::Service { .. });
    let is_agent = matches!(user.account, UserAccount::Service { is_agent: true, .. });
    Principal { user: user.id, name: user.name.clone(), is_service, is_agent, via, request_id }
}

pub(super) fn actor(user: &User) -> Actor {
    Actor { kind: ActorType::User, id: Some(user.id), name: user.name.to_string(), token: None }
}

/// Creates a browser session and the secret for its cookie. The caller of this function must have authenticated the
/// user. `provider` is the identity provider that did, `None` for a password.
pub(super) fn begin_sign_in(
    tx: &mut Tx<'_>,
    user: &User,
    client: &ClientInfo,
    provider: Option<&Slug>,
) -> Result<(SignInId, RedactedString), AppError> {
    let secret = generate_token(TokenKind::SignIn);
    let id = SignInId::from_parts(tx.now(), tx.entropy()?);
    sign_in::insert(tx, id, user.id, &hash_token(secret.reveal()), client)?;
    tx.set_actor(actor(user));
    let event = account_event(EventKind::LoginSucceeded, user).with("address", client.address().to_string());
    let described = describe_user_agent(client.user_agent()).unwrap_or_default();
    let event = event.with("client", described);
    let event = match provider {
        Some(provider) => event.with("provider", provider.as_str()),
        None => event,
    };
    record_event_at_home(tx, user, event)?;
    Ok((id, secret))
}

/// Records an account event in the audit log of the organization that created the account, not in those of
/// organizations that added it later.
pub(super) fn record_at_home(tx: &mut Tx<'_>, user: &User, kind: EventKind) -> Result<(), AppError> {
    record_event_at_home(tx, user, account_event(kind, user))
}

pub(super) fn account_event(kind: EventKind, user: &User) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("user", user.id, Some(user.name.as_str())))
}

/// Like [`record_at_home`], for an event with data.
pub(super) fn record_event_at_home(tx: &mut Tx<'_>, user: &User, event: NewEvent) -> Result<(), AppError> {
    if let Some(org) = member::find_home(tx, user.id)? {
        tx.within_org(org, |tx| tx.record(event))?;
    }
    Ok(())
}
