//! Prints each attempt of a local run: heading, log and outcome.

use std::collections::BTreeSet;
use std::process::ExitCode;

use berth_api::deployment::{Attempt, AttemptStatus, Deployment, Stage, StageKind, Step};

use crate::client::{Client, Reply, escaped};
use crate::cmd::{logs, watch};
use crate::output::time::between;
use crate::output::{bold, coloured, dim, harmless, note, say, word};

/// Prints attempts one after the other; the log of a parallel step is printed afterwards.
pub(super) fn to_the_end(client: &Client, id: &str) -> anyhow::Result<ExitCode> {
    let path = watch::path(id);
    let mut shown = BTreeSet::new();
    let mut told = BTreeSet::new();
    let mut seen = client.get::<Deployment>(&path)?;
    loop {
        let next =
            begun(&seen.data).find(|(_, step, attempt)| !shown.contains(&(step.id.clone(), attempt.number)));
        if let Some((stage, step, attempt)) = next {
            shown.insert((step.id.clone(), attempt.number));
            say(&heading(stage, step, attempt))?;
            let log = format!("{path}/steps/{}/logs?attempt={}", escaped(&step.id), attempt.number);
            logs::follow(client, &log)?;
            let (id, number) = (step.id.clone(), attempt.number);
            seen = when_over(client, &path, &id, number)?;
            say(&ending(&seen.data, &id, number))?;
            continue;
        }
        if seen.data.finished_at.is_some() {
            break;
        }
        for blocked in &seen.data.blocked_by {
            if told.insert(blocked.detail.clone()) {
                note(&dim(&format!("berth: waiting: {}", harmless(&blocked.detail))));
            }
        }
        let etag = seen.etag.clone().unwrap_or_default();
        if let Some(news) = client.changed(&path, &etag)? {
            seen = news;
        }
    }
    say(&verdict(&seen.data))?;
    Ok(watch::verdict(seen.data.status))
}

/// Waits for the end of an attempt, which comes shortly after the end of its log.
fn when_over(client: &Client, path: &str, id: &str, number: u32) -> anyhow::Result<Reply<Deployment>> {
    let mut seen = client.get::<Deployment>(path)?;
    while attempt(&seen.data, id, number).is_some_and(|it| it.status == AttemptStatus::Running) {
        let etag = seen.etag.clone().unwrap_or_default();
        if let Some(news) = client.changed(path, &etag)? {
            seen = news;
        }
    }
    Ok(seen)
}

fn attempt<'d>(it: &'d Deployment, id: &str, number: u32) -> Option<&'d Attempt> {
    let found = begun(it).find(|(_, step, attempt)| step.id == id && attempt.number == number);
    found.map(|(_, _, attempt)| attempt)
}

fn begun(it: &Deployment) -> impl Iterator<Item = (&Stage, &Step, &Attempt)> {
    let steps =
        it.stages.iter().flat_map(|stage| stage.steps.iter().flatten().map(move |step| (stage, step)));
    steps.flat_map(|(stage, step)| step.attempts.iter().map(move |attempt| (stage, step, attempt)))
}

fn heading(stage: &Stage, step: &Step, attempt: &Attempt) -> String {
    let again = if attempt.number > 1 { format!(", attempt {}", attempt.number) } else { String::new() };
    bold(&format!("── {} · {}{again}", harmless(&stage.name), harmless(&step.name)))
}

fn ending(it: &Deployment, id: &str, number: u32) -> String {
    let Some(attempt) = attempt(it, id, number) else { return String::new() };
    let took = between(Some(&attempt.started_at), attempt.finished_at.as_deref()).unwrap_or_default();
    let detail = attempt.detail.as_deref().filter(|_| attempt.status != AttemptStatus::Succeeded);
    let why = detail.map_or_else(String::new, |why| format!(": {}", harmless(why)));
    format!("   {} in {took}{why}", coloured(&word(attempt.status)))
}

fn verdict(it: &Deployment) -> String {
    let took = between(it.started_at.as_deref(), it.finished_at.as_deref()).unwrap_or_default();
    let failed = it.stages.iter().find(|stage| stage.cause.is_some());
    let place = it.stages.iter().rfind(|stage| stage.kind != StageKind::Build);
    let name = failed.or(place).map_or("", |stage| stage.name.as_str());
    let why = it.detail.as_deref().map_or_else(String::new, |why| format!(": {}", harmless(why)));
    format!("{} {} in {took}{why}", bold(&harmless(name)), coloured(&word(it.status)))
}
