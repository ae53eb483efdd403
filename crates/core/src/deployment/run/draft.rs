//! The draft of a decision about a run: a copy of the run, the parts that changed, and the events to append.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::grant::GrantStep;
use super::plan::Plan;
use super::state::{Attempt, AttemptEnd, AttemptOutcome, Run, StageRun, StepRun, StepRunStatus};
use crate::decision::{DomainRecord, RecordChange, RuleDecision};
use crate::event::{EventKind, EventSubject, NewEvent};
use crate::id::StepRunId;
use crate::time::Timestamp;

/// A changed run to be written, together with the steps and attempts that changed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunChange {
    /// The complete run, so that further decisions need not load it again.
    pub run: Run,
    /// The run's version before the change; zero for a new run.
    pub previous_version: i64,
    /// The steps that changed, as positions in `run.steps`.
    pub steps: BTreeSet<usize>,
    pub attempts: Vec<Attempt>,
    /// The change appends no event; for example, a poll of a custom step.
    pub is_quiet: bool,
}

impl RunChange {
    /// Merges a later change into this one, which has not been written yet.
    pub fn merge(&mut self, next: RunChange) {
        self.run = next.run;
        self.steps.extend(next.steps);
        self.attempts.extend(next.attempts);
        self.is_quiet &= next.is_quiet;
    }
}

pub(super) struct RunDraft<'a> {
    pub(super) run: Run,
    pub(super) plan: &'a Plan,
    pub(super) now: Timestamp,
    steps: BTreeSet<usize>,
    attempts: Vec<Attempt>,
    events: Vec<NewEvent>,
    is_changed: bool,
    is_call: bool,
}

impl<'a> RunDraft<'a> {
    pub(super) fn new(run: &Run, plan: &'a Plan, now: Timestamp) -> Self {
        let run = run.clone();
        let (steps, attempts, events) = (BTreeSet::new(), Vec::new(), Vec::new());
        Self { run, plan, now, steps, attempts, events, is_changed: false, is_call: false }
    }

    /// Applies the consequences of the changes so far and returns the decision.
    pub(super) fn finish<A>(mut self, answer: A) -> RuleDecision<A> {
        super::advance::advance(&mut self);
        if !self.is_changed {
            return RuleDecision { changes: Vec::new(), events: self.events, effects: Vec::new(), answer };
        }
        let since = self.run.version;
        self.run.version += 1;
        let is_quiet = self.is_call && self.events.is_empty();
        let (run, steps, attempts) = (self.run, self.steps, self.attempts);
        let change = RunChange { run, previous_version: since, steps, attempts, is_quiet };
        let changes = vec![RecordChange::Put(DomainRecord::Run(Box::new(change)))];
        RuleDecision { changes, events: self.events, effects: Vec::new(), answer }
    }

    pub(super) fn stage(&mut self, index: usize) -> &mut StageRun {
        self.is_changed = true;
        &mut self.run.stages[index]
    }

    /// `at` is a position in `run.steps`.
    pub(super) fn step(&mut self, at: usize) -> &mut StepRun {
        self.is_changed = true;
        self.steps.insert(at);
        Arc::make_mut(&mut self.run.steps[at])
    }

    pub(super) fn mark_all_changed(&mut self) {
        self.is_changed = true;
        self.steps.extend(0..self.run.steps.len());
    }

    /// Opens a new attempt or continues a parked one. The caller has checked that the step has no live attempt.
    pub(super) fn open_attempt(&mut self, at: usize, cmd: &GrantStep) -> Attempt {
        let now = self.now;
        let step = self.step(at);
        let is_new = step.memory.is_none();
        if is_new {
            step.tries += 1;
        }
        let (granted_at, calls) = match &mut step.memory {
            None => (now, 1),
            Some(memory) => {
                memory.calls += 1;
                (memory.since, memory.calls)
            }
        };
        let attempt = Attempt {
            step: step.id,
            number: step.tries,
            runner: cmd.runner.clone(),
            nonce: cmd.nonce.clone(),
            lost_ms: cmd.lost_ms,
            granted_at,
            calls,
            parked_at: None,
            end: None,
        };
        step.live = Some(attempt.clone());
        self.is_call |= !is_new;
        self.attempts.push(attempt.clone());
        attempt
    }

    /// Ends the step's live attempt.
    pub(super) fn close_attempt(&mut self, at: usize, outcome: AttemptOutcome) {
        let now = self.now;
        let step = self.step(at);
        step.memory = None;
        if let Some(attempt) = step.live.take() {
            let end = Some(AttemptEnd { at: now, outcome });
            self.attempts.push(Attempt { end, ..attempt });
        }
    }

    /// Marks the change as quiet, because the approval appends its own event.
    pub(super) fn suppress_event(&mut self) {
        self.is_call = true;
    }

    /// Parks the step's live attempt: it continues later, and no process is running until then.
    pub(super) fn park(&mut self, at: usize) {
        let now = self.now;
        if let Some(attempt) = self.step(at).live.take() {
            self.is_call = true;
            self.attempts.push(Attempt { parked_at: Some(now), ..attempt });
        }
    }

    /// Ends the step's parked attempt, if it has one.
    pub(super) fn close_parked(&mut self, at: usize, outcome: AttemptOutcome) {
        let now = self.now;
        let Some(memory) = self.run.steps[at].memory.clone() else { return };
        let step = self.step(at);
        step.memory = None;
        let attempt = Attempt {
            step: step.id,
            number: step.tries,
            runner: String::new(),
            nonce: String::new(),
            lost_ms: None,
            granted_at: memory.since,
            calls: memory.calls,
            parked_at: Some(now),
            end: Some(AttemptEnd { at: now, outcome }),
        };
        self.attempts.push(attempt);
    }

    pub(super) fn record(&mut self, event: NewEvent) {
        self.events.push(event);
    }

    pub(super) fn stage_event(&self, kind: EventKind, stage: usize) -> NewEvent {
        let name = self.run.stages[stage].name.as_str();
        self.run.event(kind).with("stage", name)
    }

    pub(super) fn step_event(&self, kind: EventKind, at: usize) -> NewEvent {
        let step = &self.run.steps[at];
        self.stage_event(kind, step.stage)
            .with_subject(EventSubject::new("step", step.id, Some(step.step.as_str())))
            .with("attempt", step.tries)
    }
}

impl Run {
    fn event(&self, kind: EventKind) -> NewEvent {
        NewEvent::new(kind, EventSubject::new("deployment", self.deployment, None))
            .with_subject(EventSubject::new("pipeline", self.pipeline, None))
    }

    pub(super) fn position(&self, id: StepRunId) -> Option<usize> {
        self.steps.iter().position(|step| step.id == id)
    }

    /// Whether a step of the stage has failed. No further step starts then; the stage only waits for its running steps.
    pub(super) fn has_failed(&self, stage: usize) -> bool {
        self.steps.iter().any(|step| step.stage == stage && step.status == StepRunStatus::Failed)
    }

    /// Positions in `self.steps` of the steps of this stage.
    pub(super) fn stage_step_positions(&self, stage: usize) -> impl Iterator<Item = usize> + '_ {
        self.steps.iter().enumerate().filter(move |(_, step)| step.stage == stage).map(|(at, _)| at)
    }
}
