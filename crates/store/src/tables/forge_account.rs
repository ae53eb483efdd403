//! Accounts on forges that members have linked to their own.

use berth_core::forge::ForgeUser;
use berth_core::id::UserId;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

/// Maximum number of accounts that a member can link.
pub const ACCOUNTS_PER_MEMBER_MAX: i64 = 20;

statements! {
    Org Read MEMBER = "SELECT user_id FROM forge_accounts WHERE org_id = $1 AND host = $2 AND forge_user_id = $3";
    Org Read OF_MEMBER = "SELECT host, forge_user_id, name, created_at FROM forge_accounts
        WHERE org_id = $1 AND user_id = $2 ORDER BY host, forge_user_id LIMIT $3";
    Org Write INSERT = "INSERT INTO forge_accounts (org_id, host, forge_user_id, user_id, name, created_at)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (org_id, host, forge_user_id)
        DO UPDATE SET user_id = excluded.user_id, name = excluded.name, created_at = excluded.created_at";
    Org Write DELETE = "DELETE FROM forge_accounts
        WHERE org_id = $1 AND host = $2 AND forge_user_id = $3 AND user_id = $4";
    // Needs no event: the link that the code leads to is recorded.
    Org Upkeep PUT_CODE = "INSERT INTO forge_link_codes (org_id, user_id, hash, expires_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (org_id, user_id) DO UPDATE SET hash = excluded.hash, expires_at = excluded.expires_at";
    Org Read CODE = "SELECT user_id FROM forge_link_codes WHERE org_id = $1 AND hash = $2 AND expires_at > $3";
    Org Upkeep DELETE_CODE = "DELETE FROM forge_link_codes WHERE org_id = $1 AND user_id = $2";
    Instance Upkeep DELETE_EXPIRED_CODES = "DELETE FROM forge_link_codes WHERE expires_at <= $1";
    Org Write DELETE_OF_HOST = "DELETE FROM forge_accounts WHERE org_id = $1 AND host = $2";
    Org Write DELETE_OF_MEMBER = "DELETE FROM forge_accounts WHERE org_id = $1 AND user_id = $2";
}

/// An account on a forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeAccount {
    /// Where the forge's ids are unique, such as `github.com`.
    pub host: String,
    pub account: ForgeUser,
    pub created_at: Timestamp,
}
from_row!(ForgeAccount { host, account, created_at });

/// Finds the member that an account on a forge is linked to.
pub fn find_member(
    db: &mut impl StoreRead,
    host: &str,
    forge_user: &str,
) -> Result<Option<UserId>, StoreError> {
    db.fetch_optional(&MEMBER, &[host.into(), forge_user.into()])
}

pub fn list_of_member(db: &mut impl StoreRead, user: UserId) -> Result<Vec<ForgeAccount>, StoreError> {
    db.fetch_all(&OF_MEMBER, &[text(user), ACCOUNTS_PER_MEMBER_MAX.into()])
}

/// Links an account. An account that was linked to another member is moved.
pub fn insert(tx: &mut Tx<'_>, user: UserId, linked: &ForgeAccount) -> Result<(), StoreError> {
    let ForgeAccount { host, account, created_at } = linked;
    let params = [
        host.as_str().into(),
        account.id.as_str().into(),
        text(user),
        account.name.as_str().into(),
        (*created_at).into(),
    ];
    tx.execute_one(&INSERT, &params)
}

/// Returns `false` if the member has no such account.
pub fn delete(tx: &mut Tx<'_>, user: UserId, host: &str, forge_user: &str) -> Result<bool, StoreError> {
    Ok(tx.execute(&DELETE, &[host.into(), forge_user.into(), text(user)])? == 1)
}

/// Stores the hash of a code with which the member can link an account. It replaces the member's earlier code.
pub fn put_code(tx: &mut Tx<'_>, user: UserId, hash: &[u8], expires_at: Timestamp) -> Result<(), StoreError> {
    tx.execute_one(&PUT_CODE, &[text(user), hash.into(), expires_at.into()])
}

/// Uses up a code. Returns the member who created it; `None` if there is no such code or it has expired.
pub fn take_code(tx: &mut Tx<'_>, hash: &[u8]) -> Result<Option<UserId>, StoreError> {
    let now = tx.now();
    let found: Option<UserId> = tx.fetch_optional(&CODE, &[hash.into(), now.into()])?;
    if let Some(user) = found {
        tx.execute_one(&DELETE_CODE, &[text(user)])?;
    }
    Ok(found)
}

pub fn delete_expired_codes(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_EXPIRED_CODES, &[now.into()]).map(drop)
}

/// Unlinks all accounts at a host. Returns their number.
pub fn delete_of_host(tx: &mut Tx<'_>, host: &str) -> Result<i64, StoreError> {
    let count = tx.execute(&DELETE_OF_HOST, &[host.into()])?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Unlinks all accounts of a member.
pub fn delete_of_member(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&DELETE_CODE, &[text(user)])?;
    tx.execute(&DELETE_OF_MEMBER, &[text(user)]).map(drop)
}
