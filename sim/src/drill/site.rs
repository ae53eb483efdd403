//! The system under test: the store, its servers and clocks, and the deployment targets outside of it.

use std::collections::BTreeMap;

use berth_core::deployment::EnvironmentDeployment;
use berth_core::environment::limits::RUNNER_LOST_S;
use berth_core::id::DeploymentId;

use super::DrillTally;
use super::target::Target;
use crate::locks::{
    EnvironmentIndex, LockAnswer, LockModel, LockOracle, LockRequest, LockStep, LockViolation,
    ReportedOutcome, WhichDeployment, WhichNonce, WorldChange,
};
use crate::random::SeededRandom;

pub(super) struct DrillSite {
    pub(super) model: LockModel,
    checker: LockOracle,
    is_watched: bool,
    /// Processes that outlived their runner. Only a target that compares fences can reject their writes.
    ghosts: Vec<(EnvironmentIndex, DeploymentId)>,
    pub(super) targets: [Target; 2],
    /// Seconds on a monotonic clock.
    pub(super) second: u64,
    /// Incremented by every change to the surroundings of the locks. A decision made before such a change is outdated.
    revision: u64,
    /// Time of each attempt's last heartbeat. Servers keep it in memory, so a crash loses it.
    heard: BTreeMap<DeploymentId, u64>,
    restarted: u64,
    nonces: u16,
    pub(super) tally: DrillTally,
    lines: Option<Vec<String>>,
}

/// A decision that has not been written yet.
pub(super) struct PendingDecision {
    step: Box<LockStep>,
    revision: u64,
}

pub(super) enum WriteResult {
    Done(Box<LockAnswer>),
    /// Another participant wrote first.
    Outdated,
}

impl DrillSite {
    pub(super) fn new_quiet() -> Self {
        Self::new(None)
    }

    pub(super) fn new_traced() -> Self {
        Self::new(Some(Vec::new()))
    }

    pub(super) fn new_unwatched() -> Self {
        Self { is_watched: false, ..Self::new(None) }
    }

    fn new(lines: Option<Vec<String>>) -> Self {
        Self {
            model: LockModel::default(),
            checker: LockOracle::default(),
            is_watched: true,
            ghosts: Vec::new(),
            targets: [Target::default(), Target::default()],
            second: 0,
            revision: 0,
            heard: BTreeMap::new(),
            restarted: 0,
            nonces: 0,
            tally: DrillTally::default(),
            lines,
        }
    }

