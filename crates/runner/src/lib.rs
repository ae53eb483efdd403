//! Executes the steps of deployments.
//!
//! A runner asks its [`Link`](berth_api::runner::Link) for work, runs each step in a workspace of its own, sends the
//! masked log, and reports how it ended. It believes the server: told to stop, it stops the whole tree of processes and
//! says so only when nothing of it is left. Threads block; there is no async here.
//!
//! ```text
//! dispatcher ── acquire ──> a thread per running step ── report, with a place for the next one ──┐
//!                             ^ told to stop by                         next step, same thread <─┘
//! pulse ── heartbeat ─────────┘
//! ```
//!
//! The process becomes a subreaper: orphans of steps come to it. A host that starts processes of its own from its
//! first thread, in groups of their own, would see them taken for such orphans.

mod attempt;
mod backoff;
mod builtin;
mod chance;
mod cleanup;
mod control;
mod dispatch;
mod http;
mod left_over;
mod log;
mod process;
mod pulse;
pub mod registry;
pub mod remote;
mod runner;
mod sandbox;
mod settings;

pub use attempt::removal::remove;
pub use left_over::{LeftOver, kill_left_over};
pub use process::SCRIPT_BYTES_MAX;
pub use runner::Runner;
pub use sandbox::{Confinement, HideError, StepUser, UserError};
pub use settings::{
    ACQUIRE_WAIT_MAX, HEARTBEAT_WAIT_MAX, LOG_CHUNK_BYTES_MAX, RUNNER_SELF_STOP, SHUTDOWN_GRACE,
    STEP_LOG_BYTES_MAX, STEP_LOG_PATIENCE, STEP_LOG_SPILL_BYTES_MAX, STEP_OUTPUT_BYTES_MAX, STEP_STOP_GRACE,
    Sandbox, Settings, StartError,
};
