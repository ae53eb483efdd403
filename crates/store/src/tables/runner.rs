//! Remote runners. Only hashes of their tokens and credentials are stored.

use berth_core::id::{DeploymentId, OrgId, RunnerId, StepRunId};
use berth_core::name::Slug;
use berth_core::pipeline::grammar::{Label, StepId};
use berth_core::runner::Runner;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{SqlText, TableRow as _, ToParams as _, from_row, json_columns, sql, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org Runner in runners {
    key: [id],
    insert: [name, labels, slots, created_at, token_expires_at, is_draining, allowed_labels],
    read: [isolation, exposed, program, registered_at, boot, seen_at, left_at, lost_ms],
});
json_columns!(Vec<Label>, Vec<String>);

const fn select_with_org(condition: &str) -> SqlText {
    sql("SELECT org_id, ").columns(&Runner::TABLE, "").then(" FROM runners WHERE ").then(condition)
}

statements! {
    Org Read BY_ID => Runner::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read BY_NAME => Runner::TABLE.select("WHERE org_id = $1 AND name = $2 {for_update}");
    // Tokens and credentials are unique across all organizations.
    Instance Read BY_TOKEN => select_with_org("token_hash = $1");
    Instance Read BY_CREDENTIAL => select_with_org("credential_hash = $1");
    // Leaves out runners whose registration token expired unused.
    Org Read ALL => Runner::TABLE.select(
        "WHERE org_id = $1 AND (registered_at IS NOT NULL OR token_expires_at > $2) ORDER BY id LIMIT $3");
    Org Read SEEN_SINCE => Runner::TABLE.select(
        "WHERE org_id = $1 AND seen_at > $2 AND left_at IS NULL AND is_draining = 0 ORDER BY id LIMIT $3");
    Instance Read REGISTERED => Runner::TABLE.select("WHERE registered_at IS NOT NULL ORDER BY id LIMIT $1");
    Org Read RUNNING = "SELECT a.runner, a.deployment_id, a.step_id, s.step, a.granted_at FROM attempts a
        JOIN step_runs s ON s.org_id = a.org_id AND s.id = a.step_id
        WHERE a.org_id = $1 AND a.ended_at IS NULL AND a.parked_at IS NULL ORDER BY a.granted_at LIMIT $2";
    Org Write INSERT = "INSERT INTO runners (org_id, id, name, labels, slots, created_at, token_expires_at, is_draining,
          allowed_labels, token_hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    // A registration token works only once. A second use means that the token was copied.
    Org Write REGISTER = "UPDATE runners SET name = $3, credential_hash = $4, registered_at = $5
        WHERE org_id = $1 AND id = $2 AND registered_at IS NULL AND token_expires_at > $5";
    Org Write DELETE = "DELETE FROM runners WHERE org_id = $1 AND id = $2";
    Org Upkeep FORGET_UNUSED = "DELETE FROM runners WHERE org_id = $1 AND registered_at IS NULL AND token_expires_at <= $2";
    // If a handshake arrives late, it must not shorten the timeout that the same runner process has been given since.
    Org Upkeep HELLO = "UPDATE runners SET labels = $3, slots = $4, program = $5, boot = $6, isolation = $9, exposed = $10, protocol = $11,
          is_draining = CAST(0 AS BIGINT), seen_at = $7, left_at = NULL,
          lost_ms = CASE WHEN boot = $6 AND lost_ms > $8 THEN lost_ms ELSE $8 END WHERE org_id = $1 AND id = $2";
    Org Upkeep SEEN = "UPDATE runners SET seen_at = $4, is_draining = $5
        WHERE org_id = $1 AND id = $2 AND boot = $3";
    Org Upkeep LEFT = "UPDATE runners SET seen_at = $4, left_at = $4 WHERE org_id = $1 AND id = $2 AND boot = $3";
}

/// What a runner reports in its handshake, and the timeout that the server gives it in reply.
#[derive(Debug, Clone)]
pub struct RunnerHandshake {
    pub labels: Vec<Label>,
    pub slots: i64,
    pub program: String,
    /// Version of the runner protocol.
    pub protocol: i64,
    pub boot: String,
    pub isolation: String,
    pub exposed: Vec<String>,
    /// After how many milliseconds without contact the runner counts as lost.
    pub lost_ms: i64,
}

