//! `berth event`: the audit log.

mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use berth_api::event::{ChainHead, Event, EventsVerify, Verification};
use berth_store::audit::Head;

use crate::client::{Client, Failure, Remote, escaped};
use crate::output::time::clock;
use crate::output::{Output, dim, harmless, say};

/// Pause before a broken stream is reopened.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List events, newest first
    List {
        #[command(flatten)]
        filter: Filter,
        /// Maximum number of events
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=2000))]
        limit: u16,
    },
    /// Print events as they happen
    Follow {
        #[command(flatten)]
        filter: Filter,
    },
    /// Verify the audit log: detects changed, removed, inserted and reordered events
    Verify {
        /// Exported file to verify offline [default: the server verifies its own]
        file: Option<PathBuf>,
        /// Chain head saved earlier; also detects a truncated or rewritten log
        #[arg(long, value_name = "SEQUENCE:HASH")]
        head: Option<Head>,
    },
    /// Print the whole audit log as JSON lines
    Export,
}

#[derive(clap::Args)]
struct Filter {
    /// Kind of event, for example session_overridden
    #[arg(long)]
    kind: Option<String>,
    /// Pipeline slug or id
    #[arg(long, short)]
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

impl Filter {
    fn query(&self) -> String {
        let parts = [
            ("kind", &self.kind),
            ("pipeline", &self.pipeline),
            ("deployment", &self.deployment),
            ("environment", &self.environment),
            ("actor", &self.actor),
        ];
        let given =
            parts.iter().filter_map(|(name, value)| Some(format!("{name}={}", escaped(value.as_ref()?))));
        given.collect::<Vec<_>>().join("&")
    }

    fn path(&self) -> String {
        match self.query() {
            query if query.is_empty() => "/events".to_owned(),
            query => format!("/events?{query}"),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Command::Verify { file: Some(file), head } = &args.command {
        return verify::run(file, head.as_ref(), args.remote.json);
    }
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        Command::List { filter, limit } => list(&client, &out, filter, usize::from(*limit)),
        Command::Follow { filter } => follow(&client, &out, filter),
        Command::Verify { head, .. } => on_server(&client, &out, head.as_ref()),
        Command::Export => {
            let mut export = client.bytes("/events/export")?;
            std::io::copy(&mut export, &mut std::io::stdout().lock())
                .context("the export was interrupted")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list(client: &Client, out: &Output, filter: &Filter, count: usize) -> anyhow::Result<ExitCode> {
    let found = client.list::<Event>(&filter.path(), count)?;
    let rows: Vec<_> = found.data.iter().map(row).collect();
    out.table(&found.raw, &["no.", "time", "event"], &rows, "No events.")?;
    Ok(ExitCode::SUCCESS)
}

fn row(it: &Event) -> Vec<String> {
    vec![it.sequence.to_string(), clock(&it.occurred_at), harmless(&it.summary)]
}

/// Prints one line per event; resumes after a broken connection without loss.
fn follow(client: &Client, out: &Output, filter: &Filter) -> anyhow::Result<ExitCode> {
    let mut last = None::<String>;
    loop {
        match client.follow(&filter.path(), last.as_deref()) {
            Err(error) if error.downcast_ref::<Failure>().is_some_and(Failure::is_passing) => {}
            Err(error) => return Err(error),
            Ok(messages) => {
                for message in messages.map_while(Result::ok) {
                    if message.id.is_some() {
                        last.clone_from(&message.id);
                    }
                    let Ok(event) = serde_json::from_str::<Event>(&message.data) else { continue };
                    say(&if out.json { message.data } else { row(&event).join("  ") })?;
                }
            }
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

fn on_server(client: &Client, out: &Output, head: Option<&Head>) -> anyhow::Result<ExitCode> {
    let head = head.map(|it| ChainHead { sequence: it.sequence, hash: it.hash.clone() });
    let checked = client.post::<Verification>("/events/verify", &EventsVerify { head })?;
    let it = &checked.data;
    out.told(&checked.raw, || match &it.first_problem {
        None => format!(
            "valid ({} events{})\n{}{}",
            it.checked,
            verify::since(it.first_sequence),
            dim(&format!("head {}:{}", it.head.sequence, it.head.hash)),
            verify::too_old(it.head_is_too_old, it.first_sequence)
        ),
        Some(problem) => format!(
            "invalid ({} intact events before the first problem)\nevent {}: {}",
            it.checked,
            problem.sequence,
            harmless(&problem.detail)
        ),
    })?;
    Ok(if it.valid && !it.head_is_too_old { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
