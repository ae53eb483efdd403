//! Notification rules of people and teams.

use berth_core::id::{OrgId, TeamId, UserId};
use berth_core::notification::NotificationRule;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, json_columns, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org NotificationRuleSet in notification_rules {
    key: [owner: owner_id],
    update: [rules, version, updated_at],
});
json_columns!(Vec<NotificationRule>);

statements! {
    Org Read BY_OWNER => NotificationRuleSet::TABLE.select("WHERE org_id = $1 AND owner_id = $2 {for_update}");
    Org Read LIST => NotificationRuleSet::TABLE.select("WHERE org_id = $1 ORDER BY owner_id LIMIT $2");
    Org Write PUT => NotificationRuleSet::TABLE.upsert("WHERE notification_rules.version = excluded.version - 1");
    Org Write DELETE = "DELETE FROM notification_rules WHERE org_id = $1 AND owner_id = $2";
}

/// The rules of one person, team or organization.
#[derive(Debug, Clone, PartialEq)]
pub struct NotificationRuleSet {
    /// The id of the person, team or organization.
    pub owner: String,
    pub rules: Vec<NotificationRule>,
    pub version: i64,
    pub updated_at: Timestamp,
}

/// Who has notification rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOwner {
    Person(UserId),
    Team(TeamId),
    Organization(OrgId),
}

impl std::fmt::Display for RuleOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RuleOwner::Person(id) => id.fmt(f),
            RuleOwner::Team(id) => id.fmt(f),
            RuleOwner::Organization(id) => id.fmt(f),
        }
    }
}

pub fn by_owner(
    db: &mut impl StoreRead,
    owner: RuleOwner,
) -> Result<Option<NotificationRuleSet>, StoreError> {
    db.fetch_optional(&BY_OWNER, &[text(owner)])
}

/// All rules of the organization.
pub fn list(db: &mut impl StoreRead, limit: i64) -> Result<Vec<NotificationRuleSet>, StoreError> {
    db.fetch_all(&LIST, &[limit.into()])
}

pub fn put(tx: &mut Tx<'_>, rules: &NotificationRuleSet) -> Result<(), StoreError> {
    tx.put(&PUT, rules)
}

/// Deletes the rules of a person or team, if there are any.
pub fn delete(tx: &mut Tx<'_>, owner: RuleOwner) -> Result<(), StoreError> {
    tx.execute(&DELETE, &[text(owner)]).map(drop)
}
