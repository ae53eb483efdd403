//! Endpoints for the audit log: list, stream, export, verify.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::event::{ChainHead, ChainVerification, EventKind, EventsVerify, WireEvent};
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::id::EventId;
use berth_core::time::Timestamp;
use berth_core::webhook::{all_event_kinds, is_event_kind};
use berth_core::wording::nearest;
use berth_store::audit::AuditHead;
use futures_util::StreamExt as _;
use http::header::{self, HeaderMap};

use crate::app::{ApiResponse, App, EventFilter};
use crate::auth::authorize::{AuthMethod, AuthorizedCaller};
use crate::error::AppError;
use crate::http::access_control::{RequirePermit, check_same_origin};
use crate::http::body::PostBody;
use crate::http::query::{PageQuery, QueryParams};

pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// List events, newest first. With `Accept: text/event-stream`, streams new events.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/events", tag = "events",
    params(("kind" = Option<EventKind>, Query, description = "Only events of this kind"),
           ("actor" = Option<String>, Query, description = "Only events caused by this user (id)"),
           ("pipeline" = Option<String>, Query, description = "Only events of this pipeline (id or slug)"),
           ("deployment" = Option<String>, Query, description = "Only events of this deployment (id)"),
           ("environment" = Option<String>, Query, description = "Only events of this environment (id)"),
           ("from" = Option<String>, Query, format = DateTime, description = "Only events at or after this time"),
           ("to" = Option<String>, Query, format = DateTime, description = "Only events before this time"),
           ("total" = Option<bool>, Query, description = "Return the total number of events, if no filter is given"),
           ("inbox" = Option<bool>, Query, description = "Also send a message `inbox` when the number of your unread notifications changes. Only for streams"),
           ("Last-Event-ID" = Option<i64>, Header, description = "Stream events after this sequence number"),
           ("lastEventId" = Option<i64>, Query, description = "Same as the `Last-Event-ID` header, for clients that cannot set it")),
    responses((status = 200, description = "A page of events, or an endless event stream", content(
        (List<WireEvent> = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn list_events(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EventsRead>,
    headers: HeaderMap,
    paging: PageQuery,
) -> Result<Response, AppError> {
    let params = &paging.params;
    let filter = EventFilter {
        kind: parse_kind(params)?,
        actor: params.text("actor")?,
        pipeline: params.text("pipeline")?,
        deployment: params.text("deployment")?,
        environment: params.text("environment")?,
        since: parse_time(params, "from")?,
        until: parse_time(params, "to")?,
    };
    let last = last_event_id(&headers, params)?;
    let with_inbox = params.parse::<bool>("inbox")?.unwrap_or(false);
    if wants_stream(&headers) {
        return follow(&app, who, filter, (last, with_inbox), &headers).await;
    }
    let with_total = params.parse::<bool>("total")?.unwrap_or(false);
    let page = app.list_events(&who, filter, paging.start::<i64>()?, paging.limit, with_total).await?;
    Ok(paging.list(page).into_response())
}

pub(super) async fn follow(
    app: &Arc<App>,
    who: AuthorizedCaller<permit::EventsRead>,
    filter: EventFilter,
    (last, with_inbox): (Option<i64>, bool),
    headers: &HeaderMap,
) -> Result<Response, AppError> {
    if matches!(who.principal().via, AuthMethod::SignIn { .. }) {
        check_same_origin(app, headers)?;
    }
    let stream = app.follow_events(who, filter, last, with_inbox).await?;
    let body = Body::from_stream(stream.map(Ok::<_, Infallible>));
    // `x-accel-buffering: no` disables buffering in nginx, so that each event is sent immediately.
    Ok(([(header::CONTENT_TYPE.as_str(), EVENT_STREAM), ("x-accel-buffering", "no")], body).into_response())
}

pub(super) fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = accepted.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
    ranges.any(|range| range.trim().eq_ignore_ascii_case(EVENT_STREAM))
}

/// Returns the last event the client has seen. The `Last-Event-ID` header takes precedence over the parameter: when a
/// browser reconnects, it sends both, and the header is more recent.
pub(super) fn last_event_id(headers: &HeaderMap, params: &QueryParams) -> Result<Option<i64>, AppError> {
    let mut sent = headers.get_all("last-event-id").iter();
    let text = match (sent.next(), sent.next()) {
        (None, _) => params.get("lastEventId")?,
        (Some(one), None) => Some(one.to_str().unwrap_or_default()),
        (Some(_), Some(_)) => Some(""),
    };
    let Some(text) = text else { return Ok(None) };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wanted = "must be given once, as the sequence of the last event seen: a whole number from 0";
    let last = text.parse().ok().filter(|_| digits);
    last.map(Some).ok_or_else(|| AppError::invalid_parameter("Last-Event-ID", wanted))
}

/// Export the audit log as JSON Lines, oldest first. The last line is the head of the hash chain; store it outside
/// Berth.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/events/export", tag = "events",
    responses((status = 200, description = "One event per line, then the head", body = String,
        content_type = "application/x-ndjson")))]
pub(crate) async fn export_events(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EventsRead>,
) -> Result<Response, AppError> {
    let name = format!("attachment; filename=\"{}-events.jsonl\"", who.org_slug());
    let stream = app.export_events(who).await?;
    let headers =
        [(header::CONTENT_TYPE, "application/x-ndjson".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(stream)).into_response())
}

/// Verify the audit log. Detects edited, removed, inserted and swapped events and reports the first one.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/events/verify", tag = "events",
    request_body = Option<EventsVerify>, responses((status = 200, body = Data<ChainVerification>)))]
pub(crate) async fn verify_events(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EventsRead>,
    posted: PostBody<EventsVerify>,
) -> Result<ApiResponse<ChainVerification>, AppError> {
    let kept =
        posted.body.head.map(|ChainHead { sequence, hash }| AuditHead::parse(sequence, &hash)).transpose();
    let wanted = "must have a sequence from 0, and a hash of sha256: and 64 hex digits";
    app.verify_events(&who, kept.map_err(|_| AppError::invalid_member("/head", wanted))?).await
}

/// Get an event.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/events/{eventId}", tag = "events",
    responses((status = 200, body = Data<WireEvent>)))]
pub(crate) async fn view_event(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EventsRead>,
    Path((_, id)): Path<(String, String)>,
) -> Result<ApiResponse<WireEvent>, AppError> {
    let id: EventId = id.parse().map_err(|_| AppError::not_found("event"))?;
    app.view_event(&who, id).await
}

/// Returns the event kind from the query. Unknown kinds are rejected.
fn parse_kind(params: &QueryParams) -> Result<Option<String>, AppError> {
    let kind = params.text("kind")?;
    let Some(unknown) = kind.as_deref().filter(|kind| !is_event_kind(kind)) else { return Ok(kind) };
    let near = nearest(unknown, &all_event_kinds().collect::<Vec<_>>());
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Err(AppError::invalid_parameter("kind", format!("must be a kind of event{hint}")))
}

pub(super) fn parse_time(params: &QueryParams, name: &str) -> Result<Option<Timestamp>, AppError> {
    let Some(text) = params.text(name)? else { return Ok(None) };
    Timestamp::parse(&text).map(Some).map_err(|error| AppError::invalid_parameter(name, error.to_string()))
}
