//! Deployments: a commit on its way into an environment or through the stages of its pipeline.
//!
//! One [`Deployment`] type serves both; its target says which. [`environment`] and [`stages`] hold the state transitions
//! of each target, [`run`] the execution of the steps.

pub mod environment;
pub mod run;
pub mod stages;
mod state;

pub use state::{
    Blocked, Bypass, Cancel, CancelCause, Cause, Deployment, DeploymentAttempt, DeploymentStatus,
    EnvironmentDeployment, EnvironmentTarget, Failure, StagesDeployment, StagesTarget, Target, Trigger, Work,
};
