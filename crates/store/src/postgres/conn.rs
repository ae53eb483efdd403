//! A PostgreSQL connection with a cache of prepared statements.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::postgres::error::{DbError, Severity, SqlState};
use ::postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use ::postgres::{Client, SimpleQueryMessage};

use super::address::{ConnectionPurpose, PostgresAddress, error_chain};
use crate::error::StoreError;
use crate::sql::value::{SqlRow, SqlValue};
use crate::sql::{self, SqlConn, SqlEngine, SqlStatement};

/// Tables that the lock of an organization does not protect, so two transactions may insert the same row concurrently.
const SHARED_TABLES: &[&str] = &["users", "organizations"];

pub(crate) struct PgConn {
    client: Client,
    purpose: ConnectionPurpose,
    pub(super) warned: Arc<AtomicBool>,
    prepared: HashMap<&'static str, ::postgres::Statement>,
    /// The first error of the transaction. After an error, PostgreSQL cannot commit the transaction, even if the caller
    /// ignored the error.
    pub(super) failed: Option<StoreError>,
}

impl PgConn {
    pub(super) fn open(address: &PostgresAddress, purpose: ConnectionPurpose) -> Result<Self, StoreError> {
        let (client, warned) = address.open_connection(purpose)?;
        let prepared = HashMap::new();
        Ok(Self { client, purpose, warned, prepared, failed: None })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs transaction control statements.
    pub(super) fn batch(&mut self, text: &str) -> Result<(), StoreError> {
        let done = self.client.batch_execute(text);
        done.map_err(|error| self.record_error("transaction", &error))
    }

    /// Runs several statements. The last one must return a number.
    pub(super) fn query_number(&mut self, text: &str) -> Result<i64, StoreError> {
        self.query_numbers(text).map(|[number]| number)
    }

    /// Runs several statements. The last one must return a row of numbers.
    pub(super) fn query_numbers<const COUNT: usize>(
        &mut self,
        text: &str,
    ) -> Result<[i64; COUNT], StoreError> {
        let answered = self.client.simple_query(text);
        let answered = answered.map_err(|error| self.record_error("transaction", &error))?;
        let last = answered.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let number = |at| last.and_then(|row| row.get(at)).and_then(|text| text.parse().ok());
        let mut numbers = [0; COUNT];
        for (at, slot) in numbers.iter_mut().enumerate() {
            *slot = number(at).ok_or_else(|| StoreError::Bug("PostgreSQL returned no number".into()))?;
        }
        Ok(numbers)
    }

    /// Runs a query and returns the columns of its first row, as text.
    pub(super) fn query_texts(&mut self, text: &str) -> Result<Vec<Option<String>>, StoreError> {
        let answered = self.client.simple_query(text);
        let answered = answered.map_err(|error| self.record_error("transaction", &error))?;
        let first = answered.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        first.ok_or_else(|| StoreError::Bug("PostgreSQL returned no row".into()))
    }

    /// Commits the transaction. Returns [`StoreError::Unknown`] if it is unclear whether the commit succeeded.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        self.warned.store(false, Ordering::SeqCst);
        match self.client.batch_execute("COMMIT") {
            Ok(()) if self.warned.load(Ordering::SeqCst) => {
                Err(StoreError::Unknown("PostgreSQL sent a warning with the commit".into()))
            }
            Ok(()) => Ok(()),
            // An ERROR means that nothing was committed. A FATAL error or a lost connection can also occur after the
            // commit has succeeded.
            Err(error) => match error.as_db_error().and_then(DbError::parsed_severity) {
                Some(Severity::Error) => Err(self.record_error("COMMIT", &error)),
                _ => Err(StoreError::Unknown(error_chain(&error))),
            },
        }
    }

    fn record_error(&mut self, name: &str, error: &::postgres::Error) -> StoreError {
        let error = translate_error(name, error);
        self.failed.get_or_insert_with(|| error.clone());
        error
    }

