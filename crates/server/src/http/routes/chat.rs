//! Endpoints for chat destinations.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::chat::{ChatDestinationNew, ChatDestinationType, WireChatDestination};
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::chat::is_slack_id;
use berth_core::id::ChatDestinationId;
use berth_core::name::Slug;
use berth_engine::credential::RedactedString;

use super::auth::EmptyBody;
use crate::app::{ApiResponse, App, ChatAddress, IdempotentResponse, NewChatDestination};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::input_checker::InputChecker;
use crate::http::query::{ListResponse, PageQuery};

/// List chat destinations, oldest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/chat-destinations", tag = "notifications",
    responses((status = 200, body = List<WireChatDestination>)))]
pub(crate) async fn list_chat_destinations(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireChatDestination>, AppError> {
    let page = app.list_chat_destinations(&who, paging.start::<ChatDestinationId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a chat destination. Its URL is stored encrypted and never returned.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/chat-destinations", tag = "notifications",
    request_body = ChatDestinationNew, responses((status = 201, body = Data<WireChatDestination>)))]
pub(crate) async fn create_chat_destination(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    posted: PostBody<ChatDestinationNew>,
) -> Result<IdempotentResponse<WireChatDestination>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let name = check.require("/name", Slug::parse(&body.name));
    let to = parse_address(&mut check, body.kind, body.url, body.channel);
    let (name, to) = check.finish(name.zip(to))?;
    app.create_chat_destination(&who, NewChatDestination { name, to }, posted.idempotency_key).await
}

/// Get a chat destination, and whether its messages are delivered.
#[utoipa::path(get, operation_id = "getChatDestination", path = "/api/v1/organizations/{orgId}/chat-destinations/{destinationId}",
    tag = "notifications", responses((status = 200, body = Data<WireChatDestination>)))]
pub(crate) async fn view_chat_destination(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<WireChatDestination>, AppError> {
    app.view_chat_destination(&who, key).await
}

/// Delete a chat destination and its messages. Rules that name it send nothing any more.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/chat-destinations/{destinationId}",
    tag = "notifications", responses((status = 200, body = Data<WireChatDestination>)))]
pub(crate) async fn delete_chat_destination(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    Path((_, key)): Path<(String, String)>,
) -> Result<IdempotentResponse<WireChatDestination>, AppError> {
    app.delete_chat_destination(&who, key).await
}

/// Send a test message. `deliveredAt` or `error` of the destination shows the outcome.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/chat-destinations/{destinationId}/test",
    tag = "notifications", responses((status = 202, body = Data<WireChatDestination>)))]
pub(crate) async fn test_chat_destination(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<WireChatDestination>, AppError> {
    app.test_chat_destination(&who, key, posted.idempotency_key).await
}

/// Reads where a destination's messages go: a webhook has a URL, and a channel has an id.
fn parse_address(
    check: &mut InputChecker,
    kind: ChatDestinationType,
    url: Option<String>,
    channel: Option<String>,
) -> Option<ChatAddress> {
    const REQUIRED: &str = "is required for a destination of this type";
    const FOREIGN: &str = "does not belong to a destination of this type";
    let is_channel = kind == ChatDestinationType::SlackChannel;
    let foreign =
        if is_channel { url.as_ref().map(|_| "/url") } else { channel.as_ref().map(|_| "/channel") };
    if let Some(pointer) = foreign {
        check.require::<(), _>(pointer, Err(FOREIGN));
    }
    if is_channel {
        let channel = check.require("/channel", channel.ok_or(REQUIRED))?;
        let is_id = is_slack_id(&channel);
        let why =
            "must be the id of a channel, such as C024BE91L, which Slack shows in the channel's details";
        return check.require("/channel", is_id.then_some(ChatAddress::SlackChannel(channel)).ok_or(why));
    }
    let url = RedactedString::new(check.require("/url", url.ok_or(REQUIRED))?);
    Some(match kind {
        ChatDestinationType::TeamsWebhook => ChatAddress::TeamsWebhook(url),
        ChatDestinationType::SlackWebhook | ChatDestinationType::SlackChannel => {
            ChatAddress::SlackWebhook(url)
        }
    })
}
