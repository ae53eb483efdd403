//! A simulated runner: it takes work, writes to the environment, sends heartbeats, and stops when the server orders it
//! to, when its work is done, or when the server has not responded for too long. It can crash, lose its connection,
//! repeat messages and send nonces of other runners.

use berth_core::deployment::environment::report::RunnerOrder;
use berth_core::id::DeploymentId;

use super::FaultMode;
use super::site::{DrillSite, PendingDecision, WriteResult};
use crate::locks::{
    EnvironmentIndex, LockAnswer, LockRequest, LockViolation, ReportedOutcome, WhichDeployment, WhichNonce,
};
use crate::random::SeededRandom;

/// A runner without a response from the server for this long stops its work.
const SELF_STOP_S: u64 = 20;
/// Maximum time from the order to stop until the last process has ended.
const STOP_GRACE_S: u64 = 10;

pub(super) struct DrillRunner {
    nonce: u16,
    /// The runner is disconnected from all servers until this second.
    cut_off_until: u64,
    state: DrillRunnerState,
}

enum DrillRunnerState {
    Idle,
    /// The runner has requested work and not received the response yet.
    Requesting {
        job: RunnerJob,
        pending: Option<PendingDecision>,
    },
    Working(RunnerJob),
    /// All processes have ended; the report has not been acknowledged yet.
    Reporting {
        job: RunnerJob,
        outcome: ReportedOutcome,
        times: u8,
    },
}

#[derive(Clone)]
struct RunnerJob {
    place: EnvironmentIndex,
    id: DeploymentId,
    number: i64,
    /// When the runner sent the last message that was answered.
    answered_at: u64,
    /// When the work will be done.
    done_at: u64,
    /// When the last process will have ended after an order to stop.
    stops_at: Option<u64>,
}

impl RunnerJob {
    const fn which_deployment(&self) -> WhichDeployment {
        WhichDeployment::Numbered(self.number)
    }

    fn stop(&mut self, at: u64) {
        self.stops_at = Some(self.stops_at.map_or(at, |earlier| earlier.min(at)));
    }
}

impl DrillRunner {
    pub(super) fn new(site: &mut DrillSite) -> Self {
        Self { nonce: site.new_nonce(), cut_off_until: 0, state: DrillRunnerState::Idle }
    }

    /// Called when the server crashes. The runner repeats its request with the same nonce, because the server may
    /// already have granted it.
    pub(super) fn lose_server(&mut self) {
        if let DrillRunnerState::Requesting { pending, .. } = &mut self.state {
            *pending = None;
        }
    }

    /// Stops the work if it is done, or if the runner's own clock requires it. Otherwise writes to the environment.
    pub(super) fn tick(&mut self, site: &mut DrillSite) -> Result<(), LockViolation> {
        let DrillRunnerState::Working(job) = &mut self.state else { return Ok(()) };
        if site.second >= job.answered_at + SELF_STOP_S {
            job.stop(job.answered_at + SELF_STOP_S + STOP_GRACE_S);
        }
        let stopped_at = job.stops_at.filter(|at| *at <= site.second);
        if stopped_at.is_none() && job.done_at > site.second {
            return site.access_target(job.place, job.id, self.nonce);
        }
        site.end_access(job.place, job.id, self.nonce);
        let outcome = match stopped_at {
            Some(_) => ReportedOutcome::Stopped,
            None if job.id.to_string().ends_with(['0', '4', '8']) => ReportedOutcome::Failed,
            None => ReportedOutcome::Succeeded,
        };
        site.trace_line(|| format!("deployment {} has left the environment: {outcome:?}", job.number));
        self.state = DrillRunnerState::Reporting { job: job.clone(), outcome, times: 0 };
        Ok(())
    }

    pub(super) fn act(
        &mut self,
        site: &mut DrillSite,
        chance: &mut SeededRandom,
        faults: FaultMode,
    ) -> Result<(), LockViolation> {
        if faults == FaultMode::Some && chance.percent(3) {
            self.cut_off_until = site.second + chance.below(90);
            site.trace_line(|| format!("runner {} is cut off until {} s", self.nonce, self.cut_off_until));
        }
        if faults == FaultMode::Some && chance.percent(1) {
            if let DrillRunnerState::Working(job) = &self.state
                && chance.percent(50)
            {
                site.add_orphan(job.place, job.id);
            }
            self.crash(site);
        }
        if site.second < self.cut_off_until {
            return Ok(());
        }
        match std::mem::replace(&mut self.state, DrillRunnerState::Idle) {
            DrillRunnerState::Idle => self.request_work(site, chance),
            DrillRunnerState::Requesting { job, pending } => self.start_work(site, chance, job, pending)?,
            DrillRunnerState::Working(job) => self.send_heartbeat(site, chance, job)?,
            DrillRunnerState::Reporting { job, outcome, times } => {
                self.report(site, chance, job, outcome, times)?;
            }
        }
        Ok(())
    }

    /// Kills the runner with all its processes. It continues as a new runner.
    fn crash(&mut self, site: &mut DrillSite) {
        if let DrillRunnerState::Working(job) = &self.state {
            site.end_access(job.place, job.id, self.nonce);
        }
        site.trace_line(|| format!("runner {} crashes", self.nonce));
        self.nonce = site.new_nonce();
        self.state = DrillRunnerState::Idle;
    }

