//! Logins of the CLI that a person has to approve in a browser. Only hashes of the codes are stored.

use berth_core::client_info::ClientInfo;
use berth_core::id::{OrgId, UserId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{from_row, statements, word_columns};
use crate::tx::{StoreRead, Tx};

// All statements count as upkeep, because a request belongs to no organization until it is approved. The caller records
// the events.
statements! {
    Instance Read BY_DEVICE_CODE = "SELECT machine, address, user_agent, redirect_port, state, code_challenge,
          created_at, expires_at, interval_s, polled_at, status, approved_org, approved_by, token_days, code_hash
        FROM cli_logins WHERE device_hash = $1 AND expires_at > $2";
    Instance Read BY_USER_CODE = "SELECT machine, address, user_agent, redirect_port, state, code_challenge,
          created_at, expires_at, interval_s, polled_at, status, approved_org, approved_by, token_days, code_hash
        FROM cli_logins WHERE user_code_hash = $1 AND expires_at > $2 AND status = 'pending'";
    Instance Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM cli_logins WHERE expires_at > $1";
    Instance Read COUNT_OF_NETWORK = "SELECT CAST(COUNT(*) AS BIGINT) FROM cli_logins
        WHERE network = $1 AND expires_at > $2";
    Instance Upkeep INSERT = "INSERT INTO cli_logins (device_hash, user_code_hash, machine, address, network,
          user_agent, redirect_port, state, code_challenge, created_at, expires_at, interval_s, status)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'pending')";
    Instance Upkeep POLLED = "UPDATE cli_logins SET polled_at = $2, interval_s = $3 WHERE device_hash = $1";
    Instance Upkeep APPROVE = "UPDATE cli_logins
        SET status = 'approved', approved_org = $2, approved_by = $3, token_days = $4, code_hash = $5
        WHERE user_code_hash = $1 AND status = 'pending'";
    Instance Upkeep DENY = "UPDATE cli_logins SET status = 'denied' WHERE user_code_hash = $1 AND status = 'pending'";
    Instance Upkeep DELETE = "DELETE FROM cli_logins WHERE device_hash = $1";
    Instance Upkeep DELETE_OF_USER = "DELETE FROM cli_logins WHERE approved_by = $1";
    Instance Upkeep DELETE_EXPIRED = "DELETE FROM cli_logins WHERE expires_at <= $1";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliLoginStatus {
    Pending,
    Approved,
    Denied,
}

impl CliLoginStatus {
    const ALL: [Self; 3] = [Self::Pending, Self::Approved, Self::Denied];

    fn as_str(self) -> &'static str {
        match self {
            CliLoginStatus::Pending => "pending",
            CliLoginStatus::Approved => "approved",
            CliLoginStatus::Denied => "denied",
        }
    }
}
word_columns!(CliLoginStatus: CliLoginStatus::ALL);

/// A login that the CLI has requested.
#[derive(Debug, Clone)]
pub struct CliLogin {
    /// Name of the machine, as the CLI reports it.
    pub machine: String,
    pub address: String,
    pub user_agent: String,
    /// Port on the loopback address to which the browser is redirected. `None` if the CLI polls instead.
    pub redirect_port: Option<i64>,
    pub state: Option<String>,
    /// PKCE challenge (S256). Set if there is a `redirect_port`.
    pub code_challenge: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// Seconds that the CLI must wait between polls.
    pub interval_s: i64,
    pub polled_at: Option<Timestamp>,
    pub status: CliLoginStatus,
    pub approved_org: Option<OrgId>,
    pub approved_by: Option<UserId>,
    pub token_days: Option<i64>,
    /// Hash of the code with which the browser was redirected.
    pub code_hash: Option<Vec<u8>>,
}
from_row!(CliLogin {
    machine,
    address,
    user_agent,
    redirect_port,
    state,
    code_challenge,
    created_at,
    expires_at,
    interval_s,
    polled_at,
    status,
    approved_org,
    approved_by,
    token_days,
    code_hash
});

