//! Linked accounts of a person.

use berth_api::identity as wire;
use berth_api::problem::Code;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::IdentityId;
use berth_store::tables::provider_identity::{self, IdentityStatus, ProviderIdentity};
use berth_store::tables::user::{self, UserAccount};
use berth_store::tables::{provider_login, sign_in};

use super::App;
use super::pending::browser_login;
use crate::auth::authorize::Principal;
use crate::error::AppError;
use crate::integrations::oidc::PasswordLogin;
use crate::jobs::provider_checks::{self, GroupGrants};
use crate::limits::PASSWORD_CONFIRMED_S;

impl App {
    pub async fn list_identities(&self, who: &Principal) -> Result<Vec<wire::LinkedIdentity>, AppError> {
        let user = who.user;
        let found = self
            .services
            .store
            .read(None, move |db| Ok::<_, AppError>(provider_identity::list_of_user(db, user)?));
        Ok(found.await?.iter().map(to_response).collect())
    }

    /// Unlinks an account at a provider and ends the logins that came from it. What its groups have given is taken away.
    pub async fn unlink_identity(
        &self,
        who: &Principal,
        id: IdentityId,
    ) -> Result<wire::LinkedIdentity, AppError> {
        let (owner, rule) = (who.user, self.config.password_login);
        // Not with a token: it would outlive the provider's verdict about its owner.
        let login = browser_login(who)?;
        let unlinked = self.services.store.transact(self.context(who), move |tx| {
            let found = provider_identity::by_id(tx, id)?.filter(|it| it.user == owner);
            let mut found = found.ok_or_else(|| AppError::not_found("linked account"))?;
            let account = user::by_id(tx, owner)?.map(|user| user.account);
            if !matches!(account, Some(UserAccount::Person { password_hash: Some(_), .. })) {
                let text =
                    "you have no password, so you could not log in any more; ask for a link to set one first";
                return Err(AppError::new(Code::InvalidState, text));
            }
            if rule == PasswordLogin::Owners
                && !provider_identity::is_local_owner(tx, owner, Some(found.org))?
            {
                let text = "on this server, only owners log in with a password; you need the linked account";
                return Err(AppError::new(Code::InvalidState, text));
            }
            let now = tx.now();
            let login = sign_in::by_id(tx, login, now)?;
            if login.is_none_or(|it| now.seconds_since(it.confirmed_at) > PASSWORD_CONFIRMED_S) {
                let text = "confirm that it is you before you unlink an account, and try again";
                return Err(AppError::new(Code::ReauthenticationRequired, text));
            }
            let last = to_response(&found);
            tx.within_org(found.org, |tx| {
                provider_checks::apply(tx, &mut found, &GroupGrants::default())?;
                let subject = EventSubject::new("user", owner, None);
                let event = NewEvent::new(EventKind::IdentityUnlinked, subject);
                Ok::<_, AppError>(tx.record(event.with("provider", found.provider.as_str()))?)
            })?;
            provider_login::end_of_identity(tx, id)?;
            provider_identity::delete(tx, id)?;
            Ok(last)
        });
        unlinked.await
    }
}

fn to_response(identity: &ProviderIdentity) -> wire::LinkedIdentity {
    wire::LinkedIdentity {
        id: identity.id.to_string(),
        provider: identity.provider.clone(),
        issuer: identity.issuer.clone(),
        email: identity.email.clone(),
        status: match identity.status {
            IdentityStatus::Active => wire::LinkedIdentityStatus::Active,
            IdentityStatus::Refused => wire::LinkedIdentityStatus::Refused,
            IdentityStatus::Dormant => wire::LinkedIdentityStatus::Dormant,
        },
        verified_at: identity.verified_at.to_string(),
        last_login_at: identity.last_login_at.to_string(),
        linked_at: identity.created_at.to_string(),
    }
}
