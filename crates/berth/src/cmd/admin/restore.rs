//! `berth admin restore`: restores a backup into a data directory.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_server::upkeep::restore::restore;

use super::{InstallationArgs, recovery_json, recovery_text, verify};
use crate::output::{JsonArgs, print_note};

#[derive(clap::Args)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    place: InstallationArgs,
    /// Backup directory or .tar file
    #[arg(long, value_name = "PATH")]
    from: PathBuf,
    /// Root key file; backups do not contain it [default: DIR/root.key]
    #[arg(long, value_name = "FILE")]
    root_key_file: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate()?;
    anyhow::ensure!(
        found.database.is_none(),
        "restore PostgreSQL with its own tools, copy logs/ and artifacts/ back unless they are in object storage, then run `berth admin raise-epoch`"
    );
    let key = found.root_key_path(args.root_key_file.as_deref());
    let storage = found.settings.storage.open()?;
    let restored = restore(&args.from, &found.data_dir, &key, storage.as_deref())?;
    let manifest = &restored.manifest;
    let mut raw = recovery_json(&restored.settled);
    raw["backupOf"] = manifest.created_at.clone().into();
    raw["secretsOpened"] = restored.secrets.into();
    raw["isNoted"] = restored.unnoted.is_none().into();
    raw["verified"] = verify::to_json(&restored.verified);
    args.json.output().print_reply(&raw, || {
        format!(
            "Restored the backup of {} to {}; {} secrets can be decrypted.\n{}\n{}",
            manifest.created_at,
            found.data_dir.display(),
            restored.secrets,
            recovery_text(&restored.settled),
            verify::to_text(&restored.verified),
        )
    })?;
    if let Some(why) = &restored.unnoted {
        let epoch = restored.settled.epoch;
        print_note(&format!(
            "warning: cannot record epoch {epoch} next to the backup: {why}. If you restore this backup again, run \
             `berth admin raise-epoch` until the epoch is above {epoch}."
        ));
    }
    Ok(verify::exit_code(&restored.verified))
}
