//! State transitions of a deployment in an environment: granted to a runner once, reported, or cancelled.
//!
//! Every message from a runner carries the nonce of its attempt and is checked against the session that requested the
//! deployment, so a late message finds that its session has ended and changes nothing.

pub mod cancel;
pub mod grant;
pub mod report;

pub use grant::{GrantCommand, obstacles};

use super::{DeploymentPurpose, EnvironmentDeployment};
use crate::environment::Environment;
use crate::event::{EventKind, EventSubject, NewEvent};

/// The fields that every event about such a deployment carries.
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
