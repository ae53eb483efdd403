//! The draft of a decision about a lock: a copy of the lock, the records that left it, and the events to append.

use super::fence::Fence;
use super::lock::Lock;
use super::settle;
use super::state::{LockAgenda, Session, Ticket, TicketState};
use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RefusableDecision, RuleDecision};
use crate::deployment::{self, DeploymentPurpose, DeploymentState, EnvironmentDeployment};
use crate::event::{Actor, NewEvent};
use crate::id::{IdEntropy, TicketId};
use crate::time::Timestamp;

/// Inputs of a rule that come from outside: time, the installation's epoch, and randomness.
#[derive(Debug, Clone)]
pub struct DecisionContext {
    pub now: Timestamp,
    pub epoch: i64,
    /// Seconds without a heartbeat after which a runner counts as lost.
    pub lost_s: i64,
    pub entropy: IdEntropy,
}

pub(crate) struct LockDraft<'a> {
    before: &'a Lock,
    pub(crate) lock: Lock,
    moment: &'a DecisionContext,
    /// The actor of the next events, if it is not the caller.
    by: Option<Actor>,
    retired: Vec<DomainRecord>,
    events: Vec<NewEvent>,
    entropy_count: u8,
}

impl<'a> LockDraft<'a> {
    /// Starts from the lock with all expired timers applied.
    pub(crate) fn begin(before: &'a Lock, moment: &'a DecisionContext) -> Self {
        let mut draft = Self::from_stored(before, moment);
        settle::apply_timers(&mut draft);
        draft
    }

    /// Starts from the lock as stored, without applying timers.
    pub(super) fn from_stored(before: &'a Lock, moment: &'a DecisionContext) -> Self {
        Self {
            before,
            lock: before.clone(),
            moment,
            by: None,
            retired: Vec::new(),
            events: Vec::new(),
            entropy_count: 0,
        }
    }

    /// Applies expired timers again and returns the decision. Records that left the lock come first, so that a
    /// session's end is written before the next session.
    pub(crate) fn finish<A>(mut self, answer: A) -> RuleDecision<A> {
        settle::apply_timers(&mut self);
        settle::announce_expiry(&mut self);
        self.finish_without_timers(answer)
    }

    /// Returns the decision without applying timers, so that no ticket is granted.
    pub(super) fn finish_without_timers<A>(mut self, answer: A) -> RuleDecision<A> {
        self.lock.environment.agenda = derive_agenda(&self.lock);
        let (before, lock) = (self.before, &mut self.lock);
        let mut changes = std::mem::take(&mut self.retired);
        if changes.is_empty() && is_same(before, lock) {
            return RuleDecision { changes: Vec::new(), events: self.events, effects: Vec::new(), answer };
        }
        lock.environment.version += 1;
        changes.push(DomainRecord::Environment(Box::new(lock.environment.clone())));
        changes.extend(
            changed_records(before.session.iter(), lock.session.iter())
                .map(|it| DomainRecord::Session(Box::new(it))),
        );
        changes.extend(
            changed_records(before.tickets.iter(), lock.tickets.iter())
                .map(|it| DomainRecord::Ticket(Box::new(it))),
        );
        let deployments = changed_records(before.deployments.iter(), lock.deployments.iter());
        changes.extend(deployments.map(|it| DomainRecord::EnvironmentDeployment(Box::new(it))));
        let changes = changes.into_iter().map(RecordChange::Put).collect();
        RuleDecision { changes, events: self.events, effects: Vec::new(), answer }
    }

    /// Refuses the command but keeps the changes made by expired timers.
    pub(crate) fn refuse<A>(self, refusal: CommandRefusal) -> RefusableDecision<A> {
        self.finish(Err(refusal))
    }

    /// Writes a record that is no longer part of the lock.
    pub(super) fn retire_record(&mut self, record: DomainRecord) {
        self.retired.push(record);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.moment.now
    }

    pub(crate) fn lost_s(&self) -> i64 {
        self.moment.lost_s
    }

    /// Whether work of ended sessions was still running before this decision.
    pub(crate) fn was_contested(&self) -> bool {
        self.before.is_contested()
    }

    pub(crate) fn record(&mut self, event: NewEvent) {
        self.events.push(NewEvent { by: self.by.clone(), ..event });
    }

    /// Runs `work` with the system as the actor of its events.
    pub(crate) fn as_system(&mut self, work: impl FnOnce(&mut Self)) {
        let by = self.by.replace(Actor::system());
        work(self);
        self.by = by;
    }

