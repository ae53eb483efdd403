//! Entering a stage: one deployment at a time; the others queue.

use super::advance::{fail_for, skip_from, start};
use super::draft::Draft;
use super::plan::Plan;
use super::state::{Run, StageStatus};
use crate::decision::Decision;
use crate::deployment::Failure;
use crate::id::DeploymentId;
use crate::time::Timestamp;

/// Another unfinished deployment of the pipeline, with its status in the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    pub deployment: DeploymentId,
    pub number: i64,
    pub status: StageStatus,
    /// A rollback neither supersedes nor is superseded.
    pub is_rollback: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The deployment may enter, or has entered.
    Free,
    Behind(DeploymentId),
    /// A newer deployment waits for the same stage.
    SupersededBy(DeploymentId),
}

impl Run {
    /// The stage that the run waits to enter.
    pub fn queued_for(&self) -> Option<(usize, &str)> {
        let found = self.stages.iter().position(|stage| stage.status == StageStatus::Queued)?;
        Some((found, self.stages[found].name.as_str()))
    }

    /// The stage that the run waits to enter, or has entered without starting a step.
    pub fn not_begun(&self) -> Option<usize> {
        self.queued_for().map(|(stage, _)| stage).or_else(|| self.unbegun())
    }

    /// The entered stage in which no step has started since.
    pub fn unbegun(&self) -> Option<usize> {
        let stage = self.stages.iter().position(|stage| stage.status == StageStatus::Running)?;
        let since = self.stages[stage].started_at;
        // Approval and soak steps have no tries; only steps on a runner count as a start.
        let has_begun =
            self.steps.iter().any(|step| step.stage == stage && step.tries > 0 && step.started_at >= since);
        (!has_begun).then_some(stage)
    }
}

/// A deployment that waits for a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    pub number: i64,
    /// The deployment was approved for this stage or has a bypass, so a newer one does not supersede it.
    pub is_kept: bool,
    /// The deployment has a bypass, so it passes even a waiting rollback.
    pub passes: bool,
}

/// `others` are all other unfinished deployments of the pipeline.
pub fn entry(waits: Waits, others: &[Contender]) -> Entry {
    let Waits { number, is_kept, passes } = waits;
    let waiting = others.iter().filter(|it| it.status == StageStatus::Queued);
    let newer = waiting.filter(|it| !it.is_rollback && it.number > number);
    if let Some(newest) = newer.max_by_key(|it| it.number).filter(|_| !is_kept) {
        return Entry::SupersededBy(newest.deployment);
    }
    let first = others.iter().find(|it| it.is_rollback && it.status == StageStatus::Queued);
    match inside(others).or(first.filter(|_| !passes)) {
        Some(other) => Entry::Behind(other.deployment),
        None => Entry::Free,
    }
}

/// A rollback goes first: it waits only for the deployment inside and for earlier rollbacks.
pub fn entry_back(number: i64, others: &[Contender]) -> Entry {
    let is_earlier =
        |it: &&Contender| it.is_rollback && it.status == StageStatus::Queued && it.number < number;
    match inside(others).or_else(|| others.iter().find(is_earlier)) {
        Some(other) => Entry::Behind(other.deployment),
        None => Entry::Free,
    }
}

fn inside(others: &[Contender]) -> Option<&Contender> {
    others.iter().find(|it| it.status.is_open())
}

/// The caller has checked that the stage is free.
pub fn enter(run: &Run, plan: &Plan, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some((stage, _)) = run.queued_for() {
        start(&mut draft, stage);
    }
    draft.finish(())
}

/// Fails the stage before it starts, because its approval was rejected or expired.
pub fn refused(run: &Run, plan: &Plan, failure: Failure, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some(stage) = run.not_begun() {
        fail_for(&mut draft, stage, Some(failure));
    }
    draft.finish(())
}

/// Ends a run that a newer deployment supersedes.
pub fn overtaken(run: &Run, plan: &Plan, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
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

    fn waits(number: i64) -> Waits {
        Waits { number, is_kept: false, passes: false }
    }

    /// `3q` is queued, `2r` is running, `4qb` is a queued rollback.
    fn others(told: &str) -> Vec<Contender> {
        let one = |word: &str| {
            let number = i64::from(word.as_bytes()[0] - b'0');
            let status = if word.contains('q') { StageStatus::Queued } else { StageStatus::Running };
            Contender { deployment: id(number), number, status, is_rollback: word.contains('b') }
        };
        told.split_whitespace().map(one).collect()
    }

    #[test]
    fn what_passes_every_gate_does_not_wait_behind_a_rollback_that_does() {
        let passes = Waits { number: 3, is_kept: true, passes: true };
        assert_eq!(entry(passes, &others("1qb 5qb")), Entry::Free);
        assert_eq!(entry(passes, &others("1qb 2r")), Entry::Behind(id(2)));
    }

    #[test]
    fn a_rollback_goes_before_those_that_wait_and_after_what_is_inside() {
        use Entry::{Behind, Free, SupersededBy};
        for (told, plain, back) in [
            ("", Free, Free),
            ("5q", SupersededBy(id(5)), Free),
            ("5qb", Behind(id(5)), Free),
            ("1qb", Behind(id(1)), Behind(id(1))),
            ("2r 5qb", Behind(id(2)), Behind(id(2))),
            ("2r 5q", SupersededBy(id(5)), Behind(id(2))),
            ("2rb", Behind(id(2)), Behind(id(2))),
        ] {
            let others = others(told);
            assert_eq!((entry(waits(3), &others), entry_back(3, &others)), (plain, back), "{told}");
        }
    }

    proptest! {
        #[test]
        fn nobody_is_let_in_beside_another_and_only_who_waits_gives_way(
            // Keyed by number, which is unique.
            told in proptest::collection::btree_map(1i64..9, (0usize..9, any::<bool>()), 0..6), number in 1i64..9
        ) {
            use StageStatus::*;
            const ALL: [StageStatus; 9] =
                [Pending, Queued, Running, Waiting, Cancelling, Succeeded, Failed, Cancelled, Skipped];
            let others: Vec<_> = told.into_iter().filter(|(other, ..)| *other != number).map(
                |(other, (status, is_rollback))| Contender {
                    deployment: id(other), number: other, status: ALL[status], is_rollback,
                }).collect();
            let is_taken = others.iter().any(|it| it.status.is_open());
            prop_assert!(!is_taken || entry(waits(number), &others) != Entry::Free);
            prop_assert!(!is_taken || matches!(entry_back(number, &others), Entry::Behind(_)));
            prop_assert!(!matches!(entry_back(number, &others), Entry::SupersededBy(_)));
            if let Entry::SupersededBy(by) = entry(waits(number), &others) {
                let by = others.iter().find(|it| it.deployment == by && it.status == Queued).unwrap();
                prop_assert!(by.number > number && !by.is_rollback);
            }
        }
    }
}
