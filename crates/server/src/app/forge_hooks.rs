//! Deliveries of forges to the webhooks of repositories. They only update records and wake the background jobs that act
//! on them, so that lost, repeated and reordered deliveries lead to the same result.

use berth_api::connection as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::forge::{ForgeApp, ForgeKind, PullRequestCommand};
use berth_core::id::{ForgeAppId, HookId, OrgId, RepositoryId};
use berth_engine::credential::RedactedString;
use berth_engine::vault::SecretVault;
use berth_store::pagination::PageStart;
use berth_store::tables::hook_delivery::{self, HookDelivery, HookDeliveryKey};
use berth_store::tables::{forge_app, forge_connection, pull_request, pull_request_command, repository};
use berth_store::{ReadTx, StoreRead, Tx, TxContext};
use http::HeaderMap;

use super::forge_apps::{apply_installation, describe_installation, list_repositories};
use super::{ApiResponse, App, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::integrations::forges::hooks::{
    DeliveryEffect, ForgeDelivery, MalformedDelivery, parse_delivery, verify_signature,
};

/// Bodies above this size are verified and parsed on another thread.
const PARSED_INLINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of branches named in the outcome of a push.
const BRANCHES_NAMED_MAX: usize = 5;

/// The webhook that a delivery was sent to.
pub(crate) struct HookTarget {
    pub(crate) org: OrgId,
    source: HookSource,
    hook: HookId,
    forge: ForgeKind,
    secret: RedactedString,
}

/// What a webhook belongs to. Only repositories that are connected with it can be changed by its deliveries.
enum HookSource {
    Repository {
        id: RepositoryId,
        /// The repository's path on the forge.
        path: Option<String>,
    },
    App(ForgeAppId),
}

impl App {
    /// Finds a webhook by the parts of its URL. All errors look the same, so that they reveal nothing.
    pub(crate) async fn find_hook(&self, forge: &str, hook: &str) -> Result<HookTarget, AppError> {
        let unknown = || AppError::not_found("webhook");
        let forge = ForgeKind::from_name(forge).ok_or_else(unknown)?;
        let hook: HookId = hook.parse().map_err(|_| unknown())?;
        let store = &self.services.store;
        let found = store.read(None, move |db| {
            let of_repository = forge_connection::find_hook(db, hook)?;
            let of_app = if of_repository.is_none() { forge_app::find_hook(db, hook)? } else { None };
            Ok::<_, AppError>((of_repository, of_app))
        });
        let vault = self.services.vault.clone();
        let (org, loaded) = match found.await? {
            (Some((org, id)), _) => {
                let load =
                    move |db: &mut ReadTx<'_>| load_repository_hook(db, &vault, (org, id), hook, forge);
                (org, store.read(Some(org), load).await?)
            }
            (None, Some((org, id))) if forge == ForgeKind::GitHub => {
                let load = move |db: &mut ReadTx<'_>| load_app_hook(db, &vault, (org, id), hook);
                (org, store.read(Some(org), load).await?)
            }
            _ => return Err(unknown()),
        };
        let (source, secret) = loaded.ok_or_else(unknown)?;
        Ok(HookTarget { org, source, hook, forge, secret })
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
        let wakes_sync =
            matches!(delivery.effect, DeliveryEffect::Push { .. } | DeliveryEffect::Installation(_));
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

type LoadedHook = Option<(HookSource, RedactedString)>;

fn load_repository_hook(
    db: &mut impl StoreRead,
    vault: &SecretVault,
    (org, id): (OrgId, RepositoryId),
    hook: HookId,
    forge: ForgeKind,
) -> Result<LoadedHook, AppError> {
    let connection = forge_connection::by_repository(db, id)?;
    // A repository that is connected through an app has no webhook of its own.
    if connection.is_none_or(|it| it.hook != hook || it.forge != forge || it.app.is_some()) {
        return Ok(None);
    }
    let Some(found) = repository::by_id(db, id)? else { return Ok(None) };
    let Some(sealed) = forge_connection::load_secret(db, id)? else { return Ok(None) };
    let secret = vault.open_hook_secret(db, org, hook, &sealed)?;
    Ok(Some((HookSource::Repository { id, path: found.url.forge_path().map(str::to_owned) }, secret)))
}

fn load_app_hook(
    db: &mut impl StoreRead,
    vault: &SecretVault,
    (org, id): (OrgId, ForgeAppId),
    hook: HookId,
) -> Result<LoadedHook, AppError> {
    let Some(sealed) = forge_app::load_hook_secret(db, id)? else { return Ok(None) };
    let secret = vault.open_hook_secret(db, org, hook, &sealed)?;
    Ok(Some((HookSource::App(id), secret)))
}

/// Stores a delivery and what it says in one transaction.
fn store_delivery(
    tx: &mut Tx<'_>,
    target: &HookTarget,
    delivery: ForgeDelivery,
) -> Result<wire::HookReceipt, AppError> {
    // The repository may have been disconnected, or the app deleted, while the body was being received.
    let gone = || AppError::not_found("webhook");
    match &target.source {
        HookSource::Repository { id, path } => {
            let connection = forge_connection::by_repository(tx, *id)?;
            let connection = connection.filter(|it| it.hook == target.hook).ok_or_else(gone)?;
            if connection.verified_at.is_none() {
                forge_connection::set_verified(tx, *id)?;
            }
            let effect =
                check_repository(path.as_deref(), delivery.repository_path.as_deref(), delivery.effect);
            store_for_repository(tx, *id, &delivery.id, &delivery.kind, effect)
        }
        HookSource::App(id) => {
            let app = forge_app::by_id(tx, *id)?.ok_or_else(gone)?;
            store_app_delivery(tx, &app, delivery)
        }
    }
}

/// Stores a delivery of an app, for the repositories that are connected through the app and that it is about.
fn store_app_delivery(
    tx: &mut Tx<'_>,
    app: &ForgeApp,
    delivery: ForgeDelivery,
) -> Result<wire::HookReceipt, AppError> {
    let ForgeDelivery { id, kind, repository_path, effect } = delivery;
    let ignored = |why: &str| wire::HookReceipt { outcome: format!("ignored: {why}"), is_duplicate: false };
    let (repositories, effect) = match (effect, repository_path.as_deref()) {
        (DeliveryEffect::Ping, None) => {
            return Ok(wire::HookReceipt { outcome: "webhook verified".to_owned(), is_duplicate: false });
        }
        (DeliveryEffect::Installation(change), _) => {
            let outcome = describe_installation(change);
            let mut is_duplicate = false;
            for repository in list_repositories(tx, app.id, None)? {
                let (id, kind, received_at) = (id.clone(), kind.clone(), tx.now());
                let record = HookDelivery { id, kind, outcome: outcome.to_owned(), received_at };
                is_duplicate |= !hook_delivery::insert(tx, repository, &record)?;
            }
            if is_duplicate {
                return Ok(duplicate_receipt());
            }
            apply_installation(tx, app, change)?;
            return Ok(wire::HookReceipt { outcome: outcome.to_owned(), is_duplicate });
        }
        (_, None) => return Ok(ignored("no repository in the payload")),
        (effect, Some(path)) => (list_repositories(tx, app.id, Some(path))?, effect),
    };
    let mut receipt = ignored("the repository is not connected through this app");
    for repository in repositories {
        forge_connection::set_verified(tx, repository)?;
        let effect = match effect.clone() {
            DeliveryEffect::Ignored(why) => Err(why.to_owned()),
            effect => Ok(effect),
        };
        receipt = store_for_repository(tx, repository, &id, &kind, effect)?;
    }
    Ok(receipt)
}

/// Stores a delivery about a repository, and applies its effect unless it arrived before.
fn store_for_repository(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    id: &str,
    kind: &str,
    effect: Result<DeliveryEffect, String>,
) -> Result<wire::HookReceipt, AppError> {
    let outcome = effect.as_ref().map_or_else(|why| format!("ignored: {why}"), describe_effect);
    let (id, kind, received_at) = (id.to_owned(), kind.to_owned(), tx.now());
    let record = HookDelivery { id, kind, outcome: outcome.clone(), received_at };
    if !hook_delivery::insert(tx, repository, &record)? {
        return Ok(duplicate_receipt());
    }
    if let Ok(effect) = effect {
        apply_effect(tx, repository, effect)?;
    }
    Ok(wire::HookReceipt { outcome, is_duplicate: false })
}

fn duplicate_receipt() -> wire::HookReceipt {
    let outcome = "ignored: this delivery arrived before".to_owned();
    wire::HookReceipt { outcome, is_duplicate: true }
}

/// Returns the effect of a delivery to the webhook of a repository, or why there is none.
fn check_repository(
    own: Option<&str>,
    path: Option<&str>,
    effect: DeliveryEffect,
) -> Result<DeliveryEffect, String> {
    let is_ours = |path: &str| own.is_some_and(|own| own.eq_ignore_ascii_case(path));
    match (effect, path) {
        // The webhook of a whole organization is tested without a repository.
        (DeliveryEffect::Ping, _) => Ok(DeliveryEffect::Ping),
        (_, Some(path)) if !is_ours(path) => Err(format!("it is about another repository, {path}")),
        (DeliveryEffect::Ignored(why), _) => Err(why.to_owned()),
        (DeliveryEffect::Installation(_), _) => Err("Berth does not use events of this kind".to_owned()),
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
        DeliveryEffect::Installation(change) => describe_installation(*change).to_owned(),
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
        DeliveryEffect::Installation(_) | DeliveryEffect::Ping | DeliveryEffect::Ignored(_) => {}
    }
    Ok(())
}
