//! Copies a whole database from SQLite to PostgreSQL or back: all tables, in one transaction, into an empty database.
//!
//! Both databases have the same tables from the same migrations, so rows are copied unchanged. The copy gets a higher
//! epoch, which makes its fences (fencing tokens) greater than any that the old database could still issue if it were
//! still in use. A PostgreSQL source gets a higher epoch too, so that two copies of it do not issue the same fences.

mod pg;
mod schema;

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params_from_iter};

use crate::data_dir::DataDir;
use crate::error::{OpenError, StoreError};
use crate::incarnation::{self, MOVED};
use crate::migrations::SCHEMA;
use crate::sql::value::SqlValue;
use crate::sqlite;
use pg::CopyClient;
use schema::{CopyTable, list_tables};

/// Number of rows that one statement inserts.
const BATCH_ROWS: usize = 50;
/// The table with one row that describes the installation. The migrations create the row.
const INSTANCE: &str = "instance";

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyDirection {
    ToPostgres,
    ToSqlite,
}

/// A copied table. Its number of rows was checked to be the same in the source and in the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    pub table: String,
    pub rows: u64,
}

/// Copies between the SQLite database of a data directory and the PostgreSQL database at `url`. No server may be
/// running on either database.
pub fn copy_database(
    dir: &DataDir,
    url: &str,
    direction: CopyDirection,
) -> Result<Vec<CopiedTable>, OpenError> {
    sqlite::check_version()?;
    let path = dir.database();
    if direction == CopyDirection::ToPostgres {
        incarnation::check_database(dir)?;
    }
    sqlite::migrate(&path, &SCHEMA, sqlite::now(&sqlite::ClockOffset::default()))?;
    let mut postgres = CopyClient::open(url)?;
    let db = sqlite::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    SCHEMA.require_same(&sqlite::read_schema_state(&db)?.applied)?;
    SCHEMA.require_same(&postgres.read_schema_state()?.applied)?;
    let tables = list_tables(&db).map_err(StoreError::from)?;
    let copied = match direction {
        CopyDirection::ToPostgres => to_postgres(&db, &mut postgres, &tables)?,
        CopyDirection::ToSqlite => to_sqlite(&mut postgres, dir, &db, &tables)?,
    };
    if direction == CopyDirection::ToPostgres {
        mark_moved(&path)?;
    }
    Ok(copied)
}

fn to_postgres(
    db: &Connection,
    to: &mut CopyClient,
    tables: &[CopyTable],
) -> Result<Vec<CopiedTable>, OpenError> {
    let mut writing = to.begin()?;
    refuse_filled(tables, |table| writing.count(table), "the PostgreSQL database")?;
    writing.execute(&format!("DELETE FROM {INSTANCE}"))?;
    let mut copied = Vec::new();
    for table in tables {
        let mut query = db.prepare(&table.select()).map_err(StoreError::from)?;
        let mut rows = query.query([]).map_err(StoreError::from)?;
        let mut batch = Vec::new();
        while let Some(row) = rows.next().map_err(StoreError::from)? {
            let cell = |at: usize| row.get_ref(at).map(sqlite::read_value);
            let cells = (0..table.columns.len()).map(cell).collect::<Result<Vec<_>, _>>();
            batch.push(cells.map_err(StoreError::from)?);
            if batch.len() == BATCH_ROWS {
                writing.insert(table, &std::mem::take(&mut batch))?;
            }
        }
        writing.insert(table, &batch)?;
        copied.push(check_counts(table, count_rows(db, table)?, writing.count(table)?)?);
    }
    // Sets the sequence, so that PostgreSQL generates ids above the copied ones.
    writing.execute(
        "SELECT setval(pg_get_serial_sequence('terms', 'id'), MAX(id)) FROM terms HAVING MAX(id) > 0",
    )?;
    // A higher epoch makes new fences greater than any that the old database may still issue.
    writing.execute(&format!("UPDATE {INSTANCE} SET epoch = epoch + 1, incarnation = NULL"))?;
    writing.commit()?;
    Ok(copied)
}

fn to_sqlite(
    from: &mut CopyClient,
    dir: &DataDir,
    db: &Connection,
    tables: &[CopyTable],
) -> Result<Vec<CopiedTable>, OpenError> {
    let mut reading = from.begin()?;
    if reading.has_servers()? {
        let text = "a server is running on the PostgreSQL database, or was until a few seconds ago; nothing was changed. \
                    Stop all servers, wait ten seconds, and try again.";
        return Err(OpenError::Refused(text.into()));
    }
    reading.execute(&format!("UPDATE {INSTANCE} SET epoch = epoch + 1"))?;
    let run = |text: &str| db.execute_batch(text).map_err(StoreError::from);
    run("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON")?;
    refuse_filled(tables, |table| count_rows(db, table), "the SQLite database")?;
    run(&format!("DELETE FROM {INSTANCE}"))?;
    let mut copied = Vec::new();
    for table in tables {
        let mut insert = db.prepare(&table.insert(1, "?")).map_err(StoreError::from)?;
        reading.for_each_row(table, |cells: Vec<SqlValue>| {
            insert.execute(params_from_iter(&cells)).map(drop).map_err(StoreError::from)
        })?;
        copied.push(check_counts(table, reading.count(table)?, count_rows(db, table)?)?);
    }
    // The new epoch must be higher than any epoch used in either database, so that no fence is issued twice.
    let given = incarnation::stored_epoch(dir)?.unwrap_or_default();
    run(&format!("UPDATE {INSTANCE} SET epoch = MAX(epoch, {given}) + 1, incarnation = NULL"))?;
    // Commits the source first, because it does no harm if its epoch is raised and the copy then fails.
    reading.commit()?;
    incarnation::expect_new(dir)?;
    run("COMMIT")?;
    Ok(copied)
}

fn count_rows(db: &Connection, table: &CopyTable) -> Result<u64, StoreError> {
    let text = format!("SELECT COUNT(*) FROM {}", table.name);
    let rows: i64 = db.query_row(&text, [], |row| row.get(0)).map_err(StoreError::from)?;
    Ok(u64::try_from(rows).unwrap_or_default())
}

fn refuse_filled(
    tables: &[CopyTable],
    mut count: impl FnMut(&CopyTable) -> Result<u64, StoreError>,
    which: &str,
) -> Result<(), OpenError> {
    for table in tables.iter().filter(|table| table.name != INSTANCE) {
        let rows = count(table)?;
        if rows > 0 {
            return Err(OpenError::Refused(format!(
                "{which} is not empty: {} has {rows} rows; nothing was changed. Copy into a new, empty database.",
                table.name,
            )));
        }
    }
    Ok(())
}

fn check_counts(table: &CopyTable, from: u64, to: u64) -> Result<CopiedTable, OpenError> {
    match from == to {
        true => Ok(CopiedTable { table: table.name.clone(), rows: to }),
        false => Err(OpenError::Refused(format!(
            "{} has {from} rows in the source and {to} in the copy; nothing was changed. Is a server still running?",
            table.name,
        ))),
    }
}

/// Marks the SQLite file as moved to PostgreSQL, so that no server uses it by mistake.
fn mark_moved(path: &Path) -> Result<(), StoreError> {
    sqlite::set_incarnation(path, MOVED)
}
