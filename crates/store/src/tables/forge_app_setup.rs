//! GitHub Apps that admins are creating in a browser.

use berth_core::forge::ForgeAppSetup;
use berth_core::id::SignInId;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

statements! {
    Org Read BY_STATE = "SELECT repository_id, hook_id, form_url, origin, api, expires_at FROM forge_app_setups
        WHERE org_id = $1 AND sign_in_id = $2 AND state_hash = $3 AND expires_at > $4";
    // Needs no event: the creation of the app is recorded.
    Org Upkeep PUT = "INSERT INTO forge_app_setups (org_id, sign_in_id, state_hash, repository_id, hook_id, form_url,
          origin, api, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (org_id, sign_in_id) DO UPDATE SET
          state_hash = excluded.state_hash, repository_id = excluded.repository_id, hook_id = excluded.hook_id,
          form_url = excluded.form_url, origin = excluded.origin, api = excluded.api, expires_at = excluded.expires_at";
    Org Upkeep DELETE = "DELETE FROM forge_app_setups WHERE org_id = $1 AND sign_in_id = $2 AND state_hash = $3";
    Instance Upkeep DELETE_EXPIRED = "DELETE FROM forge_app_setups WHERE expires_at <= $1";
}
from_row!(ForgeAppSetup { repository, hook, form_url, origin, api, expires_at });

/// Finds a setup by the hash of its state. `None` if another login started it, or it was used or has expired.
pub fn by_state(
    db: &mut impl StoreRead,
    sign_in: SignInId,
    state_hash: &[u8],
) -> Result<Option<ForgeAppSetup>, StoreError> {
    let now = db.now();
    db.fetch_optional(&BY_STATE, &[text(sign_in), state_hash.into(), now.into()])
}

/// Stores a setup. It replaces the earlier one of the same login.
pub fn put(
    tx: &mut Tx<'_>,
    sign_in: SignInId,
    state_hash: &[u8],
    setup: &ForgeAppSetup,
) -> Result<(), StoreError> {
    let params = [
        text(sign_in),
        state_hash.into(),
        text(setup.repository),
        text(setup.hook),
        setup.form_url.as_str().into(),
        setup.origin.as_str().into(),
        setup.api.as_str().into(),
        setup.expires_at.into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// Uses up a setup. `None` if there is none, as for [`by_state`].
pub fn take(
    tx: &mut Tx<'_>,
    sign_in: SignInId,
    state_hash: &[u8],
) -> Result<Option<ForgeAppSetup>, StoreError> {
    let found = by_state(tx, sign_in, state_hash)?;
    if found.is_some() {
        tx.execute_one(&DELETE, &[text(sign_in), state_hash.into()])?;
    }
    Ok(found)
}

pub fn delete_expired(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_EXPIRED, &[now.into()]).map(drop)
}
