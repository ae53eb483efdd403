//! Backup: a snapshot of the database, then the files that it refers to, then a manifest with the digest of each file.
//!
//! This order makes the backup consistent while the server is running: files are append-only, so logs and artifacts
//! that are finished in the snapshot are complete when they are copied. The root key is never part of a backup.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use berth_core::time::Timestamp;
use berth_store::admin::read_only::ReadOnly;
use berth_store::migrations::SCHEMA;
use berth_store::tables::{event, instance, key, organization};

use super::manifest::{
    self, BackupManifest, DigestReader, FILES_MAX, FORMAT, FileEntry, MANIFEST_BYTES_MAX, ManifestHead,
};
use super::{DATABASE, KEPT, UpkeepError, io, parent};

/// Suffix of files that are still being written.
const UNFINISHED: &str = ".part";
/// Prefixes of the names of temporary files.
const SCRATCH: [&str; 2] = ["part-", "scratch-"];
/// Suffix of sealed logs.
const SEALED: &str = ".zst";
/// Maximum directory depth below each of [`KEPT`].
const DEPTH_MAX: usize = 8;

/// Where a backup is written.
enum BackupSink {
    Directory(PathBuf),
    Tar(Box<tar::Builder<File>>),
}

/// The type of database that the installation uses.
pub enum BackupDatabase<'a> {
    Sqlite,
    /// Only the files are backed up. PostgreSQL's own tools back up the database.
    Postgres(&'a str),
}

/// Backs up a data directory into a tar archive if `to` ends in `.tar`, otherwise into a new directory.
pub fn backup(
    data_dir: &Path,
    database: &BackupDatabase<'_>,
    to: &Path,
    now: Timestamp,
) -> Result<BackupManifest, UpkeepError> {
    let sink = BackupSink::create(to)?;
    // Remove a partial backup, because it is useless and would block the next one.
    write_backup(sink, data_dir, database, to, now).inspect_err(|_| {
        let _ = if to.is_dir() { std::fs::remove_dir_all(to) } else { std::fs::remove_file(to) };
    })
}

fn write_backup(
    mut sink: BackupSink,
    data_dir: &Path,
    database: &BackupDatabase<'_>,
    to: &Path,
    now: Timestamp,
) -> Result<BackupManifest, UpkeepError> {
    let mut manifest = BackupManifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        engine: "sqlite".into(),
        created_at: now.to_string(),
        schema: Some(SCHEMA.version()),
        epoch: None,
        root_key_id: None,
        heads: Vec::new(),
        files: Vec::new(),
    };
    match database {
        BackupDatabase::Sqlite => {
            let copy = tempfile::Builder::new()
                .prefix(".berth-backup-")
                .tempdir_in(parent(to))
                .map_err(io("cannot write next to", to))?;
            let copied = copy.path().join(DATABASE);
            berth_store::admin::backup::copy_sqlite(&data_dir.join(DATABASE), &copied)?;
            // The manifest describes the copy, not the live database.
            describe(&mut manifest, ReadOnly::sqlite(&copied)?)?;
            manifest.files.push(sink.put(DATABASE, &copied)?);
        }
        BackupDatabase::Postgres(url) => {
            manifest.engine = "postgres".into();
            describe(&mut manifest, ReadOnly::postgres(url)?)?;
        }
    }
    for kept in KEPT {
        put_all(&mut sink, data_dir, Path::new(kept), DEPTH_MAX, &mut manifest.files)?;
    }
    sink.finish(&manifest, to)?;
    Ok(manifest)
}

fn describe(manifest: &mut BackupManifest, mut db: ReadOnly) -> Result<(), UpkeepError> {
    let (epoch, mut root_keys) =
        db.read(None, |db| Ok::<_, UpkeepError>((instance::load_epoch(db)?, key::list_root_key_ids(db)?)))?;
    if root_keys.len() > 1 {
        let text = "the root key is being rotated: some keys are wrapped by the old one and some by the new one, and a backup \
                    of that could not be opened by either. Finish it first with `berth admin rotate-keys`.";
        return Err(UpkeepError::Refused(text.into()));
    }
    (manifest.epoch, manifest.root_key_id) = (Some(epoch), root_keys.pop());
    let mut after = None;
    loop {
        let page = db.read(None, |db| Ok::<_, UpkeepError>(organization::list_ids(db, after)?))?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (org, slug) in page {
            let head = db.read(Some(org), |db| Ok::<_, UpkeepError>(event::chain_head(db)?))?;
            let organization = org.to_string();
            manifest.heads.push(ManifestHead {
                organization,
                slug,
                sequence: head.sequence,
                hash: head.hash,
            });
        }
    }
}

