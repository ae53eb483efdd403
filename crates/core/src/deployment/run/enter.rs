//! Decides when a deployment may enter a stage: one deployment at a time; the rest wait in a queue.

use super::advance::{fail_stage_with, skip_from, start_stage};
use super::draft::RunDraft;
use super::plan::Plan;
use super::state::{Run, StageRunStatus};
use crate::decision::RuleDecision;
use crate::deployment::ExecutionFailure;
use crate::id::DeploymentId;
use crate::time::Timestamp;

/// Another unfinished deployment of the pipeline, with its status in the requested stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageContender {
    pub deployment: DeploymentId,
    pub number: i64,
    pub status: StageRunStatus,
    /// A rollback does not supersede other deployments and is not superseded.
    pub is_rollback: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageEntry {
    /// The deployment may enter the stage now.
    Free,
    Behind(DeploymentId),
    /// A newer deployment is queued for the same stage.
    SupersededBy(DeploymentId),
}

impl Run {
    /// The index and name of the stage that the run is queued for.
    pub fn queued_for(&self) -> Option<(usize, &str)> {
        let found = self.stages.iter().position(|stage| stage.status == StageRunStatus::Queued)?;
        Some((found, self.stages[found].name.as_str()))
    }

    /// The stage that the run is queued for, or has entered without starting a step.
    pub fn unstarted_stage(&self) -> Option<usize> {
        self.queued_for().map(|(stage, _)| stage).or_else(|| self.entered_unstarted_stage())
    }

    /// The stage that the run has entered, if no step has started in it since.
    pub fn entered_unstarted_stage(&self) -> Option<usize> {
        let stage = self.stages.iter().position(|stage| stage.status == StageRunStatus::Running)?;
        let since = self.stages[stage].started_at;
        // Approval and soak steps do not count: they run in the server and have no attempts.
        let has_begun =
            self.steps.iter().any(|step| step.stage == stage && step.tries > 0 && step.started_at >= since);
        (!has_begun).then_some(stage)
    }
}

/// A deployment that is queued for a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingDeployment {
    pub number: i64,
    /// The deployment was approved for this stage or has a bypass, so a newer one does not supersede it.
    pub is_protected: bool,
    /// The deployment has a bypass, so it enters even before a queued rollback.
    pub has_bypass: bool,
}

/// Decides whether the deployment may enter the stage. `others` are all other unfinished deployments of the pipeline.
pub fn decide_entry(waits: WaitingDeployment, others: &[StageContender]) -> StageEntry {
    let WaitingDeployment { number, is_protected: is_kept, has_bypass: passes } = waits;
    let waiting = others.iter().filter(|it| it.status == StageRunStatus::Queued);
    let newer = waiting.filter(|it| !it.is_rollback && it.number > number);
    if let Some(newest) = newer.max_by_key(|it| it.number).filter(|_| !is_kept) {
        return StageEntry::SupersededBy(newest.deployment);
    }
    let first = others.iter().find(|it| it.is_rollback && it.status == StageRunStatus::Queued);
    match find_inside(others).or(first.filter(|_| !passes)) {
        Some(other) => StageEntry::Behind(other.deployment),
        None => StageEntry::Free,
    }
}

/// Like [`decide_entry`], for a rollback: it waits only for the deployment inside the stage and for earlier rollbacks.
pub fn decide_rollback_entry(number: i64, others: &[StageContender]) -> StageEntry {
    let is_earlier =
        |it: &&StageContender| it.is_rollback && it.status == StageRunStatus::Queued && it.number < number;
    match find_inside(others).or_else(|| others.iter().find(is_earlier)) {
        Some(other) => StageEntry::Behind(other.deployment),
        None => StageEntry::Free,
    }
}

fn find_inside(others: &[StageContender]) -> Option<&StageContender> {
    others.iter().find(|it| it.status.is_open())
}

/// Starts the queued stage. The caller has checked that the stage is free.
pub fn enter_queued_stage(run: &Run, plan: &Plan, now: Timestamp) -> RuleDecision<()> {
    let mut draft = RunDraft::new(run, plan, now);
    if let Some((stage, _)) = run.queued_for() {
        start_stage(&mut draft, stage);
    }
    draft.finish(())
}

