//! A PostgreSQL connection with a cache of prepared statements.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::postgres::SimpleQueryMessage;
use ::postgres::error::{DbError, Severity, SqlState};
use ::postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use super::address::{ConnectionPurpose, PostgresAddress, error_chain};
use super::pipeline::{PipelineClient, PipelineResult, PipelineStatement};
use crate::error::StoreError;
use crate::sql::value::{SqlRow, SqlValue};
use crate::sql::{self, BatchedRead, QueuedWrite, SqlConn, SqlEngine, SqlStatement};

/// Tables that the lock of an organization does not protect, so two transactions may insert the same row concurrently.
const SHARED_TABLES: &[&str] = &["users", "organizations"];

/// Maximum number of writes that are queued before they are sent.
const QUEUED_WRITES_MAX: usize = 256;

pub(crate) struct PgConn {
    client: PipelineClient,
    purpose: ConnectionPurpose,
    pub(super) warned: Arc<AtomicBool>,
    prepared: HashMap<&'static str, ::postgres::Statement>,
    /// The savepoint of a job, which is sent together with the job's first statement.
    savepoint: Option<&'static str>,
    /// Writes that are sent together with the next statement, at the latest by [`PgConn::send_writes`].
    queued: Vec<QueuedWrite>,
    /// The first error of the transaction. After an error, PostgreSQL cannot commit the transaction, even if the caller
    /// ignored the error.
    pub(super) failed: Option<StoreError>,
}

impl PgConn {
    pub(super) fn open(address: &PostgresAddress, purpose: ConnectionPurpose) -> Result<Self, StoreError> {
        let client = address.open_pipeline(purpose)?;
        let (warned, prepared) = (client.warned(), HashMap::new());
        Ok(Self { client, purpose, warned, prepared, savepoint: None, queued: Vec::new(), failed: None })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs transaction control statements.
    pub(super) fn batch(&mut self, text: &str) -> Result<(), StoreError> {
        let done = self.client.batch_execute(text);
        done.map_err(|error| self.record_error("transaction", &error))
    }

    /// Sets the statements that are sent before the first statement of a job.
    pub(super) fn set_savepoint(&mut self, text: &'static str) {
        self.savepoint = Some(text);
    }

    /// Whether the job has sent nothing since [`PgConn::set_savepoint`]. The savepoint is then not needed any more.
    pub(super) fn drop_savepoint(&mut self) -> bool {
        self.savepoint.take().is_some()
    }

    /// Drops the writes that were not sent yet.
    pub(super) fn drop_writes(&mut self) {
        self.queued.clear();
    }

    /// Sends the queued writes and checks their results.
    pub(super) fn send_writes(&mut self) -> Result<(), StoreError> {
        if self.queued.is_empty() { Ok(()) } else { self.send(&[]).map(drop) }
    }

    /// Runs several statements. The last one must return a number in its first column.
    pub(super) fn query_number(&mut self, text: &str) -> Result<i64, StoreError> {
        let row = self.query_texts(text)?;
        parse_number(row.first())
    }

    /// Runs several statements and returns the columns of the last row, as text.
    pub(super) fn query_texts(&mut self, text: &str) -> Result<Vec<Option<String>>, StoreError> {
        let answered = self.client.simple_query(text);
        let answered = answered.map_err(|error| self.record_error("transaction", &error))?;
        let last = answered.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        last.ok_or_else(|| StoreError::Bug("PostgreSQL returned no row".into()))
    }

    /// Commits the transaction. Returns [`StoreError::Unknown`] if it is unclear whether the commit succeeded.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        self.send_writes()?;
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
        self.set_failed(&error);
        error
    }

    fn set_failed(&mut self, error: &StoreError) {
        self.failed.get_or_insert_with(|| error.clone());
    }

