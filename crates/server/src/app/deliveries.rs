//! Webhook deliveries: list, redeliver, ping.

use berth_api::problem::Code;
use berth_api::webhook as wire;
use berth_core::access::permit;
use berth_core::id::{DeliveryId, IdEntropy};
use berth_core::webhook::{Delivery, DeliveryState};
use berth_store::StoreRead;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::{delivery, organization, webhook};

use super::webhooks::find;
use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::integrations::webhooks::{WebhookRequest, ping_payload};
use crate::limits::ATTEMPTS_PER_DELIVERY_MAX;

impl App {
    /// Sends a test payload immediately and returns the receiver's response.
    pub async fn ping_webhook(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        key: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WebhookPing>, AppError> {
        if let Some(earlier) = self.find_stored_response(who.context(), once.clone()).await? {
            return Ok(IdempotentResponse::Replayed(earlier));
        }
        let turn = self.jobs.notify.take_ping(who.org());
        let turn = turn.ok_or_else(|| AppError::busy("too many webhook tests are running; try again"))?;
        let (vault, org) = (self.services.vault.clone(), who.org());
        let letter = self.read(who, move |db| {
            let found = find(db, &key)?;
            let owner = organization::by_id(db, org)?.ok_or_else(|| AppError::not_found("organization"))?;
            let mut secrets = Vec::new();
            for secret in webhook::list_secrets(db, found.id)? {
                secrets.push(vault.open_signing(db, org, found.id, &secret)?);
            }
            let now = db.now();
            let body = ping_payload(&owner, &found, now);
            // Pings are not stored as deliveries, but their ids have the same format.
            let mut entropy = IdEntropy::default();
            aws_lc_rs::rand::fill(&mut entropy)
                .map_err(|_| AppError::bug("the system gave no random bytes"))?;
            let id = DeliveryId::from_parts(now, entropy);
            Ok(WebhookRequest { id, url: found.url, body, secrets, seconds: now.as_micros() / 1_000_000 })
        });
        let sent = letter.await?.send(&self.services.egress).await?;
        drop(turn);
        let tried = sent.to_attempt();
        let body = wire::WebhookPing {
            is_accepted: tried.is_success(),
            status: tried.status,
            duration_ms: tried.duration_ms,
            error: tried.error.clone(),
            excerpt: sent.excerpt(),
        };
        self.change(who, once, move |_, _| Ok(ApiResponse::ok(body))).await
    }

    pub async fn list_deliveries(
        &self,
        who: &AuthorizedCaller<permit::WebhooksRead>,
        key: String,
        status: Option<String>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireDelivery>, AppError> {
        self.read(who, move |db| {
            let found = find(db, &key)?;
            let slice = delivery::list(db, found.id, status.as_deref(), &from, limit)?;
            let last = slice.items.last().map(|item| item.sequence.to_string());
            let items =
                slice.items.iter().map(|item| delivery_to_response(db, item)).collect::<Result<_, _>>()?;
            Ok(ResponsePage { last, items, total: slice.total, has_more: slice.has_more })
        })
        .await
    }

    /// Queues a delivery for redelivery with the same id. The retry schedule starts over.
    pub async fn redeliver(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        key: String,
        id: DeliveryId,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireDelivery>, AppError> {
        let org = who.org();
        let asked = self.change(who, once, move |tx, _| {
            let webhook = find(tx, &key)?;
            let found = delivery::by_id(tx, id)?.filter(|found| found.webhook == webhook.id);
            let found = found.ok_or_else(|| AppError::not_found("delivery"))?;
            if !webhook.state.is_active() {
                let text = "the webhook is inactive; activate it first with {\"isActive\": true}";
                return Err(AppError::new(Code::InvalidState, text));
            }
            if found.attempts >= ATTEMPTS_PER_DELIVERY_MAX {
                let text = format!(
                    "the delivery has already had {ATTEMPTS_PER_DELIVERY_MAX} attempts, which is the maximum"
                );
                return Err(AppError::new(Code::InvalidState, text));
            }
            let again = found.redeliver(tx.now());
            delivery::put(tx, &again, found.attempts)?;
            let location = format!("/api/v1/organizations/{org}/webhooks/{}/deliveries", webhook.id);
            Ok(ApiResponse::accepted(location, delivery_to_response(tx, &again)?))
        });
        let asked = asked.await;
        self.jobs.notify.wake();
        asked
    }
}

fn delivery_to_response(db: &mut impl StoreRead, found: &Delivery) -> Result<wire::WireDelivery, AppError> {
    let attempts = delivery::list_attempts(db, found.id)?;
    let attempt = |it: delivery::WebhookAttempt| wire::DeliveryAttempt {
        number: it.number,
        at: it.at.to_string(),
        duration_ms: it.duration_ms,
        status: it.status,
        error: it.error,
    };
    Ok(wire::WireDelivery {
        id: found.id.to_string(),
        webhook_id: found.webhook.to_string(),
        event_id: found.event.to_string(),
        sequence: found.sequence,
        kind: found.kind.clone(),
        status: match found.status {
            DeliveryState::Pending => wire::DeliveryStatus::Pending,
            DeliveryState::Delivered => wire::DeliveryStatus::Delivered,
            DeliveryState::Failed => wire::DeliveryStatus::Failed,
        },
        attempts: attempts.into_iter().map(attempt).collect(),
        next_try_at: found.next_try_at.map(|time| time.to_string()),
        created_at: found.created_at.to_string(),
        ended_at: found.ended_at.map(|time| time.to_string()),
    })
}
