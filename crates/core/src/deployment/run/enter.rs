//! Enter: a stage belongs to one deployment at a time. Who waits for it is let in when it is free.

use super::advance::{fail_for, skip_from, start};
use super::draft::Draft;
use super::plan::Plan;
use super::state::{Run, StageStatus};
use crate::decision::Decision;
use crate::deployment::Failure;
use crate::id::DeploymentId;
use crate::time::Timestamp;

/// Another deployment of the same pipeline, and how it stands in the stage in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    pub deployment: DeploymentId,
    pub number: i64,
    pub status: StageStatus,
    /// It goes back: nobody takes its place, and it takes nobody's.
    pub is_rollback: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It may go in, or is in.
    Free,
    Behind(DeploymentId),
    /// A newer one waits for the same stage: this one will never be needed.
    SupersededBy(DeploymentId),
}

impl Run {
    /// The stage it waits for.
    pub fn queued_for(&self) -> Option<(usize, &str)> {
        let found = self.stages.iter().position(|stage| stage.status == StageStatus::Queued)?;
        Some((found, self.stages[found].name.as_str()))
    }

    /// The stage it waits for, or has entered without having begun anything in it.
    pub fn not_begun(&self) -> Option<usize> {
        self.queued_for().map(|(stage, _)| stage).or_else(|| self.unbegun())
    }

    /// The stage that was entered and in which nothing has begun since.
    pub fn unbegun(&self) -> Option<usize> {
        let stage = self.stages.iter().position(|stage| stage.status == StageStatus::Running)?;
        let since = self.stages[stage].started_at;
        // What waits for people or for time has no tries: the last look is before something runs.
        let has_begun =
            self.steps.iter().any(|step| step.stage == stage && step.tries > 0 && step.started_at >= since);
        (!has_begun).then_some(stage)
    }
}

/// A deployment that waits for a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    pub number: i64,
    /// Somebody has approved it for this stage, or has said that it passes every gate: a newer one does not take that
    /// away.
    pub is_kept: bool,
    /// It passes every gate, also a rollback that waits at one.
    pub passes: bool,
}

/// `others` are all others of its pipeline that have not ended.
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

/// A rollback goes first: it waits for what is inside, and for rollbacks that were asked for earlier.
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

/// The caller has seen that the stage is free.
pub fn enter(run: &Run, plan: &Plan, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some((stage, _)) = run.queued_for() {
        start(&mut draft, stage);
    }
    draft.finish(())
}

/// People said no, or too few said yes in time: the stage fails before anything of it has begun.
pub fn refused(run: &Run, plan: &Plan, failure: Failure, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some(stage) = run.not_begun() {
        fail_for(&mut draft, stage, Some(failure));
    }
    draft.finish(())
}

/// A newer one has overtaken it: what it waited for it will never do.
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

    /// `3q` waits, `2r` runs, `4qb` waits to go back.
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
            // By number: no two have the same.
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
