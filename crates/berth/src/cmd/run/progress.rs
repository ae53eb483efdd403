//! Prints each attempt of a local run: heading, log and outcome.

use std::collections::BTreeSet;
use std::process::ExitCode;

use berth_api::deployment::{
    AttemptStatus, DeploymentStage, DeploymentStep, StageKind, StepAttempt, WireDeployment,
};

use crate::client::{ApiClient, ApiReply, percent_encode};
use crate::cmd::{logs, watch};
use crate::output::time::format_elapsed;
use crate::output::{bold, colour_word, dim, print_line, print_note, strip_control_chars, wire_word};

/// Prints the attempts one at a time. If steps run in parallel, their logs are printed one after the other.
pub(super) fn follow_to_end(client: &ApiClient, id: &str) -> anyhow::Result<ExitCode> {
    let path = watch::deployment_path(id);
    let mut shown = BTreeSet::new();
    let mut told = BTreeSet::new();
    let mut seen = client.get::<WireDeployment>(&path)?;
    loop {
        let next = started_attempts(&seen.data)
            .find(|(_, step, attempt)| !shown.contains(&(step.id.clone(), attempt.number)));
        if let Some((stage, step, attempt)) = next {
            shown.insert((step.id.clone(), attempt.number));
            print_line(&attempt_heading(stage, step, attempt))?;
            let log = format!("{path}/steps/{}/logs?attempt={}", percent_encode(&step.id), attempt.number);
            logs::follow_log(client, &log)?;
            let (id, number) = (step.id.clone(), attempt.number);
            seen = wait_for_attempt(client, &path, &id, number)?;
            print_line(&attempt_summary(&seen.data, &id, number))?;
            continue;
        }
        if seen.data.finished_at.is_some() {
            break;
        }
        for blocked in &seen.data.blocked_by {
            if told.insert(blocked.detail.clone()) {
                print_note(&dim(&format!("berth: waiting: {}", strip_control_chars(&blocked.detail))));
            }
        }
        let etag = seen.etag.clone().unwrap_or_default();
        if let Some(news) = client.get_if_changed(&path, &etag)? {
            seen = news;
        }
    }
    print_line(&run_summary(&seen.data))?;
    Ok(watch::exit_code_for(seen.data.status))
}

/// Waits until the attempt has finished, which happens shortly after its log ends.
fn wait_for_attempt(
    client: &ApiClient,
    path: &str,
    id: &str,
    number: u32,
) -> anyhow::Result<ApiReply<WireDeployment>> {
    let mut seen = client.get::<WireDeployment>(path)?;
    while find_attempt(&seen.data, id, number).is_some_and(|it| it.status == AttemptStatus::Running) {
        let etag = seen.etag.clone().unwrap_or_default();
        if let Some(news) = client.get_if_changed(path, &etag)? {
            seen = news;
        }
    }
    Ok(seen)
}

fn find_attempt<'d>(it: &'d WireDeployment, id: &str, number: u32) -> Option<&'d StepAttempt> {
    let found = started_attempts(it).find(|(_, step, attempt)| step.id == id && attempt.number == number);
    found.map(|(_, _, attempt)| attempt)
}

fn started_attempts(
    it: &WireDeployment,
) -> impl Iterator<Item = (&DeploymentStage, &DeploymentStep, &StepAttempt)> {
    let steps =
        it.stages.iter().flat_map(|stage| stage.steps.iter().flatten().map(move |step| (stage, step)));
    steps.flat_map(|(stage, step)| step.attempts.iter().map(move |attempt| (stage, step, attempt)))
}

fn attempt_heading(stage: &DeploymentStage, step: &DeploymentStep, attempt: &StepAttempt) -> String {
    let again = if attempt.number > 1 { format!(", attempt {}", attempt.number) } else { String::new() };
    bold(&format!("── {} · {}{again}", strip_control_chars(&stage.name), strip_control_chars(&step.name)))
}

fn attempt_summary(it: &WireDeployment, id: &str, number: u32) -> String {
    let Some(attempt) = find_attempt(it, id, number) else { return String::new() };
    let took = format_elapsed(Some(&attempt.started_at), attempt.finished_at.as_deref()).unwrap_or_default();
    let detail = attempt.detail.as_deref().filter(|_| attempt.status != AttemptStatus::Succeeded);
    let why = detail.map_or_else(String::new, |why| format!(": {}", strip_control_chars(why)));
    format!("   {} in {took}{why}", colour_word(&wire_word(attempt.status)))
}

fn run_summary(it: &WireDeployment) -> String {
    let took = format_elapsed(it.started_at.as_deref(), it.finished_at.as_deref()).unwrap_or_default();
    let failed = it.stages.iter().find(|stage| stage.cause.is_some());
    let place = it.stages.iter().rfind(|stage| stage.kind != StageKind::Build);
    let name = failed.or(place).map_or("", |stage| stage.name.as_str());
    let why = it.detail.as_deref().map_or_else(String::new, |why| format!(": {}", strip_control_chars(why)));
    format!("{} {} in {took}{why}", bold(&strip_control_chars(name)), colour_word(&wire_word(it.status)))
}
