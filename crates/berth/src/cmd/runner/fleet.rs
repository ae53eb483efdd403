//! `berth runner list`, `show`, `create` and `delete`: the runners of an organization.

use std::process::ExitCode;

use berth_api::runners::{RunnerCreated, RunnerNew, WireRunner};
use clap_complete::ArgValueCandidates;

use crate::client::{ApiClient, ClientError, RECORDS_MAX, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::time::{format_ago, format_time_left};
use crate::output::{bold, colour_word, dim, or_dash, print_note, strip_control_chars, wire_word};

#[derive(clap::Subcommand)]
pub(crate) enum RunnerCommand {
    /// List runners, their labels and their load
    List {
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Show a runner and the steps that it is running
    Show {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(flatten)]
        named: NamedRunner,
    },
    /// Create a runner; its registration token is printed only once
    Create {
        #[command(flatten)]
        remote: RemoteArgs,
        /// Name [default: the host name of the machine]
        name: Option<String>,
        /// Labels that it may have, besides its operating system and architecture
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        labels: Vec<String>,
    },
    /// Delete a runner; its running steps are stopped
    Delete {
        #[command(flatten)]
        remote: RemoteArgs,
        #[command(flatten)]
        named: NamedRunner,
    },
}

#[derive(clap::Args)]
pub(crate) struct NamedRunner {
    /// Name or id of the runner
    #[arg(value_name = "RUNNER", add = ArgValueCandidates::new(complete::runners))]
    runner: String,
}

impl NamedRunner {
    fn path(&self, client: &ApiClient) -> anyhow::Result<String> {
        let all: Vec<WireRunner> = client.list("/runners", RECORDS_MAX)?.data;
        let found = all.iter().find(|it| it.id == self.runner || it.name.as_ref() == Some(&self.runner));
        let found = found.ok_or_else(|| {
            let name = strip_control_chars(&self.runner);
            ClientError::NotFound(format!("no runner {name}; list them with `berth runner list`"))
        })?;
        Ok(format!("/runners/{}", percent_encode(&found.id)))
    }
}

pub(super) fn run(command: &RunnerCommand) -> anyhow::Result<ExitCode> {
    match command {
        RunnerCommand::List { remote } => list(remote)?,
        RunnerCommand::Show { remote, named } => {
            let client = remote.client()?;
            let found = client.get::<WireRunner>(&named.path(&client)?)?;
            remote.output().print_reply(&found.raw, || describe(&client, &found.data))?;
        }
        RunnerCommand::Create { remote, name, labels } => create(remote, name.clone(), labels.clone())?,
        RunnerCommand::Delete { remote, named } => {
            let client = remote.client()?;
            let gone = client.delete::<WireRunner>(&named.path(&client)?)?;
            remote
                .output()
                .print_reply(&gone.raw, || format!("Deleted the runner {}.", runner_name(&gone.data)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(remote: &RemoteArgs) -> anyhow::Result<()> {
    let found = remote.client()?.list::<WireRunner>("/runners", RECORDS_MAX)?;
    let row = |it: &WireRunner| {
        vec![
            runner_name(it),
            wire_word(it.state),
            it.slots.map_or_else(|| "-".to_owned(), |slots| format!("{} of {slots}", it.running.len())),
            or_dash(it.last_seen_at.as_deref().map(format_ago).as_deref()),
            or_dash(Some(&strip_control_chars(&it.labels.join(", ")))),
            or_dash(it.isolation.as_deref()),
            or_dash(it.version.as_deref().map(strip_control_chars).as_deref()),
            it.id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["name", "state", "busy", "last seen", "labels", "isolation", "version", "runner id"];
    let empty = "No runners. Create one with: berth runner create NAME";
    remote.output().print_table(&found.raw, &heading, &rows, empty)
}

/// Prints the token to standard output and everything else to standard error, so that it can be piped.
fn create(remote: &RemoteArgs, name: Option<String>, labels: Vec<String>) -> anyhow::Result<()> {
    let client = remote.client()?;
    let out = remote.output();
    let made = client.post::<RunnerCreated>("/runners", &RunnerNew { name, labels })?;
    if !out.json {
        let expires = made.data.record.token_expires_at.as_deref().map(format_time_left);
        let expires = expires.map_or_else(String::new, |left| format!(", expires {left}"));
        print_note(&format!(
            "Created the runner {}. Start it on its machine:\n  BERTH_RUNNER_TOKEN=TOKEN berth runner --server {}\n\
             Registration token (not shown again{expires}):",
            runner_name(&made.data.record),
            client.server()
        ));
    }
    out.print_reply(&made.raw, || made.data.token.clone().unwrap_or_default())
}

fn runner_name(it: &WireRunner) -> String {
    it.name.as_deref().map_or_else(|| it.id.clone(), strip_control_chars)
}

fn describe(client: &ApiClient, it: &WireRunner) -> String {
    let mut lines = vec![format!("{}  {}", bold(&runner_name(it)), colour_word(&wire_word(it.state)))];
    let slots = it.slots.map_or_else(String::new, |slots| format!(" of {slots} slots"));
    lines.push(format!("busy       {}{slots}", it.running.len()));
    lines.push(format!("labels     {}", or_dash(Some(&strip_control_chars(&it.labels.join(", "))))));
    lines.push(format!("isolation  {}", or_dash(it.isolation.as_deref())));
    if !it.exposed.is_empty() {
        lines.push(format!("exposed    {}", strip_control_chars(&it.exposed.join(", "))));
    }
    lines.extend(it.version.as_deref().map(|it| format!("version    {}", strip_control_chars(it))));
    lines.extend(it.last_seen_at.as_deref().map(|at| format!("last seen  {}", format_ago(at))));
    lines.extend(
        it.token_expires_at.as_deref().map(|at| format!("its token expires {}", format_time_left(at))),
    );
    for step in &it.running {
        let (name, since) = (strip_control_chars(&step.step), format_ago(&step.since));
        lines.push(format!("  {name} of {}, started {since}", step.deployment_id));
    }
    lines.push(dim(&client.dashboard_url("/settings/runners")));
    lines.join("\n")
}
