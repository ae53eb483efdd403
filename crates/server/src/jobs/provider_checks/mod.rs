//! Asks identity providers whether the accounts that people log in with are still valid, and applies changed groups.
//!
//! Each account is due every five minutes. An account that its provider refuses is suspended at once. If the provider
//! does not respond, nothing is written: the last confirmation expires by itself, see
//! [`VERIFIED_S_MAX`](berth_store::tables::provider_identity::VERIFIED_S_MAX).

mod memberships;

pub(crate) use memberships::{GroupGrants, apply, user_subject};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_core::access::Role;
use berth_core::event::{EventKind, NewEvent};
use berth_core::id::{IdentityId, UserId};
use berth_engine::Services;
use berth_engine::credential::RedactedString;
use berth_engine::vault::ProviderTokenKind;
use berth_store::tables::provider_identity::{self, IdentityStatus, ProviderIdentity, VERIFIED_S_MAX};
use berth_store::tables::{environment, member, sign_in};
use berth_store::{Tx, TxContext};
use futures_util::{StreamExt as _, stream};

use crate::error::AppError;
use crate::integrations::oidc::{
    OidcProvider, PasswordLogin, ProviderError, ProviderSet, ProvisionRule, VerifiedAccount,
};
use crate::worker::{BackgroundJob, TurnResult};

/// Interval between two checks of an account. A third of the time for which a confirmation is valid.
pub(crate) const CHECK_EVERY_S: i64 = 5 * 60;
/// Interval between two attempts while the provider does not respond.
const RETRY_EVERY_S: i64 = 30;
/// Interval at which the job looks for accounts that are due.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Number of accounts per turn.
const BATCH_MAX: i64 = 200;
/// Number of concurrent requests to one provider.
const CHECKS_AT_ONCE: usize = 8;

pub(crate) struct ProviderCheckJob {
    services: Arc<Services>,
    providers: Arc<ProviderSet>,
}

impl BackgroundJob for ProviderCheckJob {
    const NAME: &'static str = "provider checks";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let due = self
            .services
            .store
            .read(None, |db| Ok::<_, AppError>(provider_identity::list_due(db, BATCH_MAX)?));
        let due = due.await?;
        let is_full = i64::try_from(due.len()).is_ok_and(|found| found == BATCH_MAX);
        let mut by_provider = BTreeMap::<String, Vec<IdentityId>>::new();
        for it in due {
            by_provider.entry(it.provider).or_default().push(it.id);
        }
        let checks = by_provider.into_iter().map(|(name, ids)| self.check_all(name, ids));
        futures_util::future::join_all(checks).await;
        Ok(if is_full { TurnResult::Again } else { TurnResult::Idle })
    }

    async fn wait(&self) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

impl ProviderCheckJob {
    pub(super) fn new(services: Arc<Services>, providers: Arc<ProviderSet>) -> Self {
        Self { services, providers }
    }

    /// Checks the accounts at one provider, so that a provider that does not respond delays no other.
    async fn check_all(&self, name: String, ids: Vec<IdentityId>) {
        let provider = self.providers.find(&name);
        let check = |id| async move {
            if let Err(error) = self.check(provider, id).await {
                tracing::warn!(?error, identity = %id, "checking an account at its identity provider failed");
            }
        };
        stream::iter(ids).for_each_concurrent(CHECKS_AT_ONCE, check).await;
    }

    async fn check(&self, provider: Option<&Arc<OidcProvider>>, id: IdentityId) -> Result<(), AppError> {
        let Some((identity, token)) = self.claim(id, provider.is_some()).await? else { return Ok(()) };
        let (Some(provider), Some(token)) = (provider.cloned(), token) else { return Ok(()) };
        let (asked, subject) = (provider.clone(), identity.subject.clone());
        let now = self.services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
        let answered = tokio::task::spawn_blocking(move || asked.refresh(&token, &subject, now)).await;
        let answered = answered.map_err(|error| AppError::bug(error.to_string()))?;
        match answered {
            Ok(account) => self.accept(&provider, identity, account).await,
            Err(ProviderError::Refused(why)) => self.suspend(identity, why).await,
            Err(error) => {
                tracing::warn!(%error, provider = %identity.provider, "an account could not be verified");
                Ok(())
            }
        }
    }

