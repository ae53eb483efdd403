//! Loads the log lines that an analysis cites.

use berth_core::analysis::Analysis;
use berth_core::id::OrgId;
use berth_engine::logs::{LogKey, LogStream};
use serde_json::Value;

use super::FixPullRequestJob;
use crate::error::AppError;
use crate::integrations::forges::{LINES_QUOTED_MAX, QuotedLine};

/// Reads the lines from the masked log. Missing lines are omitted.
pub(super) async fn load_quoted_lines(
    fixes: &FixPullRequestJob,
    org: OrgId,
    analysis: &Analysis,
) -> Result<Vec<QuotedLine>, AppError> {
    let result = analysis.output().map(|answer| answer.result.clone()).unwrap_or_default();
    let ranges = ranges(&result);
    let key = LogKey {
        org,
        deployment: analysis.deployment,
        step: analysis.step,
        attempt: analysis.attempt,
        stream: LogStream::Step,
    };
    let logs = fixes.services.logs.clone();
    let read = fixes.services.log_reads.run(org, move || {
        let mut quoted: Vec<QuotedLine> = Vec::new();
        let Some(mut log) = logs.open(&key)? else { return Ok(quoted) };
        for (first, last) in ranges {
            let room = (LINES_QUOTED_MAX - quoted.len()) as u64;
            if room == 0 {
                break;
            }
            let last = last.min(first.saturating_add(room - 1));
            let found = log.lines(first, last)?.lines.into_iter();
            quoted.extend(found.map(|line| QuotedLine { line: line.number, text: line.text }));
        }
        quoted.sort_by_key(|line| line.line);
        quoted.dedup_by_key(|line| line.line);
        Ok(quoted)
    });
    let read: Result<_, berth_engine::logs::LogError> = read.await?;
    read.map_err(|error| AppError::bug(error.to_string()))
}

/// Returns the first and last line of each piece of evidence.
fn ranges(result: &Value) -> Vec<(u64, u64)> {
    let listed = result.get("evidence").and_then(Value::as_array);
    let range = |value: &Value| {
        let (first, last) = (value.get("firstLine")?.as_u64()?, value.get("lastLine")?.as_u64()?);
        (first >= 1 && first <= last).then_some((first, last))
    };
    listed.into_iter().flatten().take(LINES_QUOTED_MAX).filter_map(range).collect()
}
