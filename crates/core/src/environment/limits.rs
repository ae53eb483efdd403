//! Limits and times of environments, with their units.

/// Bounds of a session's TTL, in seconds.
pub const TTL_S_MIN: i64 = 60;
pub const TTL_S_MAX: i64 = 30 * 24 * 60 * 60;

/// Bounds of a session's lease, in seconds.
pub const LEASE_S_MIN: i64 = 15;
pub const LEASE_S_MAX: i64 = 10 * 60;
/// The lease of an agent's session if the claim names none, in seconds.
pub const LEASE_S_AGENT: i64 = 60;

/// How long a ticket waits in the queue, in seconds.
pub const WAIT_S_DEFAULT: i64 = 60 * 60;
pub const WAIT_S_MIN: i64 = 1;
pub const WAIT_S_MAX: i64 = 7 * 24 * 60 * 60;

/// Grace period before a takeover, in seconds.
pub const GRACE_S_DEFAULT: i64 = 5 * 60;
pub const GRACE_S_MIN: i64 = 1;
pub const GRACE_S_MAX: i64 = 24 * 60 * 60;

/// Maximum number of waiting tickets per environment.
pub const TICKETS_WAITING_MAX: usize = 100;
/// Maximum number of unfinished deployments per environment.
pub const DEPLOYMENTS_UNFINISHED_MAX: usize = 20;

/// How many seconds before the end of a session its holder is warned; at most a fifth of the TTL or idle timeout that
/// ends it.
pub const WARNING_S_MAX: i64 = 10 * 60;

/// Default number of seconds without a heartbeat after which a runner counts as lost and its work as stopped.
pub const RUNNER_LOST_S: i64 = 45;
