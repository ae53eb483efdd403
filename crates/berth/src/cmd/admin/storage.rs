//! `berth admin storage`: moves logs and artifacts to object storage, and confirms its use after a restore.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_server::upkeep::storage::{MigrationReport, confirm, migrate_directory, migrate_objects};
use berth_server::upkeep::verify::verify;
use berth_store::Store;
use berth_store::data_dir::DataDir;
use berth_store::tables::instance;

use super::verify::{exit_code, to_json, to_text};
use super::{InstallationArgs, LocatedInstallation};
use crate::output::{JsonArgs, print_note};

/// Interval between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

#[derive(clap::Subcommand)]
pub(crate) enum StorageCommand {
    /// Move logs and artifacts to object storage; stop all servers first. Can be interrupted and repeated
    Migrate(MigrateArgs),
    /// Let this installation delete objects after a restore, once no other copy of it uses them; stop all servers first
    Confirm(ConfirmArgs),
}

#[derive(clap::Args)]
pub(crate) struct ConfirmArgs {
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
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
    match command {
        StorageCommand::Migrate(args) => migrate(args),
        StorageCommand::Confirm(args) => confirm_copy(args),
    }
}

/// Fails if a server is running.
fn open_alone(found: &LocatedInstallation) -> anyhow::Result<(DataDir, Store)> {
    Ok(match &found.database {
        None => {
            let dir = DataDir::open(&found.data_dir)?;
            let store = Store::open_sqlite(&dir.database())?;
            (dir, store)
        }
        Some(url) => (DataDir::open_alone(&found.data_dir)?, Store::open_postgres(url)?),
    })
}

fn confirm_copy(args: &ConfirmArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let (_dir, store) = open_alone(&found)?;
    let storage = found.settings.storage.open()?;
    let storage =
        storage.ok_or_else(|| anyhow::anyhow!("no object storage is configured; set storage.url"))?;
    confirm(&store, &storage)?;
    let url = storage.url().to_string();
    args.json.output().print_reply(&serde_json::json!({ "url": url }), || {
        format!("Confirmed: the next start of the server deletes objects in {url} that it does not need.")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn migrate(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let (dir, store) = open_alone(&found)?;
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
