//! Members of an organization with who they are.

use berth_core::access::Role;
use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;

use super::{From, Slice};
use crate::error::StoreError;
use crate::records::member;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Row, text};

statements! {
    Org Read LIST = "SELECT u.id, u.email, u.name, u.kind, u.owner_id, m.role, m.version, m.created_at
        FROM memberships m JOIN users u ON u.id = m.user_id
        WHERE m.org_id = $1 AND m.user_id > $2 ORDER BY m.user_id LIMIT $3 OFFSET $4";
    Org Read ONE = "SELECT u.id, u.email, u.name, u.kind, u.owner_id, m.role, m.version, m.created_at
        FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.org_id = $1 AND m.user_id = $2";
}

#[derive(Debug, Clone, PartialEq)]
pub struct MemberView {
    pub user: UserId,
    pub email: Email,
    pub name: DisplayName,
    pub is_service: bool,
    pub owner: Option<UserId>,
    pub role: Role,
    pub version: i64,
    pub created_at: Timestamp,
}

fn read(row: &Row) -> Result<MemberView, StoreError> {
    Ok(MemberView {
        user: row.parse(0)?,
        email: row.name(1)?,
        name: row.name(2)?,
        is_service: row.text(3)? == "service",
        owner: row.maybe(4, Row::parse)?,
        role: row.parse(5)?,
        version: row.int(6)?,
        created_at: row.time(7)?,
    })
}

pub fn one(db: &mut impl Read, user: UserId) -> Result<Option<MemberView>, StoreError> {
    db.row(&ONE, &[text(user)])?.as_ref().map(read).transpose()
}

pub fn list(db: &mut impl Read, from: &From, limit: i64) -> Result<Slice<MemberView>, StoreError> {
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let rows = db.rows(&LIST, &[after.into(), (limit + 1).into(), offset.into()])?;
    let total = Some(member::count(db)?);
    Ok(Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, total))
}
