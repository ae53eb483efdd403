//! GitHub Apps, with their encrypted private keys and webhook secrets.

use berth_core::forge::ForgeApp;
use berth_core::id::{DataKeyId, ForgeAppId, HookId, OrgId, RepositoryId};
use berth_core::time::Timestamp;

use super::secret::SealedValue;
use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, column_group, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org ForgeApp in forge_apps {
    key: [id],
    insert: [
        origin, api, hook: hook_id, forge_app: forge_app_id, slug, name, installed_at, installation_changed_at, created_at,
    ],
});

statements! {
    Org Read BY_ID => ForgeApp::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read BY_ORIGIN => ForgeApp::TABLE.select("WHERE org_id = $1 AND origin = $2 {for_update}");
    Org Read OF_REPOSITORY => ForgeApp::TABLE.select(
        "WHERE org_id = $1 AND id = (SELECT app_id FROM forge_connections WHERE org_id = $1 AND repository_id = $2)");
    Org Read ALL => ForgeApp::TABLE.select("WHERE org_id = $1 ORDER BY id LIMIT $2");
    Instance Read ORGANIZATION_OF_HOOK = "SELECT org_id, id FROM forge_apps WHERE hook_id = $1";
    Org Read PRIVATE_KEY = "SELECT key_id, sealed_private_key FROM forge_apps WHERE org_id = $1 AND id = $2";
    Org Read HOOK_SECRET = "SELECT key_id, sealed_hook_secret FROM forge_apps WHERE org_id = $1 AND id = $2";
    Org Write INSERT = "INSERT INTO forge_apps (org_id, id, origin, api, hook_id, forge_app_id, slug, name, installed_at,
          installation_changed_at, created_at, key_id, sealed_private_key, sealed_hook_secret)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    Org Upkeep SET_INSTALLED = "UPDATE forge_apps SET installed_at = $3 WHERE org_id = $1 AND id = $2";
    // Needs no event: the delivery is recorded.
    Org Upkeep INSTALLATION_CHANGED = "UPDATE forge_apps SET installation_changed_at = $3
        WHERE org_id = $1 AND id = $2 AND installation_changed_at < $3";
    Org Write DELETE = "DELETE FROM forge_apps WHERE org_id = $1 AND id = $2";
}

/// The encrypted secrets of an app. Both are encrypted with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedAppSecrets {
    pub key: DataKeyId,
    pub private_key: Vec<u8>,
    pub hook_secret: Vec<u8>,
}
column_group!(SealedAppSecrets { key, private_key, hook_secret });

pub fn by_id(db: &mut impl StoreRead, id: ForgeAppId) -> Result<Option<ForgeApp>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

/// Finds the organization's app on a forge.
pub fn by_origin(db: &mut impl StoreRead, origin: &str) -> Result<Option<ForgeApp>, StoreError> {
    db.fetch_optional(&BY_ORIGIN, &[origin.into()])
}

/// Finds the app through which a repository is connected.
pub fn of_repository(
    db: &mut impl StoreRead,
    repository: RepositoryId,
) -> Result<Option<ForgeApp>, StoreError> {
    db.fetch_optional(&OF_REPOSITORY, &[text(repository)])
}

pub fn list(db: &mut impl StoreRead, limit: i64) -> Result<Vec<ForgeApp>, StoreError> {
    db.fetch_all(&ALL, &[limit.into()])
}

/// Finds the organization and the app of the webhook with this id, which is part of its URL.
pub fn find_hook(db: &mut impl StoreRead, hook: HookId) -> Result<Option<(OrgId, ForgeAppId)>, StoreError> {
    db.fetch_optional(&ORGANIZATION_OF_HOOK, &[text(hook)])
}

pub fn load_private_key(db: &mut impl StoreRead, id: ForgeAppId) -> Result<Option<SealedValue>, StoreError> {
    db.fetch_optional(&PRIVATE_KEY, &[text(id)])
}

/// Loads the encrypted secret that signs deliveries.
pub fn load_hook_secret(db: &mut impl StoreRead, id: ForgeAppId) -> Result<Option<SealedValue>, StoreError> {
    db.fetch_optional(&HOOK_SECRET, &[text(id)])
}

pub fn insert(tx: &mut Tx<'_>, app: &ForgeApp, secrets: &SealedAppSecrets) -> Result<(), StoreError> {
    tx.put(&INSERT, &(app.clone(), secrets.clone()))
}

/// Records when the app was seen installed, or that it is not.
pub fn set_installed(
    tx: &mut Tx<'_>,
    id: ForgeAppId,
    installed_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    tx.execute_one(&SET_INSTALLED, &[text(id), installed_at.into()])
}

/// Records that the forge reported a change of the installation.
pub fn set_installation_changed(tx: &mut Tx<'_>, id: ForgeAppId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&INSTALLATION_CHANGED, &[text(id), now.into()]).map(drop)
}

pub fn delete(tx: &mut Tx<'_>, id: ForgeAppId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}
