//! State transitions of a deployment in an environment: it is granted to a runner once, and the runner reports its
//! outcome, or it is cancelled.
//!
//! Every message from a runner carries the nonce of its attempt and is checked against the session that requested the
//! deployment. Once that session has ended, a message can only complete the cancellation of the deployment.

pub mod cancel;
pub mod grant;
pub mod report;

pub use grant::{GrantCommand, obstacles};

use super::{DeploymentPurpose, EnvironmentDeployment};
use crate::environment::Environment;
use crate::event::{EventKind, EventSubject, NewEvent};

/// Builds an event with the fields common to all events about a deployment in an environment.
pub(crate) fn deployment_event(
    kind: EventKind,
    environment: &Environment,
    deployment: &EnvironmentDeployment,
) -> NewEvent {
    let event = NewEvent::new(kind, EventSubject::new("deployment", deployment.id, None))
        .with_subject(EventSubject::new("environment", environment.id, Some(environment.name.as_str())))
        .with_subject(EventSubject::new("pipeline", environment.pipeline, None))
        .with("commitId", deployment.commit.as_str())
        .with_some("context", deployment.reason.as_ref())
        .with("fence", deployment.target.fence.number());
    match deployment.target.purpose {
        DeploymentPurpose::Session(session) => event.with("sessionId", session.to_string()),
        DeploymentPurpose::Reset => event.with("reset", true),
    }
}
