//! Invitations to an organization. A row is an invitation that is open; only the hash of its link is stored.

use berth_core::access::Role;
use berth_core::id::{InvitationId, OrgId, UserId};
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

statements! {
    Org Read BY_ID = "SELECT i.id, i.email, i.name, i.role, i.invited_by, u.name, i.created_at, i.expires_at
        FROM invitations i JOIN users u ON u.id = i.invited_by
        WHERE i.org_id = $1 AND i.id = $2 AND i.expires_at > $3";
    // The link is all that its holder shows.
    Instance Read BY_HASH = "SELECT i.id, i.email, i.name, i.role, i.invited_by, u.name, i.created_at, i.expires_at, i.org_id
        FROM invitations i JOIN users u ON u.id = i.invited_by WHERE i.hash = $1 AND i.expires_at > $2";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM invitations WHERE org_id = $1 AND expires_at > $2";
    Org Write INSERT = "INSERT INTO invitations
        (org_id, id, email, email_key, name, role, invited_by, hash, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    Org Write DELETE = "DELETE FROM invitations WHERE org_id = $1 AND id = $2";
    Org Write DELETE_OF_ADDRESS = "DELETE FROM invitations WHERE org_id = $1 AND email_key = $2";
    Instance Upkeep DELETE_EXPIRED = "DELETE FROM invitations WHERE expires_at <= $1";
}

#[derive(Debug, Clone, PartialEq)]
pub struct Invitation {
    pub id: InvitationId,
    pub email: Email,
    pub name: Option<DisplayName>,
    pub role: Role,
    pub invited_by: UserId,
    pub invited_by_name: DisplayName,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

pub(crate) fn read(row: &Row) -> Result<Invitation, StoreError> {
    Ok(Invitation {
        id: row.parse(0)?,
        email: row.name(1)?,
        name: row.maybe(2, Row::name)?,
        role: row.parse(3)?,
        invited_by: row.parse(4)?,
        invited_by_name: row.name(5)?,
        created_at: row.time(6)?,
        expires_at: row.time(7)?,
    })
}

pub fn by_id(db: &mut impl Read, id: InvitationId) -> Result<Option<Invitation>, StoreError> {
    let now = db.now();
    db.row(&BY_ID, &[text(id), now.into()])?.as_ref().map(read).transpose()
}

/// The open invitation that a link is for, and its organization.
pub fn by_hash(db: &mut impl Read, hash: &[u8]) -> Result<Option<(OrgId, Invitation)>, StoreError> {
    let now = db.now();
    let row = db.row(&BY_HASH, &[hash.into(), now.into()])?;
    row.map(|row| Ok((row.parse(8)?, read(&row)?))).transpose()
}

pub fn count(db: &mut impl Read) -> Result<i64, StoreError> {
    let now = db.now();
    db.row(&COUNT, &[now.into()])?.map_or(Ok(0), |row| row.int(0))
}

/// Replaces an earlier invitation of the same address, whose link stops working.
pub fn replace(tx: &mut Tx<'_>, invitation: &Invitation, hash: &[u8]) -> Result<(), StoreError> {
    tx.execute(&DELETE_OF_ADDRESS, &[invitation.email.key().into()])?;
    let params = [
        text(invitation.id),
        text(&invitation.email),
        invitation.email.key().into(),
        invitation.name.as_ref().map(text).into(),
        text(invitation.role),
        text(invitation.invited_by),
        hash.into(),
        invitation.created_at.into(),
        invitation.expires_at.into(),
    ];
    tx.execute_one(&INSERT, &params)
}

pub fn delete(tx: &mut Tx<'_>, id: InvitationId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

pub fn delete_expired(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_EXPIRED, &[now.into()]).map(drop)
}