    fn prepare_statement(
        &mut self,
        statement: &SqlStatement,
    ) -> Result<::postgres::Statement, ::postgres::Error> {
        match self.prepared.entry(statement.name) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(free) => {
                debug_assert!(
                    sql::all_statements().any(|known| known.name == statement.name),
                    "{} is missing in sql::all()",
                    statement.name
                );
                // Rows cannot be locked on read-only connections.
                let engine = match self.purpose {
                    ConnectionPurpose::Write => SqlEngine::Postgres,
                    ConnectionPurpose::Read | ConnectionPurpose::Listen => SqlEngine::PostgresSnapshot,
                };
                Ok(free.insert(self.client.prepare(&sql::render_sql(statement.text, engine))?).clone())
            }
        }
    }

    fn run_query(
        &mut self,
        statement: &SqlStatement,
        params: &[&SqlValue],
    ) -> Result<Vec<SqlRow>, ::postgres::Error> {
        let prepared = self.prepare_statement(statement)?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|it| *it as _).collect();
        let rows = self.client.query(&prepared, &params)?;
        rows.iter().map(read_row).collect()
    }

    fn run_change(
        &mut self,
        statement: &SqlStatement,
        params: &[&SqlValue],
    ) -> Result<u64, ::postgres::Error> {
        let prepared = self.prepare_statement(statement)?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|it| *it as _).collect();
        self.client.execute(&prepared, &params)
    }
}

impl SqlConn for PgConn {
    fn query(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        self.run_query(statement, params).map_err(|error| self.record_error(statement.name, &error))
    }

    fn execute(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> Result<u64, StoreError> {
        self.run_change(statement, params).map_err(|error| self.record_error(statement.name, &error))
    }
}

/// Converts an error. The message does not contain values from rows, because they may be hashes or personal data.
fn translate_error(name: &str, error: &::postgres::Error) -> StoreError {
    let Some(said) = error.as_db_error() else {
        // Without an error from the server, this is either a network error or a value of the wrong type. The latter is
        // a bug in Berth.
        let is_ours = !error.is_closed() && error.source().is_none_or(|it| !it.is::<std::io::Error>());
        let text = error_chain(error);
        return match is_ours {
            true => StoreError::Bug(format!("{name}: {text}")),
            false => StoreError::Unavailable(format!("the connection to PostgreSQL was lost: {text}")),
        };
    };
    let (code, text) = (said.code(), said.message());
    let is_shared = said.table().is_some_and(|table| SHARED_TABLES.contains(&table));
    match code.code() {
        _ if *code == SqlState::DISK_FULL => StoreError::StorageFull,
        _ if *code == SqlState::UNIQUE_VIOLATION && is_shared => {
            StoreError::Unavailable("the same record was created concurrently".into())
        }
        // SQLSTATE classes and codes of temporary errors: connection errors, a read-only standby, conflicts,
        // insufficient resources, lock timeouts, operator intervention and system errors.
        code if ["08", "25006", "40", "53", "55P03", "57", "58"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            StoreError::Unavailable(format!("PostgreSQL says {code}: {text}"))
        }
        code => StoreError::Bug(format!("{name}: {code} {text}")),
    }
}

pub(crate) fn read_row(row: &::postgres::Row) -> Result<SqlRow, ::postgres::Error> {
    let value = |(at, column): (usize, &::postgres::Column)| {
        Ok(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map_or(SqlValue::Null, SqlValue::Int),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(SqlValue::Null, SqlValue::Bytes),
            _ => row.try_get::<_, Option<String>>(at)?.map_or(SqlValue::Null, SqlValue::Text),
        })
    };
    row.columns().iter().enumerate().map(value).collect::<Result<_, _>>().map(SqlRow)
}

impl ToSql for SqlValue {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        // Values are not converted: it is an error if the parameter has another type.
        match self {
            SqlValue::Null => Ok(IsNull::Yes),
            SqlValue::Int(number) => number.to_sql_checked(kind, out),
            SqlValue::Text(text) => text.to_sql_checked(kind, out),
            SqlValue::Bytes(bytes) => bytes.to_sql_checked(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
