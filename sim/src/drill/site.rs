//! The system under test: the store, its servers and clocks, and the deployment targets outside of it.

use std::collections::BTreeMap;

use berth_core::deployment::EnvironmentDeployment;
use berth_core::environment::limits::RUNNER_LOST_S;
use berth_core::id::DeploymentId;

use super::DrillTally;
use super::target::FencedTarget;
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
    orphans: Vec<(EnvironmentIndex, DeploymentId)>,
    pub(super) targets: [FencedTarget; 2],
    /// Seconds on a monotonic clock.
    pub(super) second: u64,
    /// Incremented by every change to the surroundings of the locks. A decision made before such a change is outdated.
    revision: u64,
    /// Time of each attempt's last heartbeat. Servers keep it in memory, so a crash loses it.
    last_heartbeats: BTreeMap<DeploymentId, u64>,
    restarted_at: u64,
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
            orphans: Vec::new(),
            targets: [FencedTarget::default(), FencedTarget::default()],
            second: 0,
            revision: 0,
            last_heartbeats: BTreeMap::new(),
            restarted_at: 0,
            nonces: 0,
            tally: DrillTally::default(),
            lines,
        }
    }

    pub(super) fn trace_line(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>5} s  {}", self.second, line()));
        }
    }

    pub(super) fn into_trace(self) -> String {
        self.lines.unwrap_or_default().join("\n")
    }

    /// Returns a nonce that no other attempt uses.
    pub(super) fn new_nonce(&mut self) -> u16 {
        self.nonces += 1;
        self.nonces
    }

    pub(super) fn advance_second(&mut self) {
        self.second += 1;
        self.tally.seconds += 1;
        self.model.apply_change(WorldChange::Advance { micros: 1_000_000 });
    }

    pub(super) fn apply_change(&mut self, turn: WorldChange) {
        self.trace_line(|| format!("{turn:?}"));
        self.model.apply_change(turn);
        self.revision += 1;
    }

    /// Crashes the servers: unwritten decisions and heartbeats are lost.
    pub(super) fn crash(&mut self) {
        self.trace_line(|| "the server crashes".into());
        self.tally.crashes += 1;
        self.last_heartbeats.clear();
        self.restarted_at = self.second;
        self.revision += 1;
    }

    /// Loads the state and decides, without writing.
    pub(super) fn load_and_decide(
        &mut self,
        place: EnvironmentIndex,
        request: &LockRequest,
    ) -> Option<PendingDecision> {
        let step = self.model.load_and_decide(place, request)?;
        Some(PendingDecision { step: Box::new(step), revision: self.revision })
    }

    /// Tries to write the decision.
    pub(super) fn write(&mut self, pending: PendingDecision) -> Result<WriteResult, LockViolation> {
        let PendingDecision { step, revision } = pending;
        if revision != self.revision {
            self.trace_line(|| format!("{step} came too late"));
            self.tally.outdated += 1;
            return Ok(WriteResult::Outdated);
        }
        let step = match self.is_watched {
            true => self.model.commit(*step, &mut self.checker)?,
            false => self.model.commit_unchecked(*step),
        };
        self.model.store.events.clear();
        self.trace_line(|| step.to_string());
        if step.is_outdated {
            self.tally.outdated += 1;
            return Ok(WriteResult::Outdated);
        }
        self.tally.commits += 1;
        Ok(WriteResult::Done(Box::new(step.decision.answer)))
    }

    /// Decides and writes, with no other write in between.
    pub(super) fn send_request(
        &mut self,
        place: EnvironmentIndex,
        request: &LockRequest,
    ) -> Result<Option<LockAnswer>, LockViolation> {
        let Some(pending) = self.load_and_decide(place, request) else { return Ok(None) };
        match self.write(pending)? {
            WriteResult::Done(answer) => Ok(Some(*answer)),
            WriteResult::Outdated => Ok(None),
        }
    }

    pub(super) fn sweep(&mut self, chance: &mut SeededRandom) -> Result<(), LockViolation> {
        self.send_request(chance.below_u8(2), &LockRequest::Sweep).map(drop)
    }

    /// Records a heartbeat.
    pub(super) fn record_heartbeat(&mut self, deployment: DeploymentId) {
        self.last_heartbeats.insert(deployment, self.second);
    }

    pub(super) fn deployment(&self, id: DeploymentId) -> Option<&EnvironmentDeployment> {
        self.model.store.deployments.get(&id)
    }

    /// Declares runners lost that have sent no heartbeat for too long. By then they have stopped their work, because
    /// their own timeout is shorter.
    pub(super) fn declare_lost_runners(&mut self) -> Result<(), LockViolation> {
        for place in 0..2 {
            let Some(lock) = self.model.store.load(self.model.surroundings.environment(place)) else {
                continue;
            };
            for it in lock.deployments.iter().filter(|it| it.attempt().is_some()) {
                // After a restart the timeout starts again, because the last heartbeats are not known.
                let restarted = self.restarted_at;
                let now = self.second;
                let heard = *self.last_heartbeats.entry(it.id).or_insert(now.max(restarted));
                if now - heard < RUNNER_LOST_S.unsigned_abs() {
                    continue;
                }
                self.tally.lost += 1;
                let deployment = WhichDeployment::Numbered(it.number);
                let outcome = ReportedOutcome::Lost;
                self.send_request(
                    place,
                    &LockRequest::Report { deployment, nonce: WhichNonce::Granted, outcome },
                )?;
            }
        }
        Ok(())
    }

    /// Accesses the environment. The target checks whether the access is allowed.
    pub(super) fn access_target(
        &mut self,
        place: EnvironmentIndex,
        id: DeploymentId,
        runner: u16,
    ) -> Result<(), LockViolation> {
        let Some(lock) = self.model.store.load(self.model.surroundings.environment(place)) else {
            return Ok(());
        };
        let Some(deployment) = self.model.store.deployments.get(&id) else { return Ok(()) };
        self.tally.touches += 1;
        let is_accepted = self.targets[usize::from(place)].access(&lock, deployment, runner)?;
        if !is_accepted {
            self.tally.refused += 1;
        }
        Ok(())
    }

    /// Adds a process that outlives its runner.
    pub(super) fn add_orphan(&mut self, place: EnvironmentIndex, id: DeploymentId) {
        self.orphans.push((place, id));
    }

    pub(super) fn access_by_orphans(&mut self) -> Result<(), LockViolation> {
        for (place, id) in self.orphans.clone() {
            let Some(deployment) = self.model.store.deployments.get(&id) else { continue };
            self.tally.touches += 1;
            if !self.targets[usize::from(place)].access_by_orphan(deployment)? {
                self.tally.refused += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of unfinished deployments.
    pub(super) fn unfinished_count(&self) -> usize {
        self.model.store.deployments.values().filter(|it| !it.status.is_final()).count()
    }

    pub(super) fn end_access(&mut self, place: EnvironmentIndex, id: DeploymentId, runner: u16) {
        self.targets[usize::from(place)].end_access(id, runner);
    }
}
