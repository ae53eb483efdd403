//! The SQLite driver: one writer thread and a few reader threads, each with its own connection.

mod checkpoint;
mod clock;
mod conn;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::time::Duration;

use berth_core::time::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};

pub(crate) use clock::{ClockOffset, StoreClock, now};
pub(crate) use conn::{SqliteConn, read_value};
pub(crate) use reader::SqliteReaders;
pub(crate) use writer::SqliteWriter;

use crate::error::{OpenError, StoreError};
use crate::migrations::{self, AppliedMigration, MigrationKind, Schema, SchemaState};
use crate::sql::SqlEngine;
use crate::tables::instance;
use crate::tx::read_timeout;

/// Older versions of SQLite can lose a committed write when two connections write. Version 3.52.0 was withdrawn.
const VERSION_MIN: i32 = 3_051_003;
const VERSION_WITHDRAWN: i32 = 3_052_000;
const BUSY_WAIT: Duration = Duration::from_secs(10);
const CACHE_KIB: i64 = 8 * 1024;

pub(crate) fn check_version() -> Result<(), OpenError> {
    let version = rusqlite::version_number();
    if version < VERSION_MIN || version == VERSION_WITHDRAWN {
        let text = format!("this build carries SQLite {}, which can lose writes", rusqlite::version());
        return Err(OpenError::Refused(text));
    }
    Ok(())
}

/// Migrates the schema and returns the epoch. A migration holds the write lock, so a second process that starts at the
/// same time waits for it.
pub(crate) fn migrate(path: &Path, schema: &Schema, now: Timestamp) -> Result<i64, OpenError> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let run = |text: &str| db.execute_batch(text).map_err(StoreError::from);
    loop {
        run("BEGIN IMMEDIATE")?;
        run(migrations::HISTORY_TABLE)?;
        let state = read_schema_state(&db)?;
        let plan = schema.plan(&state)?;
        let Some(next) = plan.apply.first() else {
            run(&migrations::raise_min_version(plan.min_version))?;
            run("COMMIT")?;
            return Ok(instance::read_epoch(&mut SqliteConn::new(&db))?);
        };
        run(&next.render_for(SqlEngine::Sqlite))?;
        if let MigrationKind::Contract { min_version } = next.kind {
            run(&migrations::raise_min_version(min_version))?;
        }
        let params = rusqlite::params![next.number, next.name, next.checksum(), now.as_micros()];
        let insert =
            "INSERT INTO schema_migrations (number, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)";
        db.execute(insert, params).map_err(StoreError::from)?;
        run("COMMIT")?;
        tracing::info!(migration = next.number, name = next.name, "database migrated");
    }
}

/// The incarnation of the database, if it has one.
pub(crate) fn incarnation(path: &Path) -> Result<Option<String>, StoreError> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // The column does not exist in a new database, nor in one of a version that had no incarnations.
    let column = "SELECT COUNT(*) FROM pragma_table_info('instance') WHERE name = 'incarnation'";
    if db.query_row(column, [], |row| row.get::<_, i64>(0)).map_err(StoreError::from)? == 0 {
        return Ok(None);
    }
    let text = "SELECT incarnation FROM instance WHERE id = 'berth'";
    db.query_row(text, [], |row| row.get(0)).map_err(StoreError::from)
}

pub(crate) fn set_incarnation(path: &Path, mark: &str) -> Result<(), StoreError> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let text = "UPDATE instance SET incarnation = ?1 WHERE id = 'berth'";
    db.execute(text, [mark]).map(drop).map_err(StoreError::from)
}

/// Opens a read-only connection. This is possible while a server is running.
pub(crate) fn connect_read_only(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(StoreError::from)?;
    db.busy_timeout(BUSY_WAIT).map_err(StoreError::from)?;
    db.pragma_update(None, "query_only", 1).map_err(StoreError::from)?;
    Ok(db)
}

/// Reads the migration history. A database of another program, or a new one, has none.
pub(crate) fn read_schema_state(db: &Connection) -> Result<SchemaState, StoreError> {
    let has_history =
        "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'";
    if db.query_row(has_history, [], |row| row.get::<_, i64>(0)).map_err(StoreError::from)? == 0 {
        return Ok(SchemaState::default());
    }
    let mut query = db.prepare(migrations::HISTORY).map_err(StoreError::from)?;
    let rows = query.query_map([], |row| {
        Ok(AppliedMigration { number: row.get(0)?, name: row.get(1)?, checksum: row.get(2)? })
    });
    let applied = rows.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>).map_err(StoreError::from)?;
    // Databases of development versions do not have the column.
    let column = "SELECT COUNT(*) FROM pragma_table_info('instance') WHERE name = 'schema_min_version'";
    let has_column = db.query_row(column, [], |row| row.get::<_, i64>(0)).map_err(StoreError::from)? > 0;
    let min_version = match has_column {
        true => db.query_row(migrations::MIN_VERSION, [], |row| row.get(0)).map_err(StoreError::from)?,
        false => 0,
    };
    Ok(SchemaState { applied, min_version, servers: Vec::new() })
}

pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(StoreError::from)?;
    db.busy_timeout(BUSY_WAIT).map_err(StoreError::from)?;
    db.pragma_update(None, "journal_mode", "WAL").map_err(StoreError::from)?;
    db.pragma_update(None, "synchronous", "FULL").map_err(StoreError::from)?;
    db.pragma_update(None, "foreign_keys", "ON").map_err(StoreError::from)?;
    // Makes query plans independent of parameter values. Otherwise SQLite would prepare most statements again for every
    // use.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(StoreError::from)?;
    // Disables automatic checkpoints. They run in the background and between transactions instead, see `checkpoint`.
    db.pragma_update(None, "wal_autocheckpoint", 0).map_err(StoreError::from)?;
    // Keeps the journals of savepoints in memory instead of temporary files.
    db.pragma_update(None, "temp_store", "MEMORY").map_err(StoreError::from)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB).map_err(StoreError::from)?;
    for (name, wanted) in [("journal_mode", "wal"), ("synchronous", "2"), ("foreign_keys", "1")] {
        let found = db
            .pragma_query_value(None, name, |row| row.get_ref(0).map(pragma_text))
            .map_err(StoreError::from)?;
        if found != wanted {
            let text = format!("SQLite did not accept {name}={wanted}: it is {found}");
            return Err(StoreError::Unavailable(text));
        }
    }
    Ok(db)
}

/// Disables the checkpoint on close, because after a disk failure the WAL must be kept for the next start.
fn keep_wal(db: &Connection) -> Result<(), StoreError> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop).map_err(StoreError::from)
}

fn pragma_text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => String::new(),
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::StorageFull,
            Some(ErrorCode::OperationInterrupted) => read_timeout(),
            Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Broken(error.to_string())
            }
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly,
            ) => StoreError::Unavailable(error.to_string()),
            _ => StoreError::Bug(error.to_string()),
        }
    }
}
