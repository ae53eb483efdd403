//! Action links: show what a link does, and do it as its recipient.
//!
//! A link is a credential of its recipient for one action. The recipient's permissions are checked when the link is used,
//! and the audit log names the recipient.

use berth_api::problem::Code;
use berth_core::name::DisplayName;
use berth_core::notification::LinkAction;
use berth_store::tables::action_link::{self, ActionLink};
use berth_store::tables::{organization, user};
use berth_store::{StoreRead, Tx, TxContext};

use super::App;
use super::member_actions::perform;
use crate::error::AppError;
use crate::integrations::action_links::{id_of_token, is_token_of};
use crate::jobs::pull_requests::account::{ActingMember, load_member};

/// What the page of an action link shows.
#[derive(Debug, Clone)]
pub struct ActionLinkView {
    pub action: LinkAction,
    /// The summary of the event that the message was about.
    pub summary: String,
    pub recipient: DisplayName,
    pub organization: DisplayName,
    pub expires_at: String,
}

impl App {
    /// Returns what a link does. Changes nothing.
    pub async fn view_action_link(&self, token: String) -> Result<ActionLinkView, AppError> {
        let vault = self.services.vault.clone();
        self.services
            .store
            .read(None, move |db| {
                let link = find_link(db, &vault, &token)?;
                if link.used_at.is_some() || link.expires_at <= db.now() {
                    return Err(ended_error());
                }
                let account = user::by_id(db, link.user)?.ok_or_else(not_found)?;
                let organization = organization::by_id(db, link.org)?.ok_or_else(not_found)?;
                Ok(ActionLinkView {
                    action: link.action,
                    summary: link.summary,
                    recipient: account.name,
                    organization: organization.name,
                    expires_at: link.expires_at.to_string(),
                })
            })
            .await
    }

    /// Performs the action of a link as its recipient, and marks the link as used in the same transaction. Returns what
    /// was done.
    pub async fn use_action_link(&self, token: String, request_id: String) -> Result<&'static str, AppError> {
        let vault = self.services.vault.clone();
        let found = self.services.store.read(None, move |db| find_link(db, &vault, &token));
        let link = found.await?;
        let context = TxContext { request_id: Some(request_id), ..TxContext::system(Some(link.org)) };
        let plans = self.services.engine.run_cache().clone();
        let done = self.services.store.transact(context, move |tx| {
            if !action_link::mark_used(tx, link.id)? {
                return Err(ended_error());
            }
            let recipient = load_recipient(tx, &link)?;
            tx.set_actor(recipient.holder.actor());
            // A refusal by a rule is committed as well, because the rule may have applied changes that were due.
            perform(
                tx,
                &plans,
                &recipient,
                link.action,
                link.action.target_id(&link.subject).unwrap_or_default(),
            )
        });
        let done = done.await;
        self.services.wake_engine();
        done?
    }
}

fn not_found() -> AppError {
    AppError::not_found("link")
}

fn ended_error() -> AppError {
    let text = "this link was used already or has expired; use the dashboard or the CLI instead";
    AppError::new(Code::InvalidState, text)
}

fn find_link(
    db: &mut impl StoreRead,
    vault: &berth_engine::vault::SecretVault,
    token: &str,
) -> Result<ActionLink, AppError> {
    let id = id_of_token(token).ok_or_else(not_found)?;
    let found = action_link::by_id(db, id)?;
    found.filter(|link| is_token_of(vault.keyed_hashes(), link, token)).ok_or_else(not_found)
}

/// Loads the person whom a link was sent to, with the permissions at this moment.
fn load_recipient(tx: &mut Tx<'_>, link: &ActionLink) -> Result<ActingMember, AppError> {
    load_member(tx, link.org, link.user)?.ok_or_else(|| {
        let text = "the recipient of this link may not act in this organization at the moment";
        AppError::new(Code::Forbidden, text)
    })
}
