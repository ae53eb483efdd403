//! The SQLite driver: one thread writes, a few read, and every connection is set up and checked the same way.

mod clock;
mod reader;
mod writer;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use berth_core::time::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};

pub(crate) use clock::Clock;
pub(crate) use reader::Readers;
pub(crate) use writer::{Job, Ran, Writer};

use crate::error::{OpenError, StoreError};
use crate::migrations::{self, Applied};
use crate::records::instance;
use crate::sql::{self, Conn, Engine, Statement};
use crate::value::{Row, Value};

/// Below this, two connections can lose a committed write; 3.52.0 was withdrawn.
const VERSION_MIN: i32 = 3_051_003;
const VERSION_WITHDRAWN: i32 = 3_052_000;
const BUSY_WAIT: Duration = Duration::from_secs(10);
const CACHE_KIB: i64 = 8 * 1024;
const STATEMENTS_KEPT: usize = 256;

pub(crate) struct SqliteConn {
    db: Connection,
    /// The disk failed under a statement; the writer looks here after every job.
    broken: Option<StoreError>,
    rendered: HashMap<&'static str, String>,
}

pub(crate) fn check_version() -> Result<(), OpenError> {
    let version = rusqlite::version_number();
    if version < VERSION_MIN || version == VERSION_WITHDRAWN {
        let text = format!("this build carries SQLite {}, which can lose writes", rusqlite::version());
        return Err(OpenError::Refused(text));
    }
    Ok(())
}

/// Brings the schema up to date and answers the installation's epoch. Each migration holds the write lock, so a second start waits and then finds it done.
pub(crate) fn migrate(path: &Path, now: Timestamp) -> Result<i64, OpenError> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    loop {
        db.execute_batch("BEGIN IMMEDIATE").map_err(StoreError::from)?;
        db.execute_batch(migrations::HISTORY_TABLE).map_err(StoreError::from)?;
        let applied = applied(&db).map_err(StoreError::from)?;
        let Some(next) = migrations::pending(&applied)?.first() else {
            db.execute_batch("COMMIT").map_err(StoreError::from)?;
            let mut conn = SqliteConn { db, broken: None, rendered: HashMap::new() };
            return Ok(instance::epoch(&mut conn)?);
        };
        db.execute_batch(&next.rendered(Engine::Sqlite)).map_err(StoreError::from)?;
        let params = rusqlite::params![next.number, next.name, next.checksum(), now.as_micros()];
        let insert =
            "INSERT INTO schema_migrations (number, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)";
        db.execute(insert, params).map_err(StoreError::from)?;
        db.execute_batch("COMMIT").map_err(StoreError::from)?;
        tracing::info!(migration = next.number, name = next.name, "database migrated");
    }
}

fn applied(db: &Connection) -> rusqlite::Result<Vec<Applied>> {
    let mut query = db.prepare("SELECT number, name, checksum FROM schema_migrations ORDER BY number")?;
    let rows = query
        .query_map([], |row| Ok(Applied { number: row.get(0)?, name: row.get(1)?, checksum: row.get(2)? }))?;
    rows.collect()
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(StoreError::from)?;
    db.busy_timeout(BUSY_WAIT).map_err(StoreError::from)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    db.pragma_update(None, "journal_mode", "WAL").map_err(StoreError::from)?;
    db.pragma_update(None, "synchronous", "FULL").map_err(StoreError::from)?;
    db.pragma_update(None, "foreign_keys", "ON").map_err(StoreError::from)?;
    // A plan must not depend on the values bound to it: SQLite would prepare most statements anew for each use.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(StoreError::from)?;
    // Only the writer checkpoints, between its transactions.
    db.pragma_update(None, "wal_autocheckpoint", 0).map_err(StoreError::from)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB).map_err(StoreError::from)?;
    for (name, wanted) in [("journal_mode", "wal"), ("synchronous", "2"), ("foreign_keys", "1")] {
        let found =
            db.pragma_query_value(None, name, |row| row.get_ref(0).map(shown)).map_err(StoreError::from)?;
        if found != wanted {
            let text = format!("SQLite did not accept {name}={wanted}: it says {found}");
            return Err(StoreError::Unavailable(text));
        }
    }
    Ok(db)
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => String::new(),
    }
}

impl SqliteConn {
    fn open(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        Ok(Self { db: connect(path, flags)?, broken: None, rendered: HashMap::new() })
    }

    fn batch(&self, text: &str) -> Result<(), StoreError> {
        self.db
            .prepare_cached(text)
            .and_then(|mut statement| statement.raw_execute())
            .map_err(StoreError::from)
            .map(drop)
    }

    fn noted(&mut self, statement: &Statement, error: rusqlite::Error) -> StoreError {
        match StoreError::from(error) {
            StoreError::Bug(text) => StoreError::Bug(format!("{}: {text}", statement.name)),
            StoreError::Broken(text) => {
                self.broken = Some(StoreError::Broken(text.clone()));
                StoreError::Broken(text)
            }
            other => other,
        }
    }

    fn render(&mut self, statement: &Statement) -> String {
        debug_assert!(
            sql::all().any(|known| known.name == statement.name),
            "{} is missing in sql::all()",
            statement.name
        );
        self.rendered
            .entry(statement.name)
            .or_insert_with(|| sql::render(statement.text, Engine::Sqlite))
            .clone()
    }
}

impl Conn for SqliteConn {
    fn query(&mut self, statement: &Statement, params: &[Value]) -> Result<Vec<Row>, StoreError> {
        let text = self.render(statement);
        let rows = (|| {
            let mut prepared = self.db.prepare_cached(&text)?;
            let columns = prepared.column_count();
            let read = |row: &rusqlite::Row<'_>| {
                (0..columns).map(|column| row.get_ref(column).map(owned)).collect::<Result<_, _>>().map(Row)
            };
            prepared.query_map(rusqlite::params_from_iter(params), read)?.collect::<Result<Vec<_>, _>>()
        })();
        rows.map_err(|error| self.noted(statement, error))
    }

    fn execute(&mut self, statement: &Statement, params: &[Value]) -> Result<u64, StoreError> {
        let text = self.render(statement);
        let changed = self
            .db
            .prepare_cached(&text)
            .and_then(|mut prepared| prepared.execute(rusqlite::params_from_iter(params)));
        changed.map(|rows| rows as u64).map_err(|error| self.noted(statement, error))
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null | ValueRef::Real(_) => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::StorageFull,
            Some(ErrorCode::OperationInterrupted) => {
                StoreError::Unavailable(format!("a read took longer than {} s", reader::READ_S_MAX))
            }
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

/// Ends reads that run too long.
fn limit_reads(
    conn: &mut SqliteConn,
    started: &std::sync::Arc<std::sync::Mutex<Instant>>,
) -> Result<(), StoreError> {
    const CHECK_EVERY_OPERATIONS: i32 = 20_000;
    let started = started.clone();
    let too_long = move || {
        started.lock().is_ok_and(|started| started.elapsed() > Duration::from_secs(reader::READ_S_MAX))
    };
    conn.db.progress_handler(CHECK_EVERY_OPERATIONS, Some(too_long)).map_err(StoreError::from)
}
