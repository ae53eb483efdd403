//! Organizations.

use berth_core::id::OrgId;
use berth_core::name::{DisplayName, Slug};
use berth_core::step::Network;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

statements! {
    Instance Read BY_ID = "SELECT id, slug, name, version, created_at, default_network FROM organizations WHERE id = $1";
    Instance Read BY_SLUG = "SELECT id, slug, name, version, created_at, default_network FROM organizations WHERE slug = $1";
    Instance Read OF_USER = "SELECT o.id, o.slug, o.name, o.version, o.created_at, o.default_network
        FROM memberships m JOIN organizations o ON o.id = m.org_id WHERE m.user_id = $1 ORDER BY o.id LIMIT $2";
    Instance Write PUT = "INSERT INTO organizations (id, slug, name, version, created_at, default_network)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version,
          default_network = excluded.default_network
        WHERE organizations.version = excluded.version - 1";
}

/// How many organizations one user can be a member of.
pub const ORGANIZATIONS_PER_USER_MAX: i64 = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Organization {
    pub id: OrgId,
    pub slug: Slug,
    pub name: DisplayName,
    pub version: i64,
    pub created_at: Timestamp,
    /// Of steps that do not name one.
    pub default_network: Network,
}

fn read(row: &Row) -> Result<Organization, StoreError> {
    Ok(Organization {
        id: row.parse(0)?,
        slug: row.name(1)?,
        name: row.name(2)?,
        version: row.int(3)?,
        created_at: row.time(4)?,
        default_network: network(row.text(5)?)?,
    })
}

fn network(word: &str) -> Result<Network, StoreError> {
    Network::parse(word).ok_or_else(|| StoreError::Bug(format!("unknown network {word}")))
}

pub fn by_id(db: &mut impl Read, id: OrgId) -> Result<Option<Organization>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn by_slug(db: &mut impl Read, slug: &Slug) -> Result<Option<Organization>, StoreError> {
    db.row(&BY_SLUG, &[text(slug)])?.as_ref().map(read).transpose()
}

pub fn of_user(db: &mut impl Read, user: berth_core::id::UserId) -> Result<Vec<Organization>, StoreError> {
    db.rows(&OF_USER, &[text(user), ORGANIZATIONS_PER_USER_MAX.into()])?.iter().map(read).collect()
}

pub fn put(tx: &mut Tx<'_>, org: &Organization) -> Result<(), StoreError> {
    let params = [
        text(org.id),
        text(&org.slug),
        text(&org.name),
        org.version.into(),
        org.created_at.into(),
        org.default_network.as_str().into(),
    ];
    tx.execute_one(&PUT, &params)
}
