//! Accounts at identity providers that are linked to users, and whether the providers still vouch for them.

use berth_core::access::Role;
use berth_core::id::{DataKeyId, IdentityId, OrgId, UserId};
use berth_core::time::Timestamp;

use super::secret::SealedValue;
use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{BoundRead, TableRow as _, ToParams as _, from_row, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

/// How long a confirmation by the provider is valid. Afterwards, logins and API tokens of the person are refused until
/// the provider confirms the account again.
pub const VERIFIED_S_MAX: i64 = 15 * 60;
/// Maximum number of accounts at providers that a user can link.
pub const IDENTITIES_PER_USER_MAX: i64 = 10;

table!(Instance ProviderIdentity in provider_identities {
    key: [id],
    update: [email, status, verified_at, next_check_at, group_role, own_role, refresh_key: key_id,
        refresh_sealed: sealed, version, last_login_at],
    insert: [user: user_id, org: org_id, provider, issuer, subject, is_provisioned, created_at],
});
word_columns!(IdentityStatus: IdentityStatus::ALL);

/// Whether a provider of the organization has refused the user, and no other one vouches for the user.
const SUSPENDED_TEXT: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM provider_identities
        WHERE org_id = $1 AND user_id = $2 AND status = 'refused' AND NOT EXISTS
          (SELECT 1 FROM provider_identities good WHERE good.org_id = $1 AND good.user_id = $2
            AND good.status = 'active' AND good.verified_at > $3)";

statements! {
    Instance Read BY_ID => ProviderIdentity::TABLE.select("WHERE id = $1 {for_update}");
    Instance Read BY_SUBJECT => ProviderIdentity::TABLE.select("WHERE issuer = $1 AND subject = $2 {for_update}");
    Instance Read OF_USER => ProviderIdentity::TABLE.select("WHERE user_id = $1 ORDER BY id LIMIT $2");
    Instance Read DUE = "SELECT id, provider FROM provider_identities
        WHERE status = 'active' AND next_check_at <= $1 ORDER BY next_check_at, id LIMIT $2";
    // The providers of the organization decide. If the user is linked to none of them, all others do.
    Instance Read VERDICTS = "SELECT provider, status, verified_at FROM provider_identities
        WHERE user_id = $1 AND status <> 'dormant' AND (org_id = $2 OR NOT EXISTS
          (SELECT 1 FROM provider_identities here WHERE here.user_id = $1 AND here.org_id = $2))
        ORDER BY verified_at DESC LIMIT $3";
    Instance Read LOCAL_OWNER = "SELECT CAST(COUNT(*) AS BIGINT) FROM users u
        JOIN memberships m ON m.user_id = u.id AND m.role = 'owner'
        WHERE u.id = $1 AND u.password_hash IS NOT NULL AND (CAST($2 AS TEXT) IS NULL OR m.org_id = $2)";
    Org Read IS_SUSPENDED = SUSPENDED_TEXT;
    // For requests that are not yet authorized in the organization.
    Instance Read IS_SUSPENDED_IN = SUSPENDED_TEXT;
    // Count as upkeep, because an account belongs to no organization. The caller records the events.
    Instance Upkeep PUT => ProviderIdentity::TABLE.upsert("WHERE provider_identities.version = excluded.version - 1");
    Instance Upkeep POSTPONE = "UPDATE provider_identities SET next_check_at = $3, version = version + 1
        WHERE id = $1 AND version = $2";
    Instance Upkeep VERIFY = "UPDATE provider_identities SET verified_at = $3, next_check_at = $4, key_id = $5,
          sealed = $6, group_role = $7, own_role = $8, version = version + 1
        WHERE id = $1 AND version = $2 AND status = 'active'";
    Instance Upkeep DELETE = "DELETE FROM provider_identities WHERE id = $1";
}

/// The provider's verdict about an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityStatus {
    /// The provider confirmed the account; it is asked again regularly.
    Active,
    /// The provider refused the account. API tokens of the person are suspended until the next login.
    Refused,
    /// The person has logged in with the password since the provider refused the account or became unreachable.
    Dormant,
}

