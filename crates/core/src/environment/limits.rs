//! Limits and times of environments, with their units.

/// Bounds of a session's TTL, in seconds.
pub const TTL_S_MIN: i64 = 60;
pub const TTL_S_MAX: i64 = 30 * 24 * 60 * 60;

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

/// How many seconds before the end of a session its holder is warned; a fifth of the session's length if that is less.
pub const WARNING_S_MAX: i64 = 10 * 60;

/// Work counts as stopped if its lease was not renewed for this many seconds.
pub const RUNNER_LOST_S: i64 = 45;