    /// Postpones the next check, so that no other server uses the refresh token at the same time, and decrypts the
    /// token.
    async fn claim(
        &self,
        id: IdentityId,
        is_configured: bool,
    ) -> Result<Option<(ProviderIdentity, Option<RedactedString>)>, AppError> {
        let vault = self.services.vault.clone();
        let claimed = self.services.store.transact(TxContext::system(None), move |tx| {
            let Some(mut identity) = provider_identity::by_id(tx, id)? else { return Ok(None) };
            let sealed = identity.refresh_token().filter(|_| is_configured);
            let pause = if sealed.is_some() { RETRY_EVERY_S } else { CHECK_EVERY_S };
            let until = tx.now().plus_seconds(pause);
            if !provider_identity::postpone(tx, id, identity.version, until)? {
                return Ok(None);
            }
            identity.version += 1;
            let Some(sealed) = sealed else { return Ok(Some((identity, None))) };
            let org = identity.org;
            let token = tx.within_org(org, |tx| {
                vault.open_provider_token(tx, org, ProviderTokenKind::Refresh, id, &sealed)
            })?;
            Ok::<_, AppError>(Some((identity, Some(token))))
        });
        claimed.await
    }

    async fn accept(
        &self,
        provider: &OidcProvider,
        identity: ProviderIdentity,
        account: VerifiedAccount,
    ) -> Result<(), AppError> {
        let grants = GroupGrants::new(&provider.config, account.groups.as_deref());
        if identity.is_provisioned
            && provider.config.provision == ProvisionRule::MatchingGroups
            && !grants.has_match
        {
            return self.suspend(identity, "no matching group".to_owned()).await;
        }
        let vault = self.services.vault.clone();
        let context = TxContext::system(Some(identity.org));
        let accepted = self.services.store.transact(context, move |tx| {
            let Some(current) = provider_identity::by_id(tx, identity.id)? else { return Ok(()) };
            if current.version != identity.version {
                return Ok(());
            }
            let mut identity = current;
            identity.verified_at = tx.now();
            identity.next_check_at = tx.now().plus_seconds(CHECK_EVERY_S);
            if let Some(token) = &account.refresh_token {
                let sealed = vault.seal_provider_token(tx, ProviderTokenKind::Refresh, identity.id, token)?;
                identity.set_refresh_token(Some(sealed));
            }
            apply(tx, &mut identity, &grants)?;
            provider_identity::record_verified(tx, &identity)?;
            Ok::<_, AppError>(())
        });
        accepted.await
    }

    async fn suspend(&self, identity: ProviderIdentity, why: String) -> Result<(), AppError> {
        let context = TxContext::system(Some(identity.org));
        let suspended = self.services.store.transact(context, move |tx| {
            match provider_identity::by_id(tx, identity.id)? {
                Some(current) if current.version == identity.version => suspend(tx, current, &why),
                _ => Ok(()),
            }
        });
        suspended.await
    }
}

/// Ends a person's logins and suspends their API tokens, until the next login. Takes away what the provider's groups
/// have given. The transaction must be in the organization of the provider.
pub(crate) fn suspend(tx: &mut Tx<'_>, mut identity: ProviderIdentity, why: &str) -> Result<(), AppError> {
    let user = identity.user;
    apply(tx, &mut identity, &GroupGrants::default())?;
    identity.status = IdentityStatus::Refused;
    identity.set_refresh_token(None);
    identity.version += 1;
    provider_identity::put(tx, &identity)?;
    sign_in::end_all(tx, user)?;
    for org in member::list_organizations(tx, user)? {
        tx.within_org(org, |tx| environment::make_queues_due(tx, user))?;
    }
    let event = NewEvent::new(EventKind::AccessSuspended, user_subject(tx, &identity)?);
    Ok(tx.record(event.with("provider", identity.provider.as_str()).with("reason", why))?)
}

/// Lets the password decide again, after a login with it: providers that refused the user or have not confirmed the
/// account in time no longer count, and what their groups gave is taken away. If only owners may use a password, this
/// applies in the organizations that the user owns. Returns whether there were such providers.
pub(crate) fn let_password_decide(
    tx: &mut Tx<'_>,
    rule: PasswordLogin,
    user: UserId,
) -> Result<bool, AppError> {
    let oldest = tx.now().plus_seconds(-VERIFIED_S_MAX);
    let mut is_changed = false;
    for mut identity in provider_identity::list_of_user(tx, user)? {
        let counts = match identity.status {
            IdentityStatus::Refused => true,
            IdentityStatus::Active => identity.verified_at <= oldest,
            IdentityStatus::Dormant => false,
        };
        let is_owner = member::role_in(tx, user, identity.org)? == Some(Role::Owner);
        if !counts || (rule == PasswordLogin::Owners && !is_owner) {
            continue;
        }
        tx.within_org(identity.org, |tx| apply(tx, &mut identity, &GroupGrants::default()))?;
        identity.status = IdentityStatus::Dormant;
        identity.set_refresh_token(None);
        identity.version += 1;
        provider_identity::put(tx, &identity)?;
        is_changed = true;
    }
    Ok(is_changed)
}
