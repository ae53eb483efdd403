//! Opens a database: waits until it is reachable, checks its version and durability settings, and migrates it.

use std::error::Error as _;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use ::postgres::Client;
use ::postgres::error::SqlState;

use super::address::{ConnectError, ConnectionPurpose, PostgresAddress, error_chain};
use super::conn::PgConn;
use crate::error::{OpenError, StoreError};
use crate::migrations::{self, AppliedMigration};
use crate::sql::SqlEngine;
use crate::tables::instance;

/// How long a starting server waits for a database that is not reachable yet.
const START_WAIT: Duration = Duration::from_secs(60);
const START_PAUSE: Duration = Duration::from_secs(1);
const VERSION_MIN: i32 = 150_000;
/// Advisory lock: servers that start at the same time migrate one after the other.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(1650815604, 1)";

/// Opens the database and returns its epoch.
pub(super) fn open_database(address: &PostgresAddress) -> Result<i64, OpenError> {
    let mut client = wait_for_server(address)?;
    check_settings(&mut client, address)?;
    migrate(&mut client, address)?;
    Ok(instance::read_epoch(&mut PgConn::open(address, ConnectionPurpose::Read)?)?)
}

fn wait_for_server(address: &PostgresAddress) -> Result<Client, OpenError> {
    let deadline = Instant::now() + START_WAIT;
    loop {
        let error = match address.connect(ConnectionPurpose::Write) {
            Ok((client, _)) => return Ok(client),
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

fn migrate(client: &mut Client, address: &PostgresAddress) -> Result<(), OpenError> {
    loop {
        let mut tx = client.transaction().map_err(open_error)?;
        tx.batch_execute("SET LOCAL lock_timeout = 0").map_err(open_error)?;
        tx.batch_execute(MIGRATION_LOCK).map_err(open_error)?;
        let tables = "SELECT COUNT(*), COUNT(*) FILTER (WHERE table_name = 'schema_migrations')
            FROM information_schema.tables WHERE table_schema = current_schema()";
        let row = tx.query_one(tables, &[]).map_err(open_error)?;
        let (all, ours): (i64, i64) = (row.get(0), row.get(1));
        if all > 0 && ours == 0 {
            return Err(OpenError::Refused(format!(
                "the database {} has tables of another program; nothing was changed. Use an empty database.",
                address.display_address(),
            )));
        }
        tx.batch_execute(migrations::HISTORY_TABLE).map_err(open_error)?;
        let found = "SELECT number, name, checksum FROM schema_migrations ORDER BY number";
        let rows = tx.query(found, &[]).map_err(open_error)?;
        let applied: Vec<AppliedMigration> = rows
            .iter()
            .map(|row| AppliedMigration { number: row.get(0), name: row.get(1), checksum: row.get(2) })
            .collect();
        let Some(next) = migrations::list_pending(&applied)?.first() else {
            return tx.commit().map_err(open_error);
        };
        tx.batch_execute(&next.render_for(SqlEngine::Postgres)).map_err(open_error)?;
        let insert = "INSERT INTO schema_migrations (number, name, checksum, applied_at)
            VALUES ($1, $2, $3, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT))";
        tx.execute(insert, &[&next.number, &next.name, &next.checksum()]).map_err(open_error)?;
        tx.commit().map_err(open_error)?;
        tracing::info!(migration = next.number, name = next.name, "database migrated");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn open_error(error: ::postgres::Error) -> OpenError {
    OpenError::Store(StoreError::Unavailable(error_chain(&error)))
}
