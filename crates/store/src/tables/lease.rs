//! Leases. A background job that must not run on two servers at once runs on the server that holds its lease.

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::Tx;

statements! {
    // Renews a lease for its holder, or takes over a lease that has expired.
    Instance Upkeep TAKE = "INSERT INTO leases (name, holder, term, expires_at) VALUES ($1, $2, CAST(1 AS BIGINT), $3)
        ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
          term = CASE WHEN leases.holder = excluded.holder THEN leases.term ELSE leases.term + 1 END
        WHERE leases.holder = excluded.holder OR leases.expires_at <= $4";
    Instance Upkeep LEAVE = "UPDATE leases SET expires_at = CAST(0 AS BIGINT) WHERE name = $1 AND holder = $2";
}

/// Acquires or renews a lease for this many seconds. Returns false if another server holds it.
pub fn acquire(tx: &mut Tx<'_>, name: &str, holder: &str, seconds: i64) -> Result<bool, StoreError> {
    let now = tx.now();
    let params = [name.into(), holder.into(), now.plus_seconds(seconds).into(), now.into()];
    Ok(tx.execute(&TAKE, &params)? == 1)
}

/// Releases a lease before it expires.
pub fn release(tx: &mut Tx<'_>, name: &str, holder: &str) -> Result<(), StoreError> {
    tx.execute(&LEAVE, &[name.into(), holder.into()]).map(drop)
}
