//! Step logs: read, search and download. `follow_log` streams them.

use std::io;
use std::sync::Arc;

use axum::body::Bytes;
use berth_api::log as wire;
use berth_core::access::{Action, permit};
use berth_core::id::DeploymentId;
use berth_engine::logs::{GroupState, LineGroup, LogError, LogKey, LogLine, LogQuery, LogReader, LogStream};
use berth_engine::object_storage::StorageError;
use berth_store::StoreRead;
use berth_store::tables::run::StepLocation;
use berth_store::tables::{attempt, deployment, run};
use futures_util::Stream;

use super::follow::StreamAccess;
use super::resource_access::may_read;
use super::{ApiResponse, App};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::streams::StreamSlot;

/// Number of bytes per chunk of a download.
const DOWNLOAD_CHUNK_BYTES: usize = 256 * 1024;

/// Identifies a log in a request.
#[derive(Debug, Clone)]
pub struct LogSelector {
    pub deployment: String,
    /// Either the id that the definition gives the step, or the id of the step's run in this deployment.
    pub step: String,
    /// Name of the stage. Required if `step` is an id from the definition that several stages use.
    pub stage: Option<String>,
    /// `None` means the latest attempt.
    pub attempt: Option<u32>,
    pub stream: LogStream,
}

/// The part of a log to return.
pub enum LogPart {
    /// A range of lines, inclusive on both ends.
    Lines {
        from: u64,
        to: u64,
    },
    Tail(u64),
    Search {
        query: LogQuery,
        from: SearchFrom,
        limit: usize,
    },
}

#[derive(Debug, Clone, Copy)]
pub enum SearchFrom {
    Line(u64),
    Offset(u64),
}

/// The content of a log, up to the length it had when the download started.
pub struct LogDownload<S> {
    pub name: String,
    /// Number of bytes to send, counted from the requested offset.
    pub bytes: u64,
    pub content: S,
}

/// The key of a log, and whether the attempt that writes it has started and ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogLocation {
    pub(super) key: LogKey,
    pub(super) has_begun: bool,
    pub(super) has_ended: bool,
}

impl App {
    pub async fn view_log(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsRead>,
        asked: LogSelector,
        part: LogPart,
    ) -> Result<ApiResponse<wire::LogSection>, AppError> {
        let found = self.find_log(who, asked).await?;
        let logs = self.services.logs.clone();
        let shown = self.services.log_reads.run(who.org(), move || {
            let log = logs.open(&found.key)?;
            log.map_or_else(|| Ok(empty_response(&found)), |mut log| to_response(&found, &mut log, &part))
        });
        Ok(ApiResponse::ok(shown.await?.map_err(log_read_error)?))
    }

    /// Returns the raw bytes of a log, starting at `offset`.
    pub async fn download_log(
        self: &Arc<Self>,
        who: AuthorizedCaller<permit::DeploymentsRead>,
        asked: LogSelector,
        offset: u64,
    ) -> Result<LogDownload<impl Stream<Item = io::Result<Bytes>> + use<>>, AppError> {
        let place = self.take_stream(&who)?;
        let found = self.find_log(&who, asked).await?;
        let logs = self.services.logs.clone();
        let log = self
            .services
            .log_reads
            .run(who.org(), move || logs.open(&found.key))
            .await?
            .map_err(log_read_error)?;
        let length = log.as_ref().map_or(0, LogReader::length);
        if offset > length {
            return Err(offset_beyond_error(length));
        }
        let right = StreamAccess::new(self.clone(), who);
        let sending = DownloadState { right, log, at: offset, end: length, _slot: place };
        let content = futures_util::stream::unfold(sending, DownloadState::next);
        let name = format!("{}.{}.log", found.key.step, found.key.attempt);
        Ok(LogDownload { name, bytes: length - offset, content })
    }

    pub(super) async fn find_log<P>(
        &self,
        who: &AuthorizedCaller<P>,
        asked: LogSelector,
    ) -> Result<LogLocation, AppError> {
        let (org, access) = (who.org(), who.access().clone());
        self.read(who, move |db| {
            let missing = || AppError::not_found("step");
            let deployment: DeploymentId = asked.deployment.parse().map_err(|_| missing())?;
            if !access.may_everywhere(Action::DeploymentsRead) {
                let found = deployment::by_id(db, deployment)?.ok_or_else(missing)?;
                if !may_read(db, &access, Action::DeploymentsRead, &found)? {
                    return Err(missing());
                }
            }
            let step = find_step(db, deployment, &asked)?.ok_or_else(missing)?;
            let attempt = attempt::find_state(db, deployment, step.id, asked.attempt)?;
            if attempt.is_none() && asked.attempt.is_some() {
                return Err(AppError::not_found("attempt"));
            }
            // If the step has not started, its log will be that of attempt 1.
            let number = attempt.map_or(1, |attempt| attempt.number);
            Ok(LogLocation {
                key: LogKey { org, deployment, step: step.id, attempt: number, stream: asked.stream },
                has_begun: attempt.is_some(),
                has_ended: attempt.map_or(step.is_final, |attempt| attempt.has_ended),
            })
        })
        .await
    }
}

