//! Deployments: a commit that is deployed to one environment or through all stages of its pipeline.
//!
//! The [`Deployment`] type serves both; its target says which. [`environment`] and [`stages`] contain the state
//! transitions for each target, [`run`] the execution of the steps.

pub mod environment;
pub mod run;
pub mod stages;
mod state;

pub use state::{
    CancelCause, CancelRequest, Deployment, DeploymentAttempt, DeploymentPurpose, DeploymentState,
    DeploymentTarget, EnvironmentDeployment, EnvironmentTarget, ExecutionFailure, FailureCode, GateBypass,
    StagesDeployment, StagesTarget, StartObstacle, StartTrigger,
};
