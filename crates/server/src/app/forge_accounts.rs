//! Accounts on forges that members link to their own, and approvals of commits from forks.

use berth_api::forge_account as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::RepositoryId;
use berth_engine::credential::random_base62;
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::forge_account::{self, ForgeAccount};
use berth_store::tables::{agent, pull_request, repository};

use super::pull_requests::is_repository_visible;
use super::{ApiResponse, App, IdempotentResponse};
use crate::auth::authorize::AuthorizedCaller;
use crate::auth::tokens::hash_token;
use crate::error::AppError;
use crate::jobs::pull_requests::approval::{ApprovalRefusal, Approver, approve};

/// How long a code can be used, in seconds.
const CODE_S: i64 = 10 * 60;
/// Length of a code; 20 characters have 119 bits.
const CODE_CHARS: usize = 20;

impl App {
    pub async fn list_forge_accounts(
        &self,
        who: &AuthorizedCaller<permit::TokensOwn>,
    ) -> Result<Vec<wire::LinkedForgeAccount>, AppError> {
        let user = who.principal().user;
        let found = self.read(who, move |db| Ok(forge_account::list_of_member(db, user)?)).await?;
        Ok(found.iter().map(to_response).collect())
    }

    /// Creates a code with which the caller links an account on a forge. It replaces the caller's earlier code.
    pub async fn create_forge_link_code(
        &self,
        who: &AuthorizedCaller<permit::TokensOwn>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::ForgeLinkCode>, AppError> {
        let (user, org) = (who.principal().user, who.org());
        let is_session_token = who.principal().session_token().is_some();
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            // A link has all permissions of the member and does not expire, so the credential that creates it must not
            // have less.
            let is_limited = standing.access.restriction.is_some() || standing.token_expires_at.is_some();
            if agent::by_user(tx, user)?.is_some() {
                let text = "an agent cannot link an account, because its limits do not apply to comments";
                return Err(AppError::new(Code::Forbidden, text));
            }
            if is_limited || is_session_token {
                let text = "linking an account requires a login, or a token without restrictions and expiry";
                return Err(AppError::new(Code::Forbidden, text));
            }
            let code = random_base62(CODE_CHARS);
            let expires_at = tx.now().plus_seconds(CODE_S);
            forge_account::put_code(tx, user, &hash_token(&code), expires_at)?;
            let location = format!("/api/v1/organizations/{org}/me/forge-accounts");
            let body = wire::ForgeLinkCode {
                comment: Some(format!("/berth connect {code}")),
                code: Some(code),
                expires_at: expires_at.to_string(),
            };
            Ok(ApiResponse::created(location, body))
        })
        .await
    }

    pub async fn unlink_forge_account(
        &self,
        who: &AuthorizedCaller<permit::TokensOwn>,
        host: String,
        account: String,
    ) -> Result<IdempotentResponse<wire::LinkedForgeAccount>, AppError> {
        let (user, name) = (who.principal().user, who.principal().name.clone());
        self.change(who, None, move |tx, _| {
            let linked = forge_account::list_of_member(tx, user)?;
            let found = linked.into_iter().find(|it| it.host == host && it.account.id == account);
            let found = found.ok_or_else(|| AppError::not_found("linked account"))?;
            forge_account::delete(tx, user, &host, &account)?;
            let subject = EventSubject::new("user", user, Some(name.as_str()));
            let event = NewEvent::new(EventKind::ForgeAccountUnlinked, subject);
            let event = event.with("host", host).with("account", found.account.name.as_str());
            tx.record(event.with("accountId", account))?;
            Ok(ApiResponse::ok(to_response(&found)))
        })
        .await
    }

    /// Approves exactly this commit of a pull request from a fork for deployment.
    pub async fn approve_pull_request(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        id: RepositoryId,
        number: i64,
        commit: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::PullRequestApproval>, AppError> {
        super::environments::refuse_session_token(who.principal())?;
        let user = who.principal().user;
        let approved = self
            .change(who, once, move |tx, standing| {
                let missing = || AppError::not_found("pull request");
                let repository = repository::by_id(tx, id)?.ok_or_else(missing)?;
                let found = pull_request::by_number(tx, id, number)?.ok_or_else(missing)?;
                if !is_repository_visible(tx, &standing.access, id)? {
                    return Err(missing());
                }
                let approver = Approver { user, access: &standing.access };
                match approve(tx, &repository, found, &approver, &commit)? {
                    Ok(_) => Ok(ApiResponse::ok(wire::PullRequestApproval {
                        repository_id: id.to_string(),
                        number,
                        commit,
                        approved_by: user.to_string(),
                    })),
                    Err(ApprovalRefusal::NotAllowed(text)) => Err(AppError::new(Code::Forbidden, text)),
                    Err(ApprovalRefusal::Conflict(text)) => Err(AppError::new(Code::InvalidState, text)),
                }
            })
            .await;
        self.services.pull_requests_wanted.notify_one();
        approved
    }
}

fn to_response(linked: &ForgeAccount) -> wire::LinkedForgeAccount {
    wire::LinkedForgeAccount {
        host: linked.host.clone(),
        account_id: linked.account.id.clone(),
        name: linked.account.name.clone(),
        linked_at: linked.created_at.to_string(),
    }
}
