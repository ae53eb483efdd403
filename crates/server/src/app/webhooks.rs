//! Webhooks: list, view, create, change, delete, rotate the signing secret.

use std::sync::Arc;

use berth_api::pipeline::{PipelineNotification, PipelineWarning};
use berth_api::problem::Code;
use berth_api::webhook as wire;
use berth_core::access::{Action, permit};
use berth_core::event::{EventKind, NewEvent, EventSubject};
use berth_core::id::WebhookId;
use berth_core::name::Slug;
use berth_core::pipeline::grammar::Label;
use berth_core::pipeline::model::NotificationRule;
use berth_core::pipeline::state::Pipeline;
use berth_core::webhook::{PayloadFormat, EventKindFilter, OLD_SECRET_S, WebhookState, Webhook};
use berth_engine::credential::RedactedString;
use berth_engine::vault::SecretVault;
use berth_store::idempotency::OnceKey;
use berth_store::pagination::From;
use berth_store::tables::{delivery, webhook};
use berth_store::{Read, Tx};

use super::{Answer, App, Outcome, Page};
use crate::auth::authorize::Authorized;
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
        who: &Authorized<permit::WebhooksRead>,
        from: From,
        limit: i64,
    ) -> Result<Page<wire::Webhook>, AppError> {
        let whole = who.may(Action::WebhooksWrite);
        let all = self.read(who, move |db| {
            let all = webhook::all(db, WEBHOOKS_PER_ORGANIZATION_MAX)?;
            all.iter().map(|found| shown(db, found, whole)).collect::<Result<Vec<_>, _>>()
        });
        Ok(Page::of_all(all.await?, &from, limit, |webhook| webhook.id.clone()))
    }

    pub async fn view_webhook(
        &self,
        who: &Authorized<permit::WebhooksRead>,
        key: String,
    ) -> Result<Answer<wire::Webhook>, AppError> {
        let whole = who.may(Action::WebhooksWrite);
        self.read(who, move |db| {
            let found = find(db, &key)?;
            answer(db, &found, whole)
        })
        .await
    }

    pub async fn create_webhook(
        &self,
        who: &Authorized<permit::WebhooksWrite>,
        new: NewWebhook,
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::WebhookWithSecret>, AppError> {
        let (vault, org) = (self.services.vault.clone(), who.org());
        let url = self.checked_url(&new.url)?;
        self.change(who, once, move |tx, _| {
            check_free(tx, &new.name)?;
            if webhook::all(tx, WEBHOOKS_PER_ORGANIZATION_MAX)?.len() as i64 >= WEBHOOKS_PER_ORGANIZATION_MAX
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
                state: if new.is_active { WebhookState::Active } else { WebhookState::Inactive { since: now, why: None } },
                version: 1,
                created_at: now,
                updated_at: now,
            };
            webhook::put(tx, &made)?;
            let secret = new_secret()?;
            keep_secret(tx, &vault, made.id, 1, &secret)?;
            tx.record(about(EventKind::WebhookCreated, &made))?;
            webhook::begin(tx, made.id)?;
            let location = format!("/api/v1/organizations/{org}/webhooks/{}", made.id);
            let body = with_secret(tx, &made, &secret)?;
            Ok(Answer::created(location, body).at_version(made.version))
        })
        .await
    }

    pub async fn change_webhook(
        &self,
        who: &Authorized<permit::WebhooksWrite>,
        key: String,
        change: WebhookChange,
        expected: Option<i64>,
    ) -> Result<Outcome<wire::Webhook>, AppError> {
        let url = change.url.as_deref().map(|url| self.checked_url(url)).transpose()?;
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
                return answer(tx, &found, true);
            }
            if next.name != found.name {
                check_free(tx, &next.name)?;
            }
            next.version += 1;
            next.updated_at = now;
            webhook::put(tx, &next)?;
            tx.record(about(EventKind::WebhookUpdated, &next).with("isActive", next.state.is_active()))?;
            match (found.state.is_active(), next.state.is_active()) {
                (false, true) => webhook::begin(tx, next.id)?,
                (true, false) => drop(delivery::give_up(tx, next.id)?),
                // Store the in-memory position, so that events already processed with the old settings are not
                // processed again with the new ones.
                _ => keep_position(tx, next.id, notify.position(next.id))?,
            }
            answer(tx, &next, true)
        })
        .await
    }

    pub async fn delete_webhook(
        &self,
        who: &Authorized<permit::WebhooksWrite>,
        key: String,
        expected: Option<i64>,
    ) -> Result<Outcome<wire::Webhook>, AppError> {
        self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let last = shown(tx, &found, true)?;
            webhook::delete(tx, found.id)?;
            tx.record(about(EventKind::WebhookDeleted, &found))?;
            Ok(Answer::ok(wire::Webhook { deleted_at: Some(tx.now().to_string()), ..last }))
        })
        .await
    }

    /// Creates a new signing secret. Deliveries are also signed with the previous one for a day.
    pub async fn rotate_webhook(
        &self,
        who: &Authorized<permit::WebhooksWrite>,
        key: String,
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::WebhookWithSecret>, AppError> {
        let vault = self.services.vault.clone();
        self.change(who, once, move |tx, _| {
            let found = find(tx, &key)?;
            let version = webhook::secrets(tx, found.id)?.first().map_or(1, |present| present.version + 1);
            let secret = new_secret()?;
            keep_secret(tx, &vault, found.id, version, &secret)?;
            tx.record(about(EventKind::WebhookRotated, &found))?;
            Ok(Answer::ok(with_secret(tx, &found, &secret)?).at_version(found.version))
        })
        .await
    }

    /// Checks a URL against the egress policy, without resolving or contacting it.
    fn checked_url(&self, url: &str) -> Result<String, AppError> {
        let checked = self.services.egress.policy().check(url);
        checked.map(String::from).map_err(|why| AppError::invalid_member("/url", why.to_string()))
    }
}