    /// Derives the random bits of the next id from the decision's entropy and a counter.
    pub(super) fn next_entropy(&mut self) -> IdEntropy {
        let mut entropy = self.moment.entropy;
        entropy[9] ^= self.entropy_count;
        self.entropy_count =
            self.entropy_count.checked_add(1).unwrap_or_else(|| unreachable!("a decision makes few records"));
        entropy
    }

    pub(super) fn next_fence(&mut self) -> Fence {
        let next = self.lock.environment.fence.next(self.moment.epoch);
        self.lock.environment.fence = next;
        next
    }

    /// Removes a finished deployment from the lock. Restarts the idle timer if it belongs to the active session.
    pub(crate) fn retire(&mut self, mut deployment: EnvironmentDeployment) {
        deployment.target.attempt = None;
        let now = self.now();
        if let Some(session) = &mut self.lock.session
            && deployment.target.purpose == DeploymentPurpose::Session(session.id)
        {
            session.note_activity(now);
        }
        self.lock.deployments.retain(|other| other.id != deployment.id);
        self.retired.push(DomainRecord::EnvironmentDeployment(Box::new(deployment)));
    }

    /// Updates a deployment in the lock.
    pub(crate) fn replace(&mut self, deployment: EnvironmentDeployment) {
        if let Some(old) = self.lock.deployments.iter_mut().find(|old| old.id == deployment.id) {
            *old = deployment;
        }
    }

    /// The deployment as it is after this decision.
    pub(crate) fn deployment_after(&self, deployment: &EnvironmentDeployment) -> EnvironmentDeployment {
        let retired = self.retired.iter().rev().find_map(|record| match record {
            DomainRecord::EnvironmentDeployment(retired) if retired.id == deployment.id => {
                Some(retired.as_ref())
            }
            _ => None,
        });
        let found = retired.or_else(|| self.lock.deployment(deployment.id));
        found.unwrap_or(deployment).clone()
    }

    /// Removes a ticket from the queue and gives it a final state.
    pub(crate) fn remove_ticket(&mut self, id: TicketId, status: TicketState) -> Option<Ticket> {
        let index = self.lock.tickets.iter().position(|ticket| ticket.id == id)?;
        let ticket = Ticket { status, ..self.lock.tickets.remove(index) };
        self.retired.push(DomainRecord::Ticket(Box::new(ticket.clone())));
        Some(ticket)
    }

    /// The ticket as it is after this decision.
    pub(crate) fn ticket_after(&self, ticket: &Ticket) -> Ticket {
        let left = self.retired.iter().rev().find_map(|record| match record {
            DomainRecord::Ticket(left) if left.id == ticket.id => Some(left.as_ref().clone()),
            _ => None,
        });
        left.unwrap_or_else(|| ticket.clone())
    }

    /// The session as it is after this decision.
    pub(crate) fn session_after(&self, named: &Session) -> Session {
        let ended = self.retired.iter().rev().find_map(|record| match record {
            DomainRecord::Session(session) if session.id == named.id => Some(session.as_ref().clone()),
            _ => None,
        });
        ended.unwrap_or_else(|| named.clone())
    }
}

/// Whether two locks are equal, ignoring the agenda. The agenda is derived from the rest of the lock, so a difference
/// in it alone is not written; the periodic sweep corrects it.
fn is_same(before: &Lock, after: &mut Lock) -> bool {
    let agenda = std::mem::replace(&mut after.environment.agenda, before.environment.agenda.clone());
    let is_same = after == before;
    after.environment.agenda = agenda;
    is_same
}

fn derive_agenda(lock: &Lock) -> LockAgenda {
    let count = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let startable = lock.deployments.iter().find(|deployment| {
        deployment.status == DeploymentState::Queued
            && deployment::environment::obstacles(lock, deployment)
                .iter()
                .all(deployment::StartObstacle::is_pause)
    });
    LockAgenda {
        waiting: count(lock.tickets.len()),
        unfinished: count(lock.deployments.len()),
        holder: lock.session.as_ref().map(|session| session.id),
        due_at: settle::due_at(lock),
        startable: startable.map(|deployment| deployment.id),
    }
}

fn changed_records<'a, T: Clone + PartialEq + 'a>(
    before: impl Iterator<Item = &'a T> + Clone,
    after: impl Iterator<Item = &'a T>,
) -> impl Iterator<Item = T> {
    after.filter(move |record| !before.clone().any(|old| old == *record)).cloned()
}
