//! Pending invitations to an organization. Only a hash of the invitation link is stored.

use berth_core::access::Role;
use berth_core::id::{InvitationId, OrgId, UserId};
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::text;
use crate::sql::{SqlText, ToParams as _, from_row, sql, statements};
use crate::tx::{StoreRead, Tx};

const fn select(first: &str, condition: &str) -> SqlText {
    let text = sql("SELECT ").then(first);
    let text = text.then("i.id, i.email, i.name, i.role, i.invited_by, u.name, i.created_at, i.expires_at");
    text.then(" FROM invitations i JOIN users u ON u.id = i.invited_by WHERE ").then(condition)
}

statements! {
    Org Read BY_ID => select("", "i.org_id = $1 AND i.id = $2 AND i.expires_at > $3");
    // The caller is not a member yet, so the organization is known only from the link.
    Instance Read BY_HASH => select("i.org_id, ", "i.hash = $1 AND i.expires_at > $2");
    Org Read LIST => select("", "i.org_id = $1 AND i.expires_at > $2 AND i.id > $3 ORDER BY i.id LIMIT $4 OFFSET $5");
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
from_row!(Invitation { id, email, name, role, invited_by, invited_by_name, created_at, expires_at });

pub fn by_id(db: &mut impl StoreRead, id: InvitationId) -> Result<Option<Invitation>, StoreError> {
    let now = db.now();
    db.fetch_optional(&BY_ID, &[text(id), now.into()])
}

/// Finds the pending invitation with this link, and its organization.
pub fn by_hash(db: &mut impl StoreRead, hash: &[u8]) -> Result<Option<(OrgId, Invitation)>, StoreError> {
    let now = db.now();
    db.fetch_optional(&BY_HASH, &[hash.into(), now.into()])
}

pub fn list(
    db: &mut impl StoreRead,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Invitation>, StoreError> {
    let total = Some(count(db)?);
    let now = db.now();
    Ok(fetch_page(db, &LIST, &[now.into()], from.by_id(), limit)?.with_total(total))
}

pub fn count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    let now = db.now();
    db.fetch_count(&COUNT, &[now.into()])
}

/// Inserts an invitation. Deletes an earlier invitation to the same address, so that its link no longer works.
pub fn replace_of_address(tx: &mut Tx<'_>, invitation: &Invitation, hash: &[u8]) -> Result<(), StoreError> {
    let key = invitation.email.key();
    tx.execute(&DELETE_OF_ADDRESS, &[key.as_str().into()])?;
    let mut params = Vec::new();
    (invitation.id, &invitation.email, key, &invitation.name, invitation.role).to_params(&mut params)?;
    (invitation.invited_by, hash, invitation.created_at, invitation.expires_at).to_params(&mut params)?;
    tx.execute_one(&INSERT, &params)
}

pub fn delete(tx: &mut Tx<'_>, id: InvitationId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

pub fn delete_expired(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_EXPIRED, &[now.into()]).map(drop)
}
