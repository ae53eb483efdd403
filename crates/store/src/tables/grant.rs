//! Scoped grants: a role on a part of an organization, given to a member or a team.

use std::sync::Arc;

use berth_core::access::{AccessScope, AccessTarget, Action, EffectiveAccess, Role, ScopedGrant};
use berth_core::event::Actor;
use berth_core::id::{EnvironmentId, GrantId, OrgId, TeamId, UserId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::{SqlValue, text};
use crate::sql::{BoundRead, FromRow, RowReader, TableRow as _, ToParams, from_row, statements, table};
use crate::tx::{StoreRead, Tx};

/// Maximum number of grants of one member or team.
pub const GRANTS_PER_SUBJECT_MAX: i64 = 100;
/// Maximum number of grants in an organization.
pub const GRANTS_MAX: i64 = 5_000;
/// Maximum number of grants that a member can have, directly and through teams. Further grants have no effect.
const GRANTS_OF_MEMBER_MAX: i64 = 1_000;

table!(Org Grant in grants {
    key: [id],
    insert: [subject: (subject_kind, subject_id), role, scope, created_by, created_at],
});

/// A member's grants: the member's own and those of the member's teams.
const OF_MEMBER_TEXT: &str = "SELECT g.id, g.role, g.scope, CAST(NULL AS TEXT) FROM grants g
          WHERE g.org_id = $1 AND g.subject_kind = 'user' AND g.subject_id = $2
        UNION ALL SELECT g.id, g.role, g.scope, g.subject_id FROM team_members m
          JOIN grants g ON g.org_id = m.org_id AND g.subject_kind = 'team' AND g.subject_id = m.team_id
          WHERE m.org_id = $1 AND m.user_id = $2 LIMIT $3";

statements! {
    Org Read OF_MEMBER = OF_MEMBER_TEXT;
    // For requests that are not yet authorized in the organization.
    Instance Read OF_MEMBER_IN = OF_MEMBER_TEXT;
    Org Read BY_ID => Grant::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read LIST => Grant::TABLE.select("WHERE org_id = $1
        AND (CAST($2 AS TEXT) IS NULL OR (subject_kind = $2 AND subject_id = $3))
        AND id > $4 ORDER BY id LIMIT $5 OFFSET $6");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM grants WHERE org_id = $1
        AND (CAST($2 AS TEXT) IS NULL OR (subject_kind = $2 AND subject_id = $3))";
    Org Read SAME = "SELECT id FROM grants WHERE org_id = $1
        AND subject_kind = $2 AND subject_id = $3 AND role = $4 AND scope = $5";
    Org Read ALL_MEMBERS = "SELECT g.subject_id, g.id, g.role, g.scope, CAST(NULL AS TEXT) FROM grants g
          WHERE g.org_id = $1 AND g.subject_kind = 'user'
        UNION ALL SELECT m.user_id, g.id, g.role, g.scope, g.subject_id FROM team_members m
          JOIN grants g ON g.org_id = m.org_id AND g.subject_kind = 'team' AND g.subject_id = m.team_id
          WHERE m.org_id = $1";
    Org Read ENVIRONMENT_NAME = "SELECT p.slug, e.name FROM environments e
        JOIN pipelines p ON p.org_id = e.org_id AND p.id = e.pipeline_id WHERE e.org_id = $1 AND e.id = $2";
    Org Write INSERT => Grant::TABLE.insert("");
    Org Write DELETE = "DELETE FROM grants WHERE org_id = $1 AND id = $2";
    Org Write DELETE_OF_SUBJECT = "DELETE FROM grants WHERE org_id = $1 AND subject_kind = $2 AND subject_id = $3";
}

/// Who has a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantSubject {
    User(UserId),
    Team(TeamId),
}

impl GrantSubject {
    fn params(self) -> [SqlValue; 2] {
        match self {
            GrantSubject::User(user) => ["user".into(), text(user)],
            GrantSubject::Team(team) => ["team".into(), text(team)],
        }
    }
}

impl FromRow for GrantSubject {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let kind: String = row.take()?;
        match kind.as_str() {
            "user" => row.take().map(GrantSubject::User),
            "team" => row.take().map(GrantSubject::Team),
            _ => Err(StoreError::Bug(format!("a grant has a subject of the unknown kind {kind}"))),
        }
    }
}

