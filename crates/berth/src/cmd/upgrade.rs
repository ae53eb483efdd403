//! `berth upgrade --check`: says whether this program can serve a database, and what would change.

use std::fmt::Write as _;
use std::process::ExitCode;

use berth_core::runner::{PROTOCOL, PROTOCOL_MIN};
use berth_store::admin::read_only::ReadOnly;
use berth_store::migrations::{Migration, MigrationKind, MigrationPlan, SCHEMA, SchemaState};
use serde_json::{Value, json};

use super::admin::InstallationArgs;
use crate::output::JsonArgs;

/// Runners that were silent for longer than a day are not checked, in microseconds.
const RUNNER_SEEN_US: i64 = 24 * 60 * 60 * 1_000_000;
/// Maximum number of runners that are checked.
const RUNNERS_MAX: usize = 10_000;
/// Maximum number of runners that are named.
const RUNNERS_SHOWN_MAX: usize = 20;

#[derive(clap::Args)]
pub(crate) struct UpgradeArgs {
    /// Only check; change nothing
    #[arg(long, required = true)]
    check: bool,
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
}

/// The result of a check.
struct UpgradeCheck {
    is_shared: bool,
    state: SchemaState,
    /// The plan, or why this program cannot serve the database.
    plan: Result<MigrationPlan, String>,
    runners: Vec<CheckedRunner>,
}

struct CheckedRunner {
    name: String,
    program: String,
    is_supported: bool,
}