/// An attempt that a runner is executing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerAttempt {
    /// Identifies the runner and its process.
    pub runner: String,
    pub deployment: DeploymentId,
    pub step_run: StepRunId,
    pub step: StepId,
    pub since: Timestamp,
}
from_row!(RunnerAttempt { runner, deployment, step_run, step, since });

pub fn by_id(db: &mut impl StoreRead, id: RunnerId) -> Result<Option<Runner>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_name(db: &mut impl StoreRead, name: &Slug) -> Result<Option<Runner>, StoreError> {
    db.fetch_optional(&BY_NAME, &[text(name)])
}

/// Finds a runner by the id or name from a URL.
pub fn find(db: &mut impl StoreRead, key: &str) -> Result<Option<Runner>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    Slug::parse(key).map_or(Ok(None), |name| by_name(db, &name))
}

/// Finds the runner with this registration token, used or not, and its organization.
pub fn by_token(db: &mut impl StoreRead, hash: &[u8]) -> Result<Option<(OrgId, Runner)>, StoreError> {
    db.fetch_optional(&BY_TOKEN, &[hash.into()])
}

pub fn by_credential(db: &mut impl StoreRead, hash: &[u8]) -> Result<Option<(OrgId, Runner)>, StoreError> {
    db.fetch_optional(&BY_CREDENTIAL, &[hash.into()])
}

/// The organization's runners.
pub fn list(db: &mut impl StoreRead, limit: i64) -> Result<Vec<Runner>, StoreError> {
    let now = db.now();
    db.fetch_all(&ALL, &[now.into(), limit.into()])
}

/// Runners that were seen after this time and accept work.
pub fn list_seen_since(
    db: &mut impl StoreRead,
    since: Timestamp,
    limit: i64,
) -> Result<Vec<Runner>, StoreError> {
    db.fetch_all(&SEEN_SINCE, &[since.into(), limit.into()])
}

/// Registered runners of all organizations.
pub(crate) fn list_registered(db: &mut impl StoreRead, limit: i64) -> Result<Vec<Runner>, StoreError> {
    db.fetch_all(&REGISTERED, &[limit.into()])
}

/// Attempts that are running, oldest first.
pub fn list_running_attempts(db: &mut impl StoreRead, limit: i64) -> Result<Vec<RunnerAttempt>, StoreError> {
    db.fetch_all(&RUNNING, &[limit.into()])
}

pub fn insert(tx: &mut Tx<'_>, runner: &Runner, token_hash: &[u8]) -> Result<(), StoreError> {
    let mut params = Vec::new();
    runner.to_params(&mut params)?;
    params.push(token_hash.into());
    tx.execute_one(&INSERT, &params)
}

/// Registers a runner with its registration token. Returns false if the token was already used or has expired.
pub fn register(tx: &mut Tx<'_>, id: RunnerId, name: &Slug, hash: &[u8]) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&REGISTER, &[text(id), text(name), hash.into(), now.into()])? == 1)
}

pub fn delete(tx: &mut Tx<'_>, id: RunnerId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

/// Deletes runners whose registration token expired unused.
pub fn delete_unused(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&FORGET_UNUSED, &[now.into()]).map(drop)
}

/// Stores what a runner reported in its handshake.
pub fn put_handshake(tx: &mut Tx<'_>, id: RunnerId, said: &RunnerHandshake) -> Result<(), StoreError> {
    let mut params = vec![text(id)];
    (&said.labels, said.slots, &said.program, &said.boot).to_params(&mut params)?;
    (tx.now(), said.lost_ms, &said.isolation, &said.exposed, said.protocol).to_params(&mut params)?;
    tx.execute(&HELLO, &params).map(drop)
}

/// Stores the time of a heartbeat, and whether the runner is draining.
pub fn put_heartbeat(
    tx: &mut Tx<'_>,
    id: RunnerId,
    boot: &str,
    at: Timestamp,
    is_draining: bool,
) -> Result<(), StoreError> {
    tx.execute(&SEEN, &[text(id), boot.into(), at.into(), is_draining.into()]).map(drop)
}

/// Records that a runner has shut down.
pub fn put_shutdown(tx: &mut Tx<'_>, id: RunnerId, boot: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&LEFT, &[text(id), boot.into(), now.into()]).map(drop)
}
