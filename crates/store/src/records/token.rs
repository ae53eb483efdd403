//! API tokens: only their hash is kept.

use berth_core::access::Role;
use berth_core::event::Actor;
use berth_core::id::{OrgId, TokenId, UserId};
use berth_core::name::{DisplayName, Slug};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    // One look-up answers who it is, where, and as what, as of now: a token has no rights of its own.
    Instance Read CALLER_BY_HASH = "SELECT t.id, t.org_id, o.slug, u.id, u.name, u.kind, m.role, t.last_used_at,
          t.expires_at
        FROM api_tokens t JOIN organizations o ON o.id = t.org_id JOIN users u ON u.id = t.user_id
        JOIN memberships m ON m.user_id = t.user_id AND m.org_id = t.org_id
        WHERE t.hash = $1 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $2)";
    Org Read BY_ID = "SELECT id, user_id, name, prefix, created_at, expires_at, last_used_at, revoked_at
        FROM api_tokens WHERE org_id = $1 AND id = $2";
    Org Read STANDING = "SELECT m.role, t.expires_at FROM api_tokens t
        JOIN memberships m ON m.org_id = t.org_id AND m.user_id = t.user_id
        WHERE t.org_id = $1 AND t.id = $2 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $3)";
    Org Read COUNT_OF_USER = "SELECT CAST(COUNT(*) AS BIGINT) FROM api_tokens
        WHERE org_id = $1 AND user_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)";
    Org Write INSERT = "INSERT INTO api_tokens (org_id, id, user_id, name, prefix, hash, created_at, expires_at,
          created_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    Org Read CREATOR = "SELECT created_by FROM api_tokens WHERE org_id = $1 AND id = $2";
    Org Write REVOKE = "UPDATE api_tokens SET revoked_at = $3 WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL";
    Org Write REVOKE_OF_USER = "UPDATE api_tokens SET revoked_at = $3
        WHERE org_id = $1 AND user_id = $2 AND revoked_at IS NULL";
    Org Upkeep USED = "UPDATE api_tokens SET last_used_at = $3 WHERE org_id = $1 AND id = $2";
}

/// Live tokens of one user in one organization.
pub const TOKENS_PER_USER_MAX: i64 = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub id: TokenId,
    pub user: UserId,
    pub name: DisplayName,
    /// The first characters, to recognise it by.
    pub prefix: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// Whom a token speaks for.
#[derive(Debug, Clone)]
pub struct TokenCaller {
    pub token: TokenId,
    pub org: OrgId,
    pub org_slug: Slug,
    pub user: UserId,
    pub user_name: DisplayName,
    pub is_service: bool,
    pub role: Role,
    pub last_used_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
}

pub(crate) fn read(row: &Row) -> Result<Token, StoreError> {
    Ok(Token {
        id: row.parse(0)?,
        user: row.parse(1)?,
        name: row.name(2)?,
        prefix: row.text(3)?.to_owned(),
        created_at: row.time(4)?,
        expires_at: row.maybe(5, Row::time)?,
        last_used_at: row.maybe(6, Row::time)?,
        revoked_at: row.maybe(7, Row::time)?,
    })
}

pub fn caller(db: &mut impl Read, hash: &[u8], now: Timestamp) -> Result<Option<TokenCaller>, StoreError> {
    let Some(row) = db.row(&CALLER_BY_HASH, &[hash.into(), now.into()])? else { return Ok(None) };
    Ok(Some(TokenCaller {
        token: row.parse(0)?,
        org: row.parse(1)?,
        org_slug: row.name(2)?,
        user: row.parse(3)?,
        user_name: row.name(4)?,
        is_service: row.text(5)? == "service",
        role: row.parse(6)?,
        last_used_at: row.maybe(7, Row::time)?,
        expires_at: row.maybe(8, Row::time)?,
    }))
}

pub fn by_id(db: &mut impl Read, id: TokenId) -> Result<Option<Token>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

/// The role of a token and when it expires; `None` if it has ended or its user left.
pub fn standing(db: &mut impl Read, id: TokenId) -> Result<Option<(Role, Option<Timestamp>)>, StoreError> {
    let now = db.now();
    let Some(row) = db.row(&STANDING, &[text(id), now.into()])? else { return Ok(None) };
    Ok(Some((row.parse(0)?, row.maybe(1, Row::time)?)))
}

pub fn count_of_user(db: &mut impl Read, user: UserId, now: Timestamp) -> Result<i64, StoreError> {
    db.row(&COUNT_OF_USER, &[text(user), now.into()])?.map_or(Ok(0), |row| row.int(0))
}

/// Also keeps who creates it: the actor of the transaction.
pub fn insert(tx: &mut Tx<'_>, token: &Token, hash: &[u8]) -> Result<(), StoreError> {
    let params = [
        text(token.id),
        text(token.user),
        text(&token.name),
        token.prefix.as_str().into(),
        hash.into(),
        token.created_at.into(),
        token.expires_at.into(),
        to_json(tx.actor())?.into(),
    ];
    tx.execute_one(&INSERT, &params)
}

/// Who created a token, also one that was revoked. `None` for tokens of versions that did not keep it.
pub fn creator(db: &mut impl Read, id: TokenId) -> Result<Option<Actor>, StoreError> {
    let Some(row) = db.row(&CREATOR, &[text(id)])? else { return Ok(None) };
    row.maybe(0, Row::json)
}

pub fn revoke(tx: &mut Tx<'_>, id: TokenId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute_one(&REVOKE, &[text(id), now.into()])
}

pub fn revoke_all_of(tx: &mut Tx<'_>, user: UserId) -> Result<u64, StoreError> {
    let now = tx.now();
    tx.execute(&REVOKE_OF_USER, &[text(user), now.into()])
}

pub fn used(tx: &mut Tx<'_>, id: TokenId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&USED, &[text(id), now.into()]).map(drop)
}
