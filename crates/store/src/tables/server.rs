//! Servers that share a PostgreSQL database. Contract migrations wait for servers that do not know them.

use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::migrations::SCHEMA;
use crate::sql::statements;
use crate::tx::Tx;

/// A server without a heartbeat for this many seconds counts as stopped. If it was only suspended, its next transaction
/// is refused once the schema has changed too much for it.
pub const ALIVE_S: i64 = 30;
/// How long rows of stopped servers are kept.
const KEPT_S: i64 = 24 * 60 * 60;

statements! {
    Instance Upkeep BEAT = "INSERT INTO servers (id, program, schema_version, seen_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";
    Instance Upkeep LEAVE = "DELETE FROM servers WHERE id = $1";
    Instance Upkeep SWEEP = "DELETE FROM servers WHERE seen_at < $1";
}

/// Records that a server is running. Call at least every few seconds, in a lease transaction.
pub fn put_heartbeat(tx: &mut Tx<'_>, id: &str, program: &str) -> Result<(), StoreError> {
    put_heartbeat_as(tx, id, program, SCHEMA.version())
}

/// Like [`put_heartbeat`], for a server with this schema version.
pub fn put_heartbeat_as(
    tx: &mut Tx<'_>,
    id: &str,
    program: &str,
    schema_version: i64,
) -> Result<(), StoreError> {
    let now: Timestamp = tx.now();
    tx.execute(&BEAT, &[id.into(), program.into(), schema_version.into(), now.into()]).map(drop)
}

/// Removes a server that stops.
pub fn delete(tx: &mut Tx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute(&LEAVE, &[id.into()]).map(drop)
}

/// Removes servers that stopped long ago without saying so.
pub fn delete_stopped(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let before = tx.now().plus_seconds(-KEPT_S);
    tx.execute(&SWEEP, &[before.into()]).map(drop)
}