/// Copies a directory tree. The server may add and remove files in the meantime.
fn put_all(
    sink: &mut BackupSink,
    data_dir: &Path,
    below: &Path,
    depth: usize,
    files: &mut Vec<FileEntry>,
) -> Result<(), UpkeepError> {
    let dir = data_dir.join(below);
    let listed = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(io("cannot read", &dir))?,
    };
    let mut names = BTreeSet::new();
    for entry in listed {
        names.insert(entry.map_err(io("cannot read", &dir))?.file_name().to_string_lossy().into_owned());
    }
    while let Some(name) = names.pop_first() {
        let (path, place) = (below.join(&name), dir.join(&name));
        if SCRATCH.iter().any(|scratch| name.starts_with(scratch)) || name.ends_with(UNFINISHED) {
            continue;
        }
        match std::fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() && depth > 0 => put_all(sink, data_dir, &path, depth - 1, files)?,
            Ok(found) if found.is_dir() => {
                return Err(UpkeepError::Refused(format!("{} is too deep", place.display())));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io("cannot read", &place)(error));
            }
            _ => match put_present(sink, data_dir, &path)? {
                Some(entry) => files.push(entry),
                // The log was sealed after the directory was listed, which renamed it. The new name sorts after this
                // one, so the loop will reach it.
                None if !name.ends_with(SEALED) => drop(names.insert(format!("{name}{SEALED}"))),
                None => {}
            },
        }
        if files.len() > FILES_MAX {
            return Err(UpkeepError::Refused(format!("there are more than {FILES_MAX} files to back up")));
        }
    }
    Ok(())
}

/// Copies a file. Returns `None` if it no longer exists.
fn put_present(
    sink: &mut BackupSink,
    data_dir: &Path,
    path: &Path,
) -> Result<Option<FileEntry>, UpkeepError> {
    let (name, place) = (path.to_string_lossy(), data_dir.join(path));
    let file = match File::open(&place) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io("cannot read", &place))?,
    };
    sink.put_open(&name, file, &place).map(Some)
}

fn new_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

impl BackupSink {
    fn create(to: &Path) -> Result<Self, UpkeepError> {
        if to.extension().is_some_and(|ending| ending == "tar") {
            let file = new_file(to).map_err(io("cannot make", to))?;
            return Ok(BackupSink::Tar(Box::new(tar::Builder::new(file))));
        }
        let made = std::fs::DirBuilder::new().mode(0o700).create(to);
        made.map_err(io("cannot make", to))?;
        Ok(BackupSink::Directory(to.to_owned()))
    }

    fn put(&mut self, name: &str, from: &Path) -> Result<FileEntry, UpkeepError> {
        self.put_open(name, File::open(from).map_err(io("cannot read", from))?, from)
    }

    /// Copies a file up to its current length. The file may grow during the copy.
    fn put_open(&mut self, name: &str, file: File, from: &Path) -> Result<FileEntry, UpkeepError> {
        let bytes = file.metadata().map_err(io("cannot read", from))?.len();
        let mut source = DigestReader::new(file.take(bytes));
        match self {
            BackupSink::Directory(dir) => {
                let place = dir.join(name);
                let above = parent(&place);
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
                made.map_err(io("cannot make", above))?;
                let mut into = new_file(&place).map_err(io("cannot make", &place))?;
                io::copy(&mut source, &mut into).map_err(io("cannot write", &place))?;
                into.sync_all().map_err(io("cannot write", &place))?;
            }
            BackupSink::Tar(archive) => {
                let mut header = header(bytes);
                let put = archive.append_data(&mut header, name, &mut source);
                put.map_err(io("cannot put into the archive", from))?;
            }
        }
        if source.bytes != bytes {
            return Err(UpkeepError::Refused(format!("{} became shorter while it was read", from.display())));
        }
        Ok(source.entry(name.to_owned()))
    }

    fn finish(self, manifest: &BackupManifest, to: &Path) -> Result<(), UpkeepError> {
        let text = serde_json::to_vec(manifest)
            .map_err(|error| UpkeepError::Refused(format!("the manifest cannot be written: {error}")))?;
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(UpkeepError::Refused(format!(
                "the manifest is longer than {MANIFEST_BYTES_MAX} bytes"
            )));
        }
        let written = || -> io::Result<()> {
            match self {
                BackupSink::Directory(dir) => {
                    let mut file = new_file(&dir.join(manifest::FILE))?;
                    file.write_all(&text)?;
                    file.sync_all()?;
                    File::open(&dir)?.sync_all()?;
                }
                BackupSink::Tar(mut archive) => {
                    archive.append_data(&mut header(text.len() as u64), manifest::FILE, text.as_slice())?;
                    archive.into_inner()?.sync_all()?;
                }
            }
            File::open(parent(to))?.sync_all()
        };
        written().map_err(io("cannot write", to))
    }
}

fn header(bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_entry_type(tar::EntryType::Regular);
    header
}
