//! Watches a deployment until it finishes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use berth_api::deployment::{
    BlockedKind, DeploymentStage, DeploymentStatus, DeploymentStep, StageStatus, StepStatus, WireDeployment,
};
use berth_api::pipeline::WirePipeline;

use super::signals;
use crate::client::{ApiClient, ApiReply, ClientError, exit_code, percent_encode};
use crate::output::time::{format_ago, format_clock, format_elapsed};
use crate::output::{
    CommandOutput, LiveDisplay, bold, colour_like, colour_word, describe_commit, dim, print_line, print_note,
    short_commit, strip_control_chars, wire_word,
};

/// Give up watching if the server is unreachable for this long.
const OUTAGE_MAX: Duration = Duration::from_secs(300);
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) fn deployment_path(id: &str) -> String {
    format!("/deployments/{}", percent_encode(id))
}

/// Watches the deployment and prints its outcome; returns the exit code. After an interrupt, says that the deployment
/// continues.
pub(crate) fn watch_to_end(client: &ApiClient, out: &CommandOutput, id: &str) -> anyhow::Result<ExitCode> {
    let found = client.get::<WireDeployment>(&deployment_path(id))?.data;
    let name = reference_name(client, &found);
    if found.finished_at.is_none() {
        note_on_interrupt(format!(
            "The deployment continues. Watch it with `berth status {name} --watch`, cancel it with \
             `berth deployment cancel {name}`."
        ))?;
    }
    follow_to_end(client, out, id)
}

/// Like [`watch_to_end`], for a caller that handles interrupts.
pub(crate) fn follow_to_end(client: &ApiClient, out: &CommandOutput, id: &str) -> anyhow::Result<ExitCode> {
    let ended = wait_until_finished(client, id)?;
    out.print_reply(&ended.raw, || summary_line(client, &ended.data))?;
    if ended.data.status == DeploymentStatus::Failed {
        let name = reference_name(client, &ended.data);
        out.print_hint(&format!(
            "See its log: berth logs {name}    Explain the failure: berth analyze {name}"
        ));
    }
    Ok(exit_code_for(ended.data.status))
}

/// From now on, an interrupt prints this text and exits.
pub(crate) fn note_on_interrupt(text: String) -> anyhow::Result<()> {
    signals::on_signal(move |_| {
        print_note(&text);
        std::process::exit(i32::from(exit_code::INTERRUPTED));
    })
}

/// Waits until the deployment finishes and shows its progress.
pub(crate) fn wait_until_finished(client: &ApiClient, id: &str) -> anyhow::Result<ApiReply<WireDeployment>> {
    let path = deployment_path(id);
    let mut live = LiveDisplay::new();
    let mut seen = client.get::<WireDeployment>(&path)?;
    let name = load_display_name(client, &seen.data);
    let mut heard = Instant::now();
    if seen.data.finished_at.is_none() {
        print_note(&dim(&client.dashboard_url(&path)));
    }
    while seen.data.finished_at.is_none() {
        live.show(&render_tree(&name, &seen));
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
        live.show(&render_tree(&name, &seen));
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

/// Returns the name that commands accept for the deployment, for example "shop#2".
pub(crate) fn reference_name(client: &ApiClient, it: &WireDeployment) -> String {
    load_pipeline_slug(client, &it.pipeline_id)
        .map_or_else(|| it.id.clone(), |slug| to_reference(&display_name(Some(&slug), it)))
}

/// Turns the display name "shop #2" into "shop#2".
fn to_reference(name: &str) -> String {
    name.replacen(" #", "#", 1)
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
fn render_tree(name: &str, seen: &ApiReply<WireDeployment>) -> String {
    let it = &seen.data;
    let mut lines = vec![format!(
        "{} {}  by {}, {}",
        title_text(name, it),
        colour_word(&wire_word(it.status)),
        strip_control_chars(&it.actor.name),
        format_ago(&it.created_at)
    )];
    lines.extend(describe_commit(&seen.raw).map(|commit| format!("  {commit}")));
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
            // The name of a deleted pipeline is not known.
            let reference = if name.starts_with('#') { it.id.clone() } else { to_reference(name) };
            lines.push(dim(&format!("    approve it with `berth approve {reference}`")));
            let comparison = seen.raw["compareUrl"].as_str();
            lines.extend(comparison.map(|url| dim(&format!("    changes: {}", strip_control_chars(url)))));
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
        out.print_json(&found.raw)?;
    } else {
        let name = load_display_name(client, &found.data);
        print_line(&format!(
            "{}\n{}",
            render_tree(&name, &found),
            dim(&client.dashboard_url(&deployment_path(&found.data.id)))
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