    pub(super) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>5} s  {}", self.second, line()));
        }
    }

    pub(super) fn story(self) -> String {
        self.lines.unwrap_or_default().join("\n")
    }

    /// Returns a nonce that no other attempt uses.
    pub(super) fn new_nonce(&mut self) -> u16 {
        self.nonces += 1;
        self.nonces
    }

    pub(super) fn pass_a_second(&mut self) {
        self.second += 1;
        self.tally.seconds += 1;
        self.model.turn(WorldChange::Advance { micros: 1_000_000 });
    }

    pub(super) fn turn(&mut self, turn: WorldChange) {
        self.say(|| format!("{turn:?}"));
        self.model.turn(turn);
        self.revision += 1;
    }

    /// Crashes the servers: unwritten decisions and heartbeats are lost.
    pub(super) fn crash(&mut self) {
        self.say(|| "the server crashes".into());
        self.tally.crashes += 1;
        self.heard.clear();
        self.restarted = self.second;
        self.revision += 1;
    }

    /// Loads the state and decides, without writing.
    pub(super) fn load_and_decide(
        &mut self,
        place: EnvironmentIndex,
        ask: &LockRequest,
    ) -> Option<PendingDecision> {
        let step = self.model.load_and_decide(place, ask)?;
        Some(PendingDecision { step: Box::new(step), revision: self.revision })
    }

    /// Tries to write the decision.
    pub(super) fn write(&mut self, pending: PendingDecision) -> Result<WriteResult, LockViolation> {
        let PendingDecision { step, revision } = pending;
        if revision != self.revision {
            self.say(|| format!("{step} came too late"));
            self.tally.outdated += 1;
            return Ok(WriteResult::Outdated);
        }
        let step = match self.is_watched {
            true => self.model.commit(*step, &mut self.checker)?,
            false => self.model.commit_unwatched(*step),
        };
        self.model.world.events.clear();
        self.say(|| step.to_string());
        if step.is_outdated {
            self.tally.outdated += 1;
            return Ok(WriteResult::Outdated);
        }
        self.tally.commits += 1;
        Ok(WriteResult::Done(Box::new(step.decision.answer)))
    }

    /// Decides and writes, with no other write in between.
    pub(super) fn ask(
        &mut self,
        place: EnvironmentIndex,
        ask: &LockRequest,
    ) -> Result<Option<LockAnswer>, LockViolation> {
        let Some(pending) = self.load_and_decide(place, ask) else { return Ok(None) };
        match self.write(pending)? {
            WriteResult::Done(answer) => Ok(Some(*answer)),
            WriteResult::Outdated => Ok(None),
        }
    }

    pub(super) fn sweep(&mut self, chance: &mut SeededRandom) -> Result<(), LockViolation> {
        self.ask(chance.small(2), &LockRequest::Sweep).map(drop)
    }

    /// Records a heartbeat.
    pub(super) fn hear(&mut self, deployment: DeploymentId) {
        self.heard.insert(deployment, self.second);
    }

    pub(super) fn deployment(&self, id: DeploymentId) -> Option<&EnvironmentDeployment> {
        self.model.world.deployments.get(&id)
    }

    /// Declares runners lost that have sent no heartbeat for too long. By then they have stopped their work, because
    /// their own timeout is shorter.
    pub(super) fn give_up_lost_runners(&mut self) -> Result<(), LockViolation> {
        for place in 0..2 {
            let Some(lock) = self.model.world.load(self.model.around.environment(place)) else { continue };
            for it in lock.deployments.iter().filter(|it| it.attempt().is_some()) {
                // After a restart the timeout starts again, because the last heartbeats are not known.
                let restarted = self.restarted;
                let now = self.second;
                let heard = *self.heard.entry(it.id).or_insert(now.max(restarted));
                if now - heard < RUNNER_LOST_S.unsigned_abs() {
                    continue;
                }
                self.tally.lost += 1;
                let deployment = WhichDeployment::Numbered(it.number);
                let outcome = ReportedOutcome::Lost;
                self.ask(place, &LockRequest::Report { deployment, nonce: WhichNonce::Right, outcome })?;
            }
        }
        Ok(())
    }

    /// Accesses the environment. The target checks whether the access is allowed.
    pub(super) fn touch(
        &mut self,
        place: EnvironmentIndex,
        id: DeploymentId,
        runner: u16,
    ) -> Result<(), LockViolation> {
        let Some(lock) = self.model.world.load(self.model.around.environment(place)) else { return Ok(()) };
        let Some(deployment) = self.model.world.deployments.get(&id) else { return Ok(()) };
        self.tally.touches += 1;
        let is_accepted = self.targets[usize::from(place)].touch(&lock, deployment, runner)?;
        if !is_accepted {
            self.tally.refused += 1;
        }
        Ok(())
    }

    /// Adds a process that outlives its runner.
    pub(super) fn haunt(&mut self, place: EnvironmentIndex, id: DeploymentId) {
        self.ghosts.push((place, id));
    }

    pub(super) fn let_ghosts_touch(&mut self) -> Result<(), LockViolation> {
        for (place, id) in self.ghosts.clone() {
            let Some(deployment) = self.model.world.deployments.get(&id) else { continue };
            self.tally.touches += 1;
            if !self.targets[usize::from(place)].touch_as_ghost(deployment)? {
                self.tally.refused += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of unfinished deployments.
    pub(super) fn unfinished(&self) -> usize {
        self.model.world.deployments.values().filter(|it| !it.status.is_final()).count()
    }

    pub(super) fn leave(&mut self, place: EnvironmentIndex, id: DeploymentId, runner: u16) {
        self.targets[usize::from(place)].leave(id, runner);
    }
}
