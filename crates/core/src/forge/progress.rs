//! How far a deployment came in each of its stages, or in its environment, as forges show it.

use crate::commit_status::CommitState;
use crate::deployment::run::{StageRun, StageRunStatus};
use crate::deployment::{Deployment, DeploymentPurpose, DeploymentState, DeploymentTarget};

/// The state of a deployment in one stage or environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentProgress {
    /// An earlier stage has not ended.
    Planned,
    /// Waits for its start, for example for an approval.
    Queued,
    InProgress,
    Success,
    Failure,
    /// Cancelled.
    Error,
    /// Never started and will not, or no longer what is deployed there.
    Inactive,
}

impl DeploymentProgress {
    pub const ALL: &'static [DeploymentProgress] = &[
        DeploymentProgress::Planned,
        DeploymentProgress::Queued,
        DeploymentProgress::InProgress,
        DeploymentProgress::Success,
        DeploymentProgress::Failure,
        DeploymentProgress::Error,
        DeploymentProgress::Inactive,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            DeploymentProgress::Planned => "planned",
            DeploymentProgress::Queued => "queued",
            DeploymentProgress::InProgress => "in_progress",
            DeploymentProgress::Success => "success",
            DeploymentProgress::Failure => "failure",
            DeploymentProgress::Error => "error",
            DeploymentProgress::Inactive => "inactive",
        }
    }

    /// The state of the commit's status.
    pub const fn commit_state(self) -> CommitState {
        match self {
            DeploymentProgress::Planned | DeploymentProgress::Queued | DeploymentProgress::InProgress => {
                CommitState::Pending
            }
            DeploymentProgress::Success => CommitState::Success,
            DeploymentProgress::Failure => CommitState::Failure,
            DeploymentProgress::Error | DeploymentProgress::Inactive => CommitState::Error,
        }
    }
}

/// What a forge should show for one stage or environment of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageProgress {
    /// Name of the stage or environment.
    pub name: String,
    pub progress: DeploymentProgress,
    pub description: &'static str,
}

/// Returns the full hash of the deployed commit, if it is known.
pub fn deployed_commit(deployment: &Deployment) -> Option<&str> {
    let is_full = |hash: &&str| [40, 64].contains(&hash.len());
    deployment.resolved_commit.as_deref().or_else(|| Some(deployment.commit.as_str()).filter(is_full))
}

/// Returns the progress of a deployment: in its environment, or in each of its stages.
///
/// `stages` are those of its run, or empty as long as it has none; then `outline` names them. `waiting` names the stages
/// with a pending approval. A reset of an environment is not about its commit and is not shown; a rollback is shown for
/// its stage.
pub fn list_progress(
    deployment: &Deployment,
    stages: &[StageRun],
    outline: &[String],
    waiting: &[String],
) -> Vec<StageProgress> {
    let status = &deployment.status;
    let is_waiting = |name: &str| waiting.iter().any(|it| it == name);
    let of =
        |name: &str, (progress, description)| StageProgress { name: name.to_owned(), progress, description };
    match &deployment.target {
        DeploymentTarget::Environment(target) => {
            let name = target.name.as_str();
            let is_reset = target.purpose == DeploymentPurpose::Reset;
            (!is_reset).then(|| of(name, deployment_progress(status, is_waiting(name)))).into_iter().collect()
        }
        DeploymentTarget::Stages(target) => {
            let rolled_back = target.trigger.rollback_of().map(|(stage, _)| stage);
            let is_wanted = |name: &str| rolled_back.is_none_or(|stage| stage == name);
            if stages.is_empty() {
                let names = outline.iter().filter(|name| is_wanted(name));
                return names.map(|name| of(name, planned_progress(status))).collect();
            }
            let stages = stages.iter().filter(|stage| is_wanted(&stage.name));
            stages.map(|it| of(&it.name, stage_progress(it, status, is_waiting(&it.name)))).collect()
        }
    }
}

type Described = (DeploymentProgress, &'static str);

fn deployment_progress(status: &DeploymentState, is_waiting: bool) -> Described {
    match status {
        DeploymentState::Succeeded => (DeploymentProgress::Success, "deployed"),
        DeploymentState::Failed(_) => (DeploymentProgress::Failure, "failed"),
        DeploymentState::Cancelled(_) => (DeploymentProgress::Error, "cancelled"),
        DeploymentState::Superseded { .. } => {
            (DeploymentProgress::Inactive, "superseded by a newer deployment")
        }
        _ if is_waiting => (DeploymentProgress::Queued, "waiting for approval"),
        DeploymentState::Queued => (DeploymentProgress::Queued, "queued"),
        DeploymentState::Running => (DeploymentProgress::InProgress, "deploying"),
        DeploymentState::Waiting => (DeploymentProgress::InProgress, "waiting"),
        DeploymentState::Cancelling(_) => (DeploymentProgress::InProgress, "cancelling"),
    }
}

/// The progress in a stage of a deployment that has no run yet.
fn planned_progress(status: &DeploymentState) -> Described {
    match deployment_progress(status, false) {
        (DeploymentProgress::Queued | DeploymentProgress::InProgress, description) => {
            (DeploymentProgress::Planned, description)
        }
        ended => ended,
    }
}

fn stage_progress(stage: &StageRun, deployment: &DeploymentState, is_waiting: bool) -> Described {
    match stage.status {
        StageRunStatus::Succeeded => (DeploymentProgress::Success, "deployed"),
        StageRunStatus::Failed => (DeploymentProgress::Failure, "failed"),
        StageRunStatus::Cancelled => (DeploymentProgress::Error, "cancelled"),
        StageRunStatus::Skipped | StageRunStatus::Pending | StageRunStatus::Queued
            if matches!(deployment, DeploymentState::Failed(_)) =>
        {
            (DeploymentProgress::Inactive, "not deployed, because an earlier stage failed")
        }
        _ if deployment.is_final() => deployment_progress(deployment, is_waiting),
        // The stage will not start, because an earlier one was cancelled or failed.
        StageRunStatus::Skipped => (DeploymentProgress::Inactive, "skipped"),
        _ if is_waiting => (DeploymentProgress::Queued, "waiting for approval"),
        StageRunStatus::Pending => (DeploymentProgress::Planned, "queued"),
        StageRunStatus::Queued => (DeploymentProgress::Queued, "queued"),
        StageRunStatus::Running => (DeploymentProgress::InProgress, "deploying"),
        StageRunStatus::Waiting => (DeploymentProgress::InProgress, "waiting"),
        StageRunStatus::Cancelling => (DeploymentProgress::InProgress, "cancelling"),
    }
}
