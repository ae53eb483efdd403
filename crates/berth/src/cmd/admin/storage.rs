//! `berth admin storage`: moves logs and artifacts to object storage.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_server::upkeep::storage::{MigrationReport, migrate_directory, migrate_objects};
use berth_server::upkeep::verify::verify;
use berth_store::Store;
use berth_store::data_dir::DataDir;
use berth_store::tables::instance;

use super::InstallationArgs;
use super::verify::{exit_code, to_json, to_text};
use crate::output::{JsonArgs, print_note};

/// Interval between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

#[derive(clap::Subcommand)]
pub(crate) enum StorageCommand {
    /// Move logs and artifacts to object storage; stop all servers first. Can be interrupted and repeated
    Migrate(MigrateArgs),
}

#[derive(clap::Args)]
pub(crate) struct MigrateArgs {
    /// s3://bucket/prefix or file:///directory; the other settings of [storage] apply
    #[arg(long, value_name = "URL")]
    to: String,
    /// Object storage that has the logs and artifacts now, if it is not storage.url
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(command: &StorageCommand) -> anyhow::Result<ExitCode> {
    let StorageCommand::Migrate(args) = command;
    let found = args.place.locate_existing()?;
    // Fails if a server is running.
    let (dir, store) = match &found.database {
        None => {
            let dir = DataDir::open(&found.data_dir)?;
            let store = Store::open_sqlite(&dir.database())?;
            (dir, store)
        }
        Some(url) => (DataDir::open_alone(&found.data_dir)?, Store::open_postgres(url)?),
    };
    let store = Arc::new(store);
    let settings = &found.settings.storage;
    let to = settings.open_at(&args.to)?;
    let progress = progress_printer(args.json.is_set());
    let is_stored = store.read_blocking(None, |db| instance::find_storage_id(db))?.is_some();
    let has_local = ["logs", "artifacts"].iter().any(|name| dir.path().join(name).exists());
    let done = if is_stored && !has_local {
        let from = args.from.as_deref().or(settings.url.as_deref());
        let from = from.ok_or_else(|| {
            anyhow::anyhow!("logs and artifacts are in object storage: name it with --from")
        })?;
        migrate_objects(&store, &*settings.open_at(from)?, &to, progress)?
    } else {
        migrate_directory(&store, dir.path(), &to, progress)?
    };
    drop(store);
    let verified = verify(&mut found.open_read_only()?, dir.path(), &BTreeMap::new(), Some(&*to))?;
    let MigrationReport { logs, artifacts, skipped, bytes } = done;
    let raw = serde_json::json!({
        "logs": logs, "artifacts": artifacts, "skipped": skipped, "bytes": bytes, "verified": to_json(&verified),
    });
    args.json.output().print_reply(&raw, || {
        format!(
            "Moved {logs} logs and {artifacts} artifacts to {}; {skipped} were there already.\n{}\n\
             Next: set storage.url = \"{}\" and start the server. What was in the data directory is in logs.migrated and \
             artifacts.migrated there; delete both when you no longer need them.",
            to.url(),
            to_text(&verified),
            to.url(),
        )
    })?;
    Ok(exit_code(&verified))
}

fn progress_printer(is_json: bool) -> impl FnMut(&MigrationReport) {
    let mut last = Instant::now();
    let is_shown = !is_json && std::io::stderr().is_terminal();
    move |done| {
        if is_shown && last.elapsed() >= PROGRESS_EVERY {
            last = Instant::now();
            let MigrationReport { logs, artifacts, skipped, .. } = done;
            print_note(&format!("{logs} logs and {artifacts} artifacts moved, {skipped} skipped"));
        }
    }
}
