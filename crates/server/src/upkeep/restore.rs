//! Restores a backup into an empty data directory, either completely or not at all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use berth_core::id::OrgId;
use berth_engine::object_storage::ObjectStorage;
use berth_engine::vault::{SecretVault, WhenMissing, is_being_rotated};
use berth_store::Store;
use berth_store::admin::read_only::ReadOnly;
use berth_store::audit::AuditHead;
use berth_store::data_dir::DataDir;

use super::after_restore::{SettleReport, settle};
use super::manifest::{self, BackupManifest, DigestReader, FILES_MAX, FORMAT, FileEntry, MANIFEST_BYTES_MAX};
use super::verify::{VerifyReport, verify};
use super::{DATABASE, KEPT, UpkeepError, io, restore_note};

/// Subdirectory that holds the restored files until they are complete and verified.
const STAGING: &str = "restoring";
/// Names that may exist in an otherwise empty data directory: the root key (never in a backup), the directory's lock
/// file, and the staging directory of an interrupted restore.
const WELCOME: [&str; 3] = ["root.key", "berth.lock", STAGING];
/// Name of the database's WAL file, which may not exist.
const DATABASE_LOG: &str = "berth.db-wal";

#[derive(Debug)]
pub struct RestoreReport {
    pub manifest: BackupManifest,
    pub settled: SettleReport,
    pub verified: VerifyReport,
    /// Number of secret values that were decrypted to test the key.
    pub secrets: usize,
    /// Why the epoch could not be stored next to the backup; `None` if it was stored.
    pub unnoted: Option<String>,
}

/// Restores a backup. `key` is the path of the root key, which is never in a backup.
///
/// All work happens in a staging directory, and the database is moved into place last. A failed restore leaves nothing
/// that a server would open, and can be repeated.
///
/// `storage` is the object storage that has the installation's logs and artifacts, which are then not in the backup.
pub fn restore(
    from: &Path,
    data_dir: &Path,
    key: &Path,
    storage: Option<&ObjectStorage>,
) -> Result<RestoreReport, UpkeepError> {
    check_empty(data_dir)?;
    check_key(key)?;
    let dir = DataDir::open_bare(data_dir)?;
    // Check again while holding the lock, in case of a concurrent restore.
    check_empty(data_dir)?;
    let staging = data_dir.join(STAGING);
    let made = remove_dir(&staging).and_then(|()| std::fs::DirBuilder::new().mode(0o700).create(&staging));
    made.map_err(io("cannot make", &staging))?;
    let restored = match prepare(from, &staging, key, storage) {
        Ok(restored) => restored,
        Err(error) => {
            remove_dir(&staging).map_err(io("cannot remove", &staging))?;
            return Err(error);
        }
    };
    for name in KEPT.into_iter().chain([DATABASE_LOG, DATABASE]) {
        let (staged, place) = (staging.join(name), data_dir.join(name));
        match std::fs::rename(&staged, &place) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => other.map_err(io("cannot move", &staged))?,
        }
    }
    remove_dir(&staging).map_err(io("cannot remove", &staging))?;
    // So far, the database is marked as a backup, which servers refuse to open. `begin_in` replaces the mark.
    Store::open_sqlite(&dir.database())?.begin_in(&dir)?;
    Ok(restored)
}

/// Copies the backup to `staging`, verifies it and makes it safe to serve.
fn prepare(
    from: &Path,
    staging: &Path,
    key: &Path,
    storage: Option<&ObjectStorage>,
) -> Result<RestoreReport, UpkeepError> {
    let manifest = stage_backup(from, staging)?;
    let given = restore_note::read_epoch_bound(from)?;
    let database = staging.join(DATABASE);
    let mut store = Store::open_sqlite(&database)?;
    // Check the key and the audit log before changing anything.
    let vault = SecretVault::open(&store, key, WhenMissing::Refuse)?;
    let secrets = vault.check_sample(&store)?;
    let verified = verify(&mut ReadOnly::sqlite(&database)?, staging, &manifest_heads(&manifest), storage)?;
    let settled = settle(&mut store, given)?;
    // Store the epoch before the installation can issue a fence. An error is only reported, because the directory that
    // contains the backup may be read-only.
    let note_error = restore_note::write_note(from, settled.epoch).err().map(|error| error.to_string());
    Ok(RestoreReport { manifest, settled, verified, secrets, unnoted: note_error })
}

fn check_key(key: &Path) -> Result<(), UpkeepError> {
    if !key.is_file() {
        return Err(UpkeepError::Refused(format!(
            "there is no root key at {}. It is in no backup: put the copy you kept there (chmod 600), or name it with \
             --root-key-file.",
            key.display(),
        )));
    }
    // The key is being rotated. Opening the vault would complete the rotation and replace the key file, which the
    // installation that started the rotation still needs.
    if is_being_rotated(key) {
        return Err(UpkeepError::Refused(format!(
            "the root key at {} is being rotated: there is a new key next to it. Finish that first, or restore with a copy \
             of the key.",
            key.display(),
        )));
    }
    Ok(())
}

