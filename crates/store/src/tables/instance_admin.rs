//! Instance admins: people who create, rename and delete organizations.

use berth_core::id::UserId;
use berth_core::name::Email;

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::text;
use crate::tx::{StoreRead, Tx};

/// Maximum number of instance admins.
pub const INSTANCE_ADMINS_MAX: i64 = 100;

// Counts as upkeep, because an account belongs to no organization.
statements! {
    Instance Read FIND = "SELECT user_id FROM instance_admins WHERE user_id = $1";
    Instance Read LIST = "SELECT u.email FROM instance_admins a JOIN users u ON u.id = a.user_id
        ORDER BY a.created_at, a.user_id LIMIT $1";
    Instance Upkeep INSERT = "INSERT INTO instance_admins (user_id, created_at) VALUES ($1, $2)
        ON CONFLICT (user_id) DO NOTHING";
    Instance Upkeep DELETE = "DELETE FROM instance_admins WHERE user_id = $1";
}

pub fn contains(db: &mut impl StoreRead, user: UserId) -> Result<bool, StoreError> {
    Ok(db.fetch_optional::<UserId>(&FIND, &[text(user)])?.is_some())
}

/// Email addresses of the instance admins, in the order in which they were added.
pub fn list(db: &mut impl StoreRead) -> Result<Vec<Email>, StoreError> {
    db.fetch_all(&LIST, &[INSTANCE_ADMINS_MAX.into()])
}

pub fn insert(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&INSERT, &[text(user), now.into()]).map(drop)
}

pub fn delete(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&DELETE, &[text(user)]).map(drop)
}
