//! Step logs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;

/// Part of a step's log at the time of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Log)]
pub struct LogSection {
    #[schema(example = "stp_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub step_id: String,
    /// Attempt number, starting at 1; null if the step has not started.
    pub attempt: Option<u32>,
    /// Whether the log is complete; no more lines will be added.
    pub complete: bool,
    /// Length of the whole log. Pass it as `offset` to follow the log from this point.
    pub bytes: u64,
    /// Number of lines of the whole log.
    pub lines: u64,
    /// The requested lines; with `q`, the matching lines.
    pub entries: Vec<LogEntry>,
    /// Next line to request with `fromLine`. Absent if there are no more lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_line: Option<u64>,
    /// Where to continue the search, as `offset`. Absent if the whole log was searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_offset: Option<u64>,
    /// Set if part of the log was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub gap: Option<LogGap>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// Line number, starting at 1.
    pub line: u64,
    /// Without line ending. Colours and other control characters are kept.
    #[schema(example = "--- Build")]
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<LogGroup>,
    /// True if the line was truncated; the raw log has all of it. Absent otherwise.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(required = false)]
    pub truncated: bool,
}

/// Set if the line starts or ends a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogGroup {
    #[schema(example = "Build")]
    pub title: String,
    pub state: LogGroupState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogGroupState {
    /// `--- title` or `::group::title`: shown collapsed.
    Closed,
    /// `+++ title`: shown expanded.
    Open,
    /// `~~~ title`: shown collapsed and de-emphasized.
    Quiet,
    /// `::endgroup::`: ends the group.
    End,
}

/// Which log of a step to read.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum LogStreamName {
    Step,
    /// What the step printed after its environment was taken over.
    AfterFence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogGap {
    /// Offset from which bytes could not be stored.
    pub offset: u64,
}

/// Payload of the `lines` event when following a log. The event's id is the offset after the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogText<'a> {
    /// Offset of the first byte of the text.
    pub offset: u64,
    pub text: &'a str,
}

/// Payload of the `end` event when following a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEnd {
    pub bytes: u64,
    pub lines: u64,
}

impl ReplayableBody for LogSection {}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
