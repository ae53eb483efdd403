//! Deployments: a commit on its way into an environment or through the stages of its pipeline.
//!
//! One [`Deployment`] type serves both; its target says which. [`environment`] and [`stages`] hold the state transitions
//! of each target, [`run`] the execution of the steps.

pub mod environment;
pub mod run;
pub mod stages;
mod state;

pub use state::{
    CancelCause, CancelRequest, Deployment, DeploymentAttempt, DeploymentPurpose, DeploymentState,
    DeploymentTarget, EnvironmentDeployment, EnvironmentTarget, ExecutionFailure, FailureCode, GateBypass,
    StagesDeployment, StagesTarget, StartObstacle, StartTrigger,
};
