//! Opens a database: waits until it is reachable, checks its version and durability settings, and migrates it.

use std::error::Error as _;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use ::postgres::error::SqlState;
use ::postgres::{Client, GenericClient};

use super::address::{ConnectError, ConnectionPurpose, PostgresAddress, error_chain};
use super::conn::PgConn;
use super::lock_scope::lock_installation;
use crate::error::{OpenError, StoreError};
use crate::migrations::{self, AppliedMigration, LiveServer, MigrationKind, Schema, SchemaState};
use crate::sql::SqlEngine;
use crate::tables::{instance, server};

/// How long a starting server waits for a database that is not reachable yet.
const START_WAIT: Duration = Duration::from_secs(60);
const START_PAUSE: Duration = Duration::from_secs(1);
const VERSION_MIN: i32 = 150_000;
/// Advisory lock: servers that start at the same time migrate one after the other.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(1650815604, 1)";
const LIVE_SERVERS: &str = "SELECT id, program, schema_version FROM servers
    WHERE seen_at > CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) - $1 ORDER BY schema_version, id";

/// Opens the database and returns its epoch.
pub(super) fn open_database(address: &PostgresAddress, schema: &Schema) -> Result<i64, OpenError> {
    let mut client = wait_for_server(address)?;
    check_settings(&mut client, address)?;
    migrate(&mut client, address, schema)?;
    Ok(instance::read_epoch(&mut PgConn::open(address, ConnectionPurpose::Read)?)?)
}

fn wait_for_server(address: &PostgresAddress) -> Result<Client, OpenError> {
    let deadline = Instant::now() + START_WAIT;
    loop {
        let error = match address.connect(ConnectionPurpose::Write) {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let (shown, why) = (address.display_address(), error.describe());
        if is_read_only(&error) {
            return Err(OpenError::Refused(format!(
                "PostgreSQL at {shown} is read-only: it is a standby, or has default_transaction_read_only set. \
                 Use the address of the primary."
            )));
        }
        if !is_transient(&error) {
            return Err(OpenError::Refused(format!("PostgreSQL at {shown} refuses the connection: {why}")));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(OpenError::Refused(format!(
                "PostgreSQL at {shown} cannot be reached: {why}. Gave up after {} s.",
                START_WAIT.as_secs(),
            )));
        }
        tracing::warn!(database = shown, why, seconds_left = left.as_secs(), "waiting for PostgreSQL");
        std::thread::sleep(START_PAUSE.min(left));
    }
}

/// Whether connecting failed because the database is read-only, as a standby is.
fn is_read_only(error: &ConnectError) -> bool {
    let ConnectError::Refused(error) = error else { return false };
    let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    error.code().is_none() && cause.is_some_and(|it| it.to_string() == "database does not allow writes")
}

/// Whether a retry may help, because the database server is unreachable or still starting. For an untrusted
/// certificate, for example, it does not.
fn is_transient(error: &ConnectError) -> bool {
    let ConnectError::Refused(error) = error else { return true };
    if let Some(code) = error.code() {
        return *code == SqlState::CANNOT_CONNECT_NOW || *code == SqlState::TOO_MANY_CONNECTIONS;
    }
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.downcast_ref::<std::io::Error>().is_some_and(|it| it.kind() == ErrorKind::InvalidData) {
            return false;
        }
        cause = inner.source();
    }
    true
}

fn check_settings(client: &mut Client, address: &PostgresAddress) -> Result<(), OpenError> {
    let shown = address.display_address();
    let mut setting = |name: &str| -> Result<String, OpenError> {
        let row = client.query_one("SELECT current_setting($1)", &[&name]).map_err(open_error)?;
        Ok(row.get(0))
    };
    let refused = |why: String| Err(OpenError::Refused(format!("PostgreSQL at {shown} {why}")));
    let version = setting("server_version_num")?;
    if version.parse::<i32>().is_ok_and(|version| version < VERSION_MIN) {
        let version = setting("server_version")?;
        return refused(format!("is version {version}; berth needs 15 or newer."));
    }
    for (name, why) in [
        ("fsync", "a crash would lose acknowledged writes"),
        ("full_page_writes", "a crash could corrupt it"),
    ] {
        if setting(name)? != "on" {
            return refused(format!("has {name} turned off: {why}. Turn it on."));
        }
    }
    let encoding = setting("server_encoding")?;
    if encoding != "UTF8" {
        return refused(format!("has the encoding {encoding}; create the database with ENCODING 'UTF8'."));
    }
    let row = client.query_one("SELECT pg_is_in_recovery()", &[]).map_err(open_error)?;
    if row.get(0) {
        return refused("is a standby, which is read-only. Use the address of the primary.".into());
    }
    Ok(())
}

