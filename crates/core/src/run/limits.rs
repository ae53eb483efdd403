//! Bounds of a run.

/// A step whose runner got lost is run again by itself at most so often.
pub const LOST_RETRIES_MAX: u32 = 3;
/// Attempts of one step in all, whatever the reason.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Before something is tried again that never started.
pub const NEVER_STARTED_PAUSE_S: i64 = 1;
/// So often in a row; then it fails.
pub const NEVER_STARTED_MAX: u32 = 10;