pub(super) fn find(db: &mut impl Read, key: &str) -> Result<Webhook, AppError> {
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

fn keep_secret(
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

fn keep_position(tx: &mut Tx<'_>, id: WebhookId, read: i64) -> Result<(), AppError> {
    if let Some(cursor) = webhook::cursor(tx, id)?.filter(|cursor| cursor.sequence < read) {
        webhook::move_cursor(tx, id, cursor.sequence, read, 0)?;
    }
    Ok(())
}

/// Leaves out the URL, because part of it may be a secret.
fn about(kind: EventKind, webhook: &Webhook) -> NewEvent {
    let subject = EventSubject::new("webhook", webhook.id, Some(webhook.name.as_str()));
    let kinds = serde_json::to_value(&webhook.kinds).unwrap_or_default();
    NewEvent::new(kind, subject).with("kinds", kinds).with("format", webhook.format.as_str())
}

fn answer(db: &mut impl Read, found: &Webhook, whole: bool) -> Result<Answer<wire::Webhook>, AppError> {
    let body = shown(db, found, whole)?;
    // Deliveries change the response without changing the version of the record.
    let fares = serde_json::to_vec(&body).unwrap_or_default();
    Ok(Answer::ok(body).at_version(found.version).varying_by(crc32fast::hash(&fares)))
}

fn with_secret(
    db: &mut impl Read,
    found: &Webhook,
    secret: &RedactedString,
) -> Result<wire::WebhookWithSecret, AppError> {
    let record = shown(db, found, true)?;
    Ok(wire::WebhookWithSecret { record, secret: Some(secret.reveal().to_owned()) })
}

/// `whole`: include the full URL, for callers who may change the webhook.
fn shown(db: &mut impl Read, webhook: &Webhook, whole: bool) -> Result<wire::Webhook, AppError> {
    let cursor = webhook::cursor(db, webhook.id)?;
    let old = webhook::secrets(db, webhook.id)?.into_iter().filter_map(|secret| secret.valid_until).max();
    let deactivated = match &webhook.state {
        WebhookState::Active => None,
        WebhookState::Inactive { since, why } => {
            Some(wire::WebhookDeactivated { at: since.to_string(), reason: why.clone() })
        }
    };
    Ok(wire::Webhook {
        id: webhook.id.to_string(),
        name: webhook.name.to_string(),
        url: if whole { webhook.url.clone() } else { origin(&webhook.url) },
        kinds: webhook.kinds.as_slice().to_vec(),
        format: match webhook.format {
            PayloadFormat::Standard => wire::WebhookFormat::Standard,
            PayloadFormat::Slack => wire::WebhookFormat::Slack,
        },
        is_active: webhook.state.is_active(),
        deactivated,
        pending: delivery::pending(db, webhook.id)?,
        dropped: cursor.map_or(0, |cursor| cursor.dropped),
        failures: cursor.map_or(0, |cursor| cursor.failures),
        old_secret_until: old.map(|time| time.to_string()),
        created_at: webhook.created_at.to_string(),
        updated_at: webhook.updated_at.to_string(),
        deleted_at: None,
    })
}

/// The origin of a URL; path and query may contain a secret.
fn origin(url: &str) -> String {
    url::Url::parse(url).map(|url| format!("{}/…", url.origin().ascii_serialization())).unwrap_or_default()
}

/// Returns the webhooks that a pipeline's definition refers to, with a warning for each missing one.
pub(super) fn named_by(
    db: &mut impl Read,
    pipeline: &Pipeline,
) -> Result<(Vec<PipelineNotification>, Vec<PipelineWarning>), AppError> {
    let (mut named, mut warnings) = (Vec::new(), Vec::new());
    for it in &pipeline.outline.notifications {
        let found = webhook::find(db, it.webhook.as_str())?;
        if found.is_none() {
            let (code, detail) = ("missing_webhook".to_owned(), missing(&it.webhook));
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
pub(super) fn unknown(
    db: &mut impl Read,
    notifications: &[NotificationRule],
) -> Result<Vec<(String, String)>, AppError> {
    let mut unknown = Vec::new();
    for (index, it) in notifications.iter().enumerate() {
        if webhook::find(db, it.webhook.as_str())?.is_none() {
            unknown.push((format!("/pipeline/notifications/{index}/webhook"), missing(&it.webhook)));
        }
    }
    Ok(unknown)
}

fn missing(name: &Label) -> String {
    format!("there is no webhook {name} yet; no notifications are sent until it is created")
}
