//! The in-memory backend, and functions that run sequences of commands with the oracle checking each step.

use std::fmt;

use berth_core::decision::RuleDecision;
use berth_core::deployment::EnvironmentDeployment;
use berth_core::environment::declare::declare;
use berth_core::environment::fence::Fence;
use berth_core::environment::{DecisionContext, Lock, Session, Ticket};
use berth_core::id::EnvironmentId;
use berth_core::memory_store::{MemoryStore, VersionConflict};

use super::answer::LockAnswer;
use super::check::{LockOracle, LockViolation, ObservedStep};
use super::command::{EnvironmentIndex, LockCommand, LockRequest, WorldChange};
use super::execute::{LockRecords, RequestSubject, declare_command, execute, find_subject};
use super::fixtures;
use super::surroundings::Surroundings;

/// The in-memory backend: records, and the surroundings of the locks.
#[derive(Debug, Clone, PartialEq)]
pub struct LockModel {
    pub store: MemoryStore,
    pub surroundings: Surroundings,
}

/// A request and its result.
#[derive(Debug, Clone)]
pub struct LockStep {
    pub place: EnvironmentIndex,
    /// The environment that the name referred to at the time.
    pub environment: EnvironmentId,
    pub request: LockRequest,
    pub moment: DecisionContext,
    /// The lock as it was loaded; `None` if the environment did not exist yet.
    pub before: Option<Lock>,
    pub subject: RequestSubject,
    pub decision: RuleDecision<LockAnswer>,
    /// Whether this decision was discarded because another participant wrote to the lock after it was loaded.
    pub is_outdated: bool,
}

/// A sequence that violated a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedLockSequence {
    pub violation: LockViolation,
    pub trace: String,
}

impl fmt::Display for FailedLockSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.violation, self.trace)
    }
}

impl Default for LockModel {
    fn default() -> Self {
        Self::for_run(0)
    }
}

impl LockModel {
    pub fn for_run(run: u32) -> Self {
        let mut model = Self { store: MemoryStore::default(), surroundings: Surroundings::default() };
        model.surroundings.run = run;
        for place in 0..2 {
            let id = model.surroundings.environment(place);
            let declared = declare(declare_command(place, 0, id, Fence::default()), fixtures::START);
            if model.store.apply(declared).is_err() {
                unreachable!("the world is new");
            }
        }
        model.apply_surroundings();
        model
    }
}

impl LockRecords for MemoryStore {
    fn lock(&self, environment: EnvironmentId) -> Option<Lock> {
        self.load(environment)
    }

    fn session(&self, environment: EnvironmentId, number: i64) -> Option<Session> {
        let mut all = self.sessions.values();
        all.find(|it| it.environment == environment && it.number == number).cloned()
    }

    fn ticket(&self, environment: EnvironmentId, number: i64) -> Option<Ticket> {
        let mut all = self.tickets.values();
        all.find(|it| it.environment == environment && it.number == number).cloned()
    }

    fn deployment(&self, environment: EnvironmentId, number: i64) -> Option<EnvironmentDeployment> {
        let mut all = self.deployments.values();
        all.find(|it| it.target.environment == environment && it.number == number).cloned()
    }

    fn last_fence(&self, place: EnvironmentIndex) -> Fence {
        let name = fixtures::name(place);
        let of_name = self.environments.values().filter(|it| it.name == name);
        of_name.map(|it| it.fence).max().unwrap_or_default()
    }
}

impl LockModel {
    /// Performs a command and returns its steps, each checked by `checker`.
    pub fn perform(
        &mut self,
        command: &LockCommand,
        checker: &mut LockOracle,
    ) -> Result<Vec<LockStep>, LockViolation> {
        match command {
            LockCommand::Change(turn) => {
                self.apply_change(*turn);
                Ok(Vec::new())
            }
            LockCommand::Request { place, request } => match self.load_and_decide(*place, request) {
                None => Ok(Vec::new()),
                Some(step) => Ok(vec![self.commit(step, checker)?]),
            },
            LockCommand::Race { place, first, second } => {
                let looked = [self.load_and_decide(*place, first), self.load_and_decide(*place, second)];
                let mut steps = Vec::new();
                for step in looked.into_iter().flatten() {
                    let request = step.request.clone();
                    let step = self.commit(step, checker)?;
                    let is_outdated = step.is_outdated;
                    steps.push(step);
                    if is_outdated && let Some(again) = self.load_and_decide(*place, &request) {
                        steps.push(self.commit(again, checker)?);
                    }
                }
                Ok(steps)
            }
        }
    }

    pub fn apply_change(&mut self, turn: WorldChange) {
        let lock =
            turn.environment_index().and_then(|place| self.store.load(self.surroundings.environment(place)));
        self.surroundings.apply_change(turn, lock.as_ref());
        self.apply_surroundings();
    }