/// Applies the migrations, each in its own transaction. Retries if running servers keep a migration from locking a table.
fn migrate(client: &mut Client, address: &PostgresAddress, schema: &Schema) -> Result<(), OpenError> {
    let deadline = Instant::now() + START_WAIT;
    loop {
        match migrate_once(client, address, schema) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(MigrationError::Busy(why)) if Instant::now() < deadline => {
                tracing::warn!(why, "a migration waits for running transactions");
                std::thread::sleep(START_PAUSE);
            }
            Err(MigrationError::Busy(why)) => {
                return Err(OpenError::Store(StoreError::Unavailable(format!(
                    "a migration could not lock its tables within {} s: {why}; start the server again",
                    START_WAIT.as_secs()
                ))));
            }
            Err(MigrationError::Open(error)) => return Err(error),
        }
    }
}

enum MigrationError {
    /// A lock was not granted in time, or two transactions waited for each other. Nothing was changed.
    Busy(String),
    Open(OpenError),
}

impl From<::postgres::Error> for MigrationError {
    fn from(error: ::postgres::Error) -> Self {
        match error.code() {
            Some(code) if [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) => {
                Self::Busy(error_chain(&error))
            }
            _ => Self::Open(open_error(error)),
        }
    }
}

impl From<OpenError> for MigrationError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

/// Applies the next migration. Returns false if there is none.
fn migrate_once(
    client: &mut Client,
    address: &PostgresAddress,
    schema: &Schema,
) -> Result<bool, MigrationError> {
    let mut tx = client.transaction()?;
    tx.batch_execute("SET LOCAL lock_timeout = 0")?;
    tx.batch_execute(MIGRATION_LOCK)?;
    tx.batch_execute("SET LOCAL lock_timeout = '10s'")?;
    let tables = "SELECT COUNT(*), COUNT(*) FILTER (WHERE table_name = 'schema_migrations')
        FROM information_schema.tables WHERE table_schema = current_schema()";
    let row = tx.query_one(tables, &[])?;
    let (all, ours): (i64, i64) = (row.get(0), row.get(1));
    if all > 0 && ours == 0 {
        return Err(MigrationError::Open(OpenError::Refused(format!(
            "the database {} has tables of another program; nothing was changed. Use an empty database.",
            address.display_address(),
        ))));
    }
    tx.batch_execute(migrations::HISTORY_TABLE)?;
    let found = read_schema_state(&mut tx)?;
    let planned = schema.plan(&found)?;
    let is_due = !planned.apply.is_empty() || planned.min_version > found.min_version;
    if is_due && !found.applied.is_empty() {
        // Keeps running servers from writing, so that no transaction of theirs sees half of the change. Their next
        // transaction reads the minimum version again.
        tx.batch_execute(&lock_installation())?;
    }
    let Some(next) = planned.apply.first() else {
        if is_due {
            tx.batch_execute(&migrations::raise_min_version(planned.min_version))?;
        }
        tx.commit()?;
        for waiting in planned.deferred {
            let migration = waiting.number;
            tracing::info!(
                migration,
                name = waiting.name,
                "contract migration waits for older servers to stop"
            );
        }
        return Ok(false);
    };
    tx.batch_execute(&next.render_for(SqlEngine::Postgres))?;
    if let MigrationKind::Contract { min_version } = next.kind {
        tx.batch_execute(&migrations::raise_min_version(min_version))?;
    }
    let insert = "INSERT INTO schema_migrations (number, name, checksum, applied_at)
        VALUES ($1, $2, $3, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT))";
    tx.execute(insert, &[&next.number, &next.name, &next.checksum()])?;
    tx.commit()?;
    tracing::info!(migration = next.number, name = next.name, "database migrated");
    Ok(true)
}

/// Reads the migration history and the running servers. A database of another program, or a new one, has none.
pub(crate) fn read_schema_state(client: &mut impl GenericClient) -> Result<SchemaState, ::postgres::Error> {
    let row = client.query_one(
        "SELECT to_regclass('schema_migrations') IS NOT NULL, EXISTS (SELECT 1 FROM information_schema.columns
           WHERE table_schema = current_schema() AND table_name = 'instance' AND column_name = 'schema_min_version')",
        &[],
    )?;
    let (has_history, has_minimum): (bool, bool) = (row.get(0), row.get(1));
    let mut state = SchemaState::default();
    if has_history {
        let read = |row: &::postgres::Row| AppliedMigration {
            number: row.get(0),
            name: row.get(1),
            checksum: row.get(2),
        };
        state.applied = client.query(migrations::HISTORY, &[])?.iter().map(read).collect();
    }
    // Databases of development versions have neither the column nor the table.
    if has_minimum {
        state.min_version = client.query_one(migrations::MIN_VERSION, &[])?.get(0);
        let alive = client.query(LIVE_SERVERS, &[&(server::ALIVE_S * 1_000_000)])?;
        let read = |row: &::postgres::Row| LiveServer {
            id: row.get(0),
            program: row.get(1),
            schema_version: row.get(2),
        };
        state.servers = alive.iter().map(read).collect();
    }
    Ok(state)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn open_error(error: ::postgres::Error) -> OpenError {
    OpenError::Store(StoreError::Unavailable(error_chain(&error)))
}
