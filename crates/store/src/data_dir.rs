//! The data directory: who owns it, and where things lie in it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::error::OpenError;

/// How long a start waits for another process to let go of the directory.
pub const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// File systems on which locks and flushes cannot be trusted, by their magic number.
const NETWORK_FILE_SYSTEMS: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6163_6673, "AFS"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
];

/// A directory this process owns until the value is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Opens the directory, making it if need be, and takes its lock.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let io = |action| move |source| OpenError::Io { action, path: path.display().to_string(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io("cannot create"))?;
        refuse_network(path)?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("berth.lock"))
            .map_err(io("cannot lock"))?;
        let deadline = Instant::now() + LOCK_WAIT;
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(io("cannot lock")(error.into()));
            }
            if Instant::now() > deadline {
                let mut owner = String::new();
                let _ = lock.read_to_string(&mut owner);
                return Err(OpenError::Refused(format!(
                    "{} is in use by another berth (process {}). Stop it first: one server owns a data directory.",
                    path.display(),
                    owner.trim(),
                )));
            }
            std::thread::sleep(LOCK_RETRY);
        }
        lock.set_len(0).and_then(|()| lock.rewind()).map_err(io("cannot lock"))?;
        writeln!(lock, "{}", std::process::id()).map_err(io("cannot lock"))?;
        // SQLite gives its other files the mode of this one: nobody else reads hashes of tokens and passwords.
        let database = path.join("berth.db");
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(database)
            .map_err(io("cannot create"))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("berth.db")
    }
}

fn refuse_network(path: &Path) -> Result<(), OpenError> {
    let Ok(info) = rustix::fs::statfs(path) else { return Ok(()) };
    match NETWORK_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == info.f_type) {
        None => Ok(()),
        Some((_, name)) => Err(OpenError::Refused(format!(
            "{} is on {name}: a database on a network file system can lose writes. Use a local disk.",
            path.display(),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_has_one_owner() {
        let temp = tempfile::tempdir().unwrap();
        let first = DataDir::open(temp.path()).unwrap();
        let second = DataDir::open(temp.path()).err().unwrap().to_string();
        assert!(second.contains(&format!("process {}", std::process::id())), "{second}");
        drop(first);
        DataDir::open(temp.path()).unwrap();
    }

    #[test]
    fn nobody_else_can_read_it() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&temp.path().join("a/data")).unwrap();
        crate::Store::open_sqlite(&dir.database()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(dir.path()), 0o700);
        for file in std::fs::read_dir(dir.path()).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }
}
