//! Deliveries of forges to the webhooks of repositories. They only update records and wake the background jobs that act
//! on them, so that lost, repeated and reordered deliveries lead to the same result.

use berth_api::connection as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::forge::{ForgeKind, PullRequestCommand};
use berth_core::id::{HookId, OrgId, RepositoryId};
use berth_engine::credential::RedactedString;
use berth_store::pagination::PageStart;
use berth_store::tables::hook_delivery::{self, HookDelivery, HookDeliveryKey};
use berth_store::tables::{forge_connection, pull_request, pull_request_command, repository};
use berth_store::{Tx, TxContext};
use http::HeaderMap;

use super::{ApiResponse, App, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::integrations::forges::hooks::{
    DeliveryEffect, ForgeDelivery, MalformedDelivery, parse_delivery, verify_signature,
};
use crate::integrations::forges::repository_path;

/// Bodies above this size are verified and parsed on another thread.
const PARSED_INLINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of branches named in the outcome of a push.
const BRANCHES_NAMED_MAX: usize = 5;

/// The webhook that a delivery was sent to.
pub(crate) struct HookTarget {
    pub(crate) org: OrgId,
    repository: RepositoryId,
    hook: HookId,
    forge: ForgeKind,
    /// The repository's path on the forge.
    path: Option<String>,
    secret: RedactedString,
}

impl App {
    /// Finds a webhook by the parts of its URL. All errors look the same, so that they reveal nothing.
    pub(crate) async fn find_hook(&self, forge: &str, hook: &str) -> Result<HookTarget, AppError> {
        let unknown = || AppError::not_found("webhook");
        let forge = ForgeKind::from_name(forge).ok_or_else(unknown)?;
        let hook: HookId = hook.parse().map_err(|_| unknown())?;
        let store = &self.services.store;
        let found = store.read(None, move |db| Ok::<_, AppError>(forge_connection::find_hook(db, hook)?));
        let (org, repository) = found.await?.ok_or_else(unknown)?;
        let vault = self.services.vault.clone();
        let loaded = store.read(Some(org), move |db| {
            let connection = forge_connection::by_repository(db, repository)?;
            if connection.is_none_or(|it| it.hook != hook || it.forge != forge) {
                return Ok(None);
            }
            let Some(found) = repository::by_id(db, repository)? else { return Ok(None) };
            let Some(sealed) = forge_connection::load_secret(db, repository)? else { return Ok(None) };
            let secret = vault.open_hook_secret(db, org, hook, &sealed)?;
            Ok::<_, AppError>(Some((repository_path(&found.url).map(str::to_owned), secret)))
        });
        let (path, secret) = loaded.await?.ok_or_else(unknown)?;
        Ok(HookTarget { org, repository, hook, forge, path, secret })
    }

    /// Checks a delivery's signature, stores the delivery and what it says.
    pub(crate) async fn receive_delivery(
        &self,
        target: HookTarget,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<ApiResponse<wire::HookReceipt>, AppError> {
        let (forge, secret, is_large) =
            (target.forge, target.secret.clone(), body.len() > PARSED_INLINE_BYTES_MAX);
        let read = move || {
            verify_signature(forge, &secret, &headers, &body).then(|| parse_delivery(forge, &headers, &body))
        };
        let delivery = if is_large {
            let read = tokio::task::spawn_blocking(read).await;
            read.map_err(|_| AppError::bug("reading a delivery panicked"))?
        } else {
            read()
        };
        let Some(delivery) = delivery else {
            if self.rates.is_first_denial(&target.hook.to_string()) {
                let (hook, forge) = (target.hook, target.forge);
                tracing::warn!(%hook, %forge, "delivery refused: signature missing or wrong");
            }
            return Err(AppError::unauthenticated("the signature of the delivery is missing or wrong"));
        };
        let delivery = delivery
            .map_err(|error: MalformedDelivery| AppError::new(Code::InvalidJson, error.to_string()))?;
        let wakes_sync = matches!(delivery.effect, DeliveryEffect::Push { .. });
        let context = TxContext::system(Some(target.org));
        let stored = self.services.store.transact(context, move |tx| store_delivery(tx, &target, delivery));
        let receipt = stored.await?;
        if !receipt.is_duplicate {
            if wakes_sync {
                self.services.sync_wanted.notify_one();
            }
            self.services.pull_requests_wanted.notify_one();
        }
        Ok(ApiResponse::ok(receipt))
    }

    /// Lists the deliveries of a repository's forge, newest first.
    pub async fn list_hook_deliveries(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesRead>,
        key: String,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireHookDelivery>, AppError> {
        let listed = self.read(who, move |db| {
            let found = repository::find(db, &key)?.ok_or_else(|| AppError::not_found("repository"))?;
            Ok(hook_delivery::list(db, found.id, &from, limit)?)
        });
        let key = |it: &HookDelivery| {
            HookDeliveryKey { received_at: it.received_at, id: it.id.clone() }.to_string()
        };
        Ok(ResponsePage::from_list_page(&listed.await?, key, |it| wire::WireHookDelivery {
            id: it.id.clone(),
            kind: it.kind.clone(),
            outcome: it.outcome.clone(),
            received_at: it.received_at.to_string(),
        }))
    }
}

/// Stores a delivery and what it says in one transaction.
fn store_delivery(
    tx: &mut Tx<'_>,
    target: &HookTarget,
    delivery: ForgeDelivery,
) -> Result<wire::HookReceipt, AppError> {
    let repository = target.repository;
    // The repository may have been disconnected while the body was being received.
    let connection = forge_connection::by_repository(tx, repository)?.filter(|it| it.hook == target.hook);
    let connection = connection.ok_or_else(|| AppError::not_found("webhook"))?;
    if connection.verified_at.is_none() {
        forge_connection::set_verified(tx, repository)?;
    }
    let received_at = tx.now();
    let ForgeDelivery { id, kind, repository_path, effect } = delivery;
    let effect = check_repository(target, repository_path.as_deref(), effect);
    let outcome = effect.as_ref().map_or_else(|why| format!("ignored: {why}"), describe_effect);
    let record = HookDelivery { id, kind, outcome: outcome.clone(), received_at };
    if !hook_delivery::insert(tx, repository, &record)? {
        let outcome = "ignored: this delivery arrived before".to_owned();
        return Ok(wire::HookReceipt { outcome, is_duplicate: true });
    }
    if let Ok(effect) = effect {
        apply_effect(tx, repository, effect)?;
    }
    Ok(wire::HookReceipt { outcome, is_duplicate: false })
}

/// Returns the effect, or why there is none.
fn check_repository(
    target: &HookTarget,
    path: Option<&str>,
    effect: DeliveryEffect,
) -> Result<DeliveryEffect, String> {
    let is_ours = |path: &str| target.path.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(path));
    match (effect, path) {
        // The webhook of a whole organization is tested without a repository.
        (DeliveryEffect::Ping, _) => Ok(DeliveryEffect::Ping),
        (_, Some(path)) if !is_ours(path) => Err(format!("it is about another repository, {path}")),
        (DeliveryEffect::Ignored(why), _) => Err(why.to_owned()),
        (_, None) => Err("no repository in the payload".to_owned()),
        (effect, Some(_)) => Ok(effect),
    }
}

fn describe_effect(effect: &DeliveryEffect) -> String {
    match effect {
        DeliveryEffect::Push { branches } => {
            let mut named: Vec<&str> = branches.iter().map(String::as_str).take(BRANCHES_NAMED_MAX).collect();
            if branches.len() > BRANCHES_NAMED_MAX {
                named.push("…");
            }
            format!("sync scheduled: {} pushed", named.join(", "))
        }
        DeliveryEffect::PullRequest { number, .. } => format!("pull request {number} updated"),
        DeliveryEffect::Command { number, .. } => format!("command for pull request {number} received"),
        DeliveryEffect::Ping => "webhook verified".to_owned(),
        DeliveryEffect::Ignored(why) => format!("ignored: {why}"),
    }
}

fn apply_effect(tx: &mut Tx<'_>, repository: RepositoryId, effect: DeliveryEffect) -> Result<(), AppError> {
    let now = tx.now();
    match effect {
        DeliveryEffect::Push { branches } => {
            repository::schedule_sync(tx, repository, now)?;
            for branch in branches {
                pull_request::set_branch_due(tx, repository, &branch, now)?;
            }
        }
        DeliveryEffect::PullRequest { number, snapshot } => {
            pull_request::see(tx, repository, number, *snapshot)?;
        }
        DeliveryEffect::Command { number, snapshot, comment, author, text } => {
            match (pull_request::by_number(tx, repository, number)?, snapshot) {
                // The comment may arrive before the delivery about the pull request.
                (None, Some(snapshot)) => pull_request::see(tx, repository, number, *snapshot)?,
                _ => pull_request::set_due(tx, repository, number, now)?,
            }
            let command = PullRequestCommand {
                repository,
                number,
                comment,
                author,
                text,
                created_at: now,
                answered_at: None,
            };
            pull_request_command::insert(tx, &command)?;
        }
        DeliveryEffect::Ping | DeliveryEffect::Ignored(_) => {}
    }
    Ok(())
}
