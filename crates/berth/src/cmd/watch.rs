//! Watches a deployment until it finishes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use berth_api::deployment::{
    BlockedKind, DeploymentStage, DeploymentStatus, DeploymentStep, StageStatus, StepStatus, WireDeployment,
};
use berth_api::pipeline::WirePipeline;

use crate::client::{ApiClient, ClientError, exit_code, percent_encode};
use crate::output::time::{format_ago, format_clock, format_elapsed};
use crate::output::{
    CommandOutput, LiveDisplay, bold, colour_like, colour_word, dim, print_line, short_commit,
    strip_control_chars, wire_word,
};

/// Give up watching if the server is unreachable for this long.
const OUTAGE_MAX: Duration = Duration::from_secs(300);
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) fn deployment_path(id: &str) -> String {
    format!("/deployments/{}", percent_encode(id))
}

/// Watches the deployment and prints its outcome; returns the exit code.
pub(crate) fn watch_to_end(client: &ApiClient, out: &CommandOutput, id: &str) -> anyhow::Result<ExitCode> {
    let ended = wait_until_finished(client, id)?;
    out.print_reply(&ended.raw, || summary_line(client, &ended.data))?;
    Ok(exit_code_for(ended.data.status))
}

/// Waits until the deployment finishes and shows its progress.
pub(crate) fn wait_until_finished(
    client: &ApiClient,
    id: &str,
) -> anyhow::Result<crate::client::ApiReply<WireDeployment>> {
    let path = deployment_path(id);
    let mut live = LiveDisplay::new();
    let mut seen = client.get::<WireDeployment>(&path)?;
    let name = load_display_name(client, &seen.data);
    let page = dim(&client.dashboard_url(&path));
    let mut heard = Instant::now();
    while seen.data.finished_at.is_none() {
        live.show(&format!("{}\n{page}", render_tree(&name, &seen.data)));
        let etag = seen.etag.clone().unwrap_or_default();
        match client.get_if_changed(&path, &etag) {
            Ok(Some(news)) => (seen, heard) = (news, Instant::now()),
            Ok(None) => heard = Instant::now(),
            // Keep watching, because the deployment continues after a server restart.
            Err(error) if ClientError::is_transient_error(&error) && heard.elapsed() < OUTAGE_MAX => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            Err(error) => return Err(error),
        }
    }
    live.clear();
    if !live_is_enough(seen.data.status) {
        live.show(&render_tree(&name, &seen.data));
    }
    Ok(seen)
}

/// Returns whether the live display may be erased at the end. It stays on the screen if the deployment has not
/// succeeded.
fn live_is_enough(status: DeploymentStatus) -> bool {
    status == DeploymentStatus::Succeeded
}

