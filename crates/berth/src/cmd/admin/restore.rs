//! `berth admin restore`: a data directory out of a backup.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_server::upkeep::restore::restore;

use super::{Place, settled_json, settled_text, verify};
use crate::cmd::say;
use crate::output::note;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// The directory or .tar file that a backup has made
    #[arg(long, value_name = "PATH")]
    from: PathBuf,
    /// File with the root key, which is in no backup [default: DIR/root.key]
    #[arg(long, value_name = "FILE")]
    root_key_file: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = args.place.find()?;
    anyhow::ensure!(
        found.database.is_none(),
        "PostgreSQL is restored by its own tools. Then copy logs/ and artifacts/ back, and run `berth admin raise-epoch`."
    );
    let key = found.root_key(args.root_key_file.as_deref());
    let restored = restore(&args.from, &found.data_dir, &key)?;
    let manifest = &restored.manifest;
    say(&if args.json {
        let mut told = settled_json(&restored.settled);
        told["backupOf"] = manifest.created_at.clone().into();
        told["secretsOpened"] = restored.secrets.into();
        told["isNoted"] = restored.unnoted.is_none().into();
        told["verified"] = verify::as_json(&restored.verified);
        told.to_string()
    } else {
        format!(
            "Restored into {} what was so at {}; {} values of secrets were opened.\n{}\n{}",
            found.data_dir.display(),
            manifest.created_at,
            restored.secrets,
            settled_text(&restored.settled),
            verify::for_people(&restored.verified),
        )
    })?;
    if let Some(why) = &restored.unnoted {
        let epoch = restored.settled.epoch;
        note(&format!(
            "The epoch {epoch} could not be written down beside the backup: {why}. Should you restore it once more, another \
             restore does not know of this one: run `berth admin raise-epoch` then until the epoch is above {epoch}."
        ));
    }
    Ok(verify::code(&restored.verified))
}
