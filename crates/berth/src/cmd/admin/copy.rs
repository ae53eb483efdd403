//! `berth admin copy`: copies between SQLite and PostgreSQL.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_server::upkeep::verify::verify_chains;
use berth_store::admin::copy::{CopiedTable, CopyDirection, copy_database};
use berth_store::admin::read_only::ReadOnly;
use berth_store::data_dir::DataDir;

use crate::config::ServerSettings;
use crate::logging;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct CopyArgs {
    /// Source: sqlite:DIR (a data directory), postgres://…, or postgres for the URL in BERTH_DATABASE
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Empty target, in the same form
    #[arg(long, value_name = "PLACE")]
    to: String,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &CopyArgs) -> anyhow::Result<ExitCode> {
    let settings = ServerSettings::load(None)?;
    logging::start(&settings.log, true);
    let (data_dir, url, direction) = match (sqlite_dir(&args.from), sqlite_dir(&args.to)) {
        (Some(dir), None) => (dir, args.to.as_str(), CopyDirection::ToPostgres),
        (None, Some(dir)) => (dir, args.from.as_str(), CopyDirection::ToSqlite),
        _ => {
            anyhow::bail!("one of --from and --to must be sqlite:DIR, the other one postgres or postgres://…")
        }
    };
    // With the argument `postgres`, the URL comes from the settings. The URL may contain a password, which does not
    // belong on a command line, because every user of the machine can read it.
    let url = match url {
        "postgres" => settings.database.as_deref().context("set BERTH_DATABASE to the database URL")?,
        url => url,
    };
    if direction == CopyDirection::ToPostgres {
        let file = data_dir.join("berth.db");
        anyhow::ensure!(file.is_file(), "no database at {}", file.display());
    }
    // Fails if a server is running, on SQLite or on a shared database.
    let dir = DataDir::open(&data_dir)?;
    let copied = copy_database(&dir, url, direction)?;
    let mut target = match direction {
        CopyDirection::ToPostgres => ReadOnly::postgres(url)?,
        CopyDirection::ToSqlite => ReadOnly::sqlite(&dir.database())?,
    };
    let mut source = match direction {
        CopyDirection::ToPostgres => ReadOnly::sqlite(&dir.database())?,
        CopyDirection::ToSqlite => ReadOnly::postgres(url)?,
    };
    let verified = verify_chains(&mut target, &mut source).context("cannot compare the audit logs")?;
    anyhow::ensure!(
        verified.problem_count == 0,
        "the copy differs from the source: {}",
        verified.problems.join("; ")
    );
    let rows: u64 = copied.iter().map(|it| it.rows).sum();
    let tables = copied.iter().map(|CopiedTable { table, rows }| (table.clone(), (*rows).into()));
    let tables = tables.collect::<serde_json::Map<_, _>>();
    let raw = serde_json::json!({ "tables": tables, "rows": rows, "eventsVerified": verified.events });
    args.json.output().print_reply(&raw, || {
        let next = match direction {
            CopyDirection::ToPostgres => {
                format!("berth serve --data-dir {} --database postgres://…", data_dir.display())
            }
            CopyDirection::ToSqlite => format!("berth serve --data-dir {}", data_dir.display()),
        };
        format!(
            "Copied {rows} rows in {} tables; verified the audit logs of {} organizations ({} events).\n\
             Logs, artifacts and the root key stay in the data directory. Next:\n  {next}",
            copied.len(),
            verified.organizations,
            verified.events,
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn sqlite_dir(place: &str) -> Option<PathBuf> {
    place.strip_prefix("sqlite:").map(PathBuf::from)
}
