//! `berth admin backup`: everything but the root key, while the server runs.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_core::time::Timestamp;
use berth_server::upkeep::backup::{Database, backup};

use super::Place;
use crate::cmd::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// A directory to make, or a file to make if the name ends in .tar
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// On PostgreSQL: copy logs and artifacts alone; the database is backed up by its own tools
    #[arg(long)]
    files_only: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = args.place.find_present()?;
    let database = match &found.database {
        None => Database::Sqlite,
        Some(url) if args.files_only => Database::Postgres(url),
        Some(_) => anyhow::bail!(
            "PostgreSQL is backed up by its own tools: pg_dump, or a base backup with its log (PITR). Do that first, then \
             run this command with --files-only for logs and artifacts. Keep root.key elsewhere."
        ),
    };
    let now = jiff::Timestamp::now().as_microsecond();
    let manifest = backup(&found.data_dir, &database, &args.to, Timestamp::from_micros(now))?;
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let root_key = manifest.root_key_id.as_deref().unwrap_or("none yet");
    say(&if args.json {
        serde_json::json!({
            "path": args.to.display().to_string(),
            "files": manifest.files.len(),
            "bytes": bytes,
            "epoch": manifest.epoch,
            "rootKeyId": manifest.root_key_id,
            "heads": manifest.heads,
        })
        .to_string()
    } else {
        let to = args.to.display();
        let count = manifest.files.len();
        format!(
            "{count} files, {bytes} bytes in {to}.\nThe root key ({root_key}) is not in it: keep a copy of that file \
             somewhere else. Without it the values of secrets are lost."
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
