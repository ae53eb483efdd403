//! Servers of two schema versions on one database. A program of another version is this program with another list of
//! migrations: version 2 adds a column, version 3 is a contract that removes it.

use berth_store::migrations::{Migration, MigrationKind, SCHEMA, Schema};
use berth_store::tables::server;
use berth_store::{OpenError, Store, StoreError, TxContext};
use berth_testkit::{ScratchDatabase, outcome};

const EXPAND: &str = "ALTER TABLE teams ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey'";
const CONTRACT: &str = "ALTER TABLE teams DROP COLUMN colour";
const ADD_TABLE: &str = "CREATE TABLE labels (id TEXT NOT NULL PRIMARY KEY)";

/// Returns the schema of this program with these migrations after its own.
fn schema_with(later: &[(MigrationKind, &'static str)], oldest_peer: i64) -> Schema {
    let copy = |it: &Migration| Migration { number: it.number, name: it.name, kind: it.kind, text: it.text };
    let mut migrations: Vec<Migration> = SCHEMA.migrations.iter().map(copy).collect();
    for &(kind, text) in later {
        let number = migrations.last().map_or(0, |last| last.number) + 1;
        migrations.push(Migration { number, name: "synthetic", kind, text });
    }
    Schema { migrations: migrations.leak(), oldest_peer }
}

/// The version after this one: it added a column.
fn expanded() -> Schema {
    schema_with(&[(MigrationKind::Expand, EXPAND)], SCHEMA.version())
}

/// The version after that: it no longer uses the column, removes it, and adds a table.
fn contracted() -> Schema {
    let min_version = SCHEMA.version() + 2;
    schema_with(
        &[
            (MigrationKind::Expand, EXPAND),
            (MigrationKind::Contract { min_version }, CONTRACT),
            (MigrationKind::Expand, ADD_TABLE),
        ],
        SCHEMA.version() + 1,
    )
}

fn create_scratch() -> Option<ScratchDatabase> {
    let scratch = ScratchDatabase::new();
    if scratch.is_none() {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
    }
    scratch
}

fn beat(store: &Store, id: &'static str, schema: &Schema) -> Result<(), StoreError> {
    let version = schema.version();
    store.transact_blocking(TxContext::system(None), move |tx| {
        server::put_heartbeat_as(tx, id, "0.1.0", version)
    })
}

fn stop(store: &Store, id: &'static str) {
    store.transact_blocking(TxContext::system(None), move |tx| server::delete(tx, id)).unwrap();
}

fn list_applied(scratch: &ScratchDatabase) -> Vec<i64> {
    let rows = scratch.connect().query("SELECT number FROM schema_migrations ORDER BY number", &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn refusal(opened: Result<Store, OpenError>) -> String {
    match opened {
        Err(OpenError::Refused(text)) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn older_server_keeps_working_and_starts_again_after_an_expand_migration() {
    let Some(scratch) = create_scratch() else { return };
    let old = Store::open_postgres(&scratch.url()).unwrap();
    beat(&old, "old", &SCHEMA).unwrap();
    let new = Store::open_postgres_with(&scratch.url(), expanded()).unwrap();
    beat(&new, "new", &expanded()).unwrap();
    assert_eq!(list_applied(&scratch), [1, 2]);
    beat(&old, "old", &SCHEMA).unwrap();
    drop(old);
    beat(&Store::open_postgres(&scratch.url()).unwrap(), "old again", &SCHEMA).unwrap();
}

#[test]
fn contract_migration_waits_until_older_servers_have_stopped() {
    let Some(scratch) = create_scratch() else { return };
    let previous = Store::open_postgres_with(&scratch.url(), expanded()).unwrap();
    beat(&previous, "previous", &expanded()).unwrap();
    let next = Store::open_postgres_with(&scratch.url(), contracted()).unwrap();
    beat(&next, "next", &contracted()).unwrap();
    assert_eq!(list_applied(&scratch), [1, 2, 4], "only the contract migration waits");
    beat(&previous, "previous", &expanded()).unwrap();

    stop(&previous, "previous");
    drop(previous);
    drop(Store::open_postgres_with(&scratch.url(), contracted()).unwrap());
    assert_eq!(list_applied(&scratch), [1, 2, 3, 4]);
    beat(&next, "next", &contracted()).unwrap();
    assert!(
        refusal(Store::open_postgres_with(&scratch.url(), expanded())).contains("newer than this program")
    );
}

/// A server that was suspended counts as stopped after a while. When it resumes, it must not write.
#[test]
fn suspended_server_cannot_write_after_a_contract_migration() {
    let Some(scratch) = create_scratch() else { return };
    let suspended = Store::open_postgres_with(&scratch.url(), expanded()).unwrap();
    beat(&suspended, "suspended", &expanded()).unwrap();
    let late = format!("UPDATE servers SET seen_at = seen_at - {}", (server::ALIVE_S + 1) * 1_000_000);
    scratch.connect().batch_execute(&late).unwrap();

    drop(Store::open_postgres_with(&scratch.url(), contracted()).unwrap());
    assert_eq!(list_applied(&scratch), [1, 2, 3, 4]);
    let error = beat(&suspended, "suspended", &expanded()).unwrap_err();
    assert!(matches!(error, StoreError::Outdated(_)), "{error}");
    assert!(suspended.watch_failure().borrow().is_some(), "the process is told to exit");
}

#[test]
fn server_is_refused_next_to_a_server_that_is_too_old_for_it() {
    let Some(scratch) = create_scratch() else { return };
    let old = Store::open_postgres(&scratch.url()).unwrap();
    beat(&old, "old", &SCHEMA).unwrap();
    let why = refusal(Store::open_postgres_with(&scratch.url(), contracted()));
    assert!(why.contains("berth 0.1.0 with schema version 1 is running"), "{why}");
    assert_eq!(list_applied(&scratch), [1], "nothing was changed");
    beat(&old, "old", &SCHEMA).unwrap();

    stop(&old, "old");
    let next = Store::open_postgres_with(&scratch.url(), contracted()).unwrap();
    beat(&next, "next", &contracted()).unwrap();
    assert!(matches!(beat(&old, "old", &SCHEMA), Err(StoreError::Outdated(_))));
}

#[test]
fn older_program_opens_a_sqlite_database_until_a_contract_migration() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("berth.db");
    drop(Store::open_sqlite_with(&path, expanded()).unwrap());
    beat(&Store::open_sqlite(&path).unwrap(), "old", &SCHEMA).unwrap();
    drop(Store::open_sqlite_with(&path, contracted()).unwrap());
    assert!(refusal(Store::open_sqlite(&path)).contains("schema version 3 or later"));
    assert!(refusal(Store::open_sqlite_with(&path, expanded())).contains("newer than this program"));
}