impl IdentityStatus {
    pub const ALL: [Self; 3] = [Self::Active, Self::Refused, Self::Dormant];

    pub const fn as_str(self) -> &'static str {
        match self {
            IdentityStatus::Active => "active",
            IdentityStatus::Refused => "refused",
            IdentityStatus::Dormant => "dormant",
        }
    }
}

/// An account at an identity provider. Issuer and subject identify it; the address does not.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderIdentity {
    pub id: IdentityId,
    pub user: UserId,
    /// The organization that the provider is configured for.
    pub org: OrgId,
    /// The name of the provider in the configuration.
    pub provider: String,
    pub issuer: String,
    pub subject: String,
    /// The address at the provider, for display only.
    pub email: Option<String>,
    pub status: IdentityStatus,
    pub verified_at: Timestamp,
    pub next_check_at: Timestamp,
    /// Whether the first login created the user.
    pub is_provisioned: bool,
    /// The role in the organization that a group gives.
    pub group_role: Option<Role>,
    /// The role in the organization that applies without the group.
    pub own_role: Option<Role>,
    pub refresh_key: Option<DataKeyId>,
    pub refresh_sealed: Option<Vec<u8>>,
    pub version: i64,
    pub last_login_at: Timestamp,
    pub created_at: Timestamp,
}

impl ProviderIdentity {
    /// The encrypted refresh token. `None` if the provider issued none.
    pub fn refresh_token(&self) -> Option<SealedValue> {
        let (key, bytes) = (self.refresh_key?, self.refresh_sealed.clone()?);
        Some(SealedValue { key, bytes })
    }

    pub fn set_refresh_token(&mut self, token: Option<SealedValue>) {
        (self.refresh_key, self.refresh_sealed) = token.map(|it| (it.key, it.bytes)).unzip();
    }
}

/// An account that the provider must be asked about.
#[derive(Debug, Clone)]
pub struct DueIdentity {
    pub id: IdentityId,
    pub provider: String,
}
from_row!(DueIdentity { id, provider });

/// Whether identity providers vouch for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountStanding {
    /// No provider decides about the person.
    Local,
    /// A provider has confirmed the account.
    Verified { until: Timestamp },
    /// No provider has confirmed the account within [`VERIFIED_S_MAX`].
    Unverified { provider: String },
    /// The provider has refused the account.
    Suspended { provider: String },
}

impl AccountStanding {
    /// Whether logins and API tokens of the person are accepted.
    pub fn is_good(&self) -> bool {
        matches!(self, AccountStanding::Local | AccountStanding::Verified { .. })
    }
}

/// One provider's verdict about a person.
pub(super) struct ProviderVerdict {
    provider: String,
    status: IdentityStatus,
    verified_at: Timestamp,
}
from_row!(ProviderVerdict { provider, status, verified_at });

impl ProviderVerdict {
    pub(super) fn into_standing(self, now: Timestamp) -> AccountStanding {
        let until = self.verified_at.plus_seconds(VERIFIED_S_MAX);
        match self.status {
            IdentityStatus::Active if now < until => AccountStanding::Verified { until },
            IdentityStatus::Active | IdentityStatus::Dormant => {
                AccountStanding::Unverified { provider: self.provider }
            }
            IdentityStatus::Refused => AccountStanding::Suspended { provider: self.provider },
        }
    }
}

/// The first read of [`load_standing`].
pub(crate) fn read_of_standing(org: OrgId, user: UserId) -> BoundRead {
    BoundRead::new(&VERDICTS, [text(user), text(org), IDENTITIES_PER_USER_MAX.into()])
}

/// Whether providers vouch for a user in an organization. One provider is enough. An owner who has a password is not
/// locked out while a provider is unreachable.
pub fn load_standing(
    db: &mut impl StoreRead,
    org: OrgId,
    user: UserId,
) -> Result<AccountStanding, StoreError> {
    let now = db.now();
    let verdicts: Vec<ProviderVerdict> = db.fetch_bound(&read_of_standing(org, user))?;
    let mut worst = AccountStanding::Local;
    for verdict in verdicts {
        match verdict.into_standing(now) {
            fresh @ AccountStanding::Verified { .. } => return Ok(fresh),
            suspended @ AccountStanding::Suspended { .. } => worst = suspended,
            unverified if worst == AccountStanding::Local => worst = unverified,
            _ => {}
        }
    }
    exempt_local_owner(db, org, user, worst)
}

