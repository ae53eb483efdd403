//! What has begun, on the disk before it begins. After a crash the next process says of each attempt whether it may have
//! run: what is not written here never did.
//!
//! One file: the process's name in the first line, then `+nonce` before an attempt begins and `-nonce` when it is over.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use berth_api::remote::Before;

const NAME: &str = "spool";
/// More than a process writes in years; what is longer is not ours.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

#[derive(Debug)]
pub struct Spool {
    file: Mutex<File>,
}

impl Spool {
    /// What the process before this one left in the work directory.
    pub fn before(work_dir: &Path) -> io::Result<Option<Before>> {
        let file = match File::open(work_dir.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text)?;
        let mut lines = text.lines();
        let Some(boot) = lines.next().filter(|boot| !boot.is_empty()) else { return Ok(None) };
        let mut begun = BTreeSet::new();
        for line in lines {
            match line.split_at_checked(1) {
                Some(("+", nonce)) => drop(begun.insert(nonce.to_owned())),
                Some(("-", nonce)) => drop(begun.remove(nonce)),
                _ => {}
            }
        }
        Ok(Some(Before { boot: boot.to_owned(), begun: begun.into_iter().collect() }))
    }

    /// Begins anew. The server has heard what was in the one before.
    pub fn create(work_dir: &Path, boot: &str) -> io::Result<Self> {
        let (path, fresh): (PathBuf, PathBuf) = (work_dir.join(NAME), work_dir.join("spool.new"));
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
        writeln!(file, "{boot}")?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        File::open(work_dir)?.sync_all()?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// On the disk when this returns.
    pub(crate) fn begins(&self, nonce: &str) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("+{nonce}\n").as_bytes())?;
        file.sync_data()
    }

    /// Nobody asks about it any more. Should this get lost, the server knows better.
    pub(crate) fn over(&self, nonce: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(format!("-{nonce}\n").as_bytes()) {
            tracing::warn!("the spool cannot be written: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_knows_what_has_begun_and_is_not_over() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Spool::before(dir.path()).unwrap().is_none());
        let spool = Spool::create(dir.path(), "one").unwrap();
        for nonce in ["a", "b", "c"] {
            spool.begins(nonce).unwrap();
        }
        spool.over("b");
        drop(spool);
        let before = Spool::before(dir.path()).unwrap().unwrap();
        assert_eq!((before.boot.as_str(), before.begun), ("one", vec!["a".to_owned(), "c".to_owned()]));
        Spool::create(dir.path(), "two").unwrap();
        let before = Spool::before(dir.path()).unwrap().unwrap();
        assert_eq!((before.boot.as_str(), before.begun), ("two", Vec::new()));
    }
}
