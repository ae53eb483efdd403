//! Grants a deployment to a runner: the last check before the environment is touched.

use super::deployment_event;
use crate::decision::{CommandRefusal, RefusableDecision};
use crate::deployment::{
    Deployment, DeploymentAttempt, DeploymentPurpose, DeploymentState, EnvironmentDeployment,
    EnvironmentTarget, StartObstacle,
};
use crate::environment::{DecisionContext, EnvironmentCondition, Lock, LockDraft};
use crate::event::EventKind;
use crate::id::DeploymentId;

#[derive(Debug, Clone)]
pub struct GrantCommand {
    pub deployment: DeploymentId,
    pub runner: String,
    pub nonce: String,
}

/// Everything that currently prevents a queued deployment from starting.
pub fn obstacles(lock: &Lock, deployment: &EnvironmentDeployment) -> Vec<StartObstacle> {
    let mut found = Vec::new();
    if lock.is_paused {
        found.push(StartObstacle::PipelineStopped);
    }
    let overrides = deployment.target.overrides_drain.is_some();
    let pending: Vec<_> = lock.leftover_deployments().map(|other| other.id).collect();
    if !pending.is_empty() && !overrides {
        found.push(StartObstacle::EnvironmentContested { pending });
    }
    let mut earlier = lock.deployments.iter().take_while(|other| other.id != deployment.id);
    if deployment.target.purpose == DeploymentPurpose::Reset {
        // An earlier reset that is being cancelled may still be running.
        let first = earlier.find(|other| other.target.purpose == DeploymentPurpose::Reset);
        found.extend(first.map(|other| StartObstacle::EnvironmentResetting { reset: other.id }));
    } else if let DeploymentPurpose::Session(session) = deployment.target.purpose {
        if let Some(reset) = lock.reset().filter(|_| !overrides) {
            found.push(StartObstacle::EnvironmentResetting { reset: reset.id });
        }
        if let Some(other) = earlier.find(|other| other.target.purpose == DeploymentPurpose::Session(session))
        {
            found.push(StartObstacle::Queue { behind: other.id });
        }
    }
    found
}

/// Idempotent: a repeated request with the same nonce returns the same grant. Refused if the deployment has ended.
pub fn grant(
    lock: &Lock,
    cmd: &GrantCommand,
    moment: &DecisionContext,
) -> RefusableDecision<EnvironmentDeployment> {
    let mut draft = LockDraft::begin(lock, moment);
    let Some(deployment) = draft.lock.deployment(cmd.deployment).cloned() else {
        return draft.refuse(CommandRefusal::InvalidState("the deployment has ended".into()));
    };
    let is_same = deployment.attempt().is_some_and(|attempt| attempt.nonce == cmd.nonce);
    match &deployment.status {
        DeploymentState::Queued => {}
        DeploymentState::Running if is_same => return draft.finish(Ok(deployment)),
        _ => {
            return draft
                .refuse(CommandRefusal::InvalidState("another runner is already executing it".into()));
        }
    }
    if !draft.lock.is_current(&deployment) {
        return draft.refuse(CommandRefusal::InvalidState("its session has ended".into()));
    }
    if let Some(first) = obstacles(&draft.lock, &deployment).first() {
        let refusal = CommandRefusal::InvalidState(format!("the deployment is blocked: {first:?}"));
        return draft.refuse(refusal);
    }
    let now = draft.now();
    let attempt = DeploymentAttempt { runner: cmd.runner.clone(), nonce: cmd.nonce.clone(), granted_at: now };
    let target = EnvironmentTarget { attempt: Some(attempt), ..deployment.target.clone() };
    let started =
        Deployment { status: DeploymentState::Running, started_at: Some(now), target, ..deployment };
    if draft.lock.environment.condition == EnvironmentCondition::Clean {
        draft.lock.environment.condition = EnvironmentCondition::Dirty;
    }
    draft.record(deployment_event(EventKind::DeploymentStarted, &draft.lock.environment, &started));
    draft.replace(started.clone());
    draft.finish(Ok(started))
}

impl Lock {
    /// Whether the deployment belongs to the active session (same session id and fence) or is a reset.
    pub fn is_current(&self, deployment: &EnvironmentDeployment) -> bool {
        match deployment.target.purpose {
            DeploymentPurpose::Reset => true,
            DeploymentPurpose::Session(id) => {
                let active = self.session.as_ref();
                active.is_some_and(|session| session.id == id && session.fence == deployment.target.fence)
            }
        }
    }
}
