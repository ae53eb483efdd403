//! A file next to the backups that stores the highest epoch that any restore has used.
//!
//! Without it, restoring the same backup twice would produce the same epoch twice, and so the same fences. The second
//! restore cannot see the first one's data directory; both see only the directory that contains the backups.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{UpkeepError, io, parent};

/// Name of the file, in the parent directory of the backup.
const FILE: &str = "berth-restored.json";
const NOTE_BYTES_MAX: u64 = 4 * 1024;
/// Allowance for epochs that an installation may have used since it was restored.
const RAISED_SINCE: i64 = 48;

#[derive(Serialize, Deserialize)]
struct RestoreNote {
    epoch: i64,
}

/// Returns the highest epoch that installations restored from this directory may have used.
pub(super) fn read_epoch_bound(backup: &Path) -> Result<Option<i64>, UpkeepError> {
    Ok(read_note(&note_path(backup))?.map(|epoch| epoch + RAISED_SINCE))
}

/// Raises the stored epoch to `epoch`. Atomic and durable: writes a temporary file, fsyncs it and renames it.
pub(super) fn write_note(backup: &Path, epoch: i64) -> Result<(), UpkeepError> {
    let (path, draft) = (note_path(backup), parent(backup).join(format!("{FILE}.draft")));
    let epoch = read_note(&path)?.map_or(epoch, |before| before.max(epoch));
    let written = || -> io::Result<()> {
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec(&RestoreNote { epoch })?)?;
        file.sync_all()?;
        std::fs::rename(&draft, &path)?;
        File::open(parent(backup))?.sync_all()
    };
    written().map_err(io("cannot write", &path))
}

fn note_path(backup: &Path) -> PathBuf {
    parent(backup).join(FILE)
}

fn read_note(path: &Path) -> Result<Option<i64>, UpkeepError> {
    let mut text = String::new();
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => {
            let file = opened.map_err(io("cannot read", path))?;
            file.take(NOTE_BYTES_MAX).read_to_string(&mut text).map_err(io("cannot read", path))?;
        }
    }
    let note: RestoreNote = serde_json::from_str(&text).map_err(|error| {
        UpkeepError::Refused(format!(
            "{} cannot be understood ({error}): it says which epoch an earlier restore was given. Remove it, restore, and \
             run `berth admin raise-epoch` before you serve, until the epoch is above that of every earlier restore.",
            path.display(),
        ))
    })?;
    Ok(Some(note.epoch))
}
