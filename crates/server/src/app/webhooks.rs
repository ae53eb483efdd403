//! Webhooks: list, view, create, change, delete, and rotate the signing secret.

use std::sync::Arc;

use berth_api::pipeline::{PipelineNotification, PipelineWarning};
use berth_api::problem::Code;
use berth_api::webhook as wire;
use berth_core::access::{Action, permit};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::WebhookId;
use berth_core::name::Slug;
use berth_core::pipeline::grammar::Label;
use berth_core::pipeline::model::NotificationRule;
use berth_core::pipeline::state::Pipeline;
use berth_core::webhook::{EventKindFilter, OLD_SECRET_S, PayloadFormat, Webhook, WebhookState};
use berth_engine::credential::RedactedString;
use berth_engine::vault::SecretVault;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::{delivery, webhook};
use berth_store::{StoreRead, Tx};

use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::integrations::webhooks::new_secret;
use crate::limits::WEBHOOKS_PER_ORGANIZATION_MAX;

pub struct NewWebhook {
    pub name: Slug,
    pub url: String,
    pub kinds: EventKindFilter,
    pub format: PayloadFormat,
    pub is_active: bool,
}

/// Changes to a webhook. `None` keeps the current value.
pub struct WebhookChange {
    pub name: Option<Slug>,
    pub url: Option<String>,
    pub kinds: Option<EventKindFilter>,
    pub format: Option<PayloadFormat>,
    pub is_active: Option<bool>,
}

