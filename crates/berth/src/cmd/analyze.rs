//! `berth analyze`: explains a failed step and suggests a fix.

use std::process::ExitCode;
use std::time::Duration;

use berth_api::analysis::{AnalysisNew, AnalysisStatus, WireAnalysis};
use berth_api::fix::{FixPullRequest, FixPullRequestState};
use clap_complete::ArgValueCandidates;

use super::reference::resolve_deployment_id;
use super::watch;
use crate::client::{ApiClient, ApiReply, RemoteArgs, exit_code, percent_encode};
use crate::complete;
use crate::output::{CommandOutput, LiveDisplay, bold, dim, strip_control_chars, wire_word};

const FIX_HINT: &str = "Run with --fix to push it and open a pull request.";
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Polls for 400 seconds in total, because an analysis by a language model may take five minutes.
const POLLS_MAX: u32 = 800;

#[derive(clap::Args)]
pub(crate) struct AnalyzeArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Deployment (id or PIPELINE#NUMBER), or a pipeline for its latest deployment
    #[arg(add = ArgValueCandidates::new(complete::deployments_or_pipelines))]
    which: String,
    /// Step id [default: the first failed step]
    step: Option<String>,
    /// Push the suggested fix and open a pull request
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let id = resolve_deployment_id(&client, &args.which)?;
    let body = AnalysisNew { step_id: args.step.clone(), preview: None };
    let asked = client.post::<WireAnalysis>(&format!("{}/analyses", watch::deployment_path(&id)), &body)?;
    let found = wait_for_analysis(&client, asked)?;
    if !args.fix || found.data.suggested_fix.is_none() {
        out.print_reply(&found.raw, || describe(&client, &found.data, Some(FIX_HINT)))?;
        let is_lost = args.fix || found.data.status == AnalysisStatus::Failed;
        return Ok(if is_lost { ExitCode::from(exit_code::FAILED) } else { ExitCode::SUCCESS });
    }
    if !out.json {
        out.print_reply(&found.raw, || describe(&client, &found.data, None))?;
    }
    open_pull_request(&client, &out, &found.data.id)
}

fn wait_for_analysis(
    client: &ApiClient,
    asked: ApiReply<WireAnalysis>,
) -> anyhow::Result<ApiReply<WireAnalysis>> {
    let path = format!("/analyses/{}", percent_encode(&asked.data.id));
    let mut live = LiveDisplay::new();
    let mut seen = asked;
    for _ in 0..POLLS_MAX {
        if matches!(seen.data.status, AnalysisStatus::Succeeded | AnalysisStatus::Failed) {
            live.clear();
            return Ok(seen);
        }
        live.show("analyzing");
        std::thread::sleep(POLL_INTERVAL);
        seen = client.get(&path)?;
    }
    anyhow::bail!(
        "timed out waiting for the analysis; it continues on the server: {}",
        client.dashboard_url(&watch::deployment_path(&seen.data.deployment_id))
    )
}

/// Renders an analysis. `advice` is printed after the suggested fix.
fn describe(client: &ApiClient, it: &WireAnalysis, advice: Option<&str>) -> String {
    let mut lines = Vec::new();
    match (&it.root_cause, &it.error) {
        (_, Some(error)) => lines.push(format!("The analysis failed: {}", strip_control_chars(error))),
        (Some(cause), _) => lines.push(bold(&strip_control_chars(cause))),
        (None, _) => lines.push(bold("Not enough evidence to determine the cause.")),
    }
    let facts: Vec<String> = [
        it.category.as_deref().map(strip_control_chars),
        it.confidence.map(|it| format!("{} confidence", wire_word(it))),
        it.analyser.as_deref().map(|it| format!("by {}", strip_control_chars(it))),
    ]
    .into_iter()
    .flatten()
    .collect();
    lines.push(dim(&format!("{}, step {}", facts.join(", "), strip_control_chars(&it.step))));
    for evidence in &it.evidence {
        let text = evidence.text.lines().next().unwrap_or_default();
        lines.push(format!("  line {:<6} {}", evidence.first_line, strip_control_chars(text)));
    }
    lines.extend(it.advice.as_deref().map(|advice| format!("\n{}", strip_control_chars(advice))));
    if let Some(fix) = &it.suggested_fix {
        let shown: Vec<_> = fix.diff.iter().flat_map(|diff| diff.lines()).map(strip_control_chars).collect();
        lines.push(format!("\n{}\n{}", strip_control_chars(&fix.summary), shown.join("\n")));
        lines.extend(advice.map(dim));
    }
    lines.extend(it.note.as_deref().map(|note| dim(&strip_control_chars(note))));
    let page =
        client.dashboard_url(&format!("{}?step={}", watch::deployment_path(&it.deployment_id), it.step_id));
    lines.push(dim(&page));
    lines.join("\n")
}

fn open_pull_request(client: &ApiClient, out: &CommandOutput, analysis: &str) -> anyhow::Result<ExitCode> {
    let path = format!("/analyses/{}/pull-request", percent_encode(analysis));
    let mut seen = client.post::<FixPullRequest>(&path, &serde_json::json!({}))?;
    let mut live = LiveDisplay::new();
    for _ in 0..POLLS_MAX {
        if seen.data.state != FixPullRequestState::Opening {
            break;
        }
        live.show("opening the pull request");
        std::thread::sleep(POLL_INTERVAL);
        seen = client.get(&path)?;
    }
    live.clear();
    let it = &seen.data;
    out.print_reply(&seen.raw, || match (&it.error, &it.url) {
        (Some(error), _) => format!("No pull request was opened: {}", strip_control_chars(error)),
        (None, Some(url)) => format!("Pull request {}: {}", wire_word(it.state), strip_control_chars(url)),
        (None, None) => format!("The fix was pushed to the branch {}.", strip_control_chars(&it.branch)),
    })?;
    Ok(if it.state == FixPullRequestState::Failed {
        ExitCode::from(exit_code::FAILED)
    } else {
        ExitCode::SUCCESS
    })
}
