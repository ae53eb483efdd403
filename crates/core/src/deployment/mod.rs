//! A deployment in an environment: asked for, granted to a runner once, reported, or stopped.
//!
//! Whatever comes from a runner carries the nonce of its attempt, and is compared with the session that asked for the
//! work: a late message finds that its session has ended, and changes nothing.

pub mod cancel;
pub mod grant;
pub mod report;
mod state;

pub use grant::{Grant, obstacles};
pub use state::{Attempt, Blocked, Cancel, CancelCause, Cause, Deployment, Failure, Status, Work};

use crate::environment::Environment;
use crate::event::{EventKind, NewEvent, Subject};

/// What events say about a deployment.
pub(crate) fn telling(kind: EventKind, environment: &Environment, deployment: &Deployment) -> NewEvent {
    let event = NewEvent::new(kind, Subject::new("deployment", deployment.id, None))
        .about(Subject::new("environment", environment.id, Some(environment.name.as_str())))
        .about(Subject::new("pipeline", environment.pipeline, None))
        .with("commitId", deployment.commit.as_str())
        .with_some("context", deployment.context.as_ref())
        .with("fence", deployment.fence.number());
    match deployment.work {
        Work::Session(session) => event.with("sessionId", session.to_string()),
        Work::Reset => event.with("reset", true),
    }
}
