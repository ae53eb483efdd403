//! `berth analyze`: explains a failed step and suggests a fix.

use std::process::ExitCode;
use std::time::Duration;

use berth_api::analysis::{Analysis, AnalysisNew, AnalysisStatus};
use berth_api::fix::{FixPullRequest, FixPullRequestState};

use super::deployment::newest;
use super::watch;
use crate::client::{Client, Remote, Reply, escaped, exit_code};
use crate::output::{Live, Output, bold, dim, harmless, word};

const ADVICE: &str = "Run with --fix to push it and open a pull request.";
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A model may take five minutes.
const LOOKS_MAX: u32 = 800;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Deployment id, or a pipeline for its latest deployment
    which: String,
    /// Step id [default: the first failed step]
    step: Option<String>,
    /// Push the suggested fix and open a pull request
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let id = newest(&client, &args.which)?;
    let body = AnalysisNew { step_id: args.step.clone(), preview: None };
    let asked = client.post::<Analysis>(&format!("{}/analyses", watch::path(&id)), &body)?;
    let found = answered(&client, asked)?;
    if !args.fix || found.data.suggested_fix.is_none() {
        out.told(&found.raw, || describe(&client, &found.data, Some(ADVICE)))?;
        let is_lost = args.fix || found.data.status == AnalysisStatus::Failed;
        return Ok(if is_lost { ExitCode::from(exit_code::FAILED) } else { ExitCode::SUCCESS });
    }
    if !out.json {
        out.told(&found.raw, || describe(&client, &found.data, None))?;
    }
    fix(&client, &out, &found.data.id)
}

fn answered(client: &Client, asked: Reply<Analysis>) -> anyhow::Result<Reply<Analysis>> {
    let path = format!("/analyses/{}", escaped(&asked.data.id));
    let mut live = Live::new();
    let mut seen = asked;
    for _ in 0..LOOKS_MAX {
        if matches!(seen.data.status, AnalysisStatus::Succeeded | AnalysisStatus::Failed) {
            live.clear();
            return Ok(seen);
        }
        live.show("analyzing");
        std::thread::sleep(LOOK_EVERY);
        seen = client.get(&path)?;
    }
    anyhow::bail!(
        "timed out waiting for the analysis; it continues on the server: {}",
        client.page(&watch::path(&seen.data.deployment_id))
    )
}

/// `advice` is shown after a suggested fix.
fn describe(client: &Client, it: &Analysis, advice: Option<&str>) -> String {
    let mut lines = Vec::new();
    match (&it.root_cause, &it.error) {
        (_, Some(error)) => lines.push(format!("The analysis failed: {}", harmless(error))),
        (Some(cause), _) => lines.push(bold(&harmless(cause))),
        (None, _) => lines.push(bold("Not enough evidence to determine the cause.")),
    }
    let facts: Vec<String> = [
        it.category.as_deref().map(harmless),
        it.confidence.map(|it| format!("{} confidence", word(it))),
        it.analyser.as_deref().map(|it| format!("by {}", harmless(it))),
    ]
    .into_iter()
    .flatten()
    .collect();
    lines.push(dim(&format!("{}, step {}", facts.join(", "), harmless(&it.step))));
    for evidence in &it.evidence {
        let text = evidence.text.lines().next().unwrap_or_default();
        lines.push(format!("  line {:<6} {}", evidence.first_line, harmless(text)));
    }
    lines.extend(it.advice.as_deref().map(|advice| format!("\n{}", harmless(advice))));
    if let Some(fix) = &it.suggested_fix {
        let shown: Vec<_> = fix.diff.iter().flat_map(|diff| diff.lines()).map(harmless).collect();
        lines.push(format!("\n{}\n{}", harmless(&fix.summary), shown.join("\n")));
        lines.extend(advice.map(dim));
    }
    lines.extend(it.note.as_deref().map(|note| dim(&harmless(note))));
    let page = client.page(&format!("{}?step={}", watch::path(&it.deployment_id), it.step_id));
    lines.push(dim(&page));
    lines.join("\n")
}

fn fix(client: &Client, out: &Output, analysis: &str) -> anyhow::Result<ExitCode> {
    let path = format!("/analyses/{}/pull-request", escaped(analysis));
    let mut seen = client.post::<FixPullRequest>(&path, &serde_json::json!({}))?;
    let mut live = Live::new();
    for _ in 0..LOOKS_MAX {
        if seen.data.state != FixPullRequestState::Opening {
            break;
        }
        live.show("opening the pull request");
        std::thread::sleep(LOOK_EVERY);
        seen = client.get(&path)?;
    }
    live.clear();
    let it = &seen.data;
    out.told(&seen.raw, || match (&it.error, &it.url) {
        (Some(error), _) => format!("No pull request was opened: {}", harmless(error)),
        (None, Some(url)) => format!("Pull request {}: {}", word(it.state), harmless(url)),
        (None, None) => format!("The fix was pushed to the branch {}.", harmless(&it.branch)),
    })?;
    Ok(if it.state == FixPullRequestState::Failed {
        ExitCode::from(exit_code::FAILED)
    } else {
        ExitCode::SUCCESS
    })
}
