//! The run of a deployment: its plan, the state of its stages and steps, and the state transitions.
//!
//! A step may be granted once every step that it needs has succeeded or was skipped. Messages from runners carry the
//! nonce of their attempt, and a finished attempt never changes. A stage fails once one of its steps has failed and
//! none is running any more; only a retry continues it.

mod advance;
mod approval_subject;
pub mod begin;
pub mod cancel;
mod contexts;
mod draft;
pub mod enter;
pub mod gated_steps;
pub mod grant;
pub mod limits;
pub mod park;
mod plan;
pub mod report;
pub mod resolve;
pub mod retry;
pub mod rollback;
mod state;
mod status;

pub use approval_subject::approval_content;
pub use contexts::secrets_used;
pub use draft::RunChange;
pub use park::{CustomStepState, PendingApproval, UnfinishedResponse};
pub use plan::{PinnedSecret, Plan, SourceCommit, StageGate, StagePlan, StageType, StepActivation, StepPlan};
pub use state::{
    Attempt, AttemptEnd, AttemptOutcome, OutcomeResolution, Run, RunStatus, StageRun, StageRunStatus,
    StepRun, StepRunStatus,
};
