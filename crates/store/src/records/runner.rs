//! Runners on other machines: of their tokens and credentials only hashes are kept.

use berth_core::id::{OrgId, RunnerId};
use berth_core::name::Slug;
use berth_core::pipeline::grammar::Label;
use berth_core::runner::Runner;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read BY_ID = "SELECT id, name, labels, slots, program, created_at, token_expires_at, registered_at, boot,
          is_draining, seen_at, left_at, lost_ms, allowed_labels, isolation, exposed
        FROM runners WHERE org_id = $1 AND id = $2 {for_update}";
    Org Read BY_NAME = "SELECT id, name, labels, slots, program, created_at, token_expires_at, registered_at, boot,
          is_draining, seen_at, left_at, lost_ms, allowed_labels, isolation, exposed
        FROM runners WHERE org_id = $1 AND name = $2 {for_update}";
    // The secrets are unique in the installation: each says whose runner it is.
    Instance Read BY_TOKEN = "SELECT id, name, labels, slots, program, created_at, token_expires_at, registered_at, boot,
          is_draining, seen_at, left_at, lost_ms, allowed_labels, isolation, exposed,
          org_id FROM runners WHERE token_hash = $1";
    Instance Read BY_CREDENTIAL = "SELECT id, name, labels, slots, program, created_at, token_expires_at, registered_at,
          boot, is_draining, seen_at, left_at, lost_ms, allowed_labels, isolation, exposed,
          org_id FROM runners WHERE credential_hash = $1";
    Org Write INSERT = "INSERT INTO runners (org_id, id, name, labels, slots, created_at, token_hash, token_expires_at,
          is_draining, allowed_labels) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CAST(0 AS BIGINT), $9)";
    // Once: a second use means that the token was copied.
    Org Write REGISTER = "UPDATE runners SET name = $3, credential_hash = $4, registered_at = $5
        WHERE org_id = $1 AND id = $2 AND registered_at IS NULL AND token_expires_at > $5";
    Org Write DELETE = "DELETE FROM runners WHERE org_id = $1 AND id = $2";
    Org Upkeep FORGET_UNUSED = "DELETE FROM runners WHERE org_id = $1 AND registered_at IS NULL AND token_expires_at <= $2";
    // A hello that comes late does not shorten what the same runner was told meanwhile.
    Org Upkeep HELLO = "UPDATE runners SET labels = $3, slots = $4, program = $5, boot = $6, isolation = $9, exposed = $10,
          is_draining = CAST(0 AS BIGINT), seen_at = $7, left_at = NULL,
          lost_ms = CASE WHEN boot = $6 AND lost_ms > $8 THEN lost_ms ELSE $8 END WHERE org_id = $1 AND id = $2";
    Org Upkeep SEEN = "UPDATE runners SET seen_at = $4, is_draining = $5
        WHERE org_id = $1 AND id = $2 AND boot = $3";
    Org Upkeep LEFT = "UPDATE runners SET seen_at = $4, left_at = $4 WHERE org_id = $1 AND id = $2 AND boot = $3";
}

/// What a runner says of itself when it comes.
#[derive(Debug, Clone)]
pub struct Hello {
    pub labels: Vec<Label>,
    pub slots: i64,
    pub program: String,
    pub boot: String,
    pub isolation: String,
    pub exposed: Vec<String>,
    /// And what it is told.
    pub lost_ms: i64,
}

pub(crate) fn read(row: &Row) -> Result<Runner, StoreError> {
    Ok(Runner {
        id: row.parse(0)?,
        name: row.maybe(1, Row::name)?,
        labels: row.json(2)?,
        slots: row.int(3)?,
        program: row.maybe(4, Row::text)?.map(str::to_owned),
        created_at: row.time(5)?,
        token_expires_at: row.time(6)?,
        registered_at: row.maybe(7, Row::time)?,
        boot: row.maybe(8, Row::text)?.map(str::to_owned),
        is_draining: row.int(9)? != 0,
        seen_at: row.maybe(10, Row::time)?,
        left_at: row.maybe(11, Row::time)?,
        lost_ms: row.maybe(12, Row::int)?,
        allowed_labels: row.json(13)?,
        isolation: row.maybe(14, Row::text)?.map(str::to_owned),
        exposed: row.json(15)?,
    })
}

pub fn by_id(db: &mut impl Read, id: RunnerId) -> Result<Option<Runner>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn by_name(db: &mut impl Read, name: &Slug) -> Result<Option<Runner>, StoreError> {
    db.row(&BY_NAME, &[text(name)])?.as_ref().map(read).transpose()
}

/// By the id or the name in a URL.
pub fn find(db: &mut impl Read, key: &str) -> Result<Option<Runner>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    Slug::parse(key).map_or(Ok(None), |name| by_name(db, &name))
}

/// Whose token this is, used or not.
pub fn by_token(db: &mut impl Read, hash: &[u8]) -> Result<Option<(OrgId, Runner)>, StoreError> {
    db.row(&BY_TOKEN, &[hash.into()])?.as_ref().map(owned).transpose()
}

pub fn by_credential(db: &mut impl Read, hash: &[u8]) -> Result<Option<(OrgId, Runner)>, StoreError> {
    db.row(&BY_CREDENTIAL, &[hash.into()])?.as_ref().map(owned).transpose()
}

fn owned(row: &Row) -> Result<(OrgId, Runner), StoreError> {
    Ok((row.parse(16)?, read(row)?))
}

pub fn insert(tx: &mut Tx<'_>, runner: &Runner, token_hash: &[u8]) -> Result<(), StoreError> {
    let params = [
        text(runner.id),
        runner.name.as_ref().map(text).into(),
        to_json(&runner.labels)?.into(),
        runner.slots.into(),
        runner.created_at.into(),
        token_hash.into(),
        runner.token_expires_at.into(),
        to_json(&runner.allowed_labels)?.into(),
    ];
    tx.execute_one(&INSERT, &params)
}

/// False: its token was used up, or is too old.
pub fn register(tx: &mut Tx<'_>, id: RunnerId, name: &Slug, hash: &[u8]) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&REGISTER, &[text(id), text(name), hash.into(), now.into()])? == 1)
}

pub fn delete(tx: &mut Tx<'_>, id: RunnerId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

/// Those whose token nobody came with in time.
pub fn forget_unused(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&FORGET_UNUSED, &[now.into()]).map(drop)
}

pub fn hello(tx: &mut Tx<'_>, id: RunnerId, said: &Hello) -> Result<(), StoreError> {
    let now = tx.now();
    let params = [
        text(id),
        to_json(&said.labels)?.into(),
        said.slots.into(),
        said.program.as_str().into(),
        said.boot.as_str().into(),
        now.into(),
        said.lost_ms.into(),
        said.isolation.as_str().into(),
        to_json(&said.exposed)?.into(),
    ];
    tx.execute(&HELLO, &params).map(drop)
}

pub fn seen(
    tx: &mut Tx<'_>,
    id: RunnerId,
    boot: &str,
    at: Timestamp,
    is_draining: bool,
) -> Result<(), StoreError> {
    tx.execute(&SEEN, &[text(id), boot.into(), at.into(), is_draining.into()]).map(drop)
}

pub fn left(tx: &mut Tx<'_>, id: RunnerId, boot: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&LEFT, &[text(id), boot.into(), now.into()]).map(drop)
}
