//! Teams and their members.

use berth_core::id::{OrgId, TeamId, UserId};
use berth_core::name::{DisplayName, Email, Slug};
use berth_core::time::Timestamp;

use super::notification_rule::{self, RuleOwner};
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::text;
use crate::sql::{TableRow as _, from_row, sql, statements, table};
use crate::tx::{StoreRead, Tx};

/// Maximum number of teams in an organization.
pub const TEAMS_MAX: i64 = 500;
/// Maximum number of members of a team.
pub const TEAM_MEMBERS_MAX: i64 = 1_000;
/// The source of memberships that were added through the API. Any other source is the name of an identity provider.
pub const MANUAL_SOURCE: &str = "manual";

table!(Org Team in teams {
    key: [id],
    update: [name, version],
    insert: [slug, created_at],
});

statements! {
    Org Read BY_ID => Team::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read BY_SLUG => Team::TABLE.select("WHERE org_id = $1 AND slug = $2 {for_update}");
    Org Read LIST => Team::TABLE.select("WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3 OFFSET $4");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM teams WHERE org_id = $1";
    Org Read OF_USER => sql("SELECT ").columns(&Team::TABLE, "t").then(
        " FROM team_members m JOIN teams t ON t.org_id = m.org_id AND t.id = m.team_id
          WHERE m.org_id = $1 AND m.user_id = $2 ORDER BY t.id LIMIT $3");
    Instance Read SLUGS_IN = "SELECT t.slug FROM team_members m JOIN teams t ON t.org_id = m.org_id AND t.id = m.team_id
        WHERE m.org_id = $1 AND m.user_id = $2 ORDER BY t.slug LIMIT $3";
    Org Read OF_USER_FROM => sql("SELECT ").columns(&Team::TABLE, "t").then(
        " FROM team_members m JOIN teams t ON t.org_id = m.org_id AND t.id = m.team_id
          WHERE m.org_id = $1 AND m.user_id = $2 AND m.source = $3 ORDER BY t.id LIMIT $4");
    Org Read MEMBERS = "SELECT u.id, u.email, u.name, m.source, m.created_at
        FROM team_members m JOIN users u ON u.id = m.user_id
        WHERE m.org_id = $1 AND m.team_id = $2 ORDER BY m.user_id LIMIT $3";
    Org Read MEMBER_IDS = "SELECT user_id FROM team_members WHERE org_id = $1 AND team_id = $2 ORDER BY user_id LIMIT $3";
    Org Read COUNT_MEMBERS = "SELECT CAST(COUNT(*) AS BIGINT) FROM team_members WHERE org_id = $1 AND team_id = $2";
    Org Read ALL_MEMBERS = "SELECT t.slug, m.user_id FROM team_members m
        JOIN teams t ON t.org_id = m.org_id AND t.id = m.team_id WHERE m.org_id = $1 ORDER BY t.slug, m.user_id";
    Org Read SOURCE_OF = "SELECT source FROM team_members WHERE org_id = $1 AND team_id = $2 AND user_id = $3";
    Org Write PUT => Team::TABLE.upsert("WHERE teams.version = excluded.version - 1");
    Org Write DELETE = "DELETE FROM teams WHERE org_id = $1 AND id = $2";
    Org Write ADD_MEMBER = "INSERT INTO team_members (org_id, team_id, user_id, source, created_at)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (org_id, team_id, user_id) DO UPDATE SET source = excluded.source";
    Org Write REMOVE_MEMBER = "DELETE FROM team_members WHERE org_id = $1 AND team_id = $2 AND user_id = $3";
    Org Write REMOVE_ALL_MEMBERS = "DELETE FROM team_members WHERE org_id = $1 AND team_id = $2";
    Org Write REMOVE_USER = "DELETE FROM team_members WHERE org_id = $1 AND user_id = $2";
}

#[derive(Debug, Clone, PartialEq)]
pub struct Team {
    pub id: TeamId,
    pub slug: Slug,
    pub name: DisplayName,
    pub version: i64,
    pub created_at: Timestamp,
}

/// A membership in a team, together with the user's account.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamMemberView {
    pub user: UserId,
    pub email: Email,
    pub name: DisplayName,
    pub source: String,
    pub created_at: Timestamp,
}
from_row!(TeamMemberView { user, email, name, source, created_at });

pub fn by_id(db: &mut impl StoreRead, id: TeamId) -> Result<Option<Team>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_slug(db: &mut impl StoreRead, slug: &Slug) -> Result<Option<Team>, StoreError> {
    db.fetch_optional(&BY_SLUG, &[text(slug)])
}

pub fn list(db: &mut impl StoreRead, from: &PageStart, limit: i64) -> Result<ListPage<Team>, StoreError> {
    let total = Some(count(db)?);
    Ok(fetch_page(db, &LIST, &[], from.by_id(), limit)?.with_total(total))
}

pub fn count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT, &[])
}

