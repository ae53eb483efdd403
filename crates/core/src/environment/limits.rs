//! Limits and times of environments, each with its unit.

/// How long a session may ask to last.
pub const TTL_S_MIN: i64 = 60;
pub const TTL_S_MAX: i64 = 30 * 24 * 60 * 60;

/// How long a place in line is kept.
pub const WAIT_S_DEFAULT: i64 = 60 * 60;
pub const WAIT_S_MIN: i64 = 1;
pub const WAIT_S_MAX: i64 = 7 * 24 * 60 * 60;

/// How long a takeover with grace leaves the holder.
pub const GRACE_S_DEFAULT: i64 = 5 * 60;
pub const GRACE_S_MIN: i64 = 1;
pub const GRACE_S_MAX: i64 = 24 * 60 * 60;

/// People in line for one environment.
pub const TICKETS_WAITING_MAX: usize = 100;
/// Deployments of one environment that have not ended.
pub const DEPLOYMENTS_UNFINISHED_MAX: usize = 20;

/// A session's end is announced so long before, or a fifth of its length before if that is shorter.
pub const WARNING_S_MAX: i64 = 10 * 60;

/// Work whose lease was not renewed for so long counts as stopped.
pub const RUNNER_LOST_S: i64 = 45;
