//! Connections of repositories to their forges, with the encrypted secrets of the webhooks.

use berth_core::forge::{ForgeConnection, ForgeKind};
use berth_core::id::{ForgeAppId, HookId, OrgId, RepositoryId};
use berth_core::repository::RemoteUrl;
use berth_core::time::Timestamp;

use super::secret::SealedValue;
use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, ToParams as _, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

table!(Org ForgeConnection in forge_connections {
    key: [repository: repository_id],
    update: [hook: hook_id, forge, account: account_id, forge_hook: forge_hook_id, verified_at, error, version, updated_at],
    insert: [app: app_id, created_at],
});
word_columns!(ForgeKind: ForgeKind::ALL);

statements! {
    Org Read BY_REPOSITORY => ForgeConnection::TABLE.select("WHERE org_id = $1 AND repository_id = $2 {for_update}");
    Instance Read ORGANIZATION_OF_HOOK = "SELECT org_id, repository_id FROM forge_connections WHERE hook_id = $1";
    Org Read SECRET = "SELECT key_id, sealed FROM forge_connections WHERE org_id = $1 AND repository_id = $2";
    Org Write INSERT = "INSERT INTO forge_connections (org_id, repository_id, hook_id, forge, account_id, forge_hook_id,
          verified_at, error, version, updated_at, app_id, created_at, key_id, sealed)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    Org Write UPDATE => ForgeConnection::TABLE.update("WHERE org_id = $1 AND repository_id = $2 AND version + 1 = $9");
    // Connections whose open pull requests must be listed, at most $2 of each organization.
    Instance Read DUE = "SELECT org_id, repository_id FROM (
          SELECT org_id, repository_id, listed_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY listed_at, repository_id) AS place
          FROM forge_connections WHERE listed_at <= $1) AS ranked
        WHERE place <= $2 ORDER BY place, listed_at LIMIT $3";
    Org Upkeep LISTED = "UPDATE forge_connections SET listed_at = $3 WHERE org_id = $1 AND repository_id = $2";
    // Needs no event: the delivery is recorded.
    Org Upkeep SET_VERIFIED = "UPDATE forge_connections SET verified_at = $3
        WHERE org_id = $1 AND repository_id = $2 AND verified_at IS NULL";
    Org Write SET_SECRET = "UPDATE forge_connections SET key_id = $3, sealed = $4
        WHERE org_id = $1 AND repository_id = $2";
    Org Read OF_APP = "SELECT c.repository_id, r.url FROM forge_connections c
        JOIN repositories r ON r.org_id = c.org_id AND r.id = c.repository_id
        WHERE c.org_id = $1 AND c.app_id = $2 ORDER BY c.repository_id LIMIT $3";
    Org Write DELETE = "DELETE FROM forge_connections WHERE org_id = $1 AND repository_id = $2";
}

pub fn by_repository(
    db: &mut impl StoreRead,
    repository: RepositoryId,
) -> Result<Option<ForgeConnection>, StoreError> {
    db.fetch_optional(&BY_REPOSITORY, &[text(repository)])
}

/// Finds the organization and repository of the webhook with this id, which is part of its URL.
pub fn find_hook(db: &mut impl StoreRead, hook: HookId) -> Result<Option<(OrgId, RepositoryId)>, StoreError> {
    db.fetch_optional(&ORGANIZATION_OF_HOOK, &[text(hook)])
}

/// Repositories that are connected through an app, with their URLs.
pub fn list_of_app(
    db: &mut impl StoreRead,
    app: ForgeAppId,
    limit: i64,
) -> Result<Vec<(RepositoryId, RemoteUrl)>, StoreError> {
    db.fetch_all(&OF_APP, &[text(app), limit.into()])
}

/// Loads the encrypted secret that signs deliveries.
pub fn load_secret(
    db: &mut impl StoreRead,
    repository: RepositoryId,
) -> Result<Option<SealedValue>, StoreError> {
    db.fetch_optional(&SECRET, &[text(repository)])
}

pub fn insert(tx: &mut Tx<'_>, connection: &ForgeConnection, secret: &SealedValue) -> Result<(), StoreError> {
    tx.put(&INSERT, &(connection.clone(), secret.clone()))
}

pub fn update(tx: &mut Tx<'_>, connection: &ForgeConnection) -> Result<(), StoreError> {
    let mut params = Vec::new();
    connection.to_params(&mut params)?;
    params.truncate(ForgeConnection::TABLE.update_params());
    tx.execute_one(&UPDATE, &params)
}

/// Connections of all organizations whose open pull requests were last listed before this time, with at most `share` of
/// each organization.
pub fn list_due(
    db: &mut impl StoreRead,
    before: Timestamp,
    share: i64,
    limit: i64,
) -> Result<Vec<(OrgId, RepositoryId)>, StoreError> {
    db.fetch_all(&DUE, &[before.into(), share.into(), limit.into()])
}

/// Records that the open pull requests are being listed.
pub fn set_listed(tx: &mut Tx<'_>, repository: RepositoryId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&LISTED, &[text(repository), now.into()]).map(drop)
}

/// Stores another secret.
pub fn set_secret(tx: &mut Tx<'_>, repository: RepositoryId, secret: &SealedValue) -> Result<(), StoreError> {
    let mut params = vec![text(repository)];
    secret.to_params(&mut params)?;
    tx.execute_one(&SET_SECRET, &params)
}

/// Records that a delivery with a valid signature arrived, unless one did before.
pub fn set_verified(tx: &mut Tx<'_>, repository: RepositoryId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&SET_VERIFIED, &[text(repository), now.into()]).map(drop)
}

pub fn delete(tx: &mut Tx<'_>, repository: RepositoryId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(repository)])
}
