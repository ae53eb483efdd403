//! A copy of a SQLite database, made while a server may be writing to it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::StoreError;
use crate::incarnation::BACKUP;
use crate::sqlite;

/// How long a busy database is waited for.
const BUSY_MAX: Duration = Duration::from_secs(30);
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// All of them in one go: in parts the copy would begin anew with every write.
const ALL_PAGES: i32 = -1;

/// Copies the database as it is at one moment; writers go on meanwhile. The copy is one file, checked and on the disk when
/// this returns, and marked: it is not taken for the database itself.
pub fn copy_sqlite(from: &Path, to: &Path) -> Result<(), StoreError> {
    let source = sqlite::connect_read_only(from)?;
    let mut copy = Connection::open(to).map_err(StoreError::from)?;
    let deadline = Instant::now() + BUSY_MAX;
    let backup = Backup::new(&source, &mut copy).map_err(StoreError::from)?;
    while backup.step(ALL_PAGES).map_err(StoreError::from)? != StepResult::Done {
        if Instant::now() > deadline {
            return Err(StoreError::Unavailable("the database was busy for too long; try again".into()));
        }
        std::thread::sleep(BUSY_PAUSE);
    }
    drop(backup);
    // One file, without a log beside it.
    copy.pragma_update(None, "journal_mode", "DELETE").map_err(StoreError::from)?;
    copy.execute("UPDATE instance SET incarnation = ?1", [BACKUP]).map_err(StoreError::from)?;
    check(&copy)?;
    drop(copy);
    let flushed = std::fs::File::open(to).and_then(|file| file.sync_all());
    flushed.map_err(|error| StoreError::Unavailable(format!("{}: {error}", to.display())))
}

/// The pages and indexes belong together, and nothing points at what is not there.
pub(crate) fn check(db: &Connection) -> Result<(), StoreError> {
    let said: String =
        db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(StoreError::from)?;
    if said != "ok" {
        return Err(StoreError::Broken(said));
    }
    let mut query = db.prepare("PRAGMA foreign_key_check").map_err(StoreError::from)?;
    let mut rows = query.query([]).map_err(StoreError::from)?;
    match rows.next().map_err(StoreError::from)? {
        None => Ok(()),
        Some(row) => {
            let (table, parent): (String, String) =
                (row.get(0).map_err(StoreError::from)?, row.get(2).map_err(StoreError::from)?);
            Err(StoreError::Broken(format!("a row of {table} points at one of {parent} that is not there")))
        }
    }
}
