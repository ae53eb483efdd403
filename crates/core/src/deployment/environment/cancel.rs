//! Cancels a deployment: a queued one ends at once; the runner of a running one is told to stop.

use super::deployment_event;
use crate::decision::{CommandRefusal, RefusableDecision, RuleDecision};
use crate::deployment::{CancelCause, CancelRequest, DeploymentState, EnvironmentDeployment};
use crate::environment::{DecisionContext, Lock, LockDraft};
use crate::event::{Actor, EventKind};
use crate::id::DeploymentId;
use crate::name::Reason;

/// Idempotent: a deployment that has ended or is already cancelling is returned unchanged.
pub fn cancel(
    lock: &Lock,
    deployment: &EnvironmentDeployment,
    by: Actor,
    reason: Option<Reason>,
    moment: &DecisionContext,
) -> RefusableDecision<EnvironmentDeployment> {
    let mut draft = LockDraft::begin(lock, moment);
    cancel_in_draft(&mut draft, deployment.id, &CancelRequest { by, cause: CancelCause::Requested, reason });
    let answer = draft.deployment_after(deployment);
    let RuleDecision { changes, events, effects, .. } = draft.finish(());
    RuleDecision { changes, events, effects, answer: Ok::<_, CommandRefusal>(answer) }
}

pub(crate) fn cancel_in_draft(draft: &mut LockDraft<'_>, id: DeploymentId, cancel: &CancelRequest) {
    let Some(deployment) = draft.lock.deployment(id).cloned() else { return };
    let (status, kind) = match &deployment.status {
        DeploymentState::Queued => {
            (DeploymentState::Cancelled(cancel.clone()), EventKind::DeploymentCancelled)
        }
        DeploymentState::Running => {
            (DeploymentState::Cancelling(cancel.clone()), EventKind::DeploymentCancelling)
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

/// Ends a queued deployment because a newer one replaces it.
pub(crate) fn supersede(draft: &mut LockDraft<'_>, id: DeploymentId, by: DeploymentId) {
    let Some(deployment) = draft.lock.deployment(id).cloned() else { return };
    let event = deployment_event(EventKind::DeploymentSuperseded, &draft.lock.environment, &deployment)
        .with("supersededBy", by.to_string());
    draft.record(event);
    let finished_at = Some(draft.now());
    draft.retire(EnvironmentDeployment {
        status: DeploymentState::Superseded { by },
        finished_at,
        ..deployment
    });
}

fn retire_or_replace(draft: &mut LockDraft<'_>, deployment: EnvironmentDeployment) {
    if deployment.status.is_final() { draft.retire(deployment) } else { draft.replace(deployment) }
}
