//! Deploys a commit in a session. The deployment carries the session's fence.

use super::draft::{Draft, Moment};
use super::limits::DEPLOYMENTS_UNFINISHED_MAX;
use super::lock::Lock;
use super::moves::Asked;
use super::state::{Condition, Holder};
use super::{Named, telling};
use crate::decision::{Refusal, Ruling};
use crate::deployment::{self, Cancel, CancelCause, DeploymentStatus, EnvironmentDeployment, Work};
use crate::event::EventKind;
use crate::id::DeploymentId;
use crate::name::{CommitId, Reason};

#[derive(Debug, Clone)]
pub struct Deploy {
    pub by: Holder,
    pub commit: CommitId,
    /// Free text from the requester.
    pub context: Option<Reason>,
    pub on_conflict: OnConflict,
    /// Start without waiting for the work of ended sessions. The caller has checked the permission.
    pub override_drain: Option<Reason>,
}

/// How to treat a request while the session has an unfinished deployment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Run after it.
    #[default]
    Queue,
    /// Replace deployments that have not started.
    Supersede,
    Reject,
}

pub fn deploy(
    lock: &Lock,
    named: &Named<'_>,
    cmd: &Deploy,
    moment: &Moment,
) -> Ruling<EnvironmentDeployment> {
    let mut draft = Draft::begin(lock, moment);
    if let Err(refusal) = check(&mut draft, named, &cmd.by, cmd.on_conflict) {
        return draft.refuse(refusal);
    }
    let overrides = cmd.override_drain.clone();
    let overrides = overrides.filter(|_| draft.lock.is_contested() || draft.lock.is_resetting());
    if let Some(reason) = &overrides {
        give_up_waiting(&mut draft, &cmd.by, reason);
    }
    let earlier: Vec<_> = queued(&draft.lock).collect();
    if let Some(reason) = &overrides {
        // The new deployment runs after the queued ones, so they must not wait for the drain either.
        for deployment in draft.lock.deployments.iter_mut().filter(|it| earlier.contains(&it.id)) {
            deployment.target.overrides_drain = Some(reason.clone());
        }
    }
    let id = draft.deploy(Asked {
        commit: cmd.commit.clone(),
        by: cmd.by.actor(),
        context: cmd.context.clone(),
        overrides_drain: overrides,
        retry_of: None,
    });
    if cmd.on_conflict == OnConflict::Supersede {
        for older in earlier {
            deployment::environment::cancel::supersede(&mut draft, older, id);
        }
    }
    match draft.lock.deployment(id).cloned() {
        Some(deployment) => draft.finish(Ok(deployment)),
        None => unreachable!("it was just asked for"),
    }
}

/// Retries a failed deployment of the session.
#[derive(Debug, Clone)]
pub struct Retry {
    pub by: Holder,
    pub of: DeploymentId,
    /// The commit of the failed deployment, resolved if known.
    pub commit: CommitId,
}

/// A retry is a new deployment, because finished ones never change. The caller has checked that `of` failed.
pub fn retry(lock: &Lock, named: &Named<'_>, cmd: &Retry, moment: &Moment) -> Ruling<EnvironmentDeployment> {
    let mut draft = Draft::begin(lock, moment);
    if let Err(refusal) = check(&mut draft, named, &cmd.by, OnConflict::Queue) {
        return draft.refuse(refusal);
    }
    let asked = Asked::new(cmd.commit.clone(), cmd.by.actor());
    let id = draft.deploy(Asked { retry_of: Some(cmd.of), ..asked });
    match draft.lock.deployment(id).cloned() {
        Some(deployment) => draft.finish(Ok(deployment)),
        None => unreachable!("it was just asked for"),
    }
}

fn check(
    draft: &mut Draft<'_>,
    named: &Named<'_>,
    by: &Holder,
    on_conflict: OnConflict,
) -> Result<(), Refusal> {
    match named.held_by(by, draft) {
        Err(refusal) => Err(refusal),
        Ok(_) => check_conflict(&draft.lock, on_conflict),
    }
}

fn check_conflict(lock: &Lock, on_conflict: OnConflict) -> Result<(), Refusal> {
    let superseded = if on_conflict == OnConflict::Supersede { queued(lock).count() } else { 0 };
    if on_conflict == OnConflict::Reject && lock.is_busy() {
        let text = "a deployment of this session has not finished yet; wait for it, or omit onConflict";
        return Err(Refusal::InvalidState(text.into()));
    }
    if lock.deployments.len() - superseded >= DEPLOYMENTS_UNFINISHED_MAX {
        let text =
            format!("{DEPLOYMENTS_UNFINISHED_MAX} deployments are already queued here; cancel one first");
        return Err(Refusal::InvalidState(text));
    }
    Ok(())
}

fn queued(lock: &Lock) -> impl Iterator<Item = DeploymentId> {
    let active = lock.session.as_ref().map(|session| session.id);
    let ours = move |work: &Work| matches!(work, Work::Session(id) if Some(*id) == active);
    let waiting = lock.deployments.iter();
    waiting.filter(move |it| ours(&it.target.work) && it.status == DeploymentStatus::Queued).map(|it| it.id)
}

/// Overrides the drain: the only case in which two deployments may run at once. It is audited, and cancels pending
/// resets.
fn give_up_waiting(draft: &mut Draft<'_>, by: &Holder, reason: &Reason) {
    let pending: Vec<_> = draft.lock.left_over().map(|deployment| deployment.id.to_string()).collect();
    let event = telling::environment(EventKind::DrainOverridden, &draft.lock)
        .with("pending", pending)
        .with("reason", reason.as_str());
    draft.record(event);
    let resets: Vec<_> = draft.lock.resets().map(|reset| reset.id).collect();
    for reset in resets {
        let cause = CancelCause::DrainOverridden;
        let cancel = Cancel { by: by.actor(), cause, reason: Some(reason.clone()) };
        deployment::environment::cancel::apply(draft, reset, &cancel);
        if draft.lock.environment.condition == Condition::Clean {
            draft.lock.environment.condition = Condition::Dirty;
        }
    }
}
