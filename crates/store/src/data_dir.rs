//! The data directory and its lock.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::error::OpenError;

/// How long a starting process waits for another process to release the lock.
pub const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// Magic numbers of network file systems, whose locks and fsync are unreliable.
const NETWORK_FILE_SYSTEMS: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6163_6673, "AFS"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
];

/// Maximum number of servers that can share a data directory. Each one uses its own subdirectory.
const REPLICAS_MAX: u32 = 64;

/// A data directory. It stays locked until this value is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// The subdirectory that only this server uses, or the data directory itself if it is not shared.
    own: PathBuf,
    _locks: Vec<File>,
}

impl DataDir {
    /// Opens a data directory that contains a SQLite database, with an exclusive lock. Creates both if they do not
    /// exist.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let dir = Self::open_bare(path)?;
        // The database contains hashes of tokens and passwords, so only its owner may read it. SQLite gives the WAL and
        // its other files the same mode.
        let made = OpenOptions::new().append(true).create(true).mode(0o600).open(dir.database());
        made.map_err(|source| OpenError::Io {
            action: "cannot create",
            path: path.display().to_string(),
            source,
        })?;
        Ok(dir)
    }

    /// Like [`DataDir::open`], but does not create the database file.
    pub fn open_bare(path: &Path) -> Result<Self, OpenError> {
        let io = |action| move |source| OpenError::Io { action, path: path.display().to_string(), source };
        create_dir(path)?;
        refuse_network(path)?;
        let mut lock = lock_file(&path.join("berth.lock"))?;
        take_lock(path, &lock, FlockOperation::NonBlockingLockExclusive)?;
        lock.set_len(0).and_then(|()| lock.rewind()).map_err(io("cannot lock"))?;
        writeln!(lock, "{}", std::process::id()).map_err(io("cannot lock"))?;
        Ok(Self { path: path.to_owned(), own: path.to_owned(), _locks: vec![lock] })
    }

    /// Opens a data directory that several servers share because their database is PostgreSQL. Each server locks the
    /// first free subdirectory of `servers`. Files in that subdirectory were left behind by a process that has ended.
    pub fn open_shared(path: &Path) -> Result<Self, OpenError> {
        create_dir(path)?;
        let shared = lock_file(&path.join("berth.lock"))?;
        take_lock(path, &shared, FlockOperation::NonBlockingLockShared)?;
        for number in 0..REPLICAS_MAX {
            let own = path.join("servers").join(number.to_string());
            create_dir(&own)?;
            let lock = lock_file(&own.join("berth.lock"))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(Self { path: path.to_owned(), own, _locks: vec![lock, shared] });
            }
        }
        Err(OpenError::Refused(format!("{} has {REPLICAS_MAX} servers already", path.display())))
    }

    /// Opens the data directory of a PostgreSQL database with an exclusive lock. Fails if a server is using it.
    pub fn open_alone(path: &Path) -> Result<Self, OpenError> {
        create_dir(path)?;
        let lock = lock_file(&path.join("berth.lock"))?;
        take_lock(path, &lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path: path.to_owned(), own: path.to_owned(), _locks: vec![lock] })
    }

    /// The directory that only this server uses. It contains the files of running steps and the admin socket.
    pub fn own_dir(&self) -> &Path {
        &self.own
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("berth.db")
    }
}

fn create_dir(path: &Path) -> Result<(), OpenError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| OpenError::Io { action: "cannot create", path: path.display().to_string(), source })
}

fn lock_file(path: &Path) -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(|source| OpenError::Io {
        action: "cannot lock",
        path: path.display().to_string(),
        source,
    })
}

fn take_lock(path: &Path, mut lock: &File, operation: FlockOperation) -> Result<(), OpenError> {
    let deadline = Instant::now() + LOCK_WAIT;
    while let Err(error) = flock(lock, operation) {
        if error != rustix::io::Errno::WOULDBLOCK {
            let (action, path) = ("cannot lock", path.display().to_string());
            return Err(OpenError::Io { action, path, source: error.into() });
        }
        if Instant::now() > deadline {
            let mut owner = String::new();
            let _ = lock.read_to_string(&mut owner);
            return Err(OpenError::Refused(format!(
                "{} is in use by another berth (process {}). Stop it first: only servers that share a PostgreSQL \
                 database can share a data directory.",
                path.display(),
                owner.trim(),
            )));
        }
        std::thread::sleep(LOCK_RETRY);
    }
    Ok(())
}

fn refuse_network(path: &Path) -> Result<(), OpenError> {
    let Ok(info) = rustix::fs::statfs(path) else { return Ok(()) };
    match NETWORK_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == info.f_type) {
        None => Ok(()),
        Some((_, name)) => Err(OpenError::Refused(format!(
            "{} is on {name}, and a database on a network file system can lose writes. Use a local disk.",
            path.display(),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn data_directory_is_locked_exclusively() {
        let temp = tempfile::tempdir().unwrap();
        let first = DataDir::open(temp.path()).unwrap();
        let second = DataDir::open(temp.path()).err().unwrap().to_string();
        assert!(second.contains(&format!("process {}", std::process::id())), "{second}");
        drop(first);
        DataDir::open(temp.path()).unwrap();
    }

    #[test]
    fn data_directory_is_shared_on_postgresql() {
        let temp = tempfile::tempdir().unwrap();
        let first = DataDir::open_shared(temp.path()).unwrap();
        let second = DataDir::open_shared(temp.path()).unwrap();
        assert_ne!(first.own_dir(), second.own_dir());
        assert!(DataDir::open(temp.path()).is_err(), "not shared with a server on SQLite");
        let place = first.own_dir().to_owned();
        drop(first);
        assert_eq!(
            DataDir::open_shared(temp.path()).unwrap().own_dir(),
            place,
            "a free subdirectory is used again"
        );
        drop(second);
        DataDir::open(temp.path()).unwrap();
    }

    #[test]
    fn data_directory_is_readable_by_its_owner_only() {
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