pub(crate) fn run(args: &UpgradeArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate()?;
    let mut database = match &found.database {
        Some(url) => ReadOnly::postgres_of_any_version(url)?,
        None => {
            let file = found.data_dir.join("berth.db");
            anyhow::ensure!(file.is_file(), "no database at {}; run `berth init` first", file.display());
            ReadOnly::sqlite_of_any_version(&file)?
        }
    };
    let state = database.schema_state()?;
    let plan = SCHEMA.plan(&state).map_err(|error| error.to_string());
    let is_readable = plan.is_ok() && !state.applied.is_empty();
    let runners = if is_readable { list_runners(&mut database)? } else { Vec::new() };
    let check = UpgradeCheck { is_shared: found.database.is_some(), state, plan, runners };
    args.json.output().print_reply(&check.to_json(), || check.to_text())?;
    Ok(if check.is_ready() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list_runners(database: &mut ReadOnly) -> anyhow::Result<Vec<CheckedRunner>> {
    let since = jiff::Timestamp::now().as_microsecond() - RUNNER_SEEN_US;
    let text = format!(
        "SELECT name, program, protocol FROM runners WHERE seen_at > {since} AND left_at IS NULL ORDER BY name"
    );
    let rows = database.sql(&text, RUNNERS_MAX)?.rows;
    let read = |row: Vec<Option<String>>| {
        let [name, program, protocol] = <[Option<String>; 3]>::try_from(row).ok()?;
        let protocol = protocol.and_then(|text| text.parse::<u32>().ok());
        Some(CheckedRunner {
            name: name.unwrap_or_default(),
            program: program.unwrap_or_default(),
            is_supported: protocol.is_some_and(|spoken| (PROTOCOL_MIN..=PROTOCOL).contains(&spoken)),
        })
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

impl UpgradeCheck {
    /// Whether this program can serve the database, and all runners that are connected.
    fn is_ready(&self) -> bool {
        self.plan.is_ok() && self.runners.iter().all(|it| it.is_supported)
    }

    fn to_json(&self) -> Value {
        let migrations = |list: &[&Migration]| {
            list.iter()
                .map(|it| json!({"number": it.number, "name": it.name, "kind": kind_word(it)}))
                .collect::<Vec<_>>()
        };
        let plan = self.plan.as_ref().ok();
        json!({
            "ready": self.is_ready(),
            "refusal": self.plan.as_ref().err(),
            "program": {
                "version": env!("CARGO_PKG_VERSION"),
                "schemaVersion": SCHEMA.version(),
                "runsNextToSchemaVersion": SCHEMA.oldest_peer,
            },
            "database": {
                "schemaVersion": self.state.applied.last().map(|it| it.number),
                "minSchemaVersion": (self.state.min_version > 0).then_some(self.state.min_version),
                "unknownMigrations": SCHEMA.list_unknown(&self.state).iter()
                    .map(|it| json!({"number": it.number, "name": it.name})).collect::<Vec<_>>(),
            },
            "migrations": plan.map(|plan| migrations(&plan.apply)),
            "deferredMigrations": plan.map(|plan| migrations(&plan.deferred)),
            "minSchemaVersionAfter": plan.map(|plan| plan.min_version),
            "servers": self.state.servers.iter()
                .map(|it| json!({"version": it.program, "schemaVersion": it.schema_version})).collect::<Vec<_>>(),
            "needsDowntime": !self.is_shared,
            "runners": self.runners.iter()
                .map(|it| json!({"name": it.name, "version": it.program, "supported": it.is_supported}))
                .collect::<Vec<_>>(),
        })
    }

    fn to_text(&self) -> String {
        let mut text =
            format!("Program:  berth {}, schema version {}\n", env!("CARGO_PKG_VERSION"), SCHEMA.version());
        let _ = match self.state.applied.last() {
            Some(last) => writeln!(
                text,
                "Database: schema version {}, for servers with schema version {} or later",
                last.number, self.state.min_version
            ),
            None => writeln!(text, "Database: empty"),
        };
        match &self.plan {
            Err(why) => {
                let _ = write!(text, "This program cannot serve the database: {why}");
            }
            Ok(plan) => {
                self.describe_plan(plan, &mut text);
                self.describe_runners(&mut text);
                let end = match self.is_ready() {
                    true => "This program can serve the database.",
                    false => {
                        "Upgrade these runners to this version after the servers; until then they run no steps."
                    }
                };
                text.push_str(end);
            }
        }
        text
    }

    fn describe_plan(&self, plan: &MigrationPlan, text: &mut String) {
        for unknown in SCHEMA.list_unknown(&self.state) {
            let _ = writeln!(text, "Unknown:  migration {} {}, compatible", unknown.number, unknown.name);
        }
        if plan.apply.is_empty() {
            text.push_str("Migrate:  nothing\n");
        }
        for migration in &plan.apply {
            let _ = writeln!(
                text,
                "Migrate:  {} {} ({}), when this program starts",
                migration.number,
                migration.name,
                kind_word(migration)
            );
        }
        for migration in &plan.deferred {
            let _ = writeln!(
                text,
                "Deferred: {} {} ({}), when the older servers have stopped",
                migration.number,
                migration.name,
                kind_word(migration)
            );
        }
        if !self.is_shared {
            text.push_str(
                "Servers:  only one server can use SQLite: stop it before you start this program\n",
            );
        }
        for server in &self.state.servers {
            let _ = writeln!(
                text,
                "Server:   berth {}, schema version {}, keeps working",
                server.program, server.schema_version
            );
        }
    }

    fn describe_runners(&self, text: &mut String) {
        let refused: Vec<_> = self.runners.iter().filter(|it| !it.is_supported).collect();
        let _ = writeln!(
            text,
            "Runners:  {} seen in the last day, {} too old or too new",
            self.runners.len(),
            refused.len()
        );
        for runner in refused.iter().take(RUNNERS_SHOWN_MAX) {
            let _ = writeln!(
                text,
                "  {} (berth {}) speaks another protocol version",
                runner.name, runner.program
            );
        }
        if refused.len() > RUNNERS_SHOWN_MAX {
            let _ = writeln!(text, "  and {} more", refused.len() - RUNNERS_SHOWN_MAX);
        }
    }
}

fn kind_word(migration: &Migration) -> &'static str {
    match migration.kind {
        MigrationKind::Expand => "expand",
        MigrationKind::Contract { .. } => "contract",
    }
}
