//! Lists and shows environments, their history and their queue.

use std::process::ExitCode;

use berth_api::deployed::DeployedPipeline;
use berth_api::environment::{EnvironmentState, HistoryEntry, Holder, WireEnvironment, WireLock};
use berth_api::session::{EtaBasis, Takeover, WireTicket};
use serde_json::{Value, json};

use super::target::EnvironmentRef;
use crate::client::{ApiClient, RECORDS_MAX, percent_encode};
use crate::output::time::{format_ago, format_clock, format_duration, format_time_left};
use crate::output::{
    CommandOutput, RawJson, bold, colour_word, commit_title, describe_commit, dim, or_dash, short_commit,
    strip_control_chars, wire_word,
};

/// Maximum number of pipelines whose environments are listed.
const PIPELINES_MAX: usize = 200;

pub(super) fn list_environments(
    client: &ApiClient,
    out: &CommandOutput,
    pipeline: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let pipelines = match pipeline {
        Some(pipeline) => vec![pipeline.to_owned()],
        None => {
            let all: Vec<DeployedPipeline> = client.list("/deployed", RECORDS_MAX)?.data;
            let with = all.into_iter().filter(|it| !it.environments.is_empty());
            with.map(|it| it.slug).take(PIPELINES_MAX).collect()
        }
    };
    let (mut raws, mut fields) = (Vec::new(), Vec::new());
    let mut rows = Vec::new();
    for pipeline in pipelines {
        let path = format!("/pipelines/{}/ephemeral-environments", percent_encode(&pipeline));
        let found = client.get::<Vec<WireEnvironment>>(&path)?;
        let raw_records = found.raw.as_array().into_iter().flatten();
        let records = found.data.iter().zip(raw_records);
        rows.extend(records.map(|(it, raw)| table_row(&pipeline, it, raw, out.is_terminal)));
        fields = found.raw.fields;
        if let Value::Array(records) = found.raw.value {
            raws.extend(records);
        }
    }
    // A narrow terminal drops the last columns first.
    let heading = ["environment", "holder", "expires", "reason", "queued", "state", "commit", "since"];
    let empty = "No environments. Declare them in a pipeline:\n  pipeline:\n    ephemeral_environments:\n      qa-1: { ttl: 2h }";
    let raw = RawJson { value: json!({ "data": raws }), fields };
    out.print_table(&raw, &heading, &rows, empty)?;
    Ok(ExitCode::SUCCESS)
}

fn table_row(pipeline: &str, it: &WireEnvironment, raw: &Value, is_terminal: bool) -> Vec<String> {
    let commit = it.deployed_commit_id.as_deref();
    let commit = match is_terminal {
        true => commit.map(|commit| commit_title(raw, commit)),
        false => commit.map(short_commit).map(str::to_owned),
    };
    let lock = it.lock.as_ref();
    vec![
        format!("{pipeline}/{}", it.env_name),
        lock.map_or_else(|| "free".to_owned(), |lock| holder_label(&lock.holder, lock.contact.as_deref())),
        or_dash(lock.and_then(|lock| lock.expires_at.as_deref()).map(format_time_left).as_deref()),
        or_dash(lock.and_then(|lock| lock.context.as_deref()).map(strip_control_chars).as_deref()),
        if it.queue_length == 0 { "-".to_owned() } else { it.queue_length.to_string() },
        state_word(it.state).to_owned(),
        or_dash(commit.as_deref()),
        lock.map_or_else(|| "-".to_owned(), |lock| format_ago(&lock.claimed_at)),
    ]
}

pub(super) fn print_environment(
    client: &ApiClient,
    out: &CommandOutput,
    place: &EnvironmentRef,
) -> anyhow::Result<ExitCode> {
    let found = place.load(client)?;
    out.print_reply(&found.raw, || describe(&found.data, &found.raw, place, client))?;
    Ok(ExitCode::SUCCESS)
}

