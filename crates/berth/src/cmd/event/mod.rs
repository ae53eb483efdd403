//! `berth event`: the history.

mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use berth_api::event::{ChainHead, Event, EventsVerify, Verification};
use berth_store::audit::Head;

use crate::client::{Client, Failure, Remote, escaped};
use crate::output::words::clock;
use crate::output::{Output, dim, harmless, say};

/// A stream that broke off is taken up again after so long.
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
    /// Newest first
    List {
        #[command(flatten)]
        filter: Filter,
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=2000))]
        limit: u16,
    },
    /// As they happen, until interrupted
    Follow {
        #[command(flatten)]
        filter: Filter,
    },
    /// Check the history: any edit, removal, insertion or swap is found, and where
    Verify {
        /// An export, checked without a server [default: the server checks its own]
        file: Option<PathBuf>,
        /// A head kept elsewhere: then a history that was cut or written anew is found, too
        #[arg(long, value_name = "SEQUENCE:HASH")]
        head: Option<Head>,
    },
    /// Print the whole history as JSON lines
    Export,
}

#[derive(clap::Args)]
struct Filter {
    /// For example session_overridden
    #[arg(long)]
    kind: Option<String>,
    #[arg(long, short)]
    pipeline: Option<String>,
    #[arg(long)]
    deployment: Option<String>,
    #[arg(long)]
    environment: Option<String>,
    /// Who did it
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
            std::io::copy(&mut export, &mut std::io::stdout().lock()).context("the export broke off")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list(client: &Client, out: &Output, filter: &Filter, count: usize) -> anyhow::Result<ExitCode> {
    let found = client.list::<Event>(&filter.path(), count)?;
    let rows: Vec<_> = found.data.iter().map(row).collect();
    out.table(&found.raw, &["no.", "when", "what"], &rows, "Nothing has happened yet.")?;
    Ok(ExitCode::SUCCESS)
}

fn row(it: &Event) -> Vec<String> {
    vec![it.sequence.to_string(), clock(&it.occurred_at), harmless(&it.summary)]
}

/// One line per event; where the connection breaks it goes on exactly there.
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
            "not valid ({} events before this are as they were recorded)\nevent {}: {}",
            it.checked,
            problem.sequence,
            harmless(&problem.detail)
        ),
    })?;
    Ok(if it.valid && !it.head_is_too_old { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
