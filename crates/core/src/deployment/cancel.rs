//! Cancel: what has not started never will; what runs is told to stop.

use super::state::{Cancel, CancelCause, Deployment, Status};
use super::telling;
use crate::decision::{Decision, Refusal, Ruling};
use crate::environment::{Draft, Lock, Moment};
use crate::event::{Actor, EventKind};
use crate::id::DeploymentId;
use crate::name::Reason;

/// `deployment` as it was loaded; one that has ended, or is being stopped, is answered as it is.
pub fn cancel(
    lock: &Lock,
    deployment: &Deployment,
    by: Actor,
    reason: Option<Reason>,
    moment: &Moment,
) -> Ruling<Deployment> {
    let mut draft = Draft::begin(lock, moment);
    apply(&mut draft, deployment.id, &Cancel { by, cause: CancelCause::Requested, reason });
    let answer = draft.as_retired(deployment);
    let Decision { changes, events, effects, .. } = draft.finish(());
    Decision { changes, events, effects, answer: Ok::<_, Refusal>(answer) }
}

pub(crate) fn apply(draft: &mut Draft<'_>, id: DeploymentId, cancel: &Cancel) {
    let Some(deployment) = draft.lock.deployment(id).cloned() else { return };
    let (status, kind) = match &deployment.status {
        Status::Queued => (Status::Cancelled(cancel.clone()), EventKind::DeploymentCancelled),
        Status::Running(attempt) => {
            let attempt = attempt.clone();
            (Status::Cancelling { attempt, cancel: cancel.clone() }, EventKind::DeploymentCancelling)
        }
        _ => return,
    };
    let event = telling(kind, &draft.lock.environment, &deployment)
        .with("cause", cancel.cause.as_str())
        .with_some("reason", cancel.reason.as_ref());
    draft.record(event);
    let finished_at = status.is_final().then(|| draft.now());
    settle(draft, Deployment { status, finished_at, ..deployment });
}

/// A newer one takes the place of one that has not started.
pub(crate) fn supersede(draft: &mut Draft<'_>, id: DeploymentId, by: DeploymentId) {
    let Some(deployment) = draft.lock.deployment(id).cloned() else { return };
    let event = telling(EventKind::DeploymentSuperseded, &draft.lock.environment, &deployment)
        .with("supersededBy", by.to_string());
    draft.record(event);
    let finished_at = Some(draft.now());
    draft.retire(Deployment { status: Status::Superseded { by }, finished_at, ..deployment });
}

/// Final ones leave the lock.
fn settle(draft: &mut Draft<'_>, deployment: Deployment) {
    if deployment.status.is_final() { draft.retire(deployment) } else { draft.replace(deployment) }
}
