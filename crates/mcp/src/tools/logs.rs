//! Tool for logs.

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::arguments::parse_arguments;
use super::{ToolContext, ToolOutput, ToolResult};
use crate::failure::ToolFailure;
use crate::log_text::{KeepLines, describe_log, limit_log};
use crate::rest::{RestApi, percent_encode};

/// Number of lines before and after the failing line.
const AROUND_LINES: u64 = 30;
/// Number of last lines returned if no other part is asked for.
const TAIL_LINES: u64 = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ReadLog {
    deployment_id: String,
    /// The step, by its id or its id in the pipeline definition. Defaults to the first failed step, else to the last
    /// step that has started.
    step_id: Option<String>,
    /// Name of the stage, if several stages have a step with this id.
    stage: Option<String>,
    /// Attempt number. Defaults to the latest.
    #[schemars(range(min = 1))]
    attempt: Option<u32>,
    /// Return the lines around the failure.
    around_failure: Option<bool>,
    /// Return only lines that contain this text, ignoring case.
    #[schemars(length(min = 1, max = 200))]
    search: Option<String>,
    /// With search: continue at this byte offset, the nextOffset of the previous call.
    offset: Option<u64>,
    /// Return this many of the last lines.
    #[schemars(range(min = 1, max = 5000))]
    tail: Option<u64>,
    /// First line to return, such as the nextLine of the previous call.
    #[schemars(range(min = 1))]
    from_line: Option<u64>,
    /// Last line to return.
    #[schemars(range(min = 1))]
    to_line: Option<u64>,
}

/// Which part of the log to read.
enum LogPart {
    Failure,
    Search { text: String, from_line: Option<u64>, offset: Option<u64> },
    Tail(u64),
    Lines { from: u64, to: Option<u64> },
}

pub(super) async fn read_log<A: RestApi>(context: &ToolContext<A>, arguments: JsonObject) -> ToolResult {
    let asked: ReadLog = parse_arguments(arguments)?;
    let deployment = percent_encode(&asked.deployment_id);
    let (step, has_failed) = match &asked.step_id {
        Some(step) => (step.clone(), false),
        None => find_step(context, &deployment).await?,
    };
    let part = asked.part(has_failed)?;
    let (range, keep) = match part {
        LogPart::Failure => match find_failing_line(context, &deployment, &step).await? {
            Some(line) => {
                let (from, to) = (line.saturating_sub(AROUND_LINES).max(1), line + AROUND_LINES);
                (format!("fromLine={from}&toLine={to}"), KeepLines::First)
            }
            // A failing program usually says why at the end.
            None => (format!("tail={TAIL_LINES}"), KeepLines::Last),
        },
        LogPart::Tail(count) => (format!("tail={count}"), KeepLines::Last),
        LogPart::Lines { from, to } => {
            let to = to.map(|to| format!("&toLine={to}")).unwrap_or_default();
            (format!("fromLine={from}{to}"), KeepLines::First)
        }
        LogPart::Search { text, from_line, offset } => {
            let from = from_line.map(|line| format!("&fromLine={line}")).unwrap_or_default();
            let offset = offset.map(|offset| format!("&offset={offset}")).unwrap_or_default();
            (format!("q={}{from}{offset}", percent_encode(&text)), KeepLines::First)
        }
    };
    let stage = asked.stage.map(|stage| format!("&stage={}", percent_encode(&stage))).unwrap_or_default();
    let attempt = asked.attempt.map(|number| format!("&attempt={number}")).unwrap_or_default();
    let step = percent_encode(&step);
    let path = format!("/deployments/{deployment}/steps/{step}/logs?{range}{stage}{attempt}");
    let mut read = context.get(path).await?;
    limit_log(&mut read.body["data"], keep);
    Ok(ToolOutput { text: describe_log(&read.body["data"]), content: read.body })
}

impl ReadLog {
    fn part(&self, has_failed: bool) -> Result<LogPart, ToolFailure> {
        let around = self.around_failure.unwrap_or(false);
        let has_lines = self.from_line.is_some() || self.to_line.is_some();
        let refuse = |text: &str| Err(ToolFailure::InvalidArguments(text.to_owned()));
        if self.offset.is_some() && self.search.is_none() {
            return refuse("offset: requires search");
        }
        match (&self.search, self.tail) {
            (Some(_), Some(_)) => refuse("tail: cannot be combined with search"),
            (_, Some(_)) if has_lines => refuse("tail: cannot be combined with fromLine or toLine"),
            (Some(_), None) if self.to_line.is_some() => refuse("toLine: cannot be combined with search"),
            _ if around && (self.search.is_some() || self.tail.is_some() || has_lines) => {
                refuse("aroundFailure: cannot be combined with search, tail, fromLine or toLine")
            }
            (Some(text), None) => {
                Ok(LogPart::Search { text: text.clone(), from_line: self.from_line, offset: self.offset })
            }
            (None, Some(count)) => Ok(LogPart::Tail(count)),
            (None, None) if has_lines => {
                Ok(LogPart::Lines { from: self.from_line.unwrap_or(1), to: self.to_line })
            }
            (None, None) if around || has_failed => Ok(LogPart::Failure),
            (None, None) => Ok(LogPart::Tail(TAIL_LINES)),
        }
    }
}

/// Returns the id of the first failed step, else of the last step that has started, and whether it has failed.
async fn find_step<A: RestApi>(
    context: &ToolContext<A>,
    deployment: &str,
) -> Result<(String, bool), ToolFailure> {
    let seen = context.get(format!("/deployments/{deployment}")).await?;
    let stages = seen.body["data"]["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let steps: Vec<&Value> = stages.iter().filter_map(|stage| stage["steps"].as_array()).flatten().collect();
    let has_started = |step: &&&Value| step["attempts"].as_array().is_some_and(|it| !it.is_empty());
    let failed = steps.iter().find(|step| step["status"] == "failed" && has_started(step));
    let found = failed.or_else(|| steps.iter().rfind(has_started)).and_then(|step| step["id"].as_str());
    let none = || ToolFailure::NotYet("no step of the deployment has started, so there is no log".to_owned());
    Ok((found.ok_or_else(none)?.to_owned(), failed.is_some()))
}

/// Returns the line that shows the failure, if the step was analyzed.
async fn find_failing_line<A: RestApi>(
    context: &ToolContext<A>,
    deployment: &str,
    step: &str,
) -> Result<Option<u64>, ToolFailure> {
    let listed = context.get(format!("/deployments/{deployment}/analyses?limit=20")).await;
    let listed = match listed {
        Ok(listed) => listed.body,
        // Without the permission to read analyses, the log itself can still be read.
        Err(ToolFailure::Refused(_)) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let analyses = listed["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_step = analyses.iter().filter(|analysis| analysis["stepId"] == step || analysis["step"] == step);
    Ok(of_step.filter_map(|analysis| analysis["evidence"][0]["firstLine"].as_u64()).next())
}
