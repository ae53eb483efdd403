//! Executes the steps of deployments.
//!
//! A runner asks its [`RunnerLink`](berth_api::runner::RunnerLink) for work, runs each step in a workspace and a
//! sandbox of its own, sends the masked log and reports the outcome. When an attempt is cancelled, the runner stops the
//! whole process tree of the step, and reports the attempt as stopped only when no process is left. All threads block,
//! except that the clients of the container engine and of Kubernetes are async.
//!
//! ```text
//! dispatcher ── acquire ──> one thread per running step ── report, asking for the next step ──┐
//!                             ^ stop                                 next step, same thread <─┘
//! heartbeat ──────────────────┘
//! ```
//!
//! The process becomes a subreaper, so orphaned processes of steps become its children. A program that embeds the
//! runner must not start process groups from its main thread, because the runner would mistake them for such orphans.

mod async_calls;
mod attempt;
mod backoff;
mod builtin;
mod cleanup;
mod container;
mod dispatch;
mod executor;
mod heartbeat;
mod http;
mod kubernetes;
mod leftovers;
mod log;
mod process;
mod random;
pub mod registry;
pub mod remote;
mod runner;
mod sandbox;
mod settings;
mod sources;
mod stop_signal;

pub use attempt::removal::remove_tree;
pub use container::{ContainerEngineError, ContainerEngineOptions};
pub use kubernetes::{KubernetesError, KubernetesOptions};
pub use leftovers::{LeftoverCounts, kill_leftovers};
pub use process::SCRIPT_BYTES_MAX;
pub use runner::StepRunner;
pub use sandbox::{Confinement, HiddenPathError, StepUserAccount, StepUserError};
pub use settings::{
    ACQUIRE_WAIT_MAX, HEARTBEAT_WAIT_MAX, LOG_CHUNK_BYTES_MAX, RUNNER_SELF_STOP, RunnerOptions,
    RunnerStartError, SHUTDOWN_GRACE, STEP_LOG_BYTES_MAX, STEP_LOG_PATIENCE, STEP_LOG_SPILL_BYTES_MAX,
    STEP_OUTPUT_BYTES_MAX, STEP_STOP_GRACE, SandboxMode,
};
