//! Read-only access to a database for operators, also while a server is running. Does not migrate the database.

use std::path::Path;

use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::admin::backup;
use crate::error::{OpenError, StoreError};
use crate::migrations::{MigrationKind, SCHEMA, SchemaState};
use crate::postgres::ReadOnlyClient;
use crate::sqlite::{self, SqliteConn};
use crate::tx::ReadTx;

pub struct ReadOnly(ReadOnlyConn);

enum ReadOnlyConn {
    Sqlite(Connection),
    Postgres(Box<ReadOnlyClient>),
}

/// The result of a query. Values are converted to text; `None` is NULL.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct QueryResult {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    /// Whether there are more rows than the limit.
    pub has_more: bool,
}

impl ReadOnly {
    pub fn sqlite(path: &Path) -> Result<Self, OpenError> {
        Self::sqlite_of_any_version(path)?.require_current()
    }

    pub fn postgres(url: &str) -> Result<Self, OpenError> {
        Self::postgres_of_any_version(url)?.require_current()
    }

    /// Opens a database that may be older or newer than this program. Only [`ReadOnly::schema_state`] and
    /// [`ReadOnly::sql`] work then.
    pub fn sqlite_of_any_version(path: &Path) -> Result<Self, OpenError> {
        Ok(Self(ReadOnlyConn::Sqlite(sqlite::connect_read_only(path)?)))
    }

    pub fn postgres_of_any_version(url: &str) -> Result<Self, OpenError> {
        Ok(Self(ReadOnlyConn::Postgres(Box::new(ReadOnlyClient::open(url)?))))
    }

    /// Returns the migration history and the running servers.
    pub fn schema_state(&mut self) -> Result<SchemaState, StoreError> {
        match &mut self.0 {
            ReadOnlyConn::Sqlite(db) => sqlite::read_schema_state(db),
            ReadOnlyConn::Postgres(looker) => looker.read_schema_state(),
        }
    }

    fn require_current(mut self) -> Result<Self, OpenError> {
        // Running servers do not matter for reading.
        let state = SchemaState { servers: Vec::new(), ..self.schema_state()? };
        let planned = SCHEMA.plan(&state)?;
        // The program works without contract migrations.
        match planned.apply.iter().find(|it| it.kind == MigrationKind::Expand) {
            None => Ok(self),
            Some(next) => Err(OpenError::Refused(format!(
                "the database is older than this program: migration {} \"{}\" has not run. Start the server once with this \
                 version, or use the program that wrote it.",
                next.number, next.name,
            ))),
        }
    }

    /// Runs `work` on one consistent snapshot.
    pub fn read<T, E: From<StoreError>>(
        &mut self,
        org: Option<OrgId>,
        work: impl FnOnce(&mut ReadTx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match &mut self.0 {
            ReadOnlyConn::Sqlite(db) => {
                let mut conn = SqliteConn::new(db);
                conn.batch("BEGIN")?;
                let now = sqlite::now(&sqlite::ClockOffset::default());
                let done = work(&mut ReadTx::new(&mut conn, org, now));
                conn.batch("COMMIT")?;
                done
            }
            ReadOnlyConn::Postgres(looker) => {
                let (conn, now) = looker.begin()?;
                let done = work(&mut ReadTx::new(conn, org, Timestamp::from_micros(now)));
                looker.end()?;
                done
            }
        }
    }

    /// Checks the integrity of the SQLite file. Does nothing on PostgreSQL, which checks its own files.
    pub fn check_file(&self) -> Result<(), StoreError> {
        match &self.0 {
            ReadOnlyConn::Sqlite(db) => backup::check_integrity(db),
            ReadOnlyConn::Postgres(_) => Ok(()),
        }
    }

    /// Runs one SQL query. The database refuses writes.
    pub fn sql(&mut self, text: &str, rows_max: usize) -> Result<QueryResult, OpenError> {
        match &mut self.0 {
            ReadOnlyConn::Sqlite(db) => run_query(db, text, rows_max),
            ReadOnlyConn::Postgres(looker) => looker.run_query(text, rows_max),
        }
    }
}

fn run_query(db: &Connection, text: &str, rows_max: usize) -> Result<QueryResult, OpenError> {
    let said = |error: rusqlite::Error| match error {
        rusqlite::Error::MultipleStatement => query_error("only one statement is allowed"),
        other => query_error(&other.to_string()),
    };
    let mut prepared = db.prepare(text).map_err(said)?;
    if !prepared.readonly() || prepared.column_count() == 0 {
        return Err(query_error("only SELECT is allowed"));
    }
    let columns: Vec<String> = prepared.column_names().map(str::to_owned).collect();
    let mut table = QueryResult { columns, ..QueryResult::default() };
    let mut rows = prepared.query([]).map_err(said)?;
    while let Some(row) = rows.next().map_err(said)? {
        if table.rows.len() == rows_max {
            table.has_more = true;
            break;
        }
        let cell = |at: usize| row.get_ref(at).map(cell_text);
        table.rows.push((0..table.columns.len()).map(cell).collect::<Result<_, _>>().map_err(said)?);
    }
    Ok(table)
}

pub(crate) fn query_error(why: &str) -> OpenError {
    OpenError::Refused(format!("the query cannot be run: {why}"))
}

fn cell_text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        // Same format as in PostgreSQL: `\x` followed by hexadecimal digits.
        ValueRef::Blob(bytes) => {
            Some(bytes.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}")))
        }
    }
}
