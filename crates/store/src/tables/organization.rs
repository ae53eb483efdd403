//! Organizations.

use berth_core::id::{OrgId, UserId};
use berth_core::name::{DisplayName, Slug};
use berth_core::step::NetworkAccess;
use berth_core::time::Timestamp;

use super::{PAGE_ROWS, first_after};
use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, sql, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

/// Maximum number of organizations that one user can be a member of.
pub const ORGANIZATIONS_PER_USER_MAX: i64 = 100;

table!(Instance Organization in organizations {
    key: [id],
    update: [name, version, default_network, require_second_factor],
    insert: [slug, created_at],
});
word_columns!(NetworkAccess: NetworkAccess::ALL);

statements! {
    Instance Read BY_ID => Organization::TABLE.select("WHERE id = $1");
    Instance Read BY_SLUG => Organization::TABLE.select("WHERE slug = $1");
    Instance Read OF_USER => sql("SELECT ").columns(&Organization::TABLE, "o").then(
        " FROM memberships m JOIN organizations o ON o.id = m.org_id WHERE m.user_id = $1 ORDER BY o.id LIMIT $2");
    Instance Read IDS_AFTER = "SELECT id, slug FROM organizations WHERE id > $1 ORDER BY id LIMIT $2";
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
