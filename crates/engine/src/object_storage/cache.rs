//! Local copies of objects. Objects never change, so a complete copy stays valid.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use parking_lot::Mutex;
use tempfile::NamedTempFile;

use super::{ObjectStorage, StorageError, StoredObject};

/// Prefix of the names of unfinished copies, which a crash may leave behind.
const UNFINISHED: &str = "part-";

pub(crate) struct ObjectCache {
    dir: PathBuf,
    /// Maximum size of all copies. The one that was added last may exceed it.
    bytes_max: u64,
    /// Upper bound of the size of all copies, because removed ones still count. `None` until they are first counted.
    bytes: Mutex<Option<u64>>,
}

impl ObjectCache {
    pub(super) fn new(dir: PathBuf, bytes_max: u64) -> Self {
        Self { dir, bytes_max, bytes: Mutex::default() }
    }

    /// Opens the local copy of an object, which is downloaded and verified first if there is none.
    pub(super) fn open(&self, storage: &ObjectStorage, object: &StoredObject) -> Result<File, StorageError> {
        match OpenOptions::new().read(true).write(true).open(self.path(&object.name)) {
            Ok(file) if file.metadata()?.len() == object.bytes => {
                // The least recently used copies are removed first.
                file.set_modified(SystemTime::now())?;
                return Ok(file);
            }
            Ok(_) => {
                tracing::warn!(object = object.name, "local copy of an object is damaged; downloading again");
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let copy = self.new_file()?;
        storage.get_file(object, copy.as_file())?;
        Ok(self.insert(&object.name, copy)?)
    }

    /// Creates a file for [`ObjectCache::insert`].
    pub(crate) fn new_file(&self) -> io::Result<NamedTempFile> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.dir)
    }

    /// Adds a complete copy of an object.
    pub(crate) fn insert(&self, name: &str, copy: NamedTempFile) -> io::Result<File> {
        // A copy is not verified again, so it must not change if the machine loses power.
        copy.as_file().sync_all()?;
        let path = self.path(name);
        copy.persist(&path).map_err(|error| error.error)?;
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut total = self.bytes.lock();
        *total = Some(match *total {
            Some(bytes) if bytes + size <= self.bytes_max => bytes + size,
            _ => self.evict(name)?,
        });
        Ok(file)
    }

    pub(crate) fn remove(&self, name: &str) {
        // Without a copy there is nothing to remove; an error only costs space until the copy is evicted.
        let _ = std::fs::remove_file(self.path(name));
    }

    /// Removes unfinished copies of an earlier process.
    pub(crate) fn clean(&self) -> io::Result<()> {
        let listed = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            listed => listed?,
        };
        for entry in listed {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes the least recently used copies, except for `kept`, until a tenth of the space is free, so that the next
    /// copies are added without listing all of them. Returns the size of those that are left.
    fn evict(&self, kept: &str) -> io::Result<u64> {
        let kept = self.path(kept);
        let mut copies = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_copy = !entry.file_name().to_string_lossy().starts_with(UNFINISHED);
            // Another thread may remove a copy in the meantime.
            if let Ok(info) = entry.metadata()
                && is_copy
            {
                copies.push((info.modified()?, info.len(), entry.path()));
            }
        }
        let mut bytes: u64 = copies.iter().map(|(_, bytes, _)| bytes).sum();
        copies.sort_unstable();
        for (_, size, path) in copies {
            if bytes <= self.bytes_max - self.bytes_max / 10 {
                break;
            }
            if path != kept && std::fs::remove_file(&path).is_ok() {
                bytes -= size;
            }
        }
        Ok(bytes)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name.replace('/', "_"))
    }
}
