//! A SQLite connection with a cache of prepared statements.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, PrepFlags, params_from_iter};

use crate::access_generation::{self, AccessGeneration};
use crate::error::StoreError;
use crate::sql::value::{SqlRow, SqlValue};
use crate::sql::{self, SqlConn, SqlEngine, SqlStatement};

pub(crate) struct SqliteConn<'db> {
    pub(super) db: &'db Connection,
    /// Set when a statement failed because of a disk error. The writer checks it after every job.
    pub(super) broken: Option<StoreError>,
    /// Prepared statements by name. Looking them up by SQL text would mean hashing it, which takes as long as a
    /// statement.
    prepared: HashMap<&'static str, PreparedStatement<'db>>,
    /// Set only on the writer's connection. Statements that affect permissions change this counter.
    pub(super) access: Option<Arc<AccessGeneration>>,
    /// Last value of `PRAGMA data_version`, which changes when another connection writes.
    data_version: Option<i64>,
    pub(super) undo: UndoMode,
}

/// How the running job can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UndoMode {
    /// By rolling back the whole transaction.
    Whole,
    /// Nothing has to be undone yet. The first write creates a savepoint.
    Nothing,
    Savepoint,
}

struct PreparedStatement<'db> {
    statement: rusqlite::Statement<'db>,
    /// Set only if the statement affects permissions.
    access: Option<Arc<AccessGeneration>>,
}

impl<'db> SqliteConn<'db> {
    pub(crate) fn new(db: &'db Connection) -> Self {
        Self {
            db,
            broken: None,
            prepared: HashMap::new(),
            access: None,
            data_version: None,
            undo: UndoMode::Whole,
        }
    }

    /// Runs a transaction control statement.
    pub(crate) fn batch(&mut self, text: &'static str) -> Result<(), StoreError> {
        let prepared = match self.prepared.entry(text) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let statement = prepare(self.db, text).map_err(StoreError::from)?;
                free.insert(PreparedStatement { statement, access: None })
            }
        };
        prepared.statement.raw_execute().map_err(StoreError::from).map(drop)
    }

    /// Invalidates cached permissions if another process, such as the `sqlite3` shell, has written to the database.
    pub(super) fn check_other_writers(&mut self) {
        let version = self.db.prepare_cached("PRAGMA data_version");
        let version = version.and_then(|mut it| it.query_row([], |row| row.get(0))).ok();
        let is_changed = std::mem::replace(&mut self.data_version, version) != version || version.is_none();
        if let Some(access) = self.access.as_ref().filter(|_| is_changed) {
            access.begin_change();
        }
    }

    fn record_error(&mut self, statement: &SqlStatement, error: rusqlite::Error) -> StoreError {
        match StoreError::from(error) {
            StoreError::Broken(text) => {
                self.broken = Some(StoreError::Broken(text.clone()));
                StoreError::Broken(text)
            }
            other => other.in_statement(statement),
        }
    }

    fn prepare_statement(
        &mut self,
        statement: &SqlStatement,
    ) -> rusqlite::Result<&mut PreparedStatement<'db>> {
        match self.prepared.entry(statement.name) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => {
                debug_assert!(
                    sql::all_statements().any(|known| known.name == statement.name),
                    "{} is missing in sql::all()",
                    statement.name
                );
                let access = self.access.clone().filter(|_| access_generation::is_changed_by(statement.text));
                let statement = prepare(self.db, &sql::render_sql(statement.text, SqlEngine::Sqlite))?;
                Ok(free.insert(PreparedStatement { statement, access }))
            }
        }
    }

    fn run_query(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> rusqlite::Result<Vec<SqlRow>> {
        let prepared = &mut self.prepare_statement(statement)?.statement;
        let columns = prepared.column_count();
        let read = |row: &rusqlite::Row<'_>| {
            (0..columns)
                .map(|column| row.get_ref(column).map(read_value))
                .collect::<Result<_, _>>()
                .map(SqlRow)
        };
        prepared.query_map(params_from_iter(params), read)?.collect()
    }
}

/// Prepares a statement that is used for a long time. The flag keeps it out of SQLite's small lookaside memory.
fn prepare<'db>(db: &'db Connection, text: &str) -> rusqlite::Result<rusqlite::Statement<'db>> {
    db.prepare_with_flags(text, PrepFlags::SQLITE_PREPARE_PERSISTENT)
}

impl SqlConn for SqliteConn<'_> {
    fn query(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        self.run_query(statement, params).map_err(|error| self.record_error(statement, error))
    }

    fn execute(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> Result<u64, StoreError> {
        if self.undo == UndoMode::Nothing {
            // After some errors, SQLite has already rolled back the transaction, and a savepoint would begin a new one.
            if self.db.is_autocommit() {
                return Err(StoreError::Unavailable("SQLite rolled back the transaction".into()));
            }
            self.batch("SAVEPOINT job")?;
            self.undo = UndoMode::Savepoint;
        }
        let changed = self.prepare_statement(statement).and_then(|prepared| {
            if let Some(access) = &prepared.access {
                access.begin_change();
            }
            prepared.statement.execute(params_from_iter(params))
        });
        changed.map(|rows| rows as u64).map_err(|error| self.record_error(statement, error))
    }
}

impl rusqlite::ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Int(number) => ValueRef::Integer(*number),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

pub(crate) fn read_value(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null | ValueRef::Real(_) => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_vec()),
    }
}