    /// Loads the state and decides, without writing.
    pub fn load_and_decide(&mut self, place: EnvironmentIndex, request: &LockRequest) -> Option<LockStep> {
        let moment = self.surroundings.decision_context();
        let environment = match request {
            LockRequest::Recreate => self.surroundings.next_environment(place),
            _ => self.surroundings.environment(place),
        };
        let before = self.store.load(environment);
        let decision = execute(&self.store, &self.surroundings, place, request, &moment)?;
        let subject = find_subject(&self.store, &self.surroundings, place, request);
        let request = request.clone();
        Some(LockStep { place, environment, request, moment, before, subject, decision, is_outdated: false })
    }

    /// Writes the decision unless it is outdated. The oracle does not check it.
    pub fn commit_unchecked(&mut self, mut step: LockStep) -> LockStep {
        // A deletion may change nothing in the environment, but it must not come after a write that it has not seen.
        let version = |lock: &Lock| lock.environment.version;
        if matches!(step.request, LockRequest::Delete { .. })
            && step.before.as_ref().map(version) != self.store.load(step.environment).as_ref().map(version)
        {
            step.is_outdated = true;
            return step;
        }
        match self.store.apply(step.decision.clone()) {
            Err(VersionConflict) => step.is_outdated = true,
            Ok(answer) => {
                if let (LockRequest::RenewLease { .. }, LockAnswer::Session(renewed)) =
                    (&step.request, &answer)
                {
                    self.store.renew_lease(renewed);
                }
                self.surroundings.record_commit(step.place, &step.request);
                // The new pipeline must be paused if the old one was.
                if step.request == LockRequest::Recreate {
                    self.apply_surroundings();
                }
            }
        }
        step
    }

    /// Writes the decision and lets the oracle check it.
    pub fn commit(&mut self, step: LockStep, checker: &mut LockOracle) -> Result<LockStep, LockViolation> {
        let step = self.commit_unchecked(step);
        let Some(after) = self.store.load(step.environment) else { unreachable!("environments stay") };
        checker.check_step(&ObservedStep { step: &step, after: &after, surroundings: &self.surroundings })?;
        Ok(step)
    }

    fn apply_surroundings(&mut self) {
        let Surroundings { is_paused, is_tracked, revoked_people, revoked_tokens, .. } = &self.surroundings;
        let pipelines = self.store.environments.values().map(|it| it.pipeline);
        self.store.paused = pipelines.filter(|_| *is_paused).collect();
        self.store.tracked = is_tracked.then(fixtures::tracked_commit);
        self.store.revoked = revoked_people.iter().map(|person| fixtures::person(*person).id).collect();
        self.store.revoked_tokens = revoked_tokens.iter().map(|person| fixtures::token(*person)).collect();
    }
}

impl fmt::Display for LockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}: {}", self.moment.now, fixtures::PLACES[usize::from(self.place)], self.request)?;
        if self.is_outdated {
            return write!(f, "\n    outdated");
        }
        write!(f, "\n    {}", self.decision.answer)?;
        for event in &self.decision.events {
            write!(f, "\n    + {} {}", event.kind, event.data)?;
        }
        Ok(())
    }
}

/// Runs the commands on a new model.
pub fn check(commands: &[LockCommand]) -> Result<LockModel, LockViolation> {
    let (mut model, mut checker) = (LockModel::default(), LockOracle::default());
    for command in commands {
        model.perform(command, &mut checker)?;
    }
    Ok(model)
}

/// Like [`check`], but returns a minimized trace on failure.
pub fn run(commands: &[LockCommand]) -> Result<LockModel, Box<FailedLockSequence>> {
    check(commands).map_err(|violation| {
        let trace = trace(&minimize(commands, &violation));
        Box::new(FailedLockSequence { violation, trace })
    })
}

/// Removes commands that are not needed to violate the same rule.
fn minimize(commands: &[LockCommand], violation: &LockViolation) -> Vec<LockCommand> {
    let mut kept = commands.to_vec();
    let mut index = kept.len();
    while index > 0 {
        index -= 1;
        let mut shorter = kept.clone();
        shorter.remove(index);
        if check(&shorter).is_err_and(|other| other.rule == violation.rule) {
            kept = shorter;
            index = index.min(kept.len());
        }
    }
    kept
}

/// Returns a trace up to the first violation.
pub fn trace(commands: &[LockCommand]) -> String {
    use fmt::Write as _;

    let (mut model, mut checker) = (LockModel::default(), LockOracle::default());
    let mut text = String::new();
    for (number, command) in commands.iter().enumerate() {
        let _ = writeln!(text, "{number:>3}. {command}");
        match model.perform(command, &mut checker) {
            Ok(steps) => {
                for step in steps {
                    let _ = writeln!(text, "    {step}");
                }
            }
            Err(violation) => {
                let _ = writeln!(text, "    {violation}");
                break;
            }
        }
    }
    text
}
