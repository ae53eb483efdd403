//! Advisory locks: what a transaction locks until it has committed, and the statements that begin it.

use berth_core::id::OrgId;

/// Selects the current time in microseconds. Must run after the lock was taken.
pub(super) const NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";

/// The epoch, and the lowest schema version of a server that may write.
const INSTALLATION: &str = "(SELECT epoch FROM instance WHERE id = 'berth'),
    (SELECT schema_min_version FROM instance WHERE id = 'berth')";

/// The first of the two keys of an advisory lock. Each scope has its own.
const INSTANCE: i32 = 0x6265_7274;
const ORGANIZATION: i32 = INSTANCE + 1;
const LEASES: i32 = INSTANCE + 2;

/// What a job locks until it has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LockScope {
    Installation,
    Organization(OrgId),
    /// For transactions that only access leases. Does not contend with other jobs.
    Leases,
}

impl From<Option<OrgId>> for LockScope {
    fn from(org: Option<OrgId>) -> Self {
        org.map_or(Self::Installation, Self::Organization)
    }
}

/// Returns the statements that begin a transaction, take the lock, and select the time, the epoch, the minimum version,
/// and the number and hash of the organization's last event.
pub(super) fn begin_text(place: LockScope) -> String {
    let locks = match place {
        LockScope::Leases => format!("SELECT pg_advisory_xact_lock({LEASES}, 0)"),
        // While one job waits for this lock, all later jobs have to wait for that job, so the timeout is short.
        LockScope::Installation => {
            format!("SET LOCAL lock_timeout = '2s'; {}", lock_installation())
        }
        LockScope::Organization(org) => {
            let key = lock_key(org);
            format!(
                "SELECT pg_advisory_xact_lock_shared({INSTANCE}, 0); SELECT pg_advisory_xact_lock({ORGANIZATION}, {key})"
            )
        }
    };
    let head = match place {
        LockScope::Organization(org) => head_of(org),
        LockScope::Leases | LockScope::Installation => "NULL, NULL".into(),
    };
    // Reads only after taking the lock, because another server may have changed all of them.
    format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {locks}; {NOW}, {INSTALLATION}, {head}")
}

/// Ids consist of letters, digits and underscores, so they need no quoting.
fn head_of(org: OrgId) -> String {
    ["sequence", "hash"]
        .map(|column| format!("(SELECT {column} FROM event_heads WHERE org_id = '{org}')"))
        .join(", ")
}

/// Locks the whole installation until the end of the transaction.
pub(super) fn lock_installation() -> String {
    format!("SELECT pg_advisory_xact_lock({INSTANCE}, 0)")
}

/// The advisory lock key of an organization, which is the same in every process. If two organizations happen to have
/// the same key, they only wait for each other.
fn lock_key(org: OrgId) -> i32 {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, org.to_string().as_bytes());
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| digest.as_ref()[at]);
    i32::from_be_bytes([a, b, c, d])
}
