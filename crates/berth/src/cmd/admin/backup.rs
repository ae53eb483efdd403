//! `berth admin backup`: backs up everything except the root key, online or offline.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_core::time::Timestamp;
use berth_server::upkeep::backup::{BackupDatabase, backup};

use super::InstallationArgs;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    place: InstallationArgs,
    /// New directory, or new file if the name ends in .tar
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// With PostgreSQL: back up only logs and artifacts; use PostgreSQL's tools for the database
    #[arg(long)]
    files_only: bool,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let database = match &found.database {
        None => BackupDatabase::Sqlite,
        Some(url) if args.files_only => BackupDatabase::Postgres(url),
        Some(_) => anyhow::bail!(
            "back up PostgreSQL with its own tools first (pg_dump, or a base backup with WAL archiving), then run this \
             command with --files-only for logs and artifacts. Store root.key separately."
        ),
    };
    let now = jiff::Timestamp::now().as_microsecond();
    let manifest = backup(&found.data_dir, &database, &args.to, Timestamp::from_micros(now))?;
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let root_key = manifest.root_key_id.as_deref().unwrap_or("not created yet");
    let raw = serde_json::json!({
        "path": args.to.display().to_string(),
        "files": manifest.files.len(),
        "bytes": bytes,
        "epoch": manifest.epoch,
        "rootKeyId": manifest.root_key_id,
        "heads": manifest.heads,
    });
    args.json.output().print_reply(&raw, || {
        let to = args.to.display();
        let count = manifest.files.len();
        format!(
            "Backed up {count} files ({bytes} bytes) to {to}.\nThe backup does not contain the root key ({root_key}). \
             Store a copy of it elsewhere: without it, secrets cannot be decrypted."
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
