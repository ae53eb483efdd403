//! A rollout: a deployment that goes through the stages of its pipeline. Its run says how far it has come; this is its
//! head, which lists and other deployments look at.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::decision::{Change, Decision, Record};
use crate::deployment::{Cancel, Failure};
use crate::event::{Actor, EventKind, NewEvent, Subject};
use crate::id::{DeploymentId, PipelineId, UserId};
use crate::name::{CommitId, Reason};
use crate::run::RunStatus;
use crate::time::Timestamp;

/// Rollouts of a pipeline that have not ended; a push beyond it supersedes, a request is refused.
pub const UNFINISHED_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    pub id: DeploymentId,
    /// Counted in its pipeline, from 1.
    pub number: i64,
    pub pipeline: PipelineId,
    /// The definition as it was when the rollout was asked for.
    pub definition_hash: String,
    pub commit: CommitId,
    /// The whole hash, once it is known.
    pub resolved_commit: Option<String>,
    pub trigger: Trigger,
    pub reason: Option<Reason>,
    pub requested_by: Actor,
    /// Accounts that have retried it, and the people behind them.
    pub retried_by: BTreeSet<UserId>,
    /// It passes windows, approvals and pauses.
    pub bypass: Option<Bypass>,
    pub status: Status,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

/// Somebody with the right to do so chose to wait for nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bypass {
    pub by: Actor,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trigger {
    /// A new head of the tracked branch.
    Push {
        branch: String,
    },
    Api,
    /// A stage gets back what it had before.
    Rollback {
        stage: String,
        /// The deployment that is taken back.
        of: DeploymentId,
        /// The one whose plan runs again.
        to: DeploymentId,
    },
}

impl Trigger {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Trigger::Push { .. } => "push",
            Trigger::Api => "api",
            Trigger::Rollback { .. } => "rollback",
        }
    }

    /// The stage that a rollback is for, and the deployment that it takes back.
    pub fn takes_back(&self) -> Option<(&str, DeploymentId)> {
        match self {
            Trigger::Rollback { stage, of, .. } => Some((stage, *of)),
            Trigger::Push { .. } | Trigger::Api => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// Not begun: its plan is not made yet, or it waits for its pipeline.
    Queued,
    Running,
    /// Somebody has to say something.
    Waiting,
    Cancelling(Cancel),
    Succeeded,
    Failed(Failure),
    Cancelled(Cancel),
    Superseded {
        by: DeploymentId,
    },
}

impl Status {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Cancelling(_) => "cancelling",
            Status::Succeeded => "succeeded",
            Status::Failed(_) => "failed",
            Status::Cancelled(_) => "cancelled",
            Status::Superseded { .. } => "superseded",
        }
    }

    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Status::Succeeded | Status::Failed(_) | Status::Cancelled(_) | Status::Superseded { .. }
        )
    }
}

pub fn start(rollout: Rollout) -> Decision<Rollout> {
    let event = telling(EventKind::DeploymentQueued, &rollout)
        .with("trigger", rollout.trigger.as_str())
        .with_some("reason", rollout.reason.as_ref());
    let bypass = bypass_used(&rollout);
    let mut decision = put(rollout, Some(event));
    decision.events.extend(bypass);
    decision
}

fn bypass_used(rollout: &Rollout) -> Option<NewEvent> {
    let bypass = rollout.bypass.as_ref()?;
    Some(telling(EventKind::BypassUsed, rollout).with("reason", bypass.reason.as_str()))
}

/// Who retries is remembered: where self-approval is barred their word does not count. The stage tells of the retry.
pub fn retried(rollout: &Rollout, by: BTreeSet<UserId>) -> Decision<Rollout> {
    let mut next = rollout.clone();
    next.retried_by.extend(by);
    let is_new = next.retried_by != rollout.retried_by;
    let mut decision = if is_new { put(next, None) } else { Decision::calm(next) };
    // It passes every gate once more.
    decision.events.extend(bypass_used(rollout));
    decision
}

/// A stage goes back to what an earlier deployment left there.
#[derive(Debug, Clone)]
pub struct RollBack<'a> {
    pub id: DeploymentId,
    pub number: i64,
    pub stage: &'a str,
    pub of: DeploymentId,
    /// Its commit and its definition are used again.
    pub to: &'a Rollout,
    pub by: Actor,
    pub reason: Option<Reason>,
}

