//! Bounds of a run.

/// A step whose runner got lost is run again by itself at most so often.
pub const LOST_RETRIES_MAX: u32 = 3;
/// Attempts of one step in all, whatever the reason.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Steps that name no time limit of their own.
pub const STEP_S_DEFAULT: u64 = 3_600;
/// Calls of one attempt of a custom step: a poll a second for more than a day.
pub const CALLS_MAX: u32 = 100_000;
/// Polls one after the other whose end nobody knows; then the step's end is not known.
pub const POLL_LOSSES_MAX: u32 = 5;
/// Before a lost poll is made again.
pub const POLL_LOST_PAUSE_S: i64 = 5;
/// Before something is tried again that never started.
pub const NEVER_STARTED_PAUSE_S: i64 = 1;
/// So often in a row; then it fails.
pub const NEVER_STARTED_MAX: u32 = 10;