impl App {
    pub async fn list_webhooks(
        &self,
        who: &AuthorizedCaller<permit::WebhooksRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireWebhook>, AppError> {
        let whole = who.may(Action::WebhooksWrite);
        let all = self.read(who, move |db| {
            let all = webhook::list(db, WEBHOOKS_PER_ORGANIZATION_MAX)?;
            all.iter().map(|found| to_response(db, found, whole)).collect::<Result<Vec<_>, _>>()
        });
        Ok(ResponsePage::from_all(all.await?, &from, limit, |webhook| webhook.id.clone()))
    }

    pub async fn view_webhook(
        &self,
        who: &AuthorizedCaller<permit::WebhooksRead>,
        key: String,
    ) -> Result<ApiResponse<wire::WireWebhook>, AppError> {
        let whole = who.may(Action::WebhooksWrite);
        self.read(who, move |db| {
            let found = find(db, &key)?;
            build_response(db, &found, whole)
        })
        .await
    }

    pub async fn create_webhook(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        new: NewWebhook,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WebhookWithSecret>, AppError> {
        let (vault, org) = (self.services.vault.clone(), who.org());
        let url = self.check_webhook_url(&new.url)?;
        self.change(who, once, move |tx, _| {
            check_free(tx, &new.name)?;
            if webhook::list(tx, WEBHOOKS_PER_ORGANIZATION_MAX)?.len() as i64 >= WEBHOOKS_PER_ORGANIZATION_MAX
            {
                let text = format!("an organization has at most {WEBHOOKS_PER_ORGANIZATION_MAX} webhooks");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let now = tx.now();
            let made = Webhook {
                id: WebhookId::from_parts(now, tx.entropy()?),
                name: new.name,
                url,
                kinds: new.kinds,
                format: new.format,
                state: if new.is_active {
                    WebhookState::Active
                } else {
                    WebhookState::Inactive { since: now, why: None }
                },
                version: 1,
                created_at: now,
                updated_at: now,
            };
            webhook::put(tx, &made)?;
            let secret = new_secret()?;
            put_secret(tx, &vault, made.id, 1, &secret)?;
            tx.record(webhook_event(EventKind::WebhookCreated, &made))?;
            webhook::move_cursor_to_end(tx, made.id)?;
            let location = format!("/api/v1/organizations/{org}/webhooks/{}", made.id);
            let body = secret_response(tx, &made, &secret)?;
            Ok(ApiResponse::created(location, body).with_version(made.version))
        })
        .await
    }

    pub async fn change_webhook(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        key: String,
        change: WebhookChange,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireWebhook>, AppError> {
        let url = change.url.as_deref().map(|url| self.check_webhook_url(url)).transpose()?;
        let notify = self.jobs.notify.clone();
        self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let now = tx.now();
            let state = match (change.is_active, &found.state) {
                (Some(true), _) => WebhookState::Active,
                (Some(false), WebhookState::Active) => WebhookState::Inactive { since: now, why: None },
                _ => found.state.clone(),
            };
            let mut next = Webhook {
                name: change.name.unwrap_or_else(|| found.name.clone()),
                url: url.unwrap_or_else(|| found.url.clone()),
                kinds: change.kinds.unwrap_or_else(|| found.kinds.clone()),
                format: change.format.unwrap_or(found.format),
                state,
                ..found.clone()
            };
            if next == found {
                return build_response(tx, &found, true);
            }
            if next.name != found.name {
                check_free(tx, &next.name)?;
            }
            next.version += 1;
            next.updated_at = now;
            webhook::put(tx, &next)?;
            tx.record(
                webhook_event(EventKind::WebhookUpdated, &next).with("isActive", next.state.is_active()),
            )?;
            match (found.state.is_active(), next.state.is_active()) {
                (false, true) => webhook::move_cursor_to_end(tx, next.id)?,
                (true, false) => drop(delivery::fail_pending(tx, next.id)?),
                // Store the read position that is only in memory, so that events already processed with the old
                // settings are not processed again with the new ones.
                _ => advance_cursor(tx, next.id, notify.position(next.id))?,
            }
            build_response(tx, &next, true)
        })
        .await
    }

    pub async fn delete_webhook(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        key: String,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireWebhook>, AppError> {
        self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let last = to_response(tx, &found, true)?;
            webhook::delete(tx, found.id)?;
            tx.record(webhook_event(EventKind::WebhookDeleted, &found))?;
            Ok(ApiResponse::ok(wire::WireWebhook { deleted_at: Some(tx.now().to_string()), ..last }))
        })
        .await
    }

    /// Creates a new signing secret. For one day, deliveries are also signed with the previous secret.
    pub async fn rotate_webhook(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        key: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WebhookWithSecret>, AppError> {
        let vault = self.services.vault.clone();
        self.change(who, once, move |tx, _| {
            let found = find(tx, &key)?;
            let version =
                webhook::list_secrets(tx, found.id)?.first().map_or(1, |present| present.version + 1);
            let secret = new_secret()?;
            put_secret(tx, &vault, found.id, version, &secret)?;
            tx.record(webhook_event(EventKind::WebhookRotated, &found))?;
            Ok(ApiResponse::ok(secret_response(tx, &found, &secret)?).with_version(found.version))
        })
        .await
    }

    /// Checks a URL against the egress policy, without resolving or contacting it.
    fn check_webhook_url(&self, url: &str) -> Result<String, AppError> {
        let checked = self.services.egress.policy().check(url);
        checked.map(String::from).map_err(|why| AppError::invalid_member("/url", why.to_string()))
    }
}

pub(super) fn find(db: &mut impl StoreRead, key: &str) -> Result<Webhook, AppError> {
    webhook::find(db, key)?.ok_or_else(|| AppError::not_found("webhook"))
}

fn check_free(tx: &mut Tx<'_>, name: &Slug) -> Result<(), AppError> {
    match webhook::by_name(tx, name)? {
        Some(taken) => {
            let text = format!("a webhook with this name already exists: {}", taken.id);
            Err(AppError::new(Code::AlreadyExists, text))
        }
        None => Ok(()),
    }
}

fn put_secret(
    tx: &mut Tx<'_>,
    vault: &Arc<SecretVault>,
    id: WebhookId,
    version: i64,
    secret: &RedactedString,
) -> Result<(), AppError> {
    let sealed = vault.seal_signing(tx, id, version, secret)?;
    let old_until = tx.now().plus_seconds(OLD_SECRET_S);
    Ok(webhook::put_secret(tx, id, version, &sealed, old_until)?)
}

fn advance_cursor(tx: &mut Tx<'_>, id: WebhookId, read: i64) -> Result<(), AppError> {
    if let Some(cursor) = webhook::load_cursor(tx, id)?.filter(|cursor| cursor.sequence < read) {
        webhook::move_cursor(tx, id, cursor.sequence, read, 0)?;
    }
    Ok(())
}

/// Builds an audit event without the webhook's URL, because part of the URL may be a secret.
fn webhook_event(kind: EventKind, webhook: &Webhook) -> NewEvent {
    let subject = EventSubject::new("webhook", webhook.id, Some(webhook.name.as_str()));
    let kinds = serde_json::to_value(&webhook.kinds).unwrap_or_default();
    NewEvent::new(kind, subject).with("kinds", kinds).with("format", webhook.format.as_str())
}

fn build_response(
    db: &mut impl StoreRead,
    found: &Webhook,
    whole: bool,
) -> Result<ApiResponse<wire::WireWebhook>, AppError> {
    let body = to_response(db, found, whole)?;
    // Deliveries change the response without changing the record's version, so the `ETag` includes a hash of the body.
    let fares = serde_json::to_vec(&body).unwrap_or_default();
    Ok(ApiResponse::ok(body).with_version(found.version).with_variant(crc32fast::hash(&fares)))
}

fn secret_response(
    db: &mut impl StoreRead,
    found: &Webhook,
    secret: &RedactedString,
) -> Result<wire::WebhookWithSecret, AppError> {
    let record = to_response(db, found, true)?;
    Ok(wire::WebhookWithSecret { record, secret: Some(secret.reveal().to_owned()) })
}

/// If `whole` is true, the response includes the full URL, for callers who may change the webhook.
fn to_response(
    db: &mut impl StoreRead,
    webhook: &Webhook,
    whole: bool,
) -> Result<wire::WireWebhook, AppError> {
    let cursor = webhook::load_cursor(db, webhook.id)?;
    let old =
        webhook::list_secrets(db, webhook.id)?.into_iter().filter_map(|secret| secret.valid_until).max();
    let deactivated = match &webhook.state {
        WebhookState::Active => None,
        WebhookState::Inactive { since, why } => {
            Some(wire::WebhookDeactivated { at: since.to_string(), reason: why.clone() })
        }
    };
    Ok(wire::WireWebhook {
        id: webhook.id.to_string(),
        name: webhook.name.to_string(),
        url: if whole { webhook.url.clone() } else { url_origin(&webhook.url) },
        kinds: webhook.kinds.as_slice().to_vec(),
        format: match webhook.format {
            PayloadFormat::Standard => wire::WebhookFormat::Standard,
            PayloadFormat::Slack => wire::WebhookFormat::Slack,
        },
        is_active: webhook.state.is_active(),
        deactivated,
        pending: delivery::count_pending(db, webhook.id)?,
        dropped: cursor.map_or(0, |cursor| cursor.dropped),
        failures: cursor.map_or(0, |cursor| cursor.failures),
        old_secret_until: old.map(|time| time.to_string()),
        created_at: webhook.created_at.to_string(),
        updated_at: webhook.updated_at.to_string(),
        deleted_at: None,
    })
}

/// Returns the origin of a URL, because its path and query may contain a secret.
fn url_origin(url: &str) -> String {
    url::Url::parse(url).map(|url| format!("{}/…", url.origin().ascii_serialization())).unwrap_or_default()
}

/// Returns the webhooks that a pipeline's definition refers to, with a warning for each missing one.
pub(super) fn list_notifications(
    db: &mut impl StoreRead,
    pipeline: &Pipeline,
) -> Result<(Vec<PipelineNotification>, Vec<PipelineWarning>), AppError> {
    let (mut named, mut warnings) = (Vec::new(), Vec::new());
    for it in &pipeline.outline.notifications {
        let found = webhook::find(db, it.webhook.as_str())?;
        if found.is_none() {
            let (code, detail) = ("missing_webhook".to_owned(), missing_webhook_text(&it.webhook));
            warnings.push(PipelineWarning { code, detail });
        }
        named.push(PipelineNotification {
            webhook: it.webhook.to_string(),
            webhook_id: found.map(|found| found.id.to_string()),
            events: it.events.clone(),
        });
    }
    Ok((named, warnings))
}

/// Returns the missing webhooks that a definition refers to, as pairs of JSON pointer and message.
pub(super) fn find_unknown_webhooks(
    db: &mut impl StoreRead,
    notifications: &[NotificationRule],
) -> Result<Vec<(String, String)>, AppError> {
    let mut unknown = Vec::new();
    for (index, it) in notifications.iter().enumerate() {
        if webhook::find(db, it.webhook.as_str())?.is_none() {
            unknown.push((
                format!("/pipeline/notifications/{index}/webhook"),
                missing_webhook_text(&it.webhook),
            ));
        }
    }
    Ok(unknown)
}

fn missing_webhook_text(name: &Label) -> String {
    format!("there is no webhook {name} yet; no notifications are sent until it is created")
}
