//! Committed records, stored as in a database: one row per run, step and attempt. Only rows that a decision marks as
//! changed are written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::deployment::run::{Attempt, Run, RunChange, StageRun, StepRun};
use berth_core::id::{DeploymentId, PipelineId, StepRunId};

use super::check::{RunCheckResult, ensure};

/// The committed rows of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunRecords {
    header: Option<RunHeader>,
    /// Rows of the steps. Their live attempts are not stored here, but derived from `attempts`.
    steps: BTreeMap<usize, StepRun>,
    attempts: BTreeMap<(StepRunId, u32), Attempt>,
    nonces: BTreeSet<String>,
    /// Number of attempts that every step had before the simulation started.
    offset: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct RunHeader {
    deployment: DeploymentId,
    pipeline: PipelineId,
    version: i64,
    stages: Vec<StageRun>,
}

/// The nonce was used before, so the transaction is rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonceConflict;

impl RunRecords {
    /// Creates records in which every step already had this many attempts.
    pub fn with_attempts(tries: u32) -> Self {
        Self { offset: tries, ..Self::default() }
    }

    pub fn check_nonces(&self, change: &RunChange) -> Result<(), NonceConflict> {
        let mut opened = change.attempts.iter().filter(|it| it.end.is_none() && it.parked_at.is_none());
        if opened.any(|it| self.nonces.contains(&it.nonce)) { Err(NonceConflict) } else { Ok(()) }
    }

    /// Writes a change that does not conflict, which the caller has checked.
    pub(super) fn apply(&mut self, change: &RunChange) -> RunCheckResult {
        let run = &change.run;
        let version = self.header.as_ref().map_or(0, |head| head.version);
        ensure!(run.version == version + 1, "version", "{} came after {version}", run.version);
        self.header = Some(RunHeader {
            deployment: run.deployment,
            pipeline: run.pipeline,
            version: run.version,
            stages: run.stages.clone(),
        });
        for at in &change.steps {
            self.steps.insert(*at, StepRun::clone(&run.steps[*at]));
        }
        for attempt in &change.attempts {
            self.write(attempt)?;
        }
        Ok(())
    }

    fn write(&mut self, attempt: &Attempt) -> RunCheckResult {
        let Attempt { step, number, nonce, .. } = attempt;
        let known = self.attempts.get(&(*step, *number));
        if attempt.end.is_none() && (attempt.parked_at.is_some() || attempt.calls > 1) {
            let Some(known) = known else {
                ensure!(false, "E14", "attempt {number} of {step} goes on and was never granted");
                return Ok(());
            };
            ensure!(known.end.is_none(), "E1", "attempt {number} of {step} goes on after its end");
            let was_parked = known.parked_at.is_some();
            ensure!(was_parked != attempt.parked_at.is_some(), "E2", "{step} was called or parked twice");
            let calls = known.calls + u32::from(was_parked);
            ensure!(attempt.calls == calls, "E14", "call {} of {step} came after {calls}", attempt.calls);
            self.nonces.insert(nonce.clone());
        } else if attempt.end.is_none() {
            ensure!(known.is_none(), "E14", "attempt {number} of {step} was made twice");
            let last = self.last_attempt(*step).map_or(self.offset, |it| it.number);
            ensure!(*number == last + 1, "E14", "attempt {number} of {step} came after {last}");
            let is_alive = self.last_attempt(*step).is_some_and(|it| it.end.is_none());
            ensure!(!is_alive, "E2", "{step} has two live attempts");
            self.nonces.insert(nonce.clone());
        } else {
            let Some(known) = known else {
                ensure!(false, "E14", "attempt {number} of {step} ended and was never granted");
                return Ok(());
            };
            ensure!(known.end.is_none(), "E1", "attempt {number} of {step} ended twice");
            let opened = Attempt { end: None, ..attempt.clone() };
            let is_same = *known == opened || known.parked_at.is_some();
            ensure!(is_same, "E1", "attempt {number} of {step} changed when it ended");
        }
        self.attempts.insert((*step, *number), attempt.clone());
        Ok(())
    }

    /// Returns the latest attempt of a step.
    pub fn last_attempt(&self, step: StepRunId) -> Option<&Attempt> {
        self.attempts.range((step, 0)..=(step, u32::MAX)).next_back().map(|(_, it)| it)
    }

    pub fn attempts_of(&self, step: StepRunId) -> impl Iterator<Item = &Attempt> {
        self.attempts.range((step, 0)..=(step, u32::MAX)).map(|(_, it)| it)
    }

    /// Returns whether the stored run equals `run`.
    pub fn matches_run(&self, run: &Run) -> bool {
        let is_head = self.header.as_ref().is_some_and(|head| {
            (head.deployment, head.pipeline, head.version) == (run.deployment, run.pipeline, run.version)
                && head.stages == run.stages
        });
        let is_step = |at: usize, step: &StepRun| {
            let live = self.last_attempt(step.id).filter(|it| it.is_live());
            live == step.live.as_ref() && self.steps.get(&at).is_some_and(|it| is_same(it, step))
        };
        let mut steps = run.steps.iter().enumerate();
        is_head && self.steps.len() == run.steps.len() && steps.all(|(at, step)| is_step(at, step))
    }

    pub fn load(&self) -> Option<Run> {
        let head = self.header.as_ref()?;
        let steps = self.steps.values().map(|step| {
            let live = self.last_attempt(step.id).filter(|it| it.is_live()).cloned();
            Arc::new(StepRun { live, ..step.clone() })
        });
        Some(Run {
            deployment: head.deployment,
            pipeline: head.pipeline,
            version: head.version,
            stages: head.stages.clone(),
            steps: steps.collect(),
        })
    }
}

/// Returns whether two steps are equal, not counting their live attempts.
fn is_same(kept: &StepRun, step: &StepRun) -> bool {
    let StepRun { id, stage, index, step: name, status, tries, failures, losses, false_starts, .. } = kept;
    let StepRun { not_before, outputs, artifacts, failure, started_at, finished_at, memory, .. } = kept;
    (*id, *stage, *index, name, *status) == (step.id, step.stage, step.index, &step.step, step.status)
        && (*tries, *failures, *losses, *false_starts)
            == (step.tries, step.failures, step.losses, step.false_starts)
        && (*not_before, outputs, artifacts) == (step.not_before, &step.outputs, &step.artifacts)
        && (failure, *started_at, *finished_at) == (&step.failure, step.started_at, step.finished_at)
        && *memory == step.memory
}
