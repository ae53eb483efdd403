//! Lists and shows environments, their history and their queue.

use std::process::ExitCode;

use berth_api::deployed::Deployed;
use berth_api::environment::{Environment, EnvironmentState, HistoryEntry};
use berth_api::session::{EtaBasis, Ticket};
use serde_json::{Value, json};

use super::target::Place;
use crate::client::{Client, RECORDS_MAX, escaped};
use crate::output::time::{ago, ahead, clock, length};
use crate::output::{Output, bold, coloured, dim, harmless, or_dash, short_commit, word};

/// Maximum number of pipelines whose environments are listed.
const PIPELINES_MAX: usize = 200;

pub(super) fn list(client: &Client, out: &Output, pipeline: Option<&str>) -> anyhow::Result<ExitCode> {
    let pipelines = match pipeline {
        Some(pipeline) => vec![pipeline.to_owned()],
        None => {
            let all: Vec<Deployed> = client.list("/deployed", RECORDS_MAX)?.data;
            let with = all.into_iter().filter(|it| !it.environments.is_empty());
            with.map(|it| it.slug).take(PIPELINES_MAX).collect()
        }
    };
    let mut raws = Vec::new();
    let mut rows = Vec::new();
    for pipeline in pipelines {
        let path = format!("/pipelines/{}/ephemeral-environments", escaped(&pipeline));
        let found = client.get::<Vec<Environment>>(&path)?;
        rows.extend(found.data.iter().map(|it| row(&pipeline, it)));
        if let Value::Array(records) = found.raw {
            raws.extend(records);
        }
    }
    let heading = ["environment", "holder", "since", "expires", "commit", "state", "queued", "reason"];
    let empty = "No environments. Declare them in a pipeline:\n  pipeline:\n    ephemeral_environments:\n      qa-1: { ttl: 2h }";
    out.table(&json!({ "data": raws }), &heading, &rows, empty)?;
    Ok(ExitCode::SUCCESS)
}

fn row(pipeline: &str, it: &Environment) -> Vec<String> {
    let lock = it.lock.as_ref();
    vec![
        format!("{pipeline}/{}", it.env_name),
        lock.map_or_else(|| "free".to_owned(), |lock| harmless(&lock.holder.name)),
        lock.map_or_else(|| "-".to_owned(), |lock| ago(&lock.claimed_at)),
        or_dash(lock.and_then(|lock| lock.expires_at.as_deref()).map(ahead).as_deref()),
        or_dash(it.deployed_commit_id.as_deref().map(short_commit)),
        state_word(it.state).to_owned(),
        if it.queue_length == 0 { "-".to_owned() } else { it.queue_length.to_string() },
        or_dash(lock.and_then(|lock| lock.context.as_deref()).map(harmless).as_deref()),
    ]
}

pub(super) fn show(client: &Client, out: &Output, place: &Place) -> anyhow::Result<ExitCode> {
    let found = place.view(client)?;
    out.told(&found.raw, || describe(&found.data, place, client))?;
    Ok(ExitCode::SUCCESS)
}

fn describe(it: &Environment, place: &Place, client: &Client) -> String {
    let mut lines = vec![format!(
        "{}  {}",
        bold(&format!("{}/{}", place.pipeline, place.name)),
        coloured(state_word(it.state))
    )];
    match &it.lock {
        None => {
            lines.push(format!(
                "{}: claim it with `berth env claim {}/{}`",
                coloured("free"),
                place.pipeline,
                place.name
            ));
        }
        Some(lock) => {
            lines.push(format!(
                "holder    {} since {} ({}), fence {}",
                bold(&harmless(&lock.holder.name)),
                clock(&lock.claimed_at),
                ago(&lock.claimed_at),
                lock.fence
            ));
            if let Some(why) = &lock.context {
                lines.push(format!("reason    {}", harmless(why)));
            }
            lines.push(match &lock.expires_at {
                Some(at) => format!("expires   {} ({})", clock(at), ahead(at)),
                None => "expires   never".to_owned(),
            });
            if let Some(commit) = &lock.commit_id {
                lines.push(format!("requested {commit}"));
            }
        }
    }
    lines.push(format!("deployed  {}", or_dash(it.deployed_commit_id.as_deref())));
    lines.push(match it.queue_length {
        0 => "queue     empty".to_owned(),
        count => format!("queue     {count} waiting"),
    });
    lines.push(dim(&place.page(client)));
    lines.join("\n")
}

pub(super) fn history(client: &Client, out: &Output, place: &Place, page: u32) -> anyhow::Result<ExitCode> {
    let found = client.get::<Vec<HistoryEntry>>(&format!("{}/history?page={page}", place.path()))?;
    let row = |it: &HistoryEntry| {
        vec![
            it.fence.to_string(),
            harmless(&it.holder.name),
            clock(&it.claimed_at),
            length(it.duration_seconds),
            it.deployment_count.to_string(),
            it.end_reason.map_or_else(|| "active".to_owned(), end_word),
            or_dash(it.ended_by.as_ref().map(|by| harmless(&by.name)).as_deref()),
            or_dash(it.context.as_deref().map(harmless).as_deref()),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["fence", "holder", "claimed", "duration", "deployments", "end", "ended by", "reason"];
    out.table(&json!({ "data": found.raw }), &heading, &rows, "No sessions yet.")?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn queue(client: &Client, out: &Output, place: &Place) -> anyhow::Result<ExitCode> {
    let found = client.get::<Vec<Ticket>>(&format!("{}/queue", place.path()))?;
    let row = |it: &Ticket| {
        vec![
            it.position.map_or_else(|| "-".to_owned(), |position| position.to_string()),
            harmless(&it.holder.name),
            ago(&it.created_at),
            it.eta_seconds.map_or_else(
                || "-".to_owned(),
                |seconds| match it.eta_basis {
                    Some(EtaBasis::Expiry) => format!("in at most {}", length(seconds)),
                    _ => format!("in about {}", length(seconds)),
                },
            ),
            or_dash(it.commit_id.as_deref()),
            or_dash(it.context.as_deref().map(harmless).as_deref()),
            it.ticket_id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["position", "user", "since", "expected", "commit", "reason", "ticket"];
    out.table(&json!({ "data": found.raw }), &heading, &rows, "The queue is empty.")?;
    Ok(ExitCode::SUCCESS)
}

/// The end of a session as this program calls it.
fn end_word(reason: impl serde::Serialize) -> String {
    match word(reason).as_str() {
        "overridden" => "taken over".to_owned(),
        reason => reason.replace('_', " "),
    }
}

fn state_word(state: EnvironmentState) -> &'static str {
    match state {
        EnvironmentState::Clean => "clean",
        EnvironmentState::Dirty => "dirty",
        EnvironmentState::Resetting => "resetting",
        EnvironmentState::Contested => "handing over",
        EnvironmentState::Unknown => "unknown",
    }
}
