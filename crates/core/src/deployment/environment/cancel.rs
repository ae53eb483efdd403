//! Cancels a deployment: a queued one ends at once, a running one is told to stop.

use super::deployment_event;
use crate::decision::{Decision, Refusal, Ruling};
use crate::deployment::{Cancel, CancelCause, DeploymentStatus, EnvironmentDeployment};
use crate::environment::{Draft, Lock, Moment};
use crate::event::{Actor, EventKind};
use crate::id::DeploymentId;
use crate::name::Reason;

/// Idempotent: a deployment that has ended or is already cancelling is returned unchanged.
pub fn cancel(
    lock: &Lock,
    deployment: &EnvironmentDeployment,
    by: Actor,
    reason: Option<Reason>,
    moment: &Moment,
) -> Ruling<EnvironmentDeployment> {
    let mut draft = Draft::begin(lock, moment);
    apply(&mut draft, deployment.id, &Cancel { by, cause: CancelCause::Requested, reason });
    let answer = draft.as_retired(deployment);
    let Decision { changes, events, effects, .. } = draft.finish(());
    Decision { changes, events, effects, answer: Ok::<_, Refusal>(answer) }
}

pub(crate) fn apply(draft: &mut Draft<'_>, id: DeploymentId, cancel: &Cancel) {
    let Some(deployment) = draft.lock.deployment(id).cloned() else { return };
    let (status, kind) = match &deployment.status {
        DeploymentStatus::Queued => {
            (DeploymentStatus::Cancelled(cancel.clone()), EventKind::DeploymentCancelled)
        }
        DeploymentStatus::Running => {
            (DeploymentStatus::Cancelling(cancel.clone()), EventKind::DeploymentCancelling)
        }
        _ => return,
    };
    let event = deployment_event(kind, &draft.lock.environment, &deployment)
        .with("cause", cancel.cause.as_str())
        .with_some("reason", cancel.reason.as_ref());
    draft.record(event);
    let finished_at = status.is_final().then(|| draft.now());
    retire_or_replace(draft, EnvironmentDeployment { status, finished_at, ..deployment });
}

/// Replaces a queued deployment with a newer one.
pub(crate) fn supersede(draft: &mut Draft<'_>, id: DeploymentId, by: DeploymentId) {
    let Some(deployment) = draft.lock.deployment(id).cloned() else { return };
    let event = deployment_event(EventKind::DeploymentSuperseded, &draft.lock.environment, &deployment)
        .with("supersededBy", by.to_string());
    draft.record(event);
    let finished_at = Some(draft.now());
    draft.retire(EnvironmentDeployment {
        status: DeploymentStatus::Superseded { by },
        finished_at,
        ..deployment
    });
}

fn retire_or_replace(draft: &mut Draft<'_>, deployment: EnvironmentDeployment) {
    if deployment.status.is_final() { draft.retire(deployment) } else { draft.replace(deployment) }
}
