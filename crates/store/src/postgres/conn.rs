//! A connection of one thread: statements are prepared once and kept.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::postgres::error::{DbError, Severity, SqlState};
use ::postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use ::postgres::{Client, SimpleQueryMessage};

use super::address::{Address, Purpose, told};
use crate::error::StoreError;
use crate::sql::{self, Conn, Engine, Statement};
use crate::value::{Row, Value};

/// Rows that several organizations share: two of them may want the same new one at once.
const SHARED_TABLES: &[&str] = &["users", "organizations"];

pub(crate) struct PgConn {
    client: Client,
    purpose: Purpose,
    pub(super) warned: Arc<AtomicBool>,
    prepared: HashMap<&'static str, ::postgres::Statement>,
    /// The first statement of the transaction that failed. Nothing it wrote can be kept, whatever the caller makes of it.
    pub(super) failed: Option<StoreError>,
}

impl PgConn {
    pub(super) fn open(address: &Address, purpose: Purpose) -> Result<Self, StoreError> {
        let (client, warned) = address.connected(purpose)?;
        let prepared = HashMap::new();
        Ok(Self { client, purpose, warned, prepared, failed: None })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Words about the transaction itself.
    pub(super) fn batch(&mut self, text: &str) -> Result<(), StoreError> {
        let done = self.client.batch_execute(text);
        done.map_err(|error| self.noted("transaction", &error))
    }

    /// Some of them, of which the last one answers a number.
    pub(super) fn number(&mut self, text: &str) -> Result<i64, StoreError> {
        self.numbers(text).map(|[number]| number)
    }

    /// Some of them, of which the last one answers these numbers.
    pub(super) fn numbers<const COUNT: usize>(&mut self, text: &str) -> Result<[i64; COUNT], StoreError> {
        let answered = self.client.simple_query(text);
        let answered = answered.map_err(|error| self.noted("transaction", &error))?;
        let last = answered.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let number = |at| last.and_then(|row| row.get(at)).and_then(|text| text.parse().ok());
        let mut numbers = [0; COUNT];
        for (at, slot) in numbers.iter_mut().enumerate() {
            *slot = number(at).ok_or_else(|| StoreError::Bug("PostgreSQL answered no number".into()))?;
        }
        Ok(numbers)
    }

    /// The columns of the first row, as text.
    pub(super) fn words(&mut self, text: &str) -> Result<Vec<Option<String>>, StoreError> {
        let answered = self.client.simple_query(text);
        let answered = answered.map_err(|error| self.noted("transaction", &error))?;
        let first = answered.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        first.ok_or_else(|| StoreError::Bug("PostgreSQL answered no row".into()))
    }

    /// The end of a transaction: written, not written, or nobody knows.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        self.warned.store(false, Ordering::SeqCst);
        match self.client.batch_execute("COMMIT") {
            Ok(()) if self.warned.load(Ordering::SeqCst) => {
                Err(StoreError::Unknown("PostgreSQL warned at the commit".into()))
            }
            Ok(()) => Ok(()),
            // An ordinary error is a plain no. With one that ends the connection, the commit may have happened before.
            Err(error) => match error.as_db_error().and_then(DbError::parsed_severity) {
                Some(Severity::Error) => Err(self.noted("COMMIT", &error)),
                _ => Err(StoreError::Unknown(told(&error))),
            },
        }
    }

    fn noted(&mut self, name: &str, error: &::postgres::Error) -> StoreError {
        let error = read(name, error);
        self.failed.get_or_insert_with(|| error.clone());
        error
    }

    fn prepared(&mut self, statement: &Statement) -> Result<::postgres::Statement, ::postgres::Error> {
        match self.prepared.entry(statement.name) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(free) => {
                debug_assert!(
                    sql::all().any(|known| known.name == statement.name),
                    "{} is missing in sql::all()",
                    statement.name
                );
                // Who only looks locks nothing.
                let engine = match self.purpose {
                    Purpose::Write => Engine::Postgres,
                    Purpose::Read | Purpose::Listen => Engine::PostgresSnapshot,
                };
                Ok(free.insert(self.client.prepare(&sql::render(statement.text, engine))?).clone())
            }
        }
    }

    fn run_query(&mut self, statement: &Statement, params: &[&Value]) -> Result<Vec<Row>, ::postgres::Error> {
        let prepared = self.prepared(statement)?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|it| *it as _).collect();
        let rows = self.client.query(&prepared, &params)?;
        rows.iter().map(owned).collect()
    }

    fn run_change(&mut self, statement: &Statement, params: &[&Value]) -> Result<u64, ::postgres::Error> {
        let prepared = self.prepared(statement)?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|it| *it as _).collect();
        self.client.execute(&prepared, &params)
    }
}

impl Conn for PgConn {
    fn query(&mut self, statement: &Statement, params: &[&Value]) -> Result<Vec<Row>, StoreError> {
        self.run_query(statement, params).map_err(|error| self.noted(statement.name, &error))
    }

    fn execute(&mut self, statement: &Statement, params: &[&Value]) -> Result<u64, StoreError> {
        self.run_change(statement, params).map_err(|error| self.noted(statement.name, &error))
    }
}

/// What an error means to the caller. No value of a row is in the text: it may be a hash or a person's data.
fn read(name: &str, error: &::postgres::Error) -> StoreError {
    let Some(said) = error.as_db_error() else {
        // What the server did not say is ours if it is about values, and the network's otherwise.
        let is_ours = !error.is_closed() && error.source().is_none_or(|it| !it.is::<std::io::Error>());
        let text = told(error);
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
            StoreError::Unavailable("somebody else made the same a moment before".into())
        }
        // Lost connections, resources, conflicts, waits that took too long, a standby, an operator's word, the system.
        code if ["08", "25006", "40", "53", "55P03", "57", "58"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            StoreError::Unavailable(format!("PostgreSQL says {code}: {text}"))
        }
        code => StoreError::Bug(format!("{name}: {code} {text}")),
    }
}

pub(crate) fn owned(row: &::postgres::Row) -> Result<Row, ::postgres::Error> {
    let value = |(at, column): (usize, &::postgres::Column)| {
        Ok(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map_or(Value::Null, Value::Int),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(Value::Null, Value::Bytes),
            _ => row.try_get::<_, Option<String>>(at)?.map_or(Value::Null, Value::Text),
        })
    };
    row.columns().iter().enumerate().map(value).collect::<Result<_, _>>().map(Row)
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        // Each goes as what it is; a column of another type is a mistake, and refused here.
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) => number.to_sql_checked(kind, out),
            Value::Text(text) => text.to_sql_checked(kind, out),
            Value::Bytes(bytes) => bytes.to_sql_checked(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