fn find_step(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    asked: &LogSelector,
) -> Result<Option<StepLocation>, AppError> {
    let mut steps = run::find_steps(db, deployment, &asked.step)?;
    if asked.stage.is_none() && steps.len() < 2 {
        return Ok(steps.pop());
    }
    let stages = run::stage_names(db, deployment)?;
    let stage_of = |step: &StepLocation| stages.get(step.stage).map(String::as_str).unwrap_or_default();
    if let Some(stage) = &asked.stage {
        return Ok(steps.into_iter().find(|step| stage_of(step) == stage));
    }
    let named: Vec<&str> = steps.iter().map(stage_of).collect();
    let text = format!("is required, because several stages have this step: {}", named.join(", "));
    Err(AppError::invalid_parameter("stage", text))
}

fn to_response(
    found: &LogLocation,
    log: &mut LogReader,
    part: &LogPart,
) -> Result<wire::LogSection, LogError> {
    let (lines, next_line, next_offset) = match part {
        LogPart::Lines { from, to } => {
            let answer = log.lines(*from, *to)?;
            (answer.lines, answer.next, None)
        }
        LogPart::Tail(count) => {
            let answer = log.tail(*count)?;
            (answer.lines, answer.next, None)
        }
        LogPart::Search { query, from, limit } => {
            let from = match from {
                SearchFrom::Line(line) => log.line_start(*line)?,
                SearchFrom::Offset(offset) => *offset,
            };
            let answer = log.search(query, from, *limit)?;
            (answer.lines, None, answer.next)
        }
    };
    Ok(wire::LogSection {
        complete: found.has_ended || log.seal().is_some(),
        bytes: log.length(),
        lines: log.line_count(),
        entries: lines.into_iter().map(to_wire_entry).collect(),
        next_line,
        next_offset,
        gap: log.damaged_from().map(|offset| wire::LogGap { offset }),
        ..empty_response(found)
    })
}

fn empty_response(found: &LogLocation) -> wire::LogSection {
    wire::LogSection {
        step_id: found.key.step.to_string(),
        attempt: found.has_begun.then_some(found.key.attempt),
        complete: found.has_ended,
        bytes: 0,
        lines: 0,
        entries: Vec::new(),
        next_line: None,
        next_offset: None,
        gap: None,
    }
}

fn to_wire_entry(line: LogLine) -> wire::LogEntry {
    let LogLine { number, text, truncated, group } = line;
    wire::LogEntry { line: number, text, group: group.map(to_wire_group), truncated }
}

fn to_wire_group(group: LineGroup) -> wire::LogGroup {
    let LineGroup { title, state } = group;
    let state = match state {
        GroupState::Closed => wire::LogGroupState::Closed,
        GroupState::Open => wire::LogGroupState::Open,
        GroupState::Quiet => wire::LogGroupState::Quiet,
        GroupState::End => wire::LogGroupState::End,
    };
    wire::LogGroup { title, state }
}

/// Converts an error while reading a log to a server error, because the request was valid.
pub(super) fn log_read_error(error: LogError) -> AppError {
    match error {
        LogError::Busy => AppError::busy("too many logs are open"),
        LogError::Storage(StorageError::Unreachable(_) | StorageError::Refused(_)) => {
            tracing::warn!(%error, "reading a log from object storage failed");
            AppError::busy("object storage does not respond; try again")
        }
        other => AppError::bug(other.to_string()),
    }
}

pub(super) fn offset_beyond_error(length: u64) -> AppError {
    AppError::invalid_parameter("offset", format!("must be from 0 to {length}, the length of the log"))
}

struct DownloadState {
    right: StreamAccess<permit::DeploymentsRead>,
    log: Option<LogReader>,
    at: u64,
    end: u64,
    _slot: StreamSlot,
}

impl DownloadState {
    /// On an error the connection is aborted, so that a client does not mistake a partial log for a complete one.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.at >= self.end {
            return None;
        }
        let part = self.next_part().await;
        match &part {
            Ok(bytes) => self.at += bytes.len() as u64,
            Err(_) => self.at = self.end,
        }
        Some((part.map_err(io::Error::other), self))
    }

    async fn next_part(&mut self) -> Result<Bytes, &'static str> {
        if self.right.app.services.shutdown.is_cancelled() {
            return Err("the server is stopping");
        }
        if !self.right.is_still_allowed().await {
            return Err("the permission to read logs was revoked");
        }
        let (at, Some(mut log)) = (self.at, self.log.take()) else { return Err("there is no log") };
        let read = tokio::task::spawn_blocking(move || {
            let bytes = log.read_bytes(at, DOWNLOAD_CHUNK_BYTES);
            (bytes, log)
        });
        let (bytes, log) = read.await.map_err(|_| "reading the log failed")?;
        self.log = Some(log);
        bytes.map(Bytes::from).map_err(|error| {
            tracing::error!(%error, "log download aborted");
            "the log cannot be read"
        })
    }
}
