//! Backup: the database as it is at one moment, then the files it speaks of, then a manifest with all digests.
//!
//! In that order: files are only added to, so whatever the copied database says has ended is whole in the files that are
//! copied after it. The server may run and write meanwhile. The root key is no part of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use berth_core::time::Timestamp;
use berth_store::admin::read_only::ReadOnly;
use berth_store::migrations::MIGRATIONS;
use berth_store::tables::{event, instance, key, organization};

use super::manifest::{self, ChainHead, FILES_MAX, FORMAT, FileEntry, Hashing, MANIFEST_BYTES_MAX, Manifest};
use super::{DATABASE, KEPT, UpkeepError, io, parent};

/// Endings of files that are still being made.
const UNFINISHED: &str = ".part";
/// Beginnings of names that are nobody's yet.
const SCRATCH: [&str; 2] = ["part-", "scratch-"];
/// The ending a log gets when it is sealed.
const SEALED: &str = ".zst";
/// How deep files lie below the directories that are kept.
const DEPTH_MAX: usize = 8;

/// Where a backup goes.
enum Sink {
    Directory(PathBuf),
    Tar(Box<tar::Builder<File>>),
}

/// Which database a data directory belongs to.
pub enum Database<'a> {
    Sqlite,
    /// Its own tools back it up; the files alone are taken.
    Postgres(&'a str),
}

/// Makes a backup of a data directory. A name that ends in `.tar` becomes one file, any other a directory.
pub fn backup(
    data_dir: &Path,
    database: &Database<'_>,
    to: &Path,
    now: Timestamp,
) -> Result<Manifest, UpkeepError> {
    let sink = Sink::create(to)?;
    // What was made so far is no backup, and in the way of the next one.
    make(sink, data_dir, database, to, now).inspect_err(|_| {
        let _ = if to.is_dir() { std::fs::remove_dir_all(to) } else { std::fs::remove_file(to) };
    })
}

fn make(
    mut sink: Sink,
    data_dir: &Path,
    database: &Database<'_>,
    to: &Path,
    now: Timestamp,
) -> Result<Manifest, UpkeepError> {
    let mut manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        engine: "sqlite".into(),
        created_at: now.to_string(),
        schema: MIGRATIONS.last().map(|last| last.number),
        epoch: None,
        root_key_id: None,
        heads: Vec::new(),
        files: Vec::new(),
    };
    match database {
        Database::Sqlite => {
            let copy = tempfile::Builder::new()
                .prefix(".berth-backup-")
                .tempdir_in(parent(to))
                .map_err(io("cannot write beside", to))?;
            let copied = copy.path().join(DATABASE);
            berth_store::admin::backup::copy_sqlite(&data_dir.join(DATABASE), &copied)?;
            // What is said about it is said about the copy.
            describe(&mut manifest, ReadOnly::sqlite(&copied)?)?;
            manifest.files.push(sink.put(DATABASE, &copied)?);
        }
        Database::Postgres(url) => {
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

fn describe(manifest: &mut Manifest, mut db: ReadOnly) -> Result<(), UpkeepError> {
    let (epoch, mut root_keys) =
        db.read(None, |db| Ok::<_, UpkeepError>((instance::epoch(db)?, key::root_keys(db)?)))?;
    if root_keys.len() > 1 {
        let text = "the root key is being rotated: some keys are wrapped by the old one and some by the new one, and a backup \
                    of that could not be opened by either. Finish it first with `berth admin rotate-keys`.";
        return Err(UpkeepError::Refused(text.into()));
    }
    (manifest.epoch, manifest.root_key_id) = (Some(epoch), root_keys.pop());
    let mut after = None;
    loop {
        let page = db.read(None, |db| Ok::<_, UpkeepError>(organization::organizations(db, after)?))?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (org, slug) in page {
            let head = db.read(Some(org), |db| Ok::<_, UpkeepError>(event::head(db)?))?;
            let organization = org.to_string();
            manifest.heads.push(ChainHead { organization, slug, sequence: head.sequence, hash: head.hash });
        }
    }
}

/// Everything below a directory, whatever comes and goes meanwhile.
fn put_all(
    sink: &mut Sink,
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
                // A log that was sealed since has another name, which comes after this one.
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

/// `None`: it has gone.
fn put_present(sink: &mut Sink, data_dir: &Path, path: &Path) -> Result<Option<FileEntry>, UpkeepError> {
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

impl Sink {
    fn create(to: &Path) -> Result<Self, UpkeepError> {
        if to.extension().is_some_and(|ending| ending == "tar") {
            let file = new_file(to).map_err(io("cannot make", to))?;
            return Ok(Sink::Tar(Box::new(tar::Builder::new(file))));
        }
        let made = std::fs::DirBuilder::new().mode(0o700).create(to);
        made.map_err(io("cannot make", to))?;
        Ok(Sink::Directory(to.to_owned()))
    }

    fn put(&mut self, name: &str, from: &Path) -> Result<FileEntry, UpkeepError> {
        self.put_open(name, File::open(from).map_err(io("cannot read", from))?, from)
    }

    /// Copies a file as long as it is now; it may grow meanwhile.
    fn put_open(&mut self, name: &str, file: File, from: &Path) -> Result<FileEntry, UpkeepError> {
        let bytes = file.metadata().map_err(io("cannot read", from))?.len();
        let mut source = Hashing::new(file.take(bytes));
        match self {
            Sink::Directory(dir) => {
                let place = dir.join(name);
                let above = parent(&place);
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
                made.map_err(io("cannot make", above))?;
                let mut into = new_file(&place).map_err(io("cannot make", &place))?;
                io::copy(&mut source, &mut into).map_err(io("cannot write", &place))?;
                into.sync_all().map_err(io("cannot write", &place))?;
            }
            Sink::Tar(archive) => {
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

    fn finish(self, manifest: &Manifest, to: &Path) -> Result<(), UpkeepError> {
        let text = serde_json::to_vec(manifest)
            .map_err(|error| UpkeepError::Refused(format!("the manifest cannot be written: {error}")))?;
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(UpkeepError::Refused(format!(
                "the manifest is longer than {MANIFEST_BYTES_MAX} bytes"
            )));
        }
        let written = || -> io::Result<()> {
            match self {
                Sink::Directory(dir) => {
                    let mut file = new_file(&dir.join(manifest::FILE))?;
                    file.write_all(&text)?;
                    file.sync_all()?;
                    File::open(&dir)?.sync_all()?;
                }
                Sink::Tar(mut archive) => {
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