pub(crate) fn exit_code_for(status: DeploymentStatus) -> ExitCode {
    match status {
        DeploymentStatus::Failed | DeploymentStatus::Cancelled | DeploymentStatus::Superseded => {
            ExitCode::from(exit_code::FAILED)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Returns one line with the outcome and the URL.
pub(crate) fn summary_line(client: &ApiClient, it: &WireDeployment) -> String {
    let page = dim(&client.dashboard_url(&deployment_path(&it.id)));
    let took = format_elapsed(it.started_at.as_deref(), it.finished_at.as_deref());
    let took =
        took.filter(|_| it.finished_at.is_some()).map_or_else(String::new, |took| format!(" in {took}"));
    format!(
        "{} {}{took}\n{page}",
        title_text(&load_display_name(client, it), it),
        colour_word(&wire_word(it.status))
    )
}

/// Returns the deployment's display name, with its environment if it has one. Pipelines and environments number their
/// deployments separately: "shop #2" is not "shop/qa-1 #2".
pub(crate) fn display_name(slug: Option<&str>, it: &WireDeployment) -> String {
    let parts = [slug.map(strip_control_chars), it.env_name.clone()];
    let place = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
    format!("{place} #{}", it.number).trim_start().to_owned()
}

fn load_display_name(client: &ApiClient, it: &WireDeployment) -> String {
    display_name(load_pipeline_slug(client, &it.pipeline_id).as_deref(), it)
}

/// Returns `None` if the pipeline was deleted.
pub(crate) fn load_pipeline_slug(client: &ApiClient, pipeline: &str) -> Option<String> {
    let found = client.get::<WirePipeline>(&format!("/pipelines/{}", percent_encode(pipeline))).ok();
    found.map(|found| found.data.slug)
}

fn title_text(name: &str, it: &WireDeployment) -> String {
    bold(&format!("Deployment {name} ({})", strip_control_chars(short_commit(&it.commit_id))))
}

/// Renders stages, steps and what the deployment is waiting for.
fn render_tree(name: &str, it: &WireDeployment) -> String {
    let mut lines = vec![format!(
        "{} {}  by {}, {}",
        title_text(name, it),
        colour_word(&wire_word(it.status)),
        strip_control_chars(&it.actor.name),
        format_ago(&it.created_at)
    )];
    let detail = it.detail.as_deref().or(it.cause.as_deref());
    lines.extend(detail.map(|detail| format!("  {}", strip_control_chars(detail))));
    for blocked in &it.blocked_by {
        let clears = blocked
            .clears_at
            .as_ref()
            .map_or_else(String::new, |at| format!(" (until {})", format_clock(at)));
        lines.push(format!(
            "  {} {}{clears}",
            colour_like("waiting", "◌"),
            strip_control_chars(&blocked.detail)
        ));
        if blocked.kind == BlockedKind::Approval {
            lines.push(dim(&format!("    approve it with `berth approve {}`", it.id)));
        }
    }
    for stage in &it.stages {
        lines.push(stage_line(stage));
        lines.extend(stage.steps.iter().flatten().map(step_line));
    }
    lines.join("\n")
}

fn stage_line(stage: &DeploymentStage) -> String {
    let mark = match stage.status {
        StageStatus::Succeeded => "✓",
        StageStatus::Failed => "✗",
        StageStatus::Running | StageStatus::Cancelling => "●",
        StageStatus::Waiting => "◌",
        StageStatus::Pending | StageStatus::Queued | StageStatus::Cancelled | StageStatus::Skipped => "·",
    };
    let mut line = format!(
        "  {mark} {:<24} {}",
        strip_control_chars(&stage.name),
        colour_word(&wire_word(stage.status))
    );
    if stage.finished_at.is_some()
        && let Some(took) = format_elapsed(stage.started_at.as_deref(), stage.finished_at.as_deref())
    {
        line.push_str(&format!(" {}", dim(&took)));
    }
    line
}

fn step_line(step: &DeploymentStep) -> String {
    let mut line =
        format!("      {:<22} {}", strip_control_chars(&step.name), colour_word(&wire_word(step.status)));
    if step.finished_at.is_some()
        && let Some(took) = format_elapsed(step.started_at.as_deref(), step.finished_at.as_deref())
    {
        line.push_str(&format!(" {}", dim(&took)));
    }
    if matches!(step.status, StepStatus::Failed | StepStatus::Waiting)
        && let Some(detail) = step.detail.as_deref().or(step.cause.as_deref())
    {
        line.push_str(&format!(" {}", strip_control_chars(detail)));
    }
    line
}

/// Prints the deployment's current state.
pub(crate) fn print_deployment(
    client: &ApiClient,
    out: &CommandOutput,
    id: &str,
) -> anyhow::Result<ExitCode> {
    let found = client.get::<WireDeployment>(&deployment_path(id))?;
    if out.json {
        print_line(&found.raw.to_string())?;
    } else {
        let name = load_display_name(client, &found.data);
        print_line(&format!(
            "{}\n{}",
            render_tree(&name, &found.data),
            dim(&client.dashboard_url(&deployment_path(&found.data.id)))
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
