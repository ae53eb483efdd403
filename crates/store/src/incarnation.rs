//! Detects that the database file was replaced by an older copy, which would issue the same fences (fencing tokens)
//! again.
//!
//! Each start writes a new random id, the incarnation, to the database and to a file next to it. While it is being
//! changed, the file contains both the old and the new incarnation, so that a crash in between does not look like a
//! mismatch. The file also contains the highest epoch that was ever used in the directory.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::Store;
use crate::data_dir::DataDir;
use crate::error::{OpenError, StoreError};
use crate::sqlite;
use crate::tables::instance;
use crate::tx::TxContext;

/// Name of the file in the data directory.
pub const FILE: &str = "incarnation";
/// The incarnation of a backup. Only `berth admin restore` accepts it.
pub const BACKUP: &str = "backup";
/// The incarnation of a database that was copied to PostgreSQL.
pub const MOVED: &str = "moved";
/// Written to the file in place of the incarnation if the database has none.
const NONE: &str = "none";
/// Prefix of the line that contains the epoch.
const EPOCH: &str = "epoch ";
const RANDOM_BYTES: usize = 16;

/// The content of the incarnation file.
#[derive(Default)]
struct IncarnationFile {
    marks: Vec<String>,
    epoch: Option<i64>,
}

/// Refuses a database other than the one that was last used in this directory.
pub(crate) fn check_database(dir: &DataDir) -> Result<(), OpenError> {
    let found = sqlite::incarnation(&dir.database())?;
    let Some(known) = read_file(dir.path())? else {
        // On the first start there is no file, and the new database has no incarnation.
        return if found.is_none() { Ok(()) } else { refuse_copy(dir, found.as_deref()) };
    };
    match known.marks.iter().any(|mark| mark == found.as_deref().unwrap_or(NONE)) {
        true => Ok(()),
        false => refuse_copy(dir, found.as_deref()),
    }
}

fn refuse_copy(dir: &DataDir, found: Option<&str>) -> Result<(), OpenError> {
    if found == Some(MOVED) {
        return Err(OpenError::Refused(format!(
            "{} was copied to PostgreSQL by `berth admin copy`: serve that with --database. To use this file anyway, without \
             the changes made there, run `berth admin raise-epoch --data-dir {}`.",
            dir.database().display(),
            dir.path().display(),
        )));
    }
    Err(OpenError::Refused(format!(
        "{} is not the database that was last used in {}: it is a copy that lacks later changes, and could give the same \
         fences again. To restore a backup, run `berth admin restore` into an empty directory. To use this file anyway, \
         run `berth admin raise-epoch --data-dir {}`: sessions end, the outcome of running steps is unknown, and pipelines \
         are stopped until they are resumed.",
        dir.database().display(),
        dir.path().display(),
        dir.path().display(),
    )))
}

/// Writes a new incarnation to the database and to the file, so that older copies of the database are refused.
pub(crate) fn renew_incarnation(store: &Store, dir: &DataDir) -> Result<(), OpenError> {
    let before = sqlite::incarnation(&dir.database())?;
    let epoch = Some(store.epoch()).max(stored_epoch(dir)?);
    let next = new_mark()?;
    write_file(dir.path(), &[before.as_deref().unwrap_or(NONE), &next], epoch)?;
    let mark = next.clone();
    store.transact_blocking(TxContext::system(None), move |tx| instance::set_incarnation(tx, &mark))?;
    write_file(dir.path(), &[&next], epoch)
}

/// Makes the directory accept a new database that has no incarnation yet.
pub(crate) fn expect_new(dir: &DataDir) -> Result<(), OpenError> {
    match read_file(dir.path())? {
        None => Ok(()),
        Some(known) => write_file(dir.path(), &[NONE], known.epoch),
    }
}

/// The highest epoch that the incarnation file contains.
pub fn stored_epoch(dir: &DataDir) -> Result<Option<i64>, OpenError> {
    Ok(read_file(dir.path())?.and_then(|known| known.epoch))
}

/// Stores an epoch that was raised while the server was running.
pub fn store_epoch(data_dir: &Path, epoch: i64) -> Result<(), OpenError> {
    let Some(known) = read_file(data_dir)? else { return Ok(()) };
    let marks: Vec<&str> = known.marks.iter().map(String::as_str).collect();
    write_file(data_dir, &marks, Some(epoch).max(known.epoch))
}

