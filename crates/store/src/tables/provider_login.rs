//! Browser logins that came from an identity provider, and the states of such logins that were already used.

use berth_core::id::{IdentityId, OrgId, SignInId, UserId};
use berth_core::time::Timestamp;

use super::provider_identity::{self, AccountStanding, ProviderVerdict};
use super::secret::SealedValue;
use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

statements! {
    Instance Read BY_SIGN_IN = "SELECT l.identity_id, i.user_id, l.org_id, i.provider, l.key_id, l.sealed
        FROM provider_logins l JOIN provider_identities i ON i.id = l.identity_id WHERE l.sign_in_id = $1";
    Instance Read VERDICT = "SELECT i.org_id, i.user_id, i.provider, i.status, i.verified_at
        FROM provider_logins l JOIN provider_identities i ON i.id = l.identity_id WHERE l.sign_in_id = $1";
    Instance Upkeep INSERT = "INSERT INTO provider_logins (sign_in_id, identity_id, org_id, key_id, sealed)
        VALUES ($1, $2, $3, $4, $5)";
    Instance Upkeep END_OF_IDENTITY = "DELETE FROM sign_ins
        WHERE id IN (SELECT sign_in_id FROM provider_logins WHERE identity_id = $1)";
    Instance Upkeep USE_STATE = "INSERT INTO used_provider_states (state_hash, expires_at) VALUES ($1, $2)
        ON CONFLICT (state_hash) DO NOTHING";
    Instance Upkeep DELETE_STATES = "DELETE FROM used_provider_states WHERE expires_at <= $1";
}

/// A browser login that came from an identity provider.
#[derive(Debug, Clone)]
pub struct ProviderLogin {
    pub identity: IdentityId,
    pub user: UserId,
    pub org: OrgId,
    pub provider: String,
    /// The ID token of the login.
    pub id_token: SealedValue,
}
from_row!(ProviderLogin { identity, user, org, provider, id_token });

/// Finds the provider that a browser login came from. `None` for a login with a password.
pub fn by_sign_in(db: &mut impl StoreRead, id: SignInId) -> Result<Option<ProviderLogin>, StoreError> {
    db.fetch_optional(&BY_SIGN_IN, &[text(id)])
}

/// Whether the provider that a browser login came from still vouches for the person.
pub fn load_standing(db: &mut impl StoreRead, id: SignInId) -> Result<AccountStanding, StoreError> {
    let now = db.now();
    let found: Option<(OrgId, UserId, ProviderVerdict)> = db.fetch_optional(&VERDICT, &[text(id)])?;
    let Some((org, user, verdict)) = found else { return Ok(AccountStanding::Local) };
    provider_identity::exempt_local_owner(db, org, user, verdict.into_standing(now))
}

pub fn insert(tx: &mut Tx<'_>, sign_in: SignInId, login: &ProviderLogin) -> Result<(), StoreError> {
    let sealed = &login.id_token;
    let params = [
        text(sign_in),
        text(login.identity),
        text(login.org),
        text(sealed.key),
        sealed.bytes.as_slice().into(),
    ];
    tx.execute_one(&INSERT, &params)
}

/// Ends the browser logins that came from this account at a provider.
pub fn end_of_identity(tx: &mut Tx<'_>, identity: IdentityId) -> Result<(), StoreError> {
    tx.execute(&END_OF_IDENTITY, &[text(identity)]).map(drop)
}

/// Marks the state of a login as used. Returns `false` if it was used before.
pub fn use_state(tx: &mut Tx<'_>, state_hash: &[u8], expires_at: Timestamp) -> Result<bool, StoreError> {
    Ok(tx.execute(&USE_STATE, &[state_hash.into(), expires_at.into()])? == 1)
}

pub fn delete_expired_states(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_STATES, &[now.into()]).map(drop)
}
