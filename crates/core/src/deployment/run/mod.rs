//! The run of a deployment: its plan, how far it has come, and the rules that move it.
//!
//! A step may be granted once everything it needs has passed. What comes from a runner carries the nonce of its
//! attempt; an attempt that has ended stays as it ended. A stage fails when one of its steps has failed and nothing of
//! it runs any more; retry is the one way out.

mod advance;
pub mod back;
pub mod begin;
mod bound;
pub mod cancel;
mod draft;
pub mod enter;
pub mod grant;
pub mod held;
mod known;
pub mod limits;
pub mod park;
mod plan;
pub mod report;
pub mod resolve;
pub mod retry;
mod state;
mod status;

pub use bound::bound_to;
pub use draft::RunChange;
pub use known::secrets_used;
pub use park::{Asks, Memory, Parking};
pub use plan::{Gate, PinnedSecret, Plan, PlannedStage, PlannedStep, Source, StageKind, When};
pub use state::{
    Attempt, AttemptEnd, Outcome, Resolution, Run, RunStatus, StageRun, StageStatus, StepRun, StepStatus,
};