fn new_mark() -> Result<String, OpenError> {
    let mut bytes = [0; RANDOM_BYTES];
    let drawn = aws_lc_rs::rand::fill(&mut bytes);
    drawn.map_err(|_| StoreError::Unavailable("the system gave no random bytes".into()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn file_path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

fn read_file(dir: &Path) -> Result<Option<IncarnationFile>, OpenError> {
    let text = match std::fs::read_to_string(file_path(dir)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("cannot read", &file_path(dir), error)),
    };
    let mut known = IncarnationFile::default();
    for line in text.lines() {
        match line.strip_prefix(EPOCH) {
            Some(number) => known.epoch = number.parse().ok().max(known.epoch),
            None => known.marks.push(line.to_owned()),
        }
    }
    Ok(Some(known))
}

/// Writes the file atomically and durably: writes a temporary file, fsyncs it and renames it.
fn write_file(dir: &Path, marks: &[&str], epoch: Option<i64>) -> Result<(), OpenError> {
    let (path, draft) = (file_path(dir), dir.join(format!("{FILE}.draft")));
    let written = || -> std::io::Result<()> {
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        marks.iter().try_for_each(|mark| writeln!(file, "{mark}"))?;
        epoch.iter().try_for_each(|epoch| writeln!(file, "{EPOCH}{epoch}"))?;
        file.sync_all()?;
        std::fs::rename(&draft, &path)?;
        File::open(dir)?.sync_all()
    };
    written().map_err(|error| io_error("cannot write", &path, error))
}

fn io_error(action: &'static str, path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Io { action, path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(dir: &DataDir) {
        Store::open_in(dir).unwrap().begin_in(dir).unwrap();
    }

    #[test]
    fn database_copied_before_a_later_start_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        start(&dir);
        let copy = temp.path().join("copy");
        std::fs::copy(dir.database(), &copy).unwrap();
        start(&dir);
        start(&dir);
        std::fs::copy(&copy, dir.database()).unwrap();
        let refused = Store::open_in(&dir).err().unwrap().to_string();
        assert!(refused.contains("raise-epoch"), "{refused}");
        drop(Store::open_sqlite(&dir.database()).unwrap());
        assert!(Store::open_in(&dir).is_err(), "opening it does not renew the incarnation");
        Store::open_sqlite(&dir.database()).unwrap().begin_in(&dir).unwrap();
        start(&dir);
        std::fs::remove_file(file_path(dir.path())).unwrap();
        assert!(Store::open_in(&dir).is_err(), "a database without the file is a copy");
    }

    #[test]
    fn incarnation_survives_a_crash_while_it_changes() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        start(&dir);
        let mark = sqlite::incarnation(&dir.database()).unwrap().unwrap();
        write_file(dir.path(), &[&mark, "next"], None).unwrap();
        check_database(&dir).unwrap();
        sqlite::set_incarnation(&dir.database(), "next").unwrap();
        check_database(&dir).unwrap();
        sqlite::set_incarnation(&dir.database(), "other").unwrap();
        assert!(check_database(&dir).is_err());
    }

    #[test]
    fn database_without_an_incarnation_is_refused_if_one_is_expected() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        drop(Store::open_in(&dir).unwrap());
        let copy = temp.path().join("copy");
        std::fs::copy(dir.database(), &copy).unwrap();
        write_file(dir.path(), &[NONE, "next"], None).unwrap();
        check_database(&dir).unwrap();
        start(&dir);
        std::fs::copy(&copy, dir.database()).unwrap();
        assert!(Store::open_in(&dir).is_err(), "an old copy");
        std::fs::write(dir.database(), "").unwrap();
        assert!(Store::open_in(&dir).is_err(), "an emptied file");
        expect_new(&dir).unwrap();
        drop(Store::open_in(&dir).unwrap());
    }

    #[test]
    fn data_directory_keeps_the_highest_epoch() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        start(&dir);
        let copy = temp.path().join("copy");
        std::fs::copy(dir.database(), &copy).unwrap();
        let mut given = Vec::new();
        for _ in 0..2 {
            std::fs::copy(&copy, dir.database()).unwrap();
            let mut store = Store::open_sqlite(&dir.database()).unwrap();
            store.raise_epoch(stored_epoch(&dir).unwrap()).unwrap();
            store.begin_in(&dir).unwrap();
            given.push(store.epoch());
        }
        assert!(given[1] >= given[0] + 16, "{given:?}");
        // Stores an epoch that was raised while the server was running. A lower epoch is ignored.
        let told = given[1] + 100;
        store_epoch(dir.path(), told).unwrap();
        store_epoch(dir.path(), 1).unwrap();
        assert_eq!(stored_epoch(&dir).unwrap(), Some(told));
        check_database(&dir).unwrap();
    }
}
