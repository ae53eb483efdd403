//! Limits and times of environments, with their units.

/// Range of a session's TTL.
pub const TTL_S_MIN: i64 = 60;
pub const TTL_S_MAX: i64 = 30 * 24 * 60 * 60;

/// How long a ticket waits.
pub const WAIT_S_DEFAULT: i64 = 60 * 60;
pub const WAIT_S_MIN: i64 = 1;
pub const WAIT_S_MAX: i64 = 7 * 24 * 60 * 60;

/// Grace period of a takeover.
pub const GRACE_S_DEFAULT: i64 = 5 * 60;
pub const GRACE_S_MIN: i64 = 1;
pub const GRACE_S_MAX: i64 = 24 * 60 * 60;

/// Waiting tickets per environment.
pub const TICKETS_WAITING_MAX: usize = 100;
/// Unfinished deployments per environment.
pub const DEPLOYMENTS_UNFINISHED_MAX: usize = 20;

/// How long before its end a session is warned: at most this, or a fifth of its length if that is shorter.
pub const WARNING_S_MAX: i64 = 10 * 60;

/// Work counts as stopped when its lease was not renewed for this long.
pub const RUNNER_LOST_S: i64 = 45;
