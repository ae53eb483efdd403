//! Memberships: the roles of users in organizations.

use berth_core::access::Role;
use berth_core::agent::AgentLimits;
use berth_core::id::{OrgId, UserId};
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;

use super::notification_rule::RuleOwner;
use super::organization::ORGANIZATIONS_PER_USER_MAX;
use super::{action_link, agent, chat_message, forge_account, notification, notification_rule};
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::text;
use crate::sql::{SqlText, TableRow as _, from_row, sql, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org Member in memberships {
    key: [user: user_id],
    update: [role, version],
    insert: [created_at],
});

const fn select_view(condition: &str) -> SqlText {
    let text = sql("SELECT u.id, u.email, u.name, CAST(CASE u.kind WHEN 'person' THEN 0 ELSE 1 END AS BIGINT), u.owner_id,
        m.role, m.version, m.created_at, CAST(CASE WHEN f.confirmed_at IS NULL THEN 0 ELSE 1 END AS BIGINT),
        a.sessions, a.session_seconds, a.deployments_per_hour, a.force_claim");
    let text = text.then(" FROM memberships m JOIN users u ON u.id = m.user_id");
    text.then(
        " LEFT JOIN second_factors f ON f.user_id = m.user_id
        LEFT JOIN agents a ON a.org_id = m.org_id AND a.user_id = m.user_id WHERE m.org_id = $1 AND ",
    )
    .then(condition)
}

statements! {
    Org Read BY_USER => Member::TABLE.select("WHERE org_id = $1 AND user_id = $2");
    Org Read LIST => select_view("m.user_id > $2 ORDER BY m.user_id LIMIT $3 OFFSET $4");
    Org Read ONE => select_view("m.user_id = $2");
    Instance Read ROLE_IN = "SELECT role FROM memberships WHERE user_id = $1 AND org_id = $2";
    Instance Read ORGANIZATIONS = "SELECT org_id FROM memberships WHERE user_id = $1 ORDER BY org_id LIMIT $2";
    Instance Read HOME = "SELECT org_id FROM memberships WHERE user_id = $1 ORDER BY created_at, org_id LIMIT 1";
    Org Read PEOPLE_WITH_ROLE = "SELECT u.name FROM memberships m JOIN users u ON u.id = m.user_id
        WHERE m.org_id = $1 AND m.role = $2 AND u.kind = 'person' ORDER BY m.created_at, m.user_id LIMIT $3";
    Org Read COUNT_ROLE = "SELECT CAST(COUNT(*) AS BIGINT) FROM memberships WHERE org_id = $1 AND role = $2";
    Org Read COUNT_ALL = "SELECT CAST(COUNT(*) AS BIGINT) FROM memberships WHERE org_id = $1";
    // For instance admins, who need not be members.
    Instance Read COUNT_IN = "SELECT CAST(COUNT(*) AS BIGINT) FROM memberships WHERE org_id = $1";
    Org Write PUT => Member::TABLE.upsert("WHERE memberships.version = excluded.version - 1");
    Org Write DELETE = "DELETE FROM memberships WHERE org_id = $1 AND user_id = $2";
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub user: UserId,
    pub role: Role,
    pub version: i64,
    pub created_at: Timestamp,
}

/// A membership together with the user's account.
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
    pub has_second_factor: bool,
    /// The limits of an agent.
    pub agent: Option<AgentLimits>,
}
from_row!(MemberView {
    user,
    email,
    name,
    is_service,
    owner,
    role,
    version,
    created_at,
    has_second_factor,
    agent
});

pub fn by_user(db: &mut impl StoreRead, user: UserId) -> Result<Option<Member>, StoreError> {
    db.fetch_optional(&BY_USER, &[text(user)])
}

pub fn find_view(db: &mut impl StoreRead, user: UserId) -> Result<Option<MemberView>, StoreError> {
    db.fetch_optional(&ONE, &[text(user)])
}

pub fn list(
    db: &mut impl StoreRead,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<MemberView>, StoreError> {
    let total = Some(count(db)?);
    Ok(fetch_page(db, &LIST, &[], from.by_id(), limit)?.with_total(total))
}

/// The role of a user in the given organization. For requests that are not yet authorized in that organization.
pub fn role_in(db: &mut impl StoreRead, user: UserId, org: OrgId) -> Result<Option<Role>, StoreError> {
    db.fetch_optional(&ROLE_IN, &[text(user), text(org)])
}

pub fn list_organizations(db: &mut impl StoreRead, user: UserId) -> Result<Vec<OrgId>, StoreError> {
    db.fetch_all(&ORGANIZATIONS, &[text(user), ORGANIZATIONS_PER_USER_MAX.into()])
}

/// The organization of the user's oldest membership. That is the organization that created the account, unless the user
/// has left it.
pub fn find_home(db: &mut impl StoreRead, user: UserId) -> Result<Option<OrgId>, StoreError> {
    db.fetch_optional(&HOME, &[text(user)])
}

/// The names of people with this role, by the time at which they became members.
pub fn list_people_with_role(
    db: &mut impl StoreRead,
    role: Role,
    limit: i64,
) -> Result<Vec<DisplayName>, StoreError> {
    db.fetch_all(&PEOPLE_WITH_ROLE, &[text(role), limit.into()])
}

pub fn count_with_role(db: &mut impl StoreRead, role: Role) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT_ROLE, &[text(role)])
}

pub fn count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT_ALL, &[])
}

pub fn put(tx: &mut Tx<'_>, member: &Member) -> Result<(), StoreError> {
    tx.put(&PUT, member)
}

/// Deletes a membership, the member's links to accounts on forges, notifications and notification rules, and the limits
/// of an agent.
pub fn delete(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    action_link::delete_of_member(tx, user)?;
    notification::delete_of_member(tx, user)?;
    chat_message::delete_of_target(tx, &user.to_string())?;
    notification_rule::delete(tx, RuleOwner::Person(user))?;
    forge_account::delete_of_member(tx, user)?;
    agent::delete(tx, user)?;
    tx.execute_one(&DELETE, &[text(user)])
}

pub fn count_in(db: &mut impl StoreRead, org: OrgId) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT_IN, &[text(org)])
}
