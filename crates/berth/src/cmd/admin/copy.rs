//! `berth admin copy`: from SQLite to PostgreSQL, or back.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_server::upkeep::verify::verify_chains;
use berth_store::admin::copy::{Copied, Direction, copy};
use berth_store::admin::read_only::ReadOnly;
use berth_store::data_dir::DataDir;

use crate::cmd::say;
use crate::config::Settings;
use crate::logging;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to copy: sqlite:DIR, a data directory; postgres://…; or postgres for the address in BERTH_DATABASE
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Where to, in the same form; it must be empty
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(None)?;
    logging::start(&settings.log, true);
    let (data_dir, url, direction) = match (sqlite(&args.from), sqlite(&args.to)) {
        (Some(dir), None) => (dir, args.to.as_str(), Direction::ToPostgres),
        (None, Some(dir)) => (dir, args.from.as_str(), Direction::ToSqlite),
        _ => {
            anyhow::bail!("one of --from and --to is sqlite:DIR, and the other one postgres or postgres://…")
        }
    };
    // The address holds a password, and a command line is seen by every user of the machine.
    let url = match url {
        "postgres" => {
            settings.database.as_deref().context("set BERTH_DATABASE to the address of the database")?
        }
        url => url,
    };
    if direction == Direction::ToPostgres {
        let file = data_dir.join("berth.db");
        anyhow::ensure!(file.is_file(), "there is no database at {}", file.display());
    }
    // No server may be running: neither one on SQLite, nor one of those that share the directory.
    let dir = DataDir::open(&data_dir)?;
    let copied = copy(&dir, url, direction)?;
    let mut target = match direction {
        Direction::ToPostgres => ReadOnly::postgres(url)?,
        Direction::ToSqlite => ReadOnly::sqlite(&dir.database())?,
    };
    let mut source = match direction {
        Direction::ToPostgres => ReadOnly::sqlite(&dir.database())?,
        Direction::ToSqlite => ReadOnly::postgres(url)?,
    };
    let verified = verify_chains(&mut target, &mut source).context("the histories cannot be compared")?;
    anyhow::ensure!(
        verified.problem_count == 0,
        "the copy is not what it should be: {}",
        verified.problems.join("; ")
    );
    let rows: u64 = copied.iter().map(|it| it.rows).sum();
    say(&if args.json {
        let tables = copied.iter().map(|Copied { table, rows }| (table.clone(), (*rows).into()));
        let tables = tables.collect::<serde_json::Map<_, _>>();
        serde_json::json!({ "tables": tables, "rows": rows, "eventsVerified": verified.events }).to_string()
    } else {
        let next = match direction {
            Direction::ToPostgres => {
                format!("berth serve --data-dir {} --database postgres://…", data_dir.display())
            }
            Direction::ToSqlite => format!("berth serve --data-dir {}", data_dir.display()),
        };
        format!(
            "{rows} rows of {} tables copied and counted, the histories of {} organizations ({} events) verified.\n\
             Logs, artifacts and the root key stay where they are: in the data directory. Next:\n  {next}",
            copied.len(),
            verified.organizations,
            verified.events,
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn sqlite(place: &str) -> Option<PathBuf> {
    place.strip_prefix("sqlite:").map(PathBuf::from)
}
