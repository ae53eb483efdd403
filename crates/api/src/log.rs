//! What a step printed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;

/// A part of a log, as it was when it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    #[schema(example = "stp_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub step_id: String,
    /// From 1; null while the step has not begun.
    pub attempt: Option<u32>,
    /// Nothing will be added any more.
    pub complete: bool,
    /// The length of the whole log. Following from this offset continues exactly here.
    pub bytes: u64,
    /// Lines of the whole log.
    pub lines: u64,
    /// The lines asked for, or with `q` those that contain it.
    pub entries: Vec<LogEntry>,
    /// There are more lines: the first of them, for `fromLine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_line: Option<u64>,
    /// There is more to search: where to go on, for `offset`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_offset: Option<u64>,
    /// Something is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub gap: Option<LogGap>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// From 1.
    pub line: u64,
    /// Without its line end; colours and other control characters are still in it.
    #[schema(example = "--- Build")]
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<LogGroup>,
    /// Present and true: the line is longer than what is shown here. All of it is in the raw log.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(required = false)]
    pub truncated: bool,
}

/// The line begins a group, or ends one.
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
    /// `--- title` and `::group::title`
    Closed,
    /// `+++ title`
    Open,
    /// `~~~ title`
    Quiet,
    /// `::endgroup::`
    End,
}

/// Which output of a step.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum LogStreamName {
    Step,
    /// After its environment was taken over.
    AfterFence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogGap {
    /// From this byte on nothing could be kept.
    pub offset: u64,
}

/// Event `lines` of a followed log; its id is the offset after the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogText<'a> {
    /// Of the first byte.
    pub offset: u64,
    pub text: &'a str,
}

/// Event `end` of a followed log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEnd {
    pub bytes: u64,
    pub lines: u64,
}

impl Replay for Log {}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
