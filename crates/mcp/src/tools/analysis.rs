//! Tool for failure analyses.

use std::time::Duration;

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::arguments::parse_arguments;
use super::{ToolContext, ToolOutput, ToolResult};
use crate::log_text::frame_data;
use crate::rest::{RestApi, RestRequest, percent_encode};

/// How long a call waits for the analysis. An analysis by a model may take longer; a further call returns it.
const ANALYSIS_MAX: Duration = Duration::from_secs(50);
const POLL_EVERY: Duration = Duration::from_millis(500);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct AnalyzeFailure {
    deployment_id: String,
    /// The failed step, by its id or its id in the pipeline definition. Defaults to the step that failed first.
    step_id: Option<String>,
}

pub(super) async fn analyze_failure<A: RestApi>(
    context: &ToolContext<A>,
    arguments: JsonObject,
) -> ToolResult {
    let asked: AnalyzeFailure = parse_arguments(arguments)?;
    let body = asked.step_id.map_or_else(|| json!({}), |step| json!({"stepId": step}));
    let path = format!("/deployments/{}/analyses", percent_encode(&asked.deployment_id));
    let mut seen = context.send(RestRequest::post(path, body)).await?;
    let id = seen.body["data"]["id"].as_str().unwrap_or_default();
    let path = format!("/analyses/{}", percent_encode(id));
    let deadline = Instant::now() + ANALYSIS_MAX;
    let is_pending = |data: &Value| data["status"] == "queued" || data["status"] == "running";
    while is_pending(&seen.body["data"]) && Instant::now() < deadline {
        context.report_progress("analyzing the failure".to_owned()).await;
        context.pause(POLL_EVERY).await?;
        seen = context.get(path.as_str()).await?;
    }
    Ok(ToolOutput { text: describe_analysis(&seen.body["data"]), content: seen.body })
}

fn describe_analysis(analysis: &Value) -> String {
    let part = |name: &str| analysis[name].as_str().filter(|text| !text.is_empty());
    let mut lines =
        vec![format!("Analysis of step {}: {}", part("step").unwrap_or("?"), part("status").unwrap_or("?"))];
    match part("status") {
        Some("queued" | "running") => {
            lines.push("It has not finished. Call analyze_failure again.".to_owned());
        }
        Some("failed") => lines.extend(part("error").map(|error| format!("Error: {error}"))),
        _ => {
            let cause = part("rootCause").unwrap_or("not found; read the log with read_log");
            lines.push(format!("Root cause: {cause}"));
            lines.extend(part("confidence").map(|confidence| format!("Confidence: {confidence}")));
            lines.extend(part("advice").map(|advice| format!("Advice: {advice}")));
            lines.extend(
                analysis["suggestedFix"]["summary"]
                    .as_str()
                    .map(|fix| format!("Suggested fix: {fix} (the structured content has the diff)")),
            );
        }
    }
    let evidence = analysis["evidence"].as_array().map(Vec::as_slice).unwrap_or_default();
    let quoted: Vec<String> = evidence
        .iter()
        .map(|part| format!("{}: {}", part["firstLine"], part["text"].as_str().unwrap_or_default()))
        .collect();
    if !quoted.is_empty() {
        lines.push(format!("Log lines that show it. {}", frame_data(&quoted.join("\n"))));
    }
    lines.join("\n")
}