    fn request_work(&mut self, site: &mut DrillSite, chance: &mut SeededRandom) {
        let place = u8::from(chance.percent(25));
        let Some(lock) = site.model.store.load(site.model.surroundings.environment(place)) else { return };
        let Some(it) = lock.environment.agenda.startable.and_then(|id| lock.deployment(id)) else { return };
        self.nonce = site.new_nonce();
        let job = RunnerJob {
            place,
            id: it.id,
            number: it.number,
            answered_at: site.second,
            done_at: site.second + 1 + chance.below(60),
            stops_at: None,
        };
        let request = LockRequest::Grant { runner: self.nonce, deployment: job.which_deployment() };
        let pending = site.load_and_decide(place, &request);
        self.state = DrillRunnerState::Requesting { job, pending };
    }

    fn start_work(
        &mut self,
        site: &mut DrillSite,
        chance: &mut SeededRandom,
        mut job: RunnerJob,
        pending: Option<PendingDecision>,
    ) -> Result<(), LockViolation> {
        let Some(pending) = pending else {
            // The write was outdated or the response was lost, so repeat the request with the same nonce.
            // `job.answered_at` keeps the time of the first request, because the runner must stop `SELF_STOP_S` after that
            // one.
            let request = LockRequest::Grant { runner: self.nonce, deployment: job.which_deployment() };
            let pending = site.load_and_decide(job.place, &request);
            if pending.is_some() {
                self.state = DrillRunnerState::Requesting { job, pending };
            }
            return Ok(());
        };
        let granted = match site.write(pending)? {
            WriteResult::Done(answer) => matches!(*answer, LockAnswer::Deployment(_)),
            WriteResult::Outdated if chance.percent(50) => {
                self.state = DrillRunnerState::Requesting { job, pending: None };
                return Ok(());
            }
            WriteResult::Outdated => false,
        };
        match chance.below(10) {
            _ if !granted => {}
            // The work was granted, but the runner crashes before it starts.
            0 => self.crash(site),
            // The work was granted, but the response is lost.
            1 => self.state = DrillRunnerState::Requesting { job, pending: None },
            _ if site.second >= job.answered_at + SELF_STOP_S => {}
            _ => {
                site.trace_line(|| format!("runner {} begins deployment {}", self.nonce, job.number));
                job.done_at = job.done_at.max(site.second + 1);
                site.access_target(job.place, job.id, self.nonce)?;
                self.state = DrillRunnerState::Working(job);
            }
        }
        Ok(())
    }

    fn send_heartbeat(
        &mut self,
        site: &mut DrillSite,
        chance: &mut SeededRandom,
        mut job: RunnerJob,
    ) -> Result<(), LockViolation> {
        if chance.percent(10) {
            // Also send the nonce of another runner, which must have no effect.
            let stolen = WhichNonce::OfRunner(self.nonce.wrapping_add(chance.pick(&[1, 2, u16::MAX])));
            self.report_with_wrong_nonce(site, &job, stolen)?;
        }
        let request = LockRequest::Heartbeat {
            deployment: job.which_deployment(),
            nonce: WhichNonce::OfRunner(self.nonce),
        };
        let order = site.send_request(job.place, &request)?;
        site.record_heartbeat(job.id);
        job.answered_at = site.second;
        match order {
            Some(LockAnswer::Order(RunnerOrder::Continue)) => {}
            // The runner may need some time to stop its processes.
            _ => job.stop(site.second + chance.below(STOP_GRACE_S + 1)),
        }
        self.state = DrillRunnerState::Working(job);
        Ok(())
    }

    fn report_with_wrong_nonce(
        &self,
        site: &mut DrillSite,
        job: &RunnerJob,
        nonce: WhichNonce,
    ) -> Result<(), LockViolation> {
        let outcome = ReportedOutcome::Succeeded;
        let status = site.deployment(job.id).map(|it| it.status.clone());
        site.send_request(
            job.place,
            &LockRequest::Report { deployment: job.which_deployment(), nonce, outcome },
        )?;
        let after = site.deployment(job.id).map(|it| it.status.clone());
        let is_stopped = |status: &Option<berth_core::deployment::DeploymentState>| {
            status.as_ref().is_some_and(berth_core::deployment::DeploymentState::is_final)
        };
        if is_stopped(&after) && !is_stopped(&status) {
            let what = format!("a stolen nonce ended deployment {}", job.number);
            return Err(LockViolation { rule: "E13", what });
        }
        Ok(())
    }

    fn report(
        &mut self,
        site: &mut DrillSite,
        chance: &mut SeededRandom,
        job: RunnerJob,
        outcome: ReportedOutcome,
        times: u8,
    ) -> Result<(), LockViolation> {
        let was_over = site.deployment(job.id).is_some_and(|it| it.status.is_final());
        let request = LockRequest::Report {
            deployment: job.which_deployment(),
            nonce: WhichNonce::OfRunner(self.nonce),
            outcome,
        };
        let order = site.send_request(job.place, &request)?;
        if was_over && order != Some(LockAnswer::Order(RunnerOrder::Stale)) {
            let what = format!("{outcome:?} of deployment {} was heard after its end", job.number);
            return Err(LockViolation { rule: "L10", what });
        }
        // Repeats the report at random, as if the response had been lost.
        if times < 2 && chance.percent(30) {
            self.state = DrillRunnerState::Reporting { job, outcome, times: times + 1 };
        }
        Ok(())
    }
}
