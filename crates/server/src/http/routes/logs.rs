//! Endpoint for step logs.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::log::{LogSection, LogStreamName};
use berth_core::access::permit;
use berth_engine::logs::{LOG_LINES_MAX, LOG_MATCHES_MAX, LogQuery, LogStream};
use futures_util::StreamExt as _;
use http::header::{self, HeaderMap};

use super::events::{EVENT_STREAM, wants_stream};
use crate::app::{App, LogPart, LogSelector, SearchFrom};
use crate::auth::authorize::AuthMethod;
use crate::error::AppError;
use crate::http::access_control::{RequirePermit, check_same_origin};
use crate::http::query::QueryParams;
use crate::limits::OFFSET_MAX;

/// Default for the maximum number of search matches.
const MATCHES_DEFAULT: i64 = 200;
/// Content security policy for raw logs, which may contain any HTML or script.
const RAW_POLICY: &str = "sandbox; default-src 'none'";

/// Get the log of a step. Returns a range of lines, the last lines, the lines that match a search, or the raw bytes.
/// With
/// `Accept: text/event-stream`, streams the log as it grows.
#[utoipa::path(get, operation_id = "getStepLog", path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/logs", tag = "deployments",
    params(("stage" = Option<String>, Query, description = "Name of the stage, if several stages have a step with this id"),
           ("attempt" = Option<i64>, Query, minimum = 1, description = "Attempt number. Defaults to the latest"),
           ("stream" = Option<LogStreamName>, Query, description = "`step`, or `after_fence` for what the step printed after its environment was taken over"),
           ("fromLine" = Option<i64>, Query, minimum = 1, description = "First line to return, starting at 1"),
           ("toLine" = Option<i64>, Query, minimum = 1, description = "Last line to return"),
           ("tail" = Option<i64>, Query, minimum = 1, maximum = 5000, description = "Return this many of the last lines, instead of `fromLine` and `toLine`"),
           ("q" = Option<String>, Query, description = "Return only lines that contain this text, ignoring case"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 1000, description = "With `q`: maximum number of lines to return"),
           ("raw" = Option<bool>, Query, description = "Return the raw bytes of the log"),
           ("offset" = Option<i64>, Query, minimum = 0, description = "With `q`, `raw` or a stream: start at this byte offset"),
           ("Last-Event-ID" = Option<i64>, Header, description = "Stream from this byte offset")),
    responses((status = 200, description = "Part of the log, its raw bytes, or an event stream until the log is complete", content(
        (Data<LogSection> = "application/json"), (String = "text/plain"), (String = "text/event-stream")))))]
pub(crate) async fn view_log(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsRead>,
    Path((_, deployment, step)): Path<(String, String, String)>,
    headers: HeaderMap,
    params: QueryParams,
) -> Result<Response, AppError> {
    let attempt =
        params.integer("attempt", 1, i64::from(u32::MAX))?.and_then(|number| u32::try_from(number).ok());
    let stream = match params.text("stream")?.as_deref() {
        None | Some("step") => LogStream::Step,
        Some("after_fence") => LogStream::AfterFence,
        Some(_) => return Err(AppError::invalid_parameter("stream", "must be step or after_fence")),
    };
    let asked = LogSelector { deployment, step, stage: params.text("stage")?, attempt, stream };
    let raw = params.parse::<bool>("raw")?.unwrap_or(false);
    let (offset, last) = (parse_number(&params, "offset", 0, OFFSET_MAX)?, last_byte(&headers)?);
    let part = parse_part(&params, offset)?;
    if wants_stream(&headers) {
        if matches!(who.principal().via, AuthMethod::SignIn { .. }) {
            check_same_origin(&app, &headers)?;
        }
        // A browser that reconnects sends both `Last-Event-ID` and the offset that it started from. The former is more
        // recent.
        let from = last.or(offset).unwrap_or(0);
        let stream = app.follow_log(who, asked, from).await?;
        let body = Body::from_stream(stream.map(Ok::<_, Infallible>));
        let headers = [(header::CONTENT_TYPE.as_str(), EVENT_STREAM), ("x-accel-buffering", "no")];
        return Ok((headers, body).into_response());
    }
    if raw {
        let download = app.download_log(who, asked, offset.unwrap_or(0)).await?;
        let headers = [
            (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
            (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", download.name)),
            (header::CONTENT_SECURITY_POLICY, RAW_POLICY.to_owned()),
            (header::CONTENT_LENGTH, download.bytes.to_string()),
        ];
        return Ok((headers, Body::from_stream(download.content)).into_response());
    }
    Ok(app.view_log(&who, asked, part).await?.into_response())
}

/// Returns the requested part of the log. All parameters are read, even those without effect, so that invalid ones are
/// always reported.
fn parse_part(params: &QueryParams, offset: Option<u64>) -> Result<LogPart, AppError> {
    let line = |name| parse_number(params, name, 1, OFFSET_MAX);
    let (from, to, tail) =
        (line("fromLine")?, line("toLine")?, parse_number(params, "tail", 1, LOG_LINES_MAX as i64)?);
    let limit = params.integer("limit", 1, LOG_MATCHES_MAX as i64)?.unwrap_or(MATCHES_DEFAULT);
    let text = params.text("q")?;
    if tail.is_some() && (from.is_some() || to.is_some() || text.is_some()) {
        return Err(AppError::invalid_parameter("tail", "cannot be combined with fromLine, toLine or q"));
    }
    if let (Some(from), Some(to)) = (from, to)
        && to < from
    {
        return Err(AppError::invalid_parameter("toLine", "must not be before fromLine"));
    }
    if let Some(text) = text {
        let query = LogQuery::new(&text).ok_or_else(|| AppError::invalid_parameter("q", "is too long"))?;
        let from = offset.map_or(SearchFrom::Line(from.unwrap_or(1)), SearchFrom::Offset);
        return Ok(LogPart::Search { query, from, limit: usize::try_from(limit).unwrap_or(0) });
    }
    Ok(match tail {
        Some(count) => LogPart::Tail(count),
        None => LogPart::Lines { from: from.unwrap_or(1), to: to.unwrap_or(u64::MAX) },
    })
}

fn parse_number(params: &QueryParams, name: &str, least: i64, most: i64) -> Result<Option<u64>, AppError> {
    Ok(params.integer(name, least, most)?.and_then(|number| u64::try_from(number).ok()))
}

/// Returns the offset from `Last-Event-ID`, which is the end of the last part of the log that was sent.
fn last_byte(headers: &HeaderMap) -> Result<Option<u64>, AppError> {
    let mut sent = headers.get_all("last-event-id").iter();
    let Some(first) = sent.next() else { return Ok(None) };
    let text = first.to_str().unwrap_or_default();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let offset = text.parse().ok().filter(|_| digits && sent.next().is_none());
    let wanted = "must be given once, as the id of the last event seen: a whole number from 0";
    offset.map(Some).ok_or_else(|| AppError::invalid_parameter("Last-Event-ID", wanted))
}