/// Fails the stage before it starts, because its approval was rejected or expired.
pub fn fail_entry(run: &Run, plan: &Plan, failure: ExecutionFailure, now: Timestamp) -> RuleDecision<()> {
    let mut draft = RunDraft::new(run, plan, now);
    if let Some(stage) = run.unstarted_stage() {
        fail_stage_with(&mut draft, stage, Some(failure));
    }
    draft.finish(())
}

/// Ends the run, because a newer deployment supersedes its deployment.
pub fn end_superseded(run: &Run, plan: &Plan, now: Timestamp) -> RuleDecision<()> {
    let mut draft = RunDraft::new(run, plan, now);
    if let Some((stage, _)) = run.queued_for() {
        skip_from(&mut draft, stage);
    }
    draft.finish(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(number: i64) -> DeploymentId {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        DeploymentId::from_parts(Timestamp::from_micros(1), [number; 10])
    }

    fn waiting_deployment(number: i64) -> WaitingDeployment {
        WaitingDeployment { number, is_protected: false, has_bypass: false }
    }

    /// Parses contenders: `3q` is deployment 3, queued; `2r` is running; `4qb` is a queued rollback.
    fn parse_contenders(told: &str) -> Vec<StageContender> {
        let one = |word: &str| {
            let number = i64::from(word.as_bytes()[0] - b'0');
            let status = if word.contains('q') { StageRunStatus::Queued } else { StageRunStatus::Running };
            StageContender { deployment: id(number), number, status, is_rollback: word.contains('b') }
        };
        told.split_whitespace().map(one).collect()
    }

    #[test]
    fn deployment_with_bypass_enters_before_queued_rollback() {
        let passes = WaitingDeployment { number: 3, is_protected: true, has_bypass: true };
        assert_eq!(decide_entry(passes, &parse_contenders("1qb 5qb")), StageEntry::Free);
        assert_eq!(decide_entry(passes, &parse_contenders("1qb 2r")), StageEntry::Behind(id(2)));
    }

    #[test]
    fn rollback_enters_before_queued_and_after_running_deployments() {
        use StageEntry::{Behind, Free, SupersededBy};
        for (told, plain, back) in [
            ("", Free, Free),
            ("5q", SupersededBy(id(5)), Free),
            ("5qb", Behind(id(5)), Free),
            ("1qb", Behind(id(1)), Behind(id(1))),
            ("2r 5qb", Behind(id(2)), Behind(id(2))),
            ("2r 5q", SupersededBy(id(5)), Behind(id(2))),
            ("2rb", Behind(id(2)), Behind(id(2))),
        ] {
            let others = parse_contenders(told);
            assert_eq!(
                (decide_entry(waiting_deployment(3), &others), decide_rollback_entry(3, &others)),
                (plain, back),
                "{told}"
            );
        }
    }

    proptest! {
        #[test]
        fn stage_entry_admits_one_deployment_and_supersedes_only_by_newer_queued(
            // A map keyed by number, so that numbers are unique.
            told in proptest::collection::btree_map(1i64..9, (0usize..9, any::<bool>()), 0..6), number in 1i64..9
        ) {
            use StageRunStatus::*;
            const ALL: [StageRunStatus; 9] =
                [Pending, Queued, Running, Waiting, Cancelling, Succeeded, Failed, Cancelled, Skipped];
            let others: Vec<_> = told.into_iter().filter(|(other, ..)| *other != number).map(
                |(other, (status, is_rollback))| StageContender {
                    deployment: id(other), number: other, status: ALL[status], is_rollback,
                }).collect();
            let is_taken = others.iter().any(|it| it.status.is_open());
            prop_assert!(!is_taken || decide_entry(waiting_deployment(number), &others) != StageEntry::Free);
            prop_assert!(!is_taken || matches!(decide_rollback_entry(number, &others), StageEntry::Behind(_)));
            prop_assert!(!matches!(decide_rollback_entry(number, &others), StageEntry::SupersededBy(_)));
            if let StageEntry::SupersededBy(by) = decide_entry(waiting_deployment(number), &others) {
                let by = others.iter().find(|it| it.deployment == by && it.status == Queued).unwrap();
                prop_assert!(by.number > number && !by.is_rollback);
            }
        }
    }
}