pub struct NewCliLogin {
    pub device_hash: Vec<u8>,
    pub user_code_hash: Vec<u8>,
    pub machine: String,
    pub client: ClientInfo,
    /// Network of the client; the number of open requests per network is limited.
    pub network: String,
    pub redirect_port: Option<i64>,
    pub state: Option<String>,
    pub code_challenge: Option<String>,
    pub expires_at: Timestamp,
    pub interval_s: i64,
}

/// Finds a request by the code that only the CLI knows, unless the request has expired.
pub fn by_device_code(db: &mut impl StoreRead, hash: &[u8]) -> Result<Option<CliLogin>, StoreError> {
    let now = db.now();
    db.fetch_optional(&BY_DEVICE_CODE, &[hash.into(), now.into()])
}

/// Finds a pending request by the code that the person confirms, unless the request has expired.
pub fn by_user_code(db: &mut impl StoreRead, hash: &[u8]) -> Result<Option<CliLogin>, StoreError> {
    let now = db.now();
    db.fetch_optional(&BY_USER_CODE, &[hash.into(), now.into()])
}

/// Number of requests that have not expired.
pub fn count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    let now = db.now();
    db.fetch_count(&COUNT, &[now.into()])
}

/// Like [`count`], for one network.
pub fn count_of_network(db: &mut impl StoreRead, network: &str) -> Result<i64, StoreError> {
    let now = db.now();
    db.fetch_count(&COUNT_OF_NETWORK, &[network.into(), now.into()])
}

pub fn insert(tx: &mut Tx<'_>, new: &NewCliLogin) -> Result<(), StoreError> {
    let now = tx.now();
    let params: [SqlValue; 12] = [
        new.device_hash.as_slice().into(),
        new.user_code_hash.as_slice().into(),
        new.machine.as_str().into(),
        text(new.client.address()),
        new.network.as_str().into(),
        new.client.user_agent().into(),
        new.redirect_port.into(),
        new.state.clone().into(),
        new.code_challenge.clone().into(),
        now.into(),
        new.expires_at.into(),
        new.interval_s.into(),
    ];
    tx.execute_one(&INSERT, &params)
}

/// Records a poll of the CLI and the interval that it must keep from now on.
pub fn record_poll(tx: &mut Tx<'_>, device_hash: &[u8], interval_s: i64) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&POLLED, &[device_hash.into(), now.into(), interval_s.into()]).map(drop)
}

/// Approves a pending request. Returns whether there was one.
pub fn approve(
    tx: &mut Tx<'_>,
    user_code_hash: &[u8],
    (org, user): (OrgId, UserId),
    token_days: i64,
    code_hash: Option<&[u8]>,
) -> Result<bool, StoreError> {
    let params = [
        user_code_hash.into(),
        text(org),
        text(user),
        token_days.into(),
        code_hash.map(SqlValue::from).into(),
    ];
    Ok(tx.execute(&APPROVE, &params)? == 1)
}

/// Denies a pending request. Returns whether there was one.
pub fn deny(tx: &mut Tx<'_>, user_code_hash: &[u8]) -> Result<bool, StoreError> {
    Ok(tx.execute(&DENY, &[user_code_hash.into()])? == 1)
}

/// Deletes a request. Returns whether it still existed, so that only one of two concurrent calls can use it.
pub fn delete(tx: &mut Tx<'_>, device_hash: &[u8]) -> Result<bool, StoreError> {
    Ok(tx.execute(&DELETE, &[device_hash.into()])? == 1)
}

/// Deletes the requests that this user has approved and whose tokens the CLI has not fetched yet.
pub fn delete_of_user(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&DELETE_OF_USER, &[text(user)]).map(drop)
}

pub fn delete_expired(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_EXPIRED, &[now.into()]).map(drop)
}
