//! The run of a deployment: its plan, how far it has come, and the rules that move it.

mod plan;
mod state;

pub use plan::{PinnedSecret, Plan, PlannedStage, PlannedStep, Source, StageKind, When};
pub use state::{
    Attempt, AttemptEnd, Outcome, Resolution, Run, RunStatus, StageRun, StageStatus, StepRun, StepStatus,
};
