//! Read-only access to a database for operators. Does not migrate it; a server may be running.

use std::path::Path;

use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::admin::backup;
use crate::error::{OpenError, StoreError};
use crate::migrations::{self, Applied};
use crate::postgres::Looker;
use crate::sqlite::{self, SqliteConn};
use crate::tx::Reader;

pub struct ReadOnly(Engine);

enum Engine {
    Sqlite(Connection),
    Postgres(Box<Looker>),
}

/// The result of a query, as text; `None` is null.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    /// The result has more rows.
    pub has_more: bool,
}

impl ReadOnly {
    pub fn sqlite(path: &Path) -> Result<Self, OpenError> {
        let db = sqlite::connect_read_only(path)?;
        is_current(&sqlite::applied(&db).map_err(StoreError::from)?)?;
        Ok(Self(Engine::Sqlite(db)))
    }

    pub fn postgres(url: &str) -> Result<Self, OpenError> {
        let mut looker = Looker::open(url)?;
        is_current(&looker.applied()?)?;
        Ok(Self(Engine::Postgres(Box::new(looker))))
    }

    /// Runs `work` on one snapshot.
    pub fn read<T, E: From<StoreError>>(
        &mut self,
        org: Option<OrgId>,
        work: impl FnOnce(&mut Reader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match &mut self.0 {
            Engine::Sqlite(db) => {
                let mut conn = SqliteConn::on(db);
                conn.batch("BEGIN")?;
                let now = sqlite::now(&sqlite::Ahead::default());
                let done = work(&mut Reader::new(&mut conn, org, now));
                conn.batch("COMMIT")?;
                done
            }
            Engine::Postgres(looker) => {
                let (conn, now) = looker.begin()?;
                let done = work(&mut Reader::new(conn, org, Timestamp::from_micros(now)));
                looker.end()?;
                done
            }
        }
    }

    /// Checks the integrity of the database file. PostgreSQL checks its own.
    pub fn check_file(&self) -> Result<(), StoreError> {
        match &self.0 {
            Engine::Sqlite(db) => backup::check(db),
            Engine::Postgres(_) => Ok(()),
        }
    }

    /// Runs one SQL query. The database refuses writes.
    pub fn sql(&mut self, text: &str, rows_max: usize) -> Result<Table, OpenError> {
        match &mut self.0 {
            Engine::Sqlite(db) => ask(db, text, rows_max),
            Engine::Postgres(looker) => looker.ask(text, rows_max),
        }
    }
}

fn is_current(applied: &[Applied]) -> Result<(), OpenError> {
    match migrations::pending(applied)?.first() {
        None => Ok(()),
        Some(next) => Err(OpenError::Refused(format!(
            "the database is older than this program: migration {} \"{}\" has not run. Start the server once with this \
             version, or use the program that wrote it.",
            next.number, next.name,
        ))),
    }
}

fn ask(db: &Connection, text: &str, rows_max: usize) -> Result<Table, OpenError> {
    let said = |error: rusqlite::Error| match error {
        rusqlite::Error::MultipleStatement => refused("only one statement is allowed"),
        other => refused(&other.to_string()),
    };
    let mut prepared = db.prepare(text).map_err(said)?;
    if !prepared.readonly() || prepared.column_count() == 0 {
        return Err(refused("only SELECT is allowed"));
    }
    let columns: Vec<String> = prepared.column_names().map(str::to_owned).collect();
    let mut table = Table { columns, ..Table::default() };
    let mut rows = prepared.query([]).map_err(said)?;
    while let Some(row) = rows.next().map_err(said)? {
        if table.rows.len() == rows_max {
            table.has_more = true;
            break;
        }
        let cell = |at: usize| row.get_ref(at).map(shown);
        table.rows.push((0..table.columns.len()).map(cell).collect::<Result<_, _>>().map_err(said)?);
    }
    Ok(table)
}

pub(crate) fn refused(why: &str) -> OpenError {
    OpenError::Refused(format!("the query cannot be run: {why}"))
}

fn shown(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        // The format of PostgreSQL.
        ValueRef::Blob(bytes) => {
            Some(bytes.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}")))
        }
    }
}
