//! Finds, creates and links the account of a person whom a provider has confirmed. Accounts are found by issuer and
//! subject only: an address proves nothing, because providers let people change it.

use berth_api::problem::Code;
use berth_core::access::Role;
use berth_core::client_info::ClientInfo;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{IdentityId, OrgId, SignInId, UserId};
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;
use berth_engine::credential::RedactedString;
use berth_engine::vault::{ProviderTokenKind, SecretVault};
use berth_store::tables::provider_identity::{
    self, IDENTITIES_PER_USER_MAX, IdentityStatus, ProviderIdentity,
};
use berth_store::tables::provider_login::{self, ProviderLogin};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{member, organization, sign_in};
use berth_store::{Tx, TxContext};

use super::{App, refused};
use crate::app::members::{add_member, default_name};
use crate::app::sign_in::{actor, begin_sign_in};
use crate::error::AppError;
use crate::integrations::oidc::{OidcProvider, ProviderConfig, ProvisionRule, VerifiedAccount};
use crate::jobs::provider_checks::{self, CHECK_EVERY_S, GroupGrants};

/// A person whom a provider has confirmed, with the provider's settings.
struct ConfirmedPerson {
    config: ProviderConfig,
    account: VerifiedAccount,
    grants: GroupGrants,
}

/// The result of a login: accepted, or refused after the refusal was recorded.
enum LoginOutcome {
    Accepted(User, SignInId, RedactedString),
    NoMatchingGroup,
}

impl App {
    /// Logs a person in. Creates the account at the first login, if the provider's rule allows that.
    pub(super) async fn log_in_account(
        &self,
        provider: &OidcProvider,
        account: VerifiedAccount,
        client: ClientInfo,
        context: TxContext,
    ) -> Result<(User, SignInId, RedactedString), AppError> {
        let grants = GroupGrants::new(&provider.config, account.groups.as_deref());
        let person = ConfirmedPerson { config: provider.config.clone(), account, grants };
        let vault = self.services.vault.clone();
        let outcome = self.services.store.transact(context, move |tx| {
            let org = find_organization(tx, &person.config)?;
            tx.within_org(org, |tx| log_in(tx, &vault, org, &person, &client))
        });
        match outcome.await? {
            LoginOutcome::Accepted(user, id, secret) => Ok((user, id, secret)),
            LoginOutcome::NoMatchingGroup => Err(no_matching_group()),
        }
    }

    /// Links an account at a provider to the account that is logged in.
    pub(super) async fn link_account(
        &self,
        provider: &OidcProvider,
        account: VerifiedAccount,
        id: SignInId,
        context: TxContext,
    ) -> Result<(), AppError> {
        let grants = GroupGrants::new(&provider.config, account.groups.as_deref());
        let person = ConfirmedPerson { config: provider.config.clone(), account, grants };
        let vault = self.services.vault.clone();
        let linked = self.services.store.transact(context, move |tx| {
            let now = tx.now();
            let found = sign_in::by_id(tx, id, now)?;
            let found = found.ok_or_else(|| AppError::unauthenticated("your login has ended"))?;
            let user =
                user::by_id(tx, found.user)?.ok_or_else(|| AppError::bug("a login without account"))?;
            let org = find_organization(tx, &person.config)?;
            tx.set_actor(actor(&user));
            tx.within_org(org, |tx| link(tx, &vault, org, &person, &user))
        });
        linked.await
    }
}

fn find_organization(tx: &mut Tx<'_>, config: &ProviderConfig) -> Result<OrgId, AppError> {
    // The organization may have been renamed since the provider was configured.
    let found = organization::find_slug_owner(tx, &config.organization)?;
    found.ok_or_else(|| {
        refused(format!("the organization {} of this identity provider does not exist", config.organization))
    })
}