pub fn list_of_user(db: &mut impl StoreRead, user: UserId) -> Result<Vec<Team>, StoreError> {
    db.fetch_all(&OF_USER, &[text(user), TEAMS_MAX.into()])
}

/// The slugs of a user's teams in an organization.
pub fn list_slugs_in(db: &mut impl StoreRead, org: OrgId, user: UserId) -> Result<Vec<Slug>, StoreError> {
    db.fetch_all(&SLUGS_IN, &[text(org), text(user), TEAMS_MAX.into()])
}

/// The teams that a user is in because of this source.
pub fn list_of_user_from(
    db: &mut impl StoreRead,
    user: UserId,
    source: &str,
) -> Result<Vec<Team>, StoreError> {
    db.fetch_all(&OF_USER_FROM, &[text(user), source.into(), TEAMS_MAX.into()])
}

pub fn list_members(db: &mut impl StoreRead, team: TeamId) -> Result<Vec<TeamMemberView>, StoreError> {
    db.fetch_all(&MEMBERS, &[text(team), TEAM_MEMBERS_MAX.into()])
}

/// The members of a team, without their accounts.
pub fn list_member_ids(db: &mut impl StoreRead, team: TeamId) -> Result<Vec<UserId>, StoreError> {
    db.fetch_all(&MEMBER_IDS, &[text(team), TEAM_MEMBERS_MAX.into()])
}

pub fn count_members(db: &mut impl StoreRead, team: TeamId) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT_MEMBERS, &[text(team)])
}

/// The slug of each team with each of its members. Bounded by the limits on teams and members.
pub fn list_all_members(db: &mut impl StoreRead) -> Result<Vec<(Slug, UserId)>, StoreError> {
    db.fetch_all(&ALL_MEMBERS, &[])
}

/// Where a membership comes from; `None` if the user is not in the team.
pub fn find_source(
    db: &mut impl StoreRead,
    team: TeamId,
    user: UserId,
) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&SOURCE_OF, &[text(team), text(user)])
}

pub fn put(tx: &mut Tx<'_>, team: &Team) -> Result<(), StoreError> {
    tx.put(&PUT, team)
}

/// Deletes a team and its memberships. The caller deletes its grants.
pub fn delete(tx: &mut Tx<'_>, id: TeamId) -> Result<(), StoreError> {
    tx.execute(&REMOVE_ALL_MEMBERS, &[text(id)])?;
    notification_rule::delete(tx, RuleOwner::Team(id))?;
    tx.execute_one(&DELETE, &[text(id)])
}

/// Adds a member, or changes the source of the membership.
pub fn add_member(tx: &mut Tx<'_>, team: TeamId, user: UserId, source: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute_one(&ADD_MEMBER, &[text(team), text(user), source.into(), now.into()])
}

pub fn remove_member(tx: &mut Tx<'_>, team: TeamId, user: UserId) -> Result<(), StoreError> {
    tx.execute_one(&REMOVE_MEMBER, &[text(team), text(user)])
}

/// Removes a user from all teams of the organization.
pub fn remove_user(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&REMOVE_USER, &[text(user)]).map(drop)
}
