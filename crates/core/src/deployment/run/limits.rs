//! Limits of a run.

/// Automatic retries of a step whose runner was lost.
pub const LOST_RETRIES_MAX: u32 = 3;
/// Attempts of one step in total.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Timeout of steps that set none.
pub const STEP_S_DEFAULT: u64 = 3_600;
/// Calls of one attempt of a custom step: one poll per second for more than a day.
pub const CALLS_MAX: u32 = 100_000;
/// Consecutive lost polls after which the outcome of the step is unknown.
pub const POLL_LOSSES_MAX: u32 = 5;
/// Pause before a lost poll is repeated.
pub const POLL_LOST_PAUSE_S: i64 = 5;
/// Pause before an attempt that never started is repeated.
pub const NEVER_STARTED_PAUSE_S: i64 = 1;
/// Consecutive attempts that never started, after which the step fails.
pub const NEVER_STARTED_MAX: u32 = 10;