impl ToParams for GrantSubject {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        params.extend(self.params());
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    pub id: GrantId,
    pub subject: GrantSubject,
    pub role: Role,
    pub scope: AccessScope,
    pub created_by: Actor,
    pub created_at: Timestamp,
}

from_row!(ScopedGrant { id, role, scope, team });

/// The read of [`list_of_member`].
pub(crate) fn read_of_member(user: UserId) -> BoundRead {
    BoundRead::new(&OF_MEMBER, [text(user), GRANTS_OF_MEMBER_MAX.into()])
}

/// The grants of a member, directly and through teams.
pub fn list_of_member(db: &mut impl StoreRead, user: UserId) -> Result<Arc<[ScopedGrant]>, StoreError> {
    let grants: Vec<ScopedGrant> = db.fetch_bound(&read_of_member(user))?;
    Ok(grants.into())
}

/// The read of [`list_of_member_in`].
pub(crate) fn read_of_member_in(org: OrgId, user: UserId) -> BoundRead {
    BoundRead::new(&OF_MEMBER_IN, [text(org), text(user), GRANTS_OF_MEMBER_MAX.into()])
}

/// Like [`list_of_member`], for requests that are not yet authorized in the organization.
pub fn list_of_member_in(
    db: &mut impl StoreRead,
    org: OrgId,
    user: UserId,
) -> Result<Arc<[ScopedGrant]>, StoreError> {
    let grants: Vec<ScopedGrant> = db.fetch_bound(&read_of_member_in(org, user))?;
    Ok(grants.into())
}

/// The grants of all members, directly and through teams, with the member who has each of them.
pub fn list_of_all_members(db: &mut impl StoreRead) -> Result<Vec<(UserId, ScopedGrant)>, StoreError> {
    db.fetch_all(&ALL_MEMBERS, &[])
}

/// Whether a member may claim an environment through a grant.
pub(crate) fn allows_claim(
    db: &mut impl StoreRead,
    user: UserId,
    role: Role,
    environment: EnvironmentId,
) -> Result<bool, StoreError> {
    let named: Option<(String, String)> = db.fetch_optional(&ENVIRONMENT_NAME, &[text(environment)])?;
    let Some((pipeline, environment)) = named else { return Ok(false) };
    let access = EffectiveAccess { grants: list_of_member(db, user)?, ..EffectiveAccess::of_role(role) };
    Ok(access.may(Action::EnvironmentsClaim, &AccessTarget::Environment { pipeline, environment }))
}

pub fn by_id(db: &mut impl StoreRead, id: GrantId) -> Result<Option<Grant>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

/// Lists the grants of one member or team, or of the whole organization.
pub fn list(
    db: &mut impl StoreRead,
    of: Option<GrantSubject>,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Grant>, StoreError> {
    let filter = of.map_or([SqlValue::Null, SqlValue::Null], GrantSubject::params);
    let total = Some(count(db, of)?);
    Ok(fetch_page(db, &LIST, &filter, from.by_id(), limit)?.with_total(total))
}

pub fn count(db: &mut impl StoreRead, of: Option<GrantSubject>) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT, &of.map_or([SqlValue::Null, SqlValue::Null], GrantSubject::params))
}

/// The id of the grant that gives the subject this role on this scope, if there is one.
pub fn find_same(
    db: &mut impl StoreRead,
    subject: GrantSubject,
    role: Role,
    scope: &AccessScope,
) -> Result<Option<GrantId>, StoreError> {
    let [kind, id] = subject.params();
    db.fetch_optional(&SAME, &[kind, id, text(role), text(scope)])
}

pub fn insert(tx: &mut Tx<'_>, grant: &Grant) -> Result<(), StoreError> {
    tx.put(&INSERT, grant)
}

pub fn delete(tx: &mut Tx<'_>, id: GrantId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

/// Deletes all grants of a member or a team and returns their number.
pub fn delete_of_subject(tx: &mut Tx<'_>, subject: GrantSubject) -> Result<u64, StoreError> {
    tx.execute(&DELETE_OF_SUBJECT, &subject.params())
}