pub fn roll_back(cmd: RollBack<'_>, now: Timestamp) -> Decision<Rollout> {
    let (stage, of, to, by) = (cmd.stage.to_owned(), cmd.of, cmd.to, cmd.by);
    let mut decision = start(Rollout {
        id: cmd.id,
        number: cmd.number,
        pipeline: to.pipeline,
        definition_hash: to.definition_hash.clone(),
        commit: to.commit.clone(),
        resolved_commit: to.resolved_commit.clone(),
        trigger: Trigger::Rollback { stage, of, to: to.id },
        reason: cmd.reason,
        requested_by: by.clone(),
        status: Status::Queued,
        created_at: now,
        started_at: None,
        finished_at: None,
        bypass: None,
        retried_by: BTreeSet::new(),
    });
    let rollout = &decision.answer;
    let event = telling(EventKind::DeploymentRolledBack, rollout)
        .about(Subject::new("deployment", of, None))
        .with("stage", cmd.stage)
        .with("of", of.to_string())
        .with("to", to.id.to_string())
        .with_some("reason", rollout.reason.as_ref());
    decision.events.push(event);
    for event in &mut decision.events {
        event.by = Some(by.clone());
    }
    decision
}

/// Its plan is made, and its first stage begins. One that was cancelled or superseded meanwhile stays so.
pub fn begin(rollout: &Rollout, resolved_commit: Option<String>, now: Timestamp) -> Decision<Rollout> {
    if rollout.status != Status::Queued {
        return Decision::calm(rollout.clone());
    }
    let begun =
        Rollout { status: Status::Running, resolved_commit, started_at: Some(now), ..rollout.clone() };
    let event = telling(EventKind::DeploymentStarted, &begun);
    put(begun, Some(event))
}

/// Follows its run, also out of a failure that is retried. Only the way to an end is worth an event: the stages tell
/// the rest.
pub fn follow(rollout: &Rollout, run: RunStatus, now: Timestamp) -> Decision<Rollout> {
    let (status, kind) = match run {
        RunStatus::Running => (Status::Running, None),
        RunStatus::Waiting => (Status::Waiting, None),
        RunStatus::Cancelling(cancel) => (Status::Cancelling(cancel), Some(EventKind::DeploymentCancelling)),
        RunStatus::Succeeded => (Status::Succeeded, Some(EventKind::DeploymentSucceeded)),
        RunStatus::Failed(failure) => (Status::Failed(failure), Some(EventKind::DeploymentFailed)),
        RunStatus::Cancelled(cancel) => (Status::Cancelled(cancel), Some(EventKind::DeploymentCancelled)),
    };
    // The run of a superseded one is cancelled, and that is not how it ended.
    let comes_back = matches!(rollout.status, Status::Failed(_));
    if rollout.status.is_final() && !comes_back {
        return Decision::calm(rollout.clone());
    }
    turn(rollout, status, kind, now)
}

/// It never began: its sources are not to be had, or its definition cannot be run.
pub fn fail(rollout: &Rollout, failure: Failure, now: Timestamp) -> Decision<Rollout> {
    end(rollout, Status::Failed(failure), EventKind::DeploymentFailed, now)
}

/// It never began, and never will.
pub fn cancel(rollout: &Rollout, cancel: Cancel, now: Timestamp) -> Decision<Rollout> {
    end(rollout, Status::Cancelled(cancel), EventKind::DeploymentCancelled, now)
}

/// A newer one takes its place.
pub fn supersede(rollout: &Rollout, by: DeploymentId, now: Timestamp) -> Decision<Rollout> {
    end(rollout, Status::Superseded { by }, EventKind::DeploymentSuperseded, now)
}

/// Once, and for good.
fn end(rollout: &Rollout, status: Status, kind: EventKind, now: Timestamp) -> Decision<Rollout> {
    if rollout.status.is_final() {
        return Decision::calm(rollout.clone());
    }
    turn(rollout, status, Some(kind), now)
}

