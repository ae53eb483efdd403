//! Watches a deployment until it finishes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use berth_api::deployment::{Deployment, DeploymentStatus, Stage, StageStatus, Step, StepStatus};
use berth_api::pipeline::Pipeline;

use crate::client::{Client, Failure, escaped, exit_code};
use crate::output::time::{ago, between, clock};
use crate::output::{Live, Output, bold, coloured, coloured_as, dim, harmless, say, short_commit, word};

/// Maximum outage of the server while watching.
const AWAY_MAX: Duration = Duration::from_secs(300);
const LOOK_AGAIN: Duration = Duration::from_secs(2);

pub(crate) fn path(id: &str) -> String {
    format!("/deployments/{}", escaped(id))
}

/// Watches the deployment and prints its outcome; returns the exit code.
pub(crate) fn to_the_end(client: &Client, out: &Output, id: &str) -> anyhow::Result<ExitCode> {
    let ended = until_over(client, id)?;
    out.told(&ended.raw, || line(client, &ended.data))?;
    Ok(verdict(ended.data.status))
}

/// Waits until the deployment finishes and shows its progress.
pub(crate) fn until_over(client: &Client, id: &str) -> anyhow::Result<crate::client::Reply<Deployment>> {
    let path = path(id);
    let mut live = Live::new();
    let mut seen = client.get::<Deployment>(&path)?;
    let name = name(client, &seen.data);
    let mut heard = Instant::now();
    while seen.data.finished_at.is_none() {
        live.show(&tree(&name, &seen.data));
        let etag = seen.etag.clone().unwrap_or_default();
        match client.changed(&path, &etag) {
            Ok(Some(news)) => (seen, heard) = (news, Instant::now()),
            Ok(None) => heard = Instant::now(),
            // A server restart does not fail the deployment.
            Err(error) if Failure::passes(&error) && heard.elapsed() < AWAY_MAX => {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(error) => return Err(error),
        }
    }
    live.clear();
    if !live_is_enough(seen.data.status) {
        live.show(&tree(&name, &seen.data));
    }
    Ok(seen)
}

/// A failed deployment stays on screen.
fn live_is_enough(status: DeploymentStatus) -> bool {
    status == DeploymentStatus::Succeeded
}

pub(crate) fn verdict(status: DeploymentStatus) -> ExitCode {
    match status {
        DeploymentStatus::Failed | DeploymentStatus::Cancelled | DeploymentStatus::Superseded => {
            ExitCode::from(exit_code::FAILED)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// One line with the outcome, and the URL.
pub(crate) fn line(client: &Client, it: &Deployment) -> String {
    let page = dim(&client.page(&path(&it.id)));
    let took = between(it.started_at.as_deref(), it.finished_at.as_deref());
    let took =
        took.filter(|_| it.finished_at.is_some()).map_or_else(String::new, |took| format!(" in {took}"));
    format!("{} {}{took}\n{page}", title(&name(client, it), it), coloured(&word(it.status)))
}

/// Deployments are numbered per pipeline and per environment: "shop #2" is not "shop/qa-1 #2".
pub(crate) fn numbered(slug: Option<&str>, it: &Deployment) -> String {
    let parts = [slug.map(harmless), it.env_name.clone()];
    let place = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
    format!("{place} #{}", it.number).trim_start().to_owned()
}

fn name(client: &Client, it: &Deployment) -> String {
    numbered(slug(client, &it.pipeline_id).as_deref(), it)
}

/// `None`: the pipeline was deleted.
pub(crate) fn slug(client: &Client, pipeline: &str) -> Option<String> {
    let found = client.get::<Pipeline>(&format!("/pipelines/{}", escaped(pipeline))).ok();
    found.map(|found| found.data.slug)
}

fn title(name: &str, it: &Deployment) -> String {
    bold(&format!("Deployment {name} ({})", harmless(short_commit(&it.commit_id))))
}

/// Renders stages, steps and what the deployment is waiting for.
fn tree(name: &str, it: &Deployment) -> String {
    let mut lines = vec![format!(
        "{} {}  by {}, {}",
        title(name, it),
        coloured(&word(it.status)),
        harmless(&it.actor.name),
        ago(&it.created_at)
    )];
    let detail = it.detail.as_deref().or(it.cause.as_deref());
    lines.extend(detail.map(|detail| format!("  {}", harmless(detail))));
    for blocked in &it.blocked_by {
        let clears =
            blocked.clears_at.as_ref().map_or_else(String::new, |at| format!(" (until {})", clock(at)));
        lines.push(format!("  {} {}{clears}", coloured_as("waiting", "◌"), harmless(&blocked.detail)));
    }
    for stage in &it.stages {
        lines.push(stage_line(stage));
        lines.extend(stage.steps.iter().flatten().map(step_line));
    }
    lines.join("\n")
}

fn stage_line(stage: &Stage) -> String {
    let mark = match stage.status {
        StageStatus::Succeeded => "✓",
        StageStatus::Failed => "✗",
        StageStatus::Running | StageStatus::Cancelling => "●",
        StageStatus::Waiting => "◌",
        StageStatus::Pending | StageStatus::Queued | StageStatus::Cancelled | StageStatus::Skipped => "·",
    };
    let mut line = format!("  {mark} {:<24} {}", harmless(&stage.name), coloured(&word(stage.status)));
    if stage.finished_at.is_some()
        && let Some(took) = between(stage.started_at.as_deref(), stage.finished_at.as_deref())
    {
        line.push_str(&format!(" {}", dim(&took)));
    }
    line
}

fn step_line(step: &Step) -> String {
    let mut line = format!("      {:<22} {}", harmless(&step.name), coloured(&word(step.status)));
    if step.finished_at.is_some()
        && let Some(took) = between(step.started_at.as_deref(), step.finished_at.as_deref())
    {
        line.push_str(&format!(" {}", dim(&took)));
    }
    if matches!(step.status, StepStatus::Failed | StepStatus::Waiting)
        && let Some(detail) = step.detail.as_deref().or(step.cause.as_deref())
    {
        line.push_str(&format!(" {}", harmless(detail)));
    }
    line
}

/// Prints the current state.
pub(crate) fn show(client: &Client, out: &Output, id: &str) -> anyhow::Result<ExitCode> {
    let found = client.get::<Deployment>(&path(id))?;
    if out.json {
        say(&found.raw.to_string())?;
    } else {
        let name = name(client, &found.data);
        say(&format!("{}\n{}", tree(&name, &found.data), dim(&client.page(&path(&found.data.id)))))?;
    }
    Ok(ExitCode::SUCCESS)
}
