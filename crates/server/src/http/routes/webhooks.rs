//! Endpoints for webhooks and their deliveries.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::webhook::{
    DeliveryStatus as DeliveryStatusWire, WebhookFormat, WebhookNew, WebhookPatch, WebhookPing,
    WebhookWithSecret, WireDelivery, WireWebhook,
};
use berth_core::access::permit;
use berth_core::id::WebhookId;
use berth_core::name::Slug;
use berth_core::webhook::{DeliveryState, EventKindFilter, PayloadFormat};

use crate::app::{ApiResponse, App, IdempotentResponse, NewWebhook, WebhookChange};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery};
use crate::http::routes::auth::EmptyBody;

/// List webhooks, oldest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/webhooks", tag = "webhooks",
    responses((status = 200, body = List<WireWebhook>)))]
pub(crate) async fn list_webhooks(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireWebhook>, AppError> {
    let page = app.list_webhooks(&who, paging.start::<WebhookId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a webhook. Its signing secret is returned only here.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/webhooks", tag = "webhooks",
    request_body = WebhookNew, responses((status = 201, body = Data<WebhookWithSecret>)))]
pub(crate) async fn create_webhook(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    posted: PostBody<WebhookNew>,
) -> Result<IdempotentResponse<WebhookWithSecret>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let name = check.require("/name", Slug::parse(&body.name));
    let kinds = parse_kinds(&mut check, &body.kinds);
    let (name, kinds) = check.finish(name.zip(kinds))?;
    let format = body.format.map(format_from_wire).unwrap_or_default();
    let is_active = body.is_active.unwrap_or(true);
    app.create_webhook(
        &who,
        NewWebhook { name, url: body.url, kinds, format, is_active },
        posted.idempotency_key,
    )
    .await
}

/// Get a webhook and its delivery status, without its secret.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/webhooks/{webhookId}", tag = "webhooks",
    responses((status = 200, body = Data<WireWebhook>)))]
pub(crate) async fn view_webhook(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<WireWebhook>, AppError> {
    app.view_webhook(&who, key).await
}

/// Update a webhook, or activate or deactivate it.
#[utoipa::path(patch, path = "/api/v1/organizations/{orgId}/webhooks/{webhookId}", tag = "webhooks",
    request_body = Option<WebhookPatch>, responses((status = 200, body = Data<WireWebhook>)))]
pub(crate) async fn update_webhook(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<WebhookPatch>,
) -> Result<IdempotentResponse<WireWebhook>, AppError> {
    let mut check = InputChecker::default();
    let name = check.optional("/name", body.name.as_deref(), Slug::parse);
    let kinds = body.kinds.as_deref().and_then(|sent| parse_kinds(&mut check, sent));
    check.finish(Some(()))?;
    let (url, format, is_active) = (body.url, body.format.map(format_from_wire), body.is_active);
    app.change_webhook(&who, key, WebhookChange { name, url, kinds, format, is_active }, expected).await
}

/// Delete a webhook and its deliveries.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/webhooks/{webhookId}", tag = "webhooks",
    responses((status = 200, body = Data<WireWebhook>)))]
pub(crate) async fn delete_webhook(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
) -> Result<IdempotentResponse<WireWebhook>, AppError> {
    app.delete_webhook(&who, key, expected).await
}

/// Rotate the signing secret of a webhook. Deliveries are also signed with the previous secret for 24 hours.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/webhooks/{webhookId}/rotate", tag = "webhooks",
    responses((status = 200, body = Data<WebhookWithSecret>)))]
pub(crate) async fn rotate_webhook(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<WebhookWithSecret>, AppError> {
    app.rotate_webhook(&who, key, posted.idempotency_key).await
}

/// Send a test message of type `ping` and return the receiver's response.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/webhooks/{webhookId}/ping", tag = "webhooks",
    responses((status = 200, body = Data<WebhookPing>)))]
pub(crate) async fn ping_webhook(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<WebhookPing>, AppError> {
    app.ping_webhook(&who, key, posted.idempotency_key).await
}

/// List the deliveries of a webhook with their attempts, newest first. They are kept for 7 days.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/webhooks/{webhookId}/deliveries", tag = "webhooks",
    params(("status" = Option<DeliveryStatusWire>, Query, description = "Only deliveries with this status")),
    responses((status = 200, body = List<WireDelivery>)))]
pub(crate) async fn list_deliveries(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksRead>,
    Path((_, key)): Path<(String, String)>,
    paging: PageQuery,
) -> Result<ListResponse<WireDelivery>, AppError> {
    let words = DeliveryState::ALL.map(DeliveryState::as_str);
    let status = paging.params.one_of("status", &words)?;
    let page = app.list_deliveries(&who, key, status, paging.start::<i64>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Redeliver a delivery with the same id and body.
#[utoipa::path(post, operation_id = "redeliverDelivery", tag = "webhooks",
    path = "/api/v1/organizations/{orgId}/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver",
    responses((status = 202, body = Data<WireDelivery>)))]
pub(crate) async fn redeliver(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    Path((_, key, id)): Path<(String, String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<WireDelivery>, AppError> {
    let id = id.parse().map_err(|_| AppError::not_found("delivery"))?;
    app.redeliver(&who, key, id, posted.idempotency_key).await
}

fn parse_kinds(check: &mut InputChecker, sent: &[String]) -> Option<EventKindFilter> {
    match EventKindFilter::parse(sent) {
        Ok(kinds) => Some(kinds),
        Err(error) => {
            let pointer = error.index.map_or("/kinds".to_owned(), |index| format!("/kinds/{index}"));
            check.require(&pointer, Err(error.why))
        }
    }
}

fn format_from_wire(sent: WebhookFormat) -> PayloadFormat {
    match sent {
        WebhookFormat::Standard => PayloadFormat::Standard,
        WebhookFormat::Slack => PayloadFormat::Slack,
    }
}