fn describe(it: &WireEnvironment, raw: &Value, place: &EnvironmentRef, client: &ApiClient) -> String {
    let mut lines = vec![format!(
        "{}  {}",
        bold(&format!("{}/{}", place.pipeline, place.name)),
        colour_word(state_word(it.state))
    )];
    match &it.lock {
        None => {
            lines.push(format!(
                "{}: claim it with `berth env claim {}/{}`",
                colour_word("free"),
                place.pipeline,
                place.name
            ));
        }
        Some(lock) => {
            lines.push(format!(
                "holder    {} since {} ({}), fence {}",
                bold(&holder_label(&lock.holder, lock.contact.as_deref())),
                format_clock(&lock.claimed_at),
                format_ago(&lock.claimed_at),
                lock.fence
            ));
            if let Some(why) = &lock.context {
                lines.push(format!("reason    {}", strip_control_chars(why)));
            }
            lines.push(match &lock.expires_at {
                Some(at) => format!("expires   {} ({})", format_clock(at), format_time_left(at)),
                None => "expires   never".to_owned(),
            });
            if let Some(takeover) = &lock.takeover {
                lines.push(describe_takeover(takeover));
            }
            if let Some(commit) = &lock.commit_id {
                lines.push(format!("requested {}", strip_control_chars(short_commit(commit))));
            }
        }
    }
    let commit = it.deployed_commit_id.as_deref();
    let commit = describe_commit(raw).or_else(|| commit.map(short_commit).map(strip_control_chars));
    lines.push(format!("deployed  {}", or_dash(commit.as_deref())));
    lines.push(match it.queue_length {
        0 => "queue     empty".to_owned(),
        count => format!("queue     {count} waiting"),
    });
    if let Some(owner) = &it.configuration.owner {
        lines.push(format!("owner     {owner}"));
    }
    lines.push(dim(&place.dashboard_page(client)));
    lines.join("\n")
}

pub(super) fn list_history(
    client: &ApiClient,
    out: &CommandOutput,
    place: &EnvironmentRef,
    page: u32,
) -> anyhow::Result<ExitCode> {
    let found = client.get::<Vec<HistoryEntry>>(&format!("{}/history?page={page}", place.path()))?;
    let row = |it: &HistoryEntry| {
        vec![
            it.fence.to_string(),
            holder_label(&it.holder, it.contact.as_deref()),
            format_clock(&it.claimed_at),
            format_duration(it.duration_seconds),
            it.deployment_count.to_string(),
            it.end_reason.map_or_else(|| "active".to_owned(), end_word),
            or_dash(it.ended_by.as_ref().map(|by| strip_control_chars(&by.name)).as_deref()),
            or_dash(it.context.as_deref().map(strip_control_chars).as_deref()),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["fence", "holder", "claimed", "duration", "deployments", "end", "ended by", "reason"];
    out.print_table(&found.raw.into_list(), &heading, &rows, "No sessions yet.")?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn list_queue(
    client: &ApiClient,
    out: &CommandOutput,
    place: &EnvironmentRef,
) -> anyhow::Result<ExitCode> {
    let found = client.get::<Vec<WireTicket>>(&format!("{}/queue", place.path()))?;
    let row = |it: &WireTicket| {
        vec![
            it.position.map_or_else(|| "-".to_owned(), |position| position.to_string()),
            holder_label(&it.holder, it.contact.as_deref()),
            format_ago(&it.created_at),
            it.eta_seconds.map_or_else(
                || "-".to_owned(),
                |seconds| match it.eta_basis {
                    Some(EtaBasis::Expiry) => format!("in at most {}", format_duration(seconds)),
                    _ => format!("in about {}", format_duration(seconds)),
                },
            ),
            or_dash(it.commit_id.as_deref().map(short_commit)),
            or_dash(it.context.as_deref().map(strip_control_chars).as_deref()),
            it.ticket_id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["position", "user", "since", "expected", "commit", "reason", "ticket"];
    out.print_table(&found.raw.into_list(), &heading, &rows, "The queue is empty.")?;
    Ok(ExitCode::SUCCESS)
}

/// The holder with the owner of an agent and the contact, if there are any: `ci-bot for grace`.
pub(super) fn holder_label(holder: &Holder, contact: Option<&str>) -> String {
    let name = strip_control_chars(&holder.name);
    let name = match &holder.owner {
        Some(owner) => format!("{name}, agent of {}", strip_control_chars(&owner.name)),
        None => name,
    };
    match contact {
        Some(contact) => format!("{name} for {}", strip_control_chars(contact)),
        None => name,
    }
}

fn describe_takeover(takeover: &Takeover) -> String {
    let when =
        takeover.at.as_deref().map_or_else(|| "after the current deployment".to_owned(), format_time_left);
    let why = takeover.reason.as_deref().map(|why| format!(" (“{}”)", strip_control_chars(why)));
    format!("takeover  by {} {when}{}", strip_control_chars(&takeover.by.name), why.unwrap_or_default())
}

/// Who holds an environment, since when and why, as a sentence without its period.
pub(super) fn describe_holder(name: &str, lock: &WireLock) -> String {
    let why =
        lock.context.as_ref().map_or_else(String::new, |why| format!(" (“{}”)", strip_control_chars(why)));
    format!(
        "{} has held {name} since {} ({}){why}",
        holder_label(&lock.holder, lock.contact.as_deref()),
        format_clock(&lock.claimed_at),
        format_ago(&lock.claimed_at)
    )
}

/// Returns the word that the CLI uses for the reason why a session ended.
fn end_word(reason: impl serde::Serialize) -> String {
    match wire_word(reason).as_str() {
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
