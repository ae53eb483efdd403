//! The audit history.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::event::Event;
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::id::EventId;
use berth_core::time::Timestamp;

use crate::app::{Answer, App, EventFilter};
use crate::error::AppError;
use crate::http::guard::Allowed;
use crate::http::query::{Listed, Paging, Params};

/// List events, newest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/events", tag = "events",
    params(("kind" = Option<String>, Query, description = "for example pipeline_stopped"),
           ("actor" = Option<String>, Query, description = "a user's id"),
           ("pipeline" = Option<String>, Query, description = "id or slug"),
           ("deployment" = Option<String>, Query, description = "id"),
           ("environment" = Option<String>, Query, description = "id"),
           ("from" = Option<String>, Query, description = "from this time on, RFC 3339"),
           ("to" = Option<String>, Query, description = "before this time, RFC 3339"),
           ("total" = Option<bool>, Query, description = "true: tell how many there are, without filters")),
    responses((status = 200, body = List<Event>)))]
pub(crate) async fn list_events(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EventsRead>,
    paging: Paging,
) -> Result<Listed<Event>, AppError> {
    let params = &paging.params;
    let filter = EventFilter {
        kind: params.text("kind")?,
        actor: params.text("actor")?,
        pipeline: params.text("pipeline")?,
        deployment: params.text("deployment")?,
        environment: params.text("environment")?,
        since: time(params, "from")?,
        until: time(params, "to")?,
    };
    let with_total = params.parsed::<bool>("total")?.unwrap_or(false);
    let page = app.list_events(&who, filter, paging.start::<i64>()?, paging.limit, with_total).await?;
    Ok(paging.list(page))
}

/// View an event.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/events/{eventId}", tag = "events",
    responses((status = 200, body = Data<Event>)))]
pub(crate) async fn view_event(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EventsRead>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Answer<Event>, AppError> {
    let id: EventId = id.parse().map_err(|_| AppError::not_found("event"))?;
    app.view_event(&who, id).await
}

fn time(params: &Params, name: &str) -> Result<Option<Timestamp>, AppError> {
    let Some(text) = params.text(name)? else { return Ok(None) };
    Timestamp::parse(&text).map(Some).map_err(|error| AppError::invalid_parameter(name, error.to_string()))
}
