//! Grant: a runner may begin. The last look before anything touches the environment.

use super::state::{Attempt, Blocked, Deployment, Status, Work};
use super::telling;
use crate::decision::{Refusal, Ruling};
use crate::environment::{Condition, Draft, Lock, Moment};
use crate::event::EventKind;
use crate::id::DeploymentId;

#[derive(Debug, Clone)]
pub struct Grant {
    pub deployment: DeploymentId,
    pub runner: String,
    pub nonce: String,
}

/// Everything that keeps a queued deployment from starting.
pub fn obstacles(lock: &Lock, deployment: &Deployment) -> Vec<Blocked> {
    let mut found = Vec::new();
    if lock.is_paused {
        found.push(Blocked::PipelineStopped);
    }
    let overrides = deployment.overrides_drain.is_some();
    let pending: Vec<_> = lock.left_over().map(|other| other.id).collect();
    if !pending.is_empty() && !overrides {
        found.push(Blocked::EnvironmentContested { pending });
    }
    let mut earlier = lock.deployments.iter().take_while(|other| other.id != deployment.id);
    if deployment.work == Work::Reset {
        // One that was told to stop may still run.
        let first = earlier.find(|other| other.work == Work::Reset);
        found.extend(first.map(|other| Blocked::EnvironmentResetting { reset: other.id }));
    } else if let Work::Session(session) = deployment.work {
        if let Some(reset) = lock.reset().filter(|_| !overrides) {
            found.push(Blocked::EnvironmentResetting { reset: reset.id });
        }
        if let Some(other) = earlier.find(|other| other.work == Work::Session(session)) {
            found.push(Blocked::Queue { behind: other.id });
        }
    }
    found
}

/// The same nonce again gets the same grant. A deployment that is not there any more has ended.
pub fn grant(lock: &Lock, cmd: &Grant, moment: &Moment) -> Ruling<Deployment> {
    let mut draft = Draft::begin(lock, moment);
    let Some(deployment) = draft.lock.deployment(cmd.deployment).cloned() else {
        return draft.refuse(Refusal::InvalidState("the deployment has ended".into()));
    };
    match &deployment.status {
        Status::Queued => {}
        Status::Running(attempt) if attempt.nonce == cmd.nonce => return draft.finish(Ok(deployment)),
        _ => return draft.refuse(Refusal::InvalidState("another attempt has it".into())),
    }
    if !draft.lock.is_current(&deployment) {
        return draft.refuse(Refusal::InvalidState("its session has ended".into()));
    }
    if let Some(first) = obstacles(&draft.lock, &deployment).first() {
        let refusal = Refusal::InvalidState(format!("it has to wait: {first:?}"));
        return draft.refuse(refusal);
    }
    let now = draft.now();
    let attempt = Attempt { runner: cmd.runner.clone(), nonce: cmd.nonce.clone(), granted_at: now };
    let started = Deployment { status: Status::Running(attempt), started_at: Some(now), ..deployment };
    // From here on something may be in the environment.
    if draft.lock.environment.condition == Condition::Clean {
        draft.lock.environment.condition = Condition::Dirty;
    }
    draft.record(telling(EventKind::DeploymentStarted, &draft.lock.environment, &started));
    draft.replace(started.clone());
    draft.finish(Ok(started))
}

impl Lock {
    /// Whether the work is that of the present holder, by the session and by its number; or a reset.
    pub fn is_current(&self, deployment: &Deployment) -> bool {
        match deployment.work {
            Work::Reset => true,
            Work::Session(id) => {
                let active = self.session.as_ref();
                active.is_some_and(|session| session.id == id && session.fence == deployment.fence)
            }
        }
    }
}
