//! Limits of a run.

/// Maximum number of automatic retries of a step whose runner was lost.
pub const LOST_RETRIES_MAX: u32 = 3;
/// Maximum number of attempts of one step, including manual retries.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Timeout in seconds of a step that does not set one.
pub const STEP_S_DEFAULT: u64 = 3_600;
/// Maximum number of calls in one attempt of a custom step; enough for one poll per second for more than a day.
pub const CALLS_MAX: u32 = 100_000;
/// How many times in a row a lost poll is repeated before the outcome of the step counts as unknown.
pub const POLL_LOSSES_MAX: u32 = 5;
/// Pause in seconds before a lost poll is repeated.
pub const POLL_LOST_PAUSE_S: i64 = 5;
/// Pause in seconds before retrying a step whose attempt never started.
pub const NEVER_STARTED_PAUSE_S: i64 = 1;
/// A step fails after this many consecutive attempts that never started.
pub const NEVER_STARTED_MAX: u32 = 10;
