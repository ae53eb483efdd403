//! The run of a deployment: its plan, the state of its stages and steps, and the transitions.
//!
//! A step may be granted once every step it needs has passed. Messages from runners carry the nonce of their attempt,
//! and a finished attempt never changes. A stage fails when one of its steps has failed and none is running any more; a
//! retry is the only way to continue it.

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

pub use bound::approval_content;
pub use draft::RunChange;
pub use known::secrets_used;
pub use park::{PendingApproval, CustomStepState, UnfinishedResponse};
pub use plan::{StageGate, PinnedSecret, Plan, StagePlan, StepPlan, SourceCommit, StageType, StepActivation};
pub use state::{
    Attempt, AttemptEnd, AttemptOutcome, OutcomeResolution, Run, RunStatus, StageRun, StageRunStatus, StepRun, StepRunStatus,
};
