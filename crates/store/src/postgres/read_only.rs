//! A read-only connection for operators.

use ::postgres::{Client, SimpleQueryMessage};

use super::address::{ConnectionPurpose, PostgresAddress, error_chain};
use super::conn::PgConn;
use super::lock_scope::NOW;
use super::open::read_schema_state;
use crate::admin::read_only::{QueryResult, query_error};
use crate::error::{OpenError, StoreError};
use crate::migrations::SchemaState;

/// The statement timeout is long, because operators may run slow queries.
const SETTINGS: &str = "SET default_transaction_read_only = on; SET statement_timeout = '60s'";
/// Name of the cursor through which queries run. A cursor can limit the number of rows, and accepts only SELECT.
const CURSOR: &str = "berth_question";

pub(crate) struct ReadOnlyClient {
    conn: PgConn,
    address: PostgresAddress,
}

impl ReadOnlyClient {
    pub(crate) fn open(url: &str) -> Result<Self, OpenError> {
        let address = PostgresAddress::parse(url)?;
        let conn = PgConn::open(&address, ConnectionPurpose::Read)?;
        Ok(Self { conn, address })
    }

    pub(crate) fn read_schema_state(&mut self) -> Result<SchemaState, StoreError> {
        let state = read_schema_state(&mut self.client()?);
        state.map_err(|error| StoreError::Unavailable(error_chain(&error)))
    }

    /// Begins a read-only snapshot, which lasts until [`ReadOnlyClient::end`].
    pub(crate) fn begin(&mut self) -> Result<(&mut PgConn, i64), StoreError> {
        let now =
            self.conn.query_number(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {NOW}"))?;
        Ok((&mut self.conn, now))
    }

    pub(crate) fn end(&mut self) -> Result<(), StoreError> {
        self.conn.batch("ROLLBACK")
    }

    pub(crate) fn run_query(&mut self, text: &str, rows_max: usize) -> Result<QueryResult, OpenError> {
        let said = |error: ::postgres::Error| query_error(&error_chain(&error));
        let mut client = self.client()?;
        let mut tx = client.build_transaction().read_only(true).start().map_err(said)?;
        // This uses the extended query protocol, which refuses more than one statement.
        tx.execute(&format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR {text}"), &[]).map_err(said)?;
        let fetched = tx.simple_query(&format!("FETCH {} FROM {CURSOR}", rows_max + 1)).map_err(said)?;
        let mut table = QueryResult::default();
        for message in fetched {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    table.columns = columns.iter().map(|column| column.name().to_owned()).collect();
                }
                SimpleQueryMessage::Row(row) => {
                    table.rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
                }
                _ => {}
            }
        }
        table.has_more = table.rows.len() > rows_max;
        table.rows.truncate(rows_max);
        Ok(table)
    }

    fn client(&self) -> Result<Client, StoreError> {
        let mut client = self.address.open_connection(ConnectionPurpose::Read)?;
        client.batch_execute(SETTINGS).map_err(|error| StoreError::Unavailable(error_chain(&error)))?;
        Ok(client)
    }
}
