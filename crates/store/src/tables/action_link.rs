//! Links in messages with which their recipients can act once.

use berth_core::id::{ActionLinkId, OrgId, UserId};
use berth_core::notification::{LinkAction, NotificationSubject};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

table!(Org ActionLink in action_links {
    key: [id],
    update: [used_at],
    insert: [user: user_id, action, subject, summary, created_at, expires_at],
    read: [org: org_id],
});
word_columns!(LinkAction: LinkAction::ALL);

// Needs no events: what the recipient does with a link is recorded as an event of its own.
statements! {
    Org Upkeep INSERT => ActionLink::TABLE.insert("");
    // For requests that are not yet authorized in an organization.
    Instance Read BY_ID => ActionLink::TABLE.select("WHERE id = $1");
    Org Upkeep USE = "UPDATE action_links SET used_at = $3 WHERE org_id = $1 AND id = $2 AND used_at IS NULL
        AND expires_at > $3";
    Org Upkeep DELETE = "DELETE FROM action_links WHERE org_id = $1 AND id = $2";
    Org Upkeep DELETE_OF_MEMBER = "DELETE FROM action_links WHERE org_id = $1 AND user_id = $2";
    Instance Upkeep DELETE_ALL = "DELETE FROM action_links";
    Instance Upkeep DELETE_EXPIRED = "DELETE FROM action_links WHERE expires_at <= $1";
}

/// A link with which its recipient can perform one action, once.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionLink {
    pub id: ActionLinkId,
    pub org: OrgId,
    pub user: UserId,
    pub action: LinkAction,
    pub subject: NotificationSubject,
    /// The summary of the event that the message was about.
    pub summary: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

pub fn insert(tx: &mut Tx<'_>, link: &ActionLink) -> Result<(), StoreError> {
    tx.put(&INSERT, link)
}

pub fn by_id(db: &mut impl StoreRead, id: ActionLinkId) -> Result<Option<ActionLink>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

/// Marks a link as used. Returns `false` if it was used before or has expired.
pub fn mark_used(tx: &mut Tx<'_>, id: ActionLinkId) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&USE, &[text(id), now.into()])? == 1)
}

pub fn delete(tx: &mut Tx<'_>, id: ActionLinkId) -> Result<(), StoreError> {
    tx.execute(&DELETE, &[text(id)]).map(drop)
}

pub fn delete_of_member(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&DELETE_OF_MEMBER, &[text(user)]).map(drop)
}

/// Deletes the expired links of all organizations.
pub fn delete_expired(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_EXPIRED, &[now.into()]).map(drop)
}

/// Deletes the links of all organizations.
pub fn delete_all(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.execute(&DELETE_ALL, &[]).map(drop)
}
