//! Deploys a commit in a session. The deployment carries the session's fence.

use super::draft::{DecisionContext, LockDraft};
use super::limits::DEPLOYMENTS_UNFINISHED_MAX;
use super::lock::Lock;
use super::state::{EnvironmentCondition, LockHolder};
use super::transitions::DeploymentRequest;
use super::{NamedSession, events};
use crate::decision::{CommandRefusal, RefusableDecision};
use crate::deployment::{
    self, CancelCause, CancelRequest, DeploymentPurpose, DeploymentState, EnvironmentDeployment,
};
use crate::event::EventKind;
use crate::id::DeploymentId;
use crate::name::{CommitId, Reason};

#[derive(Debug, Clone)]
pub struct DeployCommand {
    pub by: LockHolder,
    pub commit: CommitId,
    /// Free text from the requester.
    pub context: Option<Reason>,
    pub on_conflict: ConflictMode,
    /// Set to start without waiting for the work of ended sessions. The caller has checked the permission.
    pub override_drain: Option<Reason>,
    /// Whether the commit comes from a fork, so that its steps get no secrets.
    pub is_untrusted: bool,
}

/// What to do if the session already has an unfinished deployment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConflictMode {
    /// Run after the unfinished deployments.
    #[default]
    Queue,
    /// Replace the deployments that have not started.
    Supersede,
    Reject,
}

pub fn deploy(
    lock: &Lock,
    named: &NamedSession<'_>,
    cmd: &DeployCommand,
    moment: &DecisionContext,
) -> RefusableDecision<EnvironmentDeployment> {
    let mut draft = LockDraft::begin(lock, moment);
    if let Err(refusal) = check_session(&mut draft, named, &cmd.by, cmd.on_conflict) {
        return draft.refuse(refusal);
    }
    let overrides = cmd.override_drain.clone();
    let overrides = overrides.filter(|_| draft.lock.is_contested() || draft.lock.is_resetting());
    if let Some(reason) = &overrides {
        override_drain(&mut draft, &cmd.by, reason);
    }
    let earlier: Vec<_> = queued_deployments(&draft.lock).collect();
    if let Some(reason) = &overrides {
        // The new deployment runs after the session's queued deployments, so those must not wait for ended sessions
        // either.
        for deployment in draft.lock.deployments.iter_mut().filter(|it| earlier.contains(&it.id)) {
            deployment.target.overrides_drain = Some(reason.clone());
        }
    }
    let id = draft.deploy_in_session(DeploymentRequest {
        commit: cmd.commit.clone(),
        by: cmd.by.actor(),
        context: cmd.context.clone(),
        overrides_drain: overrides,
        retry_of: None,
        is_untrusted: cmd.is_untrusted,
    });
    if cmd.on_conflict == ConflictMode::Supersede {
        for older in earlier {
            deployment::environment::cancel::supersede(&mut draft, older, id);
        }
    }
    match draft.lock.deployment(id).cloned() {
        Some(deployment) => draft.finish(Ok(deployment)),
        None => unreachable!("it was just asked for"),
    }
}

/// The command to retry a failed deployment of the session.
#[derive(Debug, Clone)]
pub struct RetryCommand {
    pub by: LockHolder,
    pub retry_of: DeploymentId,
    /// The commit of the failed deployment: the full hash if known, otherwise as requested.
    pub commit: CommitId,
    /// As in the failed deployment.
    pub is_untrusted: bool,
}

/// Creates a new deployment, because finished deployments never change. The caller has checked that `retry_of` failed.
pub fn retry(
    lock: &Lock,
    named: &NamedSession<'_>,
    cmd: &RetryCommand,
    moment: &DecisionContext,
) -> RefusableDecision<EnvironmentDeployment> {
    let mut draft = LockDraft::begin(lock, moment);
    if let Err(refusal) = check_session(&mut draft, named, &cmd.by, ConflictMode::Queue) {
        return draft.refuse(refusal);
    }
    let asked = DeploymentRequest::new(cmd.commit.clone(), cmd.by.actor());
    let (retry_of, is_untrusted) = (Some(cmd.retry_of), cmd.is_untrusted);
    let id = draft.deploy_in_session(DeploymentRequest { retry_of, is_untrusted, ..asked });
    match draft.lock.deployment(id).cloned() {
        Some(deployment) => draft.finish(Ok(deployment)),
        None => unreachable!("it was just asked for"),
    }
}

fn check_session(
    draft: &mut LockDraft<'_>,
    named: &NamedSession<'_>,
    by: &LockHolder,
    on_conflict: ConflictMode,
) -> Result<(), CommandRefusal> {
    match named.require_holder(by, draft) {
        Err(refusal) => Err(refusal),
        Ok(_) => check_conflict(&draft.lock, on_conflict),
    }
}

fn check_conflict(lock: &Lock, on_conflict: ConflictMode) -> Result<(), CommandRefusal> {
    let superseded =
        if on_conflict == ConflictMode::Supersede { queued_deployments(lock).count() } else { 0 };
    if on_conflict == ConflictMode::Reject && lock.is_busy() {
        let text = "a deployment of this session has not finished yet; wait for it, or omit onConflict";
        return Err(CommandRefusal::InvalidState(text.into()));
    }
    if lock.deployments.len() - superseded >= DEPLOYMENTS_UNFINISHED_MAX {
        let text =
            format!("{DEPLOYMENTS_UNFINISHED_MAX} deployments are already queued here; cancel one first");
        return Err(CommandRefusal::InvalidState(text));
    }
    Ok(())
}

fn queued_deployments(lock: &Lock) -> impl Iterator<Item = DeploymentId> {
    let active = lock.session.as_ref().map(|session| session.id);
    let ours =
        move |work: &DeploymentPurpose| matches!(work, DeploymentPurpose::Session(id) if Some(*id) == active);
    let waiting = lock.deployments.iter();
    waiting.filter(move |it| ours(&it.target.purpose) && it.status == DeploymentState::Queued).map(|it| it.id)
}

/// Lets the session deploy before the work of ended sessions has stopped: the only case in which two deployments may
/// run in an environment at the same time. Appends an audit event and cancels pending resets.
fn override_drain(draft: &mut LockDraft<'_>, by: &LockHolder, reason: &Reason) {
    let pending: Vec<_> =
        draft.lock.leftover_deployments().map(|deployment| deployment.id.to_string()).collect();
    let event = events::environment_event(EventKind::DrainOverridden, &draft.lock)
        .with("pending", pending)
        .with("reason", reason.as_str());
    draft.record(event);
    let resets: Vec<_> = draft.lock.resets().map(|reset| reset.id).collect();
    for reset in resets {
        let cause = CancelCause::DrainOverridden;
        let cancel = CancelRequest { by: by.actor(), cause, reason: Some(reason.clone()) };
        deployment::environment::cancel::cancel_in_draft(draft, reset, &cancel);
        if draft.lock.environment.condition == EnvironmentCondition::Clean {
            draft.lock.environment.condition = EnvironmentCondition::Dirty;
        }
    }
}