    fn query_batch(&mut self, reads: &[BatchedRead<'_>]) -> Result<Vec<Vec<SqlRow>>, StoreError> {
        let requests: Vec<_> = reads
            .iter()
            .map(|(statement, params)| StatementRequest { statement, params: params.clone(), is_query: true })
            .collect();
        let results = self.send(&requests)?;
        let named = results.into_iter().zip(reads);
        named.map(|(result, (statement, _))| self.read_rows(statement.name, result)).collect()
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
                // If the statement cannot be prepared, only the job is undone.
                if let Some(savepoint) = self.savepoint.take() {
                    self.client.batch_execute(savepoint)?;
                }
                // Rows cannot be locked on read-only connections.
                let engine = match self.purpose {
                    ConnectionPurpose::Write => SqlEngine::Postgres,
                    ConnectionPurpose::Read | ConnectionPurpose::Listen => SqlEngine::PostgresSnapshot,
                };
                Ok(free.insert(self.client.prepare(&sql::render_sql(statement.text, engine))?).clone())
            }
        }
    }

    /// Sends the queued writes and these statements together, and returns the results of these statements.
    fn send(&mut self, requests: &[StatementRequest<'_>]) -> Result<Vec<PipelineResult>, StoreError> {
        let queued = std::mem::take(&mut self.queued);
        let writes = queued.iter().map(|write| StatementRequest {
            statement: write.first.statement,
            params: write.params_of(&write.first),
            is_query: false,
        });
        let all: Vec<_> = writes.chain(requests.iter().cloned()).collect();
        let PipelineOutcome { mut results, error } = self.run_pipeline(&all)?;
        if let Some(error) = error {
            return Err(self.explain_failure(error, &queued, &results));
        }
        let answers = results.split_off(queued.len());
        let mut has_run_other = false;
        for (write, result) in queued.iter().zip(&results) {
            let mut changed = changed_rows(result);
            if write.needs_other(changed) {
                changed += self.run_other(write)?;
                has_run_other = true;
            }
            write.check(changed).inspect_err(|error| self.set_failed(error))?;
        }
        // The queries have not seen what the other statements have written.
        if has_run_other && !requests.is_empty() {
            self.run_pipeline(requests)?.into_results()
        } else {
            Ok(answers)
        }
    }

    /// Runs the statements for a write whose first statement changed too few rows. Returns the number of rows that the
    /// last of them has changed.
    fn run_other(&mut self, write: &QueuedWrite) -> Result<u64, StoreError> {
        let requests: Vec<_> = write
            .otherwise
            .iter()
            .map(|step| StatementRequest {
                statement: step.statement,
                params: write.params_of(step),
                is_query: false,
            })
            .collect();
        let results = self.run_pipeline(&requests)?.into_results()?;
        Ok(results.last().map_or(0, changed_rows))
    }

    /// Adds to an error that an earlier write has changed too few rows, which can be the cause.
    fn explain_failure(
        &mut self,
        error: StoreError,
        queued: &[QueuedWrite],
        results: &[PipelineResult],
    ) -> StoreError {
        let before =
            queued.iter().zip(results).find_map(|(write, result)| write.check(changed_rows(result)).err());
        let explained = match (error, before) {
            (StoreError::Bug(text), Some(StoreError::Bug(before))) => {
                StoreError::Bug(format!("{text}; before that, {before}"))
            }
            (error, _) => return error,
        };
        self.failed = Some(explained.clone());
        explained
    }

    /// Sends statements together. Returns `Err` if none could be sent.
    fn run_pipeline(&mut self, requests: &[StatementRequest<'_>]) -> Result<PipelineOutcome, StoreError> {
        let mut prepared = Vec::with_capacity(requests.len());
        for StatementRequest { statement, .. } in requests {
            let found = self.prepare_statement(statement);
            prepared.push(found.map_err(|error| self.record_error(statement.name, &error))?);
        }
        let mut statements = Vec::with_capacity(requests.len() + 1);
        statements.extend(self.savepoint.take().map(PipelineStatement::Control));
        for (StatementRequest { params, is_query, .. }, prepared) in requests.iter().zip(prepared) {
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|it| *it as _).collect();
            statements.push(match is_query {
                true => PipelineStatement::Query(prepared, params),
                false => PipelineStatement::Change(prepared, params),
            });
        }
        let results = self.client.run(&statements);
        let results = results.map_err(|error| self.record_error("transaction", &error))?;
        let controls = statements.len() - requests.len();
        let mut outcome = PipelineOutcome { results: Vec::with_capacity(requests.len()), error: None };
        for (at, result) in results.into_iter().enumerate() {
            match result {
                Ok(_) if at < controls => {}
                Ok(result) => outcome.results.push(result),
                Err(error) => {
                    let name = at.checked_sub(controls).map_or("savepoint", |at| requests[at].statement.name);
                    outcome.error = Some(self.record_error(name, &error));
                    break;
                }
            }
        }
        Ok(outcome)
    }

    fn read_rows(&mut self, name: &str, result: PipelineResult) -> Result<Vec<SqlRow>, StoreError> {
        let rows = match result {
            PipelineResult::Rows(rows) => rows,
            PipelineResult::Done | PipelineResult::Changed(_) => Vec::new(),
        };
        let rows: Result<_, _> = rows.iter().map(read_row).collect();
        rows.map_err(|error| self.record_error(name, &error))
    }
}

/// A statement to send with other statements.
#[derive(Clone)]
struct StatementRequest<'a> {
    statement: &'a SqlStatement,
    params: Vec<&'a SqlValue>,
    is_query: bool,
}

/// The results of a pipeline up to its first error.
struct PipelineOutcome {
    results: Vec<PipelineResult>,
    error: Option<StoreError>,
}

impl PipelineOutcome {
    fn into_results(self) -> Result<Vec<PipelineResult>, StoreError> {
        self.error.map_or(Ok(self.results), Err)
    }
}

const fn changed_rows(result: &PipelineResult) -> u64 {
    match result {
        PipelineResult::Changed(rows) => *rows,
        PipelineResult::Done | PipelineResult::Rows(_) => 0,
    }
}

/// Parses a column that must be a number.
pub(super) fn parse_number(column: Option<&Option<String>>) -> Result<i64, StoreError> {
    let number = column.and_then(|text| text.as_deref()?.parse().ok());
    number.ok_or_else(|| StoreError::Bug("PostgreSQL returned no number".into()))
}

impl SqlConn for PgConn {
    fn query(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let mut rows = self.query_batch(&[(statement, params.to_vec())])?;
        Ok(rows.pop().unwrap_or_default())
    }

    fn execute(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> Result<u64, StoreError> {
        // Only queries can be repeated if a queued write needs its other statements.
        if self.queued.iter().any(|write| !write.otherwise.is_empty()) {
            self.send_writes()?;
        }
        let request = StatementRequest { statement, params: params.to_vec(), is_query: false };
        Ok(self.send(&[request])?.last().map_or(0, changed_rows))
    }

    fn queue(&mut self, write: QueuedWrite) -> Result<(), StoreError> {
        self.queued.push(write);
        if self.queued.len() < QUEUED_WRITES_MAX { Ok(()) } else { self.send_writes() }
    }

    fn query_all(&mut self, reads: &[BatchedRead<'_>]) -> Result<Option<Vec<Vec<SqlRow>>>, StoreError> {
        self.query_batch(reads).map(Some)
    }

    fn is_remote(&self) -> bool {
        true
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
