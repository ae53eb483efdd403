//! `berth event`: the audit log.

mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use berth_api::event::{ChainHead, ChainVerification, EventsVerify, WireEvent};
use berth_store::audit::AuditHead;
use clap_complete::ArgValueCandidates;

use crate::client::{ApiClient, ClientError, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::time::format_clock;
use crate::output::{CommandOutput, dim, print_line, strip_control_chars};

/// Pause before a broken stream is reopened.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct EventArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: EventCommand,
}

#[derive(clap::Subcommand)]
enum EventCommand {
    /// List events, newest first
    List {
        #[command(flatten)]
        filter: EventListFilter,
        /// Maximum number of events
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=2000))]
        limit: u16,
    },
    /// Print events as they happen
    Follow {
        #[command(flatten)]
        filter: EventListFilter,
    },
    /// Verify the audit log: detects changed, removed, inserted and reordered events
    Verify {
        /// Exported file to verify offline [default: the server verifies its own]
        file: Option<PathBuf>,
        /// Chain head saved earlier; also detects a truncated or rewritten log
        #[arg(long, value_name = "SEQUENCE:HASH")]
        head: Option<AuditHead>,
    },
    /// Print the whole audit log as JSON lines
    Export,
}

#[derive(clap::Args)]
struct EventListFilter {
    /// Kind of event, for example session_overridden
    #[arg(long)]
    kind: Option<String>,
    /// Pipeline slug or id
    #[arg(long, short, add = ArgValueCandidates::new(complete::pipelines))]
    pipeline: Option<String>,
    /// Deployment id
    #[arg(long)]
    deployment: Option<String>,
    /// Environment name
    #[arg(long)]
    environment: Option<String>,
    /// Id of the user or service account
    #[arg(long)]
    actor: Option<String>,
}

impl EventListFilter {
    fn query(&self) -> String {
        let parts = [
            ("kind", &self.kind),
            ("pipeline", &self.pipeline),
            ("deployment", &self.deployment),
            ("environment", &self.environment),
            ("actor", &self.actor),
        ];
        let given = parts
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", percent_encode(value.as_ref()?))));
        given.collect::<Vec<_>>().join("&")
    }

    fn path(&self) -> String {
        match self.query() {
            query if query.is_empty() => "/events".to_owned(),
            query => format!("/events?{query}"),
        }
    }
}

pub(crate) fn run(args: &EventArgs) -> anyhow::Result<ExitCode> {
    if let EventCommand::Verify { file: Some(file), head } = &args.command {
        return verify::run(file, head.as_ref(), &args.remote.output());
    }
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        EventCommand::List { filter, limit } => list_events(&client, &out, filter, usize::from(*limit)),
        EventCommand::Follow { filter } => follow_events(&client, &out, filter),
        EventCommand::Verify { head, .. } => verify_on_server(&client, &out, head.as_ref()),
        EventCommand::Export => {
            let mut export = client.get_reader("/events/export")?;
            std::io::copy(&mut export, &mut std::io::stdout().lock())
                .context("the export was interrupted")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list_events(
    client: &ApiClient,
    out: &CommandOutput,
    filter: &EventListFilter,
    count: usize,
) -> anyhow::Result<ExitCode> {
    let found = client.list::<WireEvent>(&filter.path(), count)?;
    let rows: Vec<_> = found.data.iter().map(table_row).collect();
    out.print_wrapped_table(&found.raw, &["no.", "time", "event"], &rows, "No events.")?;
    Ok(ExitCode::SUCCESS)
}

fn table_row(it: &WireEvent) -> Vec<String> {
    vec![it.sequence.to_string(), format_clock(&it.occurred_at), strip_control_chars(&it.summary)]
}

/// Prints one line per event. After a lost connection, resumes without missing an event.
fn follow_events(
    client: &ApiClient,
    out: &CommandOutput,
    filter: &EventListFilter,
) -> anyhow::Result<ExitCode> {
    let mut last = None::<String>;
    loop {
        match client.open_event_stream(&filter.path(), last.as_deref()) {
            Err(error) if error.downcast_ref::<ClientError>().is_some_and(ClientError::is_transient) => {}
            Err(error) => return Err(error),
            Ok(messages) => {
                for message in messages.map_while(Result::ok) {
                    if message.id.is_some() {
                        last.clone_from(&message.id);
                    }
                    let Ok(event) = serde_json::from_str::<WireEvent>(&message.data) else { continue };
                    match out.json {
                        true => out.print_json(&serde_json::from_str::<serde_json::Value>(&message.data)?)?,
                        false => print_line(&table_row(&event).join("  "))?,
                    }
                }
            }
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

fn verify_on_server(
    client: &ApiClient,
    out: &CommandOutput,
    head: Option<&AuditHead>,
) -> anyhow::Result<ExitCode> {
    let head = head.map(|it| ChainHead { sequence: it.sequence, hash: it.hash.clone() });
    let checked = client.post::<ChainVerification>("/events/verify", &EventsVerify { head })?;
    let it = &checked.data;
    out.print_reply(&checked.raw, || match &it.first_problem {
        None => format!(
            "valid ({} events{})\n{}{}",
            it.checked,
            verify::range_note(it.first_sequence),
            dim(&format!("head {}:{}", it.head.sequence, it.head.hash)),
            verify::old_head_note(it.head_is_too_old, it.first_sequence)
        ),
        Some(problem) => format!(
            "invalid ({} intact events before the first problem)\nevent {}: {}",
            it.checked,
            problem.sequence,
            strip_control_chars(&problem.detail)
        ),
    })?;
    Ok(if it.valid && !it.head_is_too_old { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
