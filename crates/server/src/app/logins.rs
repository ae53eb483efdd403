//! Active logins: list them, end one, and log out everywhere.

use berth_api::login as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::client_info::describe_user_agent;
use berth_core::event::EventKind;
use berth_core::id::{SignInId, UserId};
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::sign_in::{self, ActiveSignIn};
use berth_store::tables::user::{self, UserAccount};
use berth_store::tables::{member, user::User};

use super::members::{check_reach, find_member};
use super::passwords::revoke_all_tokens;
use super::sign_in::{account_event, record_event_at_home};
use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::{AuthMethod, AuthorizedCaller, Principal};
use crate::error::AppError;

impl App {
    /// Lists the caller's logins, oldest first.
    pub async fn list_logins(
        &self,
        who: &Principal,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::ActiveLogin>, AppError> {
        check_unrestricted(who)?;
        let (user, current) = (who.user, current_login(who));
        let slice = self
            .services
            .store
            .read(None, move |db| Ok::<_, AppError>(sign_in::list_of_user(db, user, &from, limit)?))
            .await?;
        let show = |login: &ActiveSignIn| to_response(login, current);
        Ok(ResponsePage::from_list_page(&slice, |login| login.id.to_string(), show))
    }

    /// Ends one of the caller's logins.
    pub async fn end_login(&self, who: &Principal, id: SignInId) -> Result<wire::ActiveLogin, AppError> {
        check_unrestricted(who)?;
        let (user, current) = (self.load_user(who.user).await?, current_login(who));
        self.services
            .store
            .transact(self.context(who), move |tx| {
                let found = sign_in::find_of_user(tx, user.id, id)?;
                let found = found.ok_or_else(|| AppError::not_found("login"))?;
                sign_in::end(tx, id)?;
                let event =
                    account_event(EventKind::LoginEnded, &user).with("address", found.address.as_str());
                let event = event.with_some("client", describe_user_agent(&found.user_agent));
                record_event_at_home(tx, &user, event)?;
                Ok(to_response(&found, current))
            })
            .await
    }

    /// Ends all logins of the caller, or all except the one that the request was made with.
    pub async fn log_out_everywhere(
        &self,
        who: &Principal,
        keep_current: bool,
        revoke_tokens: bool,
    ) -> Result<wire::LoginsEnded, AppError> {
        check_unrestricted(who)?;
        let (user, kept) = (self.load_user(who.user).await?, current_login(who).filter(|_| keep_current));
        self.services
            .store
            .transact(self.context(who), move |tx| {
                let logins_ended = match kept {
                    Some(kept) => sign_in::end_others(tx, user.id, kept)?,
                    None => sign_in::end_all(tx, user.id)?,
                };
                let tokens_revoked = if revoke_tokens { revoke_all_tokens(tx, user.id)? } else { 0 };
                let event = account_event(EventKind::LoginsEnded, &user).with("logins", logins_ended);
                record_event_at_home(tx, &user, event)?;
                Ok(wire::LoginsEnded { logins_ended, tokens_revoked })
            })
            .await
    }

    /// Ends all logins of a member. The member keeps the account, its password and its tokens. A login covers all
    /// organizations of a person, so the event is also recorded in the organization that created the account.
    pub async fn log_out_member(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        user: UserId,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::LoginsEnded>, AppError> {
        let org = who.org();
        self.change(who, once, move |tx, standing| {
            let found = find_member(tx, user)?;
            check_reach(standing.role(), found.role)?;
            let account = user::by_id(tx, user)?.filter(is_person).ok_or_else(|| {
                let text = "a service account has no logins; revoke its tokens instead";
                AppError::new(Code::InvalidState, text)
            })?;
            let logins_ended = sign_in::end_all(tx, user)?;
            let event = account_event(EventKind::LoginsEnded, &account).with("logins", logins_ended);
            if member::find_home(tx, user)? != Some(org) {
                record_event_at_home(tx, &account, event.clone())?;
            }
            tx.record(event)?;
            Ok(ApiResponse::ok(wire::LoginsEnded { logins_ended, tokens_revoked: 0 }))
        })
        .await
    }
}

fn is_person(user: &User) -> bool {
    matches!(user.account, UserAccount::Person { .. })
}

fn current_login(who: &Principal) -> Option<SignInId> {
    match who.via {
        AuthMethod::SignIn { id } => Some(id),
        AuthMethod::Token { .. } => None,
    }
}

/// Refuses restricted tokens and session tokens, which have no permission for the account itself.
fn check_unrestricted(who: &Principal) -> Result<(), AppError> {
    match &who.via {
        AuthMethod::Token { membership, .. } if membership.access.restriction.is_some() => {
            let text = "a restricted token cannot manage logins; use a token without restrictions, or log in";
            Err(AppError::new(Code::Forbidden, text))
        }
        AuthMethod::Token { .. } | AuthMethod::SignIn { .. } => Ok(()),
    }
}

fn to_response(login: &ActiveSignIn, current: Option<SignInId>) -> wire::ActiveLogin {
    wire::ActiveLogin {
        id: login.id.to_string(),
        created_at: login.created_at.to_string(),
        last_seen_at: login.last_seen_at.to_string(),
        address: login.address.clone(),
        client: describe_user_agent(&login.user_agent),
        is_current: current == Some(login.id),
    }
}