fn log_in(
    tx: &mut Tx<'_>,
    vault: &SecretVault,
    org: OrgId,
    person: &ConfirmedPerson,
    client: &ClientInfo,
) -> Result<LoginOutcome, AppError> {
    let ConfirmedPerson { config, account, .. } = person;
    let known = provider_identity::by_subject(tx, &config.issuer, &account.subject)?;
    let (user, mut identity) = match known {
        Some(identity) => {
            check_organization(&identity, org)?;
            if identity.is_provisioned && lacks_match(person) {
                if identity.status != IdentityStatus::Refused {
                    provider_checks::suspend(tx, identity, "no matching group")?;
                }
                return Ok(LoginOutcome::NoMatchingGroup);
            }
            let user = user::by_id(tx, identity.user)?;
            (user.ok_or_else(|| AppError::bug("a linked account without a user"))?, identity)
        }
        None => {
            let user = provision(tx, person)?;
            let identity = new_identity(tx, org, person, user.id, true)?;
            (user, identity)
        }
    };
    tx.set_actor(actor(&user));
    if member::by_user(tx, user.id)?.is_none() && may_provision(person) {
        add_member(tx, user.id, &user.name, Role::Member)?;
    }
    if identity.status == IdentityStatus::Refused {
        let subject = EventSubject::new("user", user.id, Some(user.name.as_str()));
        let event = NewEvent::new(EventKind::AccessRestored, subject);
        tx.record(event.with("provider", config.name.as_str()))?;
    }
    store_verified(tx, vault, &mut identity, person)?;
    let (id, secret) = begin_sign_in(tx, &user, client, Some(&config.name))?;
    // The provider may have answered from its own session: only a recent authentication there counts as confirmation.
    let authenticated_at = account.authenticated_at.unwrap_or(Timestamp::from_micros(0));
    sign_in::set_confirmed_at(tx, id, authenticated_at.min(tx.now()))?;
    let token = account.id_token.as_ref().ok_or_else(|| AppError::bug("a login without ID token"))?;
    let id_token = vault.seal_provider_token(tx, ProviderTokenKind::Id, id, token)?;
    let provider = config.name.to_string();
    let login = ProviderLogin { identity: identity.id, user: user.id, org, provider, id_token };
    provider_login::insert(tx, id, &login)?;
    Ok(LoginOutcome::Accepted(user, id, secret))
}

