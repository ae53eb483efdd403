//! The run of a deployment: its plan, how far it has come, and the rules that move it.

mod known;
mod plan;
mod planning;
mod state;

pub use known::secrets_used;
pub use plan::{PinnedSecret, Plan, PlannedStage, PlannedStep, Source, StageKind, When};
pub use planning::{BUILD, Facts, Named, PLAN_BYTES_MAX, PLAN_FUEL_MAX, Target, obstacles, plan, preview};
pub use state::{
    Attempt, AttemptEnd, Outcome, Resolution, Run, RunStatus, StageRun, StageStatus, StepRun, StepStatus,
};
