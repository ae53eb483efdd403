//! Online backup of a SQLite database.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::StoreError;
use crate::incarnation::BACKUP;
use crate::sqlite;

/// Maximum time that a backup waits for a busy database.
const BUSY_MAX: Duration = Duration::from_secs(30);
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Copies all pages in one step, because SQLite restarts a multi-step backup whenever the database is modified.
const ALL_PAGES: i32 = -1;

/// Copies a snapshot of the database, even while a server is writing to it. The copy is a single file, has passed the
/// integrity check and is synced to disk. Its incarnation marks it as a backup.
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
    // Turns off WAL mode, so that the backup is a single file.
    copy.pragma_update(None, "journal_mode", "DELETE").map_err(StoreError::from)?;
    copy.execute("UPDATE instance SET incarnation = ?1", [BACKUP]).map_err(StoreError::from)?;
    check_integrity(&copy)?;
    drop(copy);
    let flushed = std::fs::File::open(to).and_then(|file| file.sync_all());
    flushed.map_err(|error| StoreError::Unavailable(format!("{}: {error}", to.display())))
}

/// Runs SQLite's integrity check of pages and indexes, and checks all foreign keys.
pub(crate) fn check_integrity(db: &Connection) -> Result<(), StoreError> {
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
            Err(StoreError::Broken(format!("a row of {table} references a missing row of {parent}")))
        }
    }
}