fn remove_dir(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn manifest_heads(manifest: &BackupManifest) -> BTreeMap<OrgId, AuditHead> {
    let head = |it: &manifest::ManifestHead| {
        Some((it.organization.parse().ok()?, AuditHead { sequence: it.sequence, hash: it.hash.clone() }))
    };
    manifest.heads.iter().filter_map(head).collect()
}

fn check_empty(data_dir: &Path) -> Result<(), UpkeepError> {
    let listed = match std::fs::read_dir(data_dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(io("cannot read", data_dir))?,
    };
    let names: Vec<_> = listed
        .map(|entry| Ok(entry.map_err(io("cannot read", data_dir))?.file_name()))
        .collect::<Result<_, UpkeepError>>()?;
    let unwelcome = names.iter().filter(|name| !WELCOME.iter().any(|welcome| *name == welcome));
    if let Some(name) = unwelcome.min() {
        return Err(UpkeepError::Refused(format!(
            "{} is not empty ({} is in it). A backup is restored into an empty directory; only root.key may be there. \
             If a restore was cut short here, remove the rest, and restore again. Nothing was changed.",
            data_dir.display(),
            name.to_string_lossy(),
        )));
    }
    Ok(())
}

/// Copies all files to `staging` and checks them against the manifest's digests.
fn stage_backup(from: &Path, staging: &Path) -> Result<BackupManifest, UpkeepError> {
    let mut files = BTreeMap::new();
    let mut put = |name: &Path, source: &mut dyn Read| -> Result<(), UpkeepError> {
        let place = staged_path(staging, name)?;
        let above = place.parent().unwrap_or(staging);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
        made.map_err(io("cannot make", above))?;
        let into = File::options().write(true).create_new(true).mode(0o600).open(&place);
        let mut into = into.map_err(io("cannot make", &place))?;
        let mut source = DigestReader::new(source);
        io::copy(&mut source, &mut into).map_err(io("cannot write", &place))?;
        into.sync_all().map_err(io("cannot write", &place))?;
        let entry = source.entry(name.to_string_lossy().into_owned());
        files.insert(entry.path.clone(), entry);
        match files.len() {
            0..=FILES_MAX => Ok(()),
            _ => Err(UpkeepError::Refused(format!("the backup has more than {FILES_MAX} files"))),
        }
    };
    if from.is_dir() {
        let manifest = read_manifest(&from.join(manifest::FILE))?;
        for FileEntry { path, .. } in &manifest.files {
            // The manifest is untrusted, and its paths could point outside the backup.
            let source = staged_path(from, Path::new(path))?;
            let mut file = File::open(&source).map_err(io("cannot read", &source))?;
            put(Path::new(path), &mut file)?;
        }
        check_files(&manifest, &files)?;
        return Ok(manifest);
    }
    let mut archive = tar::Archive::new(File::open(from).map_err(io("cannot read", from))?);
    for entry in archive.entries().map_err(io("cannot read", from))? {
        let mut entry = entry.map_err(io("cannot read", from))?;
        let name = entry.path().map_err(io("cannot read", from))?.into_owned();
        if entry.header().entry_type() != tar::EntryType::Regular {
            let text = format!("{} in the backup is no plain file", name.display());
            return Err(UpkeepError::Refused(text));
        }
        put(&name, &mut entry)?;
    }
    let manifest = read_manifest(&staging.join(manifest::FILE))?;
    files.remove(manifest::FILE);
    check_files(&manifest, &files)?;
    Ok(manifest)
}

/// Joins `name` to `dir`. Refuses absolute paths and `..`.
fn staged_path(dir: &Path, name: &Path) -> Result<PathBuf, UpkeepError> {
    let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || name.as_os_str().is_empty() {
        return Err(UpkeepError::Refused(format!("{:?} is no name of a file in a backup", name.display())));
    }
    Ok(dir.join(name))
}

fn read_manifest(path: &Path) -> Result<BackupManifest, UpkeepError> {
    let text = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = "this is no backup, or it was cut short: it has no manifest.json";
            return Err(UpkeepError::Refused(text.into()));
        }
        other => {
            let mut text = String::new();
            let file = other.map_err(io("cannot read", path))?;
            file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text).map_err(io("cannot read", path))?;
            text
        }
    };
    let manifest: BackupManifest = serde_json::from_str(&text)
        .map_err(|error| UpkeepError::Refused(format!("manifest.json cannot be read: {error}")))?;
    if manifest.format > FORMAT {
        return Err(UpkeepError::Refused(format!(
            "the backup was made by berth {}, which is newer than this program. Install that version.",
            manifest.version,
        )));
    }
    if manifest.engine != "sqlite" {
        let text = "this backup has the files of an installation on PostgreSQL, and no database. Restore the database \
                    with PostgreSQL's own tools, copy logs/ and artifacts/ into the data directory, and run `berth admin \
                    raise-epoch`.";
        return Err(UpkeepError::Refused(text.into()));
    }
    Ok(manifest)
}

fn check_files(manifest: &BackupManifest, found: &BTreeMap<String, FileEntry>) -> Result<(), UpkeepError> {
    for wanted in &manifest.files {
        if found.get(&wanted.path) != Some(wanted) {
            return Err(UpkeepError::Refused(format!(
                "the backup is damaged: {} is missing, or not what was written. Nothing was restored.",
                wanted.path,
            )));
        }
    }
    match manifest.files.len() == found.len() {
        true => Ok(()),
        false => Err(UpkeepError::Refused("the backup holds files that its manifest does not name".into())),
    }
}
