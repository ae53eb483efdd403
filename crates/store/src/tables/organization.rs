//! Organizations.

use berth_core::id::{OrgId, UserId};
use berth_core::name::{DisplayName, Slug};
use berth_core::step::NetworkAccess;
use berth_core::time::Timestamp;

use super::{PAGE_ROWS, first_after};
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::text;
use crate::sql::{TableRow as _, sql, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

/// Maximum number of organizations that one user can be a member of.
pub const ORGANIZATIONS_PER_USER_MAX: i64 = 100;
/// Maximum number of organizations in an installation.
pub const ORGANIZATIONS_MAX: i64 = 1_000;
/// Maximum number of earlier slugs of an organization.
pub const FORMER_SLUGS_MAX: i64 = 20;

table!(Instance Organization in organizations {
    key: [id],
    update: [slug, name, version, default_network, require_second_factor],
    insert: [created_at],
});
word_columns!(NetworkAccess: NetworkAccess::ALL);

statements! {
    Instance Read BY_ID => Organization::TABLE.select("WHERE id = $1");
    Instance Read BY_SLUG => Organization::TABLE.select("WHERE slug = $1");
    Instance Read OF_USER => sql("SELECT ").columns(&Organization::TABLE, "o").then(
        " FROM memberships m JOIN organizations o ON o.id = m.org_id WHERE m.user_id = $1 ORDER BY o.id LIMIT $2");
    Instance Read IDS_AFTER = "SELECT id, slug FROM organizations WHERE id > $1 ORDER BY id LIMIT $2";
    Instance Read LIST => Organization::TABLE.select("WHERE id > $1 ORDER BY id LIMIT $2 OFFSET $3");
    Instance Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM organizations";
    Instance Read FORMER_OWNER = "SELECT organization_id FROM organization_slugs WHERE slug = $1";
    Instance Read FORMER_SLUGS = "SELECT slug FROM organization_slugs WHERE organization_id = $1
        ORDER BY created_at, slug LIMIT $2";
    Instance Upkeep ADD_FORMER = "INSERT INTO organization_slugs (slug, organization_id, created_at)
        VALUES ($1, $2, $3)";
    Instance Upkeep REMOVE_FORMER = "DELETE FROM organization_slugs WHERE slug = $1 AND organization_id = $2";
    Instance Write PUT => Organization::TABLE.upsert("WHERE organizations.version = excluded.version - 1");
}

#[derive(Debug, Clone, PartialEq)]
pub struct Organization {
    pub id: OrgId,
    pub slug: Slug,
    pub name: DisplayName,
    pub version: i64,
    pub created_at: Timestamp,
    /// Network access of steps that do not declare it themselves.
    pub default_network: NetworkAccess,
    /// Whether people who log in with a password need a second factor.
    pub require_second_factor: bool,
}

pub fn by_id(db: &mut impl StoreRead, id: OrgId) -> Result<Option<Organization>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_slug(db: &mut impl StoreRead, slug: &Slug) -> Result<Option<Organization>, StoreError> {
    db.fetch_optional(&BY_SLUG, &[text(slug)])
}

pub fn list_of_user(db: &mut impl StoreRead, user: UserId) -> Result<Vec<Organization>, StoreError> {
    db.fetch_all(&OF_USER, &[text(user), ORGANIZATIONS_PER_USER_MAX.into()])
}

/// Ids and slugs of all organizations, one page at a time.
pub fn list_ids(db: &mut impl StoreRead, after: Option<OrgId>) -> Result<Vec<(OrgId, String)>, StoreError> {
    db.fetch_all(&IDS_AFTER, &[first_after(after), PAGE_ROWS.into()])
}

pub fn put(tx: &mut Tx<'_>, organization: &Organization) -> Result<(), StoreError> {
    tx.put(&PUT, organization)
}

/// All organizations, for instance admins.
pub fn list(
    db: &mut impl StoreRead,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Organization>, StoreError> {
    let total = Some(count(db)?);
    Ok(fetch_page(db, &LIST, &[], from.by_id(), limit)?.with_total(total))
}

pub fn count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT, &[])
}

/// The organization that has or had this slug. It may have been deleted.
pub fn find_slug_owner(db: &mut impl StoreRead, slug: &Slug) -> Result<Option<OrgId>, StoreError> {
    match by_slug(db, slug)? {
        Some(org) => Ok(Some(org.id)),
        None => db.fetch_optional(&FORMER_OWNER, &[text(slug)]),
    }
}

/// Earlier slugs of an organization, oldest first.
pub fn list_former_slugs(db: &mut impl StoreRead, id: OrgId) -> Result<Vec<Slug>, StoreError> {
    db.fetch_all(&FORMER_SLUGS, &[text(id), FORMER_SLUGS_MAX.into()])
}

/// Reserves a slug that the organization no longer has.
pub fn add_former_slug(tx: &mut Tx<'_>, id: OrgId, slug: &Slug) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute_one(&ADD_FORMER, &[text(slug), text(id), now.into()])
}

/// Called when an organization gets back a slug that it had before.
pub fn remove_former_slug(tx: &mut Tx<'_>, id: OrgId, slug: &Slug) -> Result<(), StoreError> {
    tx.execute(&REMOVE_FORMER, &[text(slug), text(id)]).map(drop)
}