pub(super) fn exempt_local_owner(
    db: &mut impl StoreRead,
    org: OrgId,
    user: UserId,
    standing: AccountStanding,
) -> Result<AccountStanding, StoreError> {
    let is_unverified = matches!(standing, AccountStanding::Unverified { .. });
    let is_exempt = is_unverified && is_local_owner(db, user, Some(org))?;
    Ok(if is_exempt { AccountStanding::Local } else { standing })
}

/// Whether a user has a password and owns this organization; any organization for `None`.
pub fn is_local_owner(db: &mut impl StoreRead, user: UserId, org: Option<OrgId>) -> Result<bool, StoreError> {
    let org = org.map_or(SqlValue::Null, text);
    Ok(db.fetch_count(&LOCAL_OWNER, &[text(user), org])? > 0)
}

/// Whether a provider of the transaction's organization has refused the user.
pub fn is_suspended(db: &mut impl StoreRead, user: UserId) -> Result<bool, StoreError> {
    let oldest = db.now().plus_seconds(-VERIFIED_S_MAX);
    Ok(db.fetch_count(&IS_SUSPENDED, &[text(user), oldest.into()])? > 0)
}

/// Like [`is_suspended`], for requests that are not yet authorized in the organization.
pub fn is_suspended_in(db: &mut impl StoreRead, org: OrgId, user: UserId) -> Result<bool, StoreError> {
    let oldest = db.now().plus_seconds(-VERIFIED_S_MAX);
    Ok(db.fetch_count(&IS_SUSPENDED_IN, &[text(org), text(user), oldest.into()])? > 0)
}

pub fn by_id(db: &mut impl StoreRead, id: IdentityId) -> Result<Option<ProviderIdentity>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_subject(
    db: &mut impl StoreRead,
    issuer: &str,
    subject: &str,
) -> Result<Option<ProviderIdentity>, StoreError> {
    db.fetch_optional(&BY_SUBJECT, &[issuer.into(), subject.into()])
}

pub fn list_of_user(db: &mut impl StoreRead, user: UserId) -> Result<Vec<ProviderIdentity>, StoreError> {
    db.fetch_all(&OF_USER, &[text(user), IDENTITIES_PER_USER_MAX.into()])
}

/// The accounts that providers must be asked about, the most urgent first.
pub fn list_due(db: &mut impl StoreRead, limit: i64) -> Result<Vec<DueIdentity>, StoreError> {
    let now = db.now();
    db.fetch_all(&DUE, &[now.into(), limit.into()])
}

/// Writes a linked account. Fails if its version has changed.
pub fn put(tx: &mut Tx<'_>, identity: &ProviderIdentity) -> Result<(), StoreError> {
    tx.put(&PUT, identity)
}

/// Sets when the provider is asked again. Returns `false` if the record has changed: another server was faster.
pub fn postpone(tx: &mut Tx<'_>, id: IdentityId, version: i64, until: Timestamp) -> Result<bool, StoreError> {
    Ok(tx.execute(&POSTPONE, &[text(id), version.into(), until.into()])? == 1)
}

/// Records that the provider has confirmed an account that was active before. Returns `false` if the record has
/// changed.
pub fn record_verified(tx: &mut Tx<'_>, identity: &ProviderIdentity) -> Result<bool, StoreError> {
    let mut params: Vec<SqlValue> = vec![text(identity.id)];
    (identity.version, identity.verified_at, identity.next_check_at).to_params(&mut params)?;
    (identity.refresh_key, &identity.refresh_sealed).to_params(&mut params)?;
    (identity.group_role, identity.own_role).to_params(&mut params)?;
    Ok(tx.execute(&VERIFY, &params)? == 1)
}

/// Deletes a link. Browser logins that came from it must have been ended.
pub fn delete(tx: &mut Tx<'_>, id: IdentityId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}