fn link(
    tx: &mut Tx<'_>,
    vault: &SecretVault,
    org: OrgId,
    person: &ConfirmedPerson,
    user: &User,
) -> Result<(), AppError> {
    let ConfirmedPerson { config, account, .. } = person;
    if lacks_match(person) {
        return Err(no_matching_group());
    }
    let mut identity = match provider_identity::by_subject(tx, &config.issuer, &account.subject)? {
        Some(found) if found.user != user.id => {
            return Err(refused("this account at the identity provider is linked to another account here"));
        }
        Some(found) => {
            check_organization(&found, org)?;
            found
        }
        None => {
            let linked = provider_identity::list_of_user(tx, user.id)?.len();
            if i64::try_from(linked).is_ok_and(|linked| linked >= IDENTITIES_PER_USER_MAX) {
                let text = format!("an account has at most {IDENTITIES_PER_USER_MAX} linked accounts");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let subject = EventSubject::new("user", user.id, Some(user.name.as_str()));
            let event = NewEvent::new(EventKind::IdentityLinked, subject);
            tx.record(event.with("provider", config.name.as_str()))?;
            new_identity(tx, org, person, user.id, false)?
        }
    };
    store_verified(tx, vault, &mut identity, person)
}

/// An account at a provider belongs to the organization that the provider was configured for when it was linked.
fn check_organization(identity: &ProviderIdentity, org: OrgId) -> Result<(), AppError> {
    match identity.org == org {
        true => Ok(()),
        false => Err(refused("this account at the identity provider is linked in another organization")),
    }
}

/// Whether the provider's configuration requires one of its groups and the person is in none.
fn lacks_match(person: &ConfirmedPerson) -> bool {
    person.config.provision == ProvisionRule::MatchingGroups && !person.grants.has_match
}

fn may_provision(person: &ConfirmedPerson) -> bool {
    match person.config.provision {
        ProvisionRule::Never => false,
        ProvisionRule::MatchingGroups => person.grants.has_match,
        ProvisionRule::Always => true,
    }
}

/// Creates the user at the first login.
fn provision(tx: &mut Tx<'_>, person: &ConfirmedPerson) -> Result<User, AppError> {
    let account = &person.account;
    if !may_provision(person) {
        return Err(match person.config.provision {
            ProvisionRule::MatchingGroups => no_matching_group(),
            ProvisionRule::Never | ProvisionRule::Always => refused(
                "your account at the identity provider is not linked to an account here; log in with your password and \
                 link it in your profile",
            ),
        });
    }
    let email = account.email.as_deref().and_then(|email| Email::parse(email).ok());
    let email =
        email.ok_or_else(|| refused("the identity provider sent no e-mail address for your account"))?;
    if account.is_email_verified == Some(false) {
        return Err(refused("your e-mail address at the identity provider is not verified; verify it there"));
    }
    if user::by_email(tx, &email)?.is_some() {
        return Err(refused(format!(
            "there already is an account for {email}; log in with its password and link the identity provider in your \
             profile"
        )));
    }
    let name = account.name.as_deref().and_then(|name| DisplayName::parse(name).ok());
    let name = name.map_or_else(|| default_name(&email), Ok)?;
    let id = UserId::from_parts(tx.now(), tx.entropy()?);
    let account = UserAccount::Person { password_hash: None, password_is_generated: false };
    let user = User { id, email, name, account, created_at: tx.now() };
    user::put(tx, &user)?;
    let subject = EventSubject::new("user", user.id, Some(user.name.as_str()));
    let event = NewEvent::new(EventKind::AccountProvisioned, subject);
    tx.record(event.with("provider", person.config.name.as_str()))?;
    Ok(user)
}

fn new_identity(
    tx: &mut Tx<'_>,
    org: OrgId,
    person: &ConfirmedPerson,
    user: UserId,
    is_provisioned: bool,
) -> Result<ProviderIdentity, AppError> {
    let now = tx.now();
    Ok(ProviderIdentity {
        id: IdentityId::from_parts(now, tx.entropy()?),
        user,
        org,
        provider: person.config.name.to_string(),
        issuer: person.config.issuer.clone(),
        subject: person.account.subject.clone(),
        email: None,
        status: IdentityStatus::Active,
        verified_at: now,
        next_check_at: now,
        is_provisioned,
        group_role: None,
        own_role: None,
        refresh_key: None,
        refresh_sealed: None,
        version: 0,
        last_login_at: now,
        created_at: now,
    })
}

/// Records that the provider has just confirmed the account, and applies the person's groups.
fn store_verified(
    tx: &mut Tx<'_>,
    vault: &SecretVault,
    identity: &mut ProviderIdentity,
    person: &ConfirmedPerson,
) -> Result<(), AppError> {
    let now = tx.now();
    let ConfirmedPerson { account, grants, .. } = person;
    identity.email.clone_from(&account.email);
    identity.status = IdentityStatus::Active;
    (identity.verified_at, identity.last_login_at) = (now, now);
    identity.next_check_at = now.plus_seconds(CHECK_EVERY_S);
    let seal = |token| vault.seal_provider_token(tx, ProviderTokenKind::Refresh, identity.id, token);
    let sealed = account.refresh_token.as_ref().map(seal).transpose()?;
    identity.set_refresh_token(sealed);
    provider_checks::apply(tx, identity, grants)?;
    identity.version += 1;
    Ok(provider_identity::put(tx, identity)?)
}

fn no_matching_group() -> AppError {
    refused("you are in none of the groups that have access; ask an administrator of your identity provider")
}
