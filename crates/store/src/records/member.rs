//! Memberships: which user has which role in which organization.

use berth_core::access::Role;
use berth_core::id::{OrgId, UserId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

statements! {
    Org Read BY_USER = "SELECT user_id, role, version, created_at FROM memberships WHERE org_id = $1 AND user_id = $2";
    Instance Read ROLE_IN = "SELECT role FROM memberships WHERE user_id = $1 AND org_id = $2";
    Instance Read ORGANIZATIONS = "SELECT org_id FROM memberships WHERE user_id = $1 ORDER BY org_id LIMIT $2";
    Instance Read HOME = "SELECT org_id FROM memberships WHERE user_id = $1 ORDER BY created_at, org_id LIMIT 1";
    Org Read COUNT_ROLE = "SELECT CAST(COUNT(*) AS BIGINT) FROM memberships WHERE org_id = $1 AND role = $2";
    Org Read COUNT_ALL = "SELECT CAST(COUNT(*) AS BIGINT) FROM memberships WHERE org_id = $1";
    Org Write PUT = "INSERT INTO memberships (org_id, user_id, role, version, created_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (org_id, user_id) DO UPDATE SET role = excluded.role, version = excluded.version
        WHERE memberships.version = excluded.version - 1";
    Org Write DELETE = "DELETE FROM memberships WHERE org_id = $1 AND user_id = $2";
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub user: UserId,
    pub role: Role,
    pub version: i64,
    pub created_at: Timestamp,
}

fn read(row: &Row) -> Result<Member, StoreError> {
    Ok(Member { user: row.parse(0)?, role: row.parse(1)?, version: row.int(2)?, created_at: row.time(3)? })
}

pub fn by_user(db: &mut impl Read, user: UserId) -> Result<Option<Member>, StoreError> {
    db.row(&BY_USER, &[text(user)])?.as_ref().map(read).transpose()
}

/// The role of a user in an organization, before anything is known to be allowed there.
pub fn role_in(db: &mut impl Read, user: UserId, org: OrgId) -> Result<Option<Role>, StoreError> {
    db.row(&ROLE_IN, &[text(user), text(org)])?.map(|row| row.parse(0)).transpose()
}

pub fn organizations(db: &mut impl Read, user: UserId) -> Result<Vec<OrgId>, StoreError> {
    let limit = super::organization::ORGANIZATIONS_PER_USER_MAX;
    db.rows(&ORGANIZATIONS, &[text(user), limit.into()])?.iter().map(|row| row.parse(0)).collect()
}

/// The organization a user has been in for longest: the one that made the account, as long as it is a member there.
pub fn home(db: &mut impl Read, user: UserId) -> Result<Option<OrgId>, StoreError> {
    db.row(&HOME, &[text(user)])?.map(|row| row.parse(0)).transpose()
}

pub fn count_with_role(db: &mut impl Read, role: Role) -> Result<i64, StoreError> {
    db.row(&COUNT_ROLE, &[text(role)])?.map_or(Ok(0), |row| row.int(0))
}

pub fn count(db: &mut impl Read) -> Result<i64, StoreError> {
    db.row(&COUNT_ALL, &[])?.map_or(Ok(0), |row| row.int(0))
}

pub fn put(tx: &mut Tx<'_>, member: &Member) -> Result<(), StoreError> {
    let params = [text(member.user), text(member.role), member.version.into(), member.created_at.into()];
    tx.execute_one(&PUT, &params)
}

pub fn delete(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(user)])
}