fn turn(rollout: &Rollout, status: Status, kind: Option<EventKind>, now: Timestamp) -> Decision<Rollout> {
    if rollout.status == status {
        return Decision::calm(rollout.clone());
    }
    let finished_at = status.is_final().then_some(now);
    let next = Rollout { status, finished_at, ..rollout.clone() };
    let event = kind.map(|kind| match &next.status {
        Status::Failed(failure) => {
            telling(kind, &next).with("cause", failure.cause.as_str()).with("detail", failure.detail.as_str())
        }
        Status::Cancelled(cancel) | Status::Cancelling(cancel) => telling(kind, &next)
            .with("cause", cancel.cause.as_str())
            .with_some("reason", cancel.reason.as_ref()),
        Status::Superseded { by } => telling(kind, &next).with("supersededBy", by.to_string()),
        _ => telling(kind, &next),
    });
    put(next, event)
}

fn put(rollout: Rollout, event: Option<NewEvent>) -> Decision<Rollout> {
    Decision {
        changes: vec![Change::Put(Record::Rollout(Box::new(rollout.clone())))],
        events: event.into_iter().collect(),
        effects: Vec::new(),
        answer: rollout,
    }
}

fn telling(kind: EventKind, rollout: &Rollout) -> NewEvent {
    NewEvent::new(kind, Subject::new("deployment", rollout.id, None))
        .about(Subject::new("pipeline", rollout.pipeline, None))
        .with("commitId", rollout.commit.as_str())
        .with("number", rollout.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::{CancelCause, Cause};

    const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

    fn queued() -> Rollout {
        Rollout {
            id: DeploymentId::from_parts(NOW, [1; 10]),
            number: 1,
            pipeline: PipelineId::from_parts(NOW, [2; 10]),
            definition_hash: "hash".into(),
            commit: CommitId::parse("c1").expect("a commit"),
            resolved_commit: None,
            trigger: Trigger::Api,
            reason: None,
            requested_by: Actor::system(),
            retried_by: BTreeSet::new(),
            bypass: None,
            status: Status::Queued,
            created_at: NOW,
            started_at: None,
            finished_at: None,
        }
    }

    fn stopped() -> Cancel {
        Cancel { by: Actor::system(), cause: CancelCause::Requested, reason: None }
    }

    fn failure() -> Failure {
        Failure { cause: Cause::StepFailed, detail: "exit code 1".into() }
    }

    fn newer() -> DeploymentId {
        DeploymentId::from_parts(NOW, [3; 10])
    }

    fn running() -> Rollout {
        begin(&queued(), None, NOW).answer
    }

    #[track_caller]
    fn assert_calm(rollout: &Rollout, decision: &Decision<Rollout>) {
        assert_eq!(decision, &Decision::calm(rollout.clone()));
    }

    #[test]
    fn what_ended_before_it_began_does_not_begin() {
        for ended in [cancel(&queued(), stopped(), NOW).answer, supersede(&queued(), newer(), NOW).answer] {
            assert_calm(&ended, &begin(&ended, None, NOW));
        }
        assert_calm(&running(), &begin(&running(), None, NOW));
    }

    #[test]
    fn the_cancelled_run_of_a_superseded_deployment_does_not_change_how_it_ended() {
        let superseded = supersede(&running(), newer(), NOW).answer;
        assert_calm(&superseded, &follow(&superseded, RunStatus::Cancelled(stopped()), NOW));
    }

    #[test]
    fn an_end_is_not_replaced_by_another() {
        let cancelled = cancel(&queued(), stopped(), NOW).answer;
        let failed = fail(&queued(), failure(), NOW).answer;
        let succeeded = follow(&running(), RunStatus::Succeeded, NOW).answer;
        for ended in [cancelled, failed, succeeded] {
            assert_calm(&ended, &fail(&ended, failure(), NOW));
            assert_calm(&ended, &cancel(&ended, stopped(), NOW));
            assert_calm(&ended, &supersede(&ended, newer(), NOW));
        }
    }

    #[test]
    fn a_retry_is_the_one_way_out_of_an_end_and_out_of_a_failure_alone() {
        let failed = follow(&running(), RunStatus::Failed(failure()), NOW).answer;
        let again = follow(&failed, RunStatus::Running, NOW).answer;
        assert_eq!((again.status, again.finished_at), (Status::Running, None));
        let succeeded = follow(&running(), RunStatus::Succeeded, NOW).answer;
        assert_calm(&succeeded, &follow(&succeeded, RunStatus::Running, NOW));
    }
}
