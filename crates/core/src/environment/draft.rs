//! A decision under construction: a copy of the lock, the records that left it, and the events to append.

use super::fence::Fence;
use super::lock::Lock;
use super::settle;
use super::state::{Agenda, Session, Ticket, TicketStatus};
use crate::decision::{Change, Decision, Record, Refusal, Ruling};
use crate::deployment::{self, DeploymentStatus, EnvironmentDeployment, Work};
use crate::event::{Actor, NewEvent};
use crate::id::{Entropy, TicketId};
use crate::time::Timestamp;

/// External inputs of a rule: time, the installation's epoch and randomness.
#[derive(Debug, Clone)]
pub struct Moment {
    pub now: Timestamp,
    pub epoch: i64,
    /// Seconds of silence after which a runner counts as lost.
    pub lost_s: i64,
    pub entropy: Entropy,
}

pub(crate) struct Draft<'a> {
    before: &'a Lock,
    pub(crate) lock: Lock,
    moment: &'a Moment,
    /// The actor, if it is not the caller.
    by: Option<Actor>,
    gone: Vec<Record>,
    events: Vec<NewEvent>,
    drawn: u8,
}

impl<'a> Draft<'a> {
    /// Starts from the lock with all expired timers applied.
    pub(crate) fn begin(before: &'a Lock, moment: &'a Moment) -> Self {
        let mut draft = Self::of(before, moment);
        settle::run(&mut draft);
        draft
    }

    /// Starts from the lock as stored, without applying timers.
    pub(super) fn of(before: &'a Lock, moment: &'a Moment) -> Self {
        Self {
            before,
            lock: before.clone(),
            moment,
            by: None,
            gone: Vec::new(),
            events: Vec::new(),
            drawn: 0,
        }
    }

    /// Applies timers again and returns the changes. Records that left the lock come first, so that a session ends
    /// before the next one opens.
    pub(crate) fn finish<A>(mut self, answer: A) -> Decision<A> {
        settle::run(&mut self);
        settle::announce(&mut self);
        self.close(answer)
    }

    /// Returns the changes without applying timers, so nothing is granted.
    pub(super) fn close<A>(mut self, answer: A) -> Decision<A> {
        self.lock.environment.agenda = agenda(&self.lock);
        let (before, lock) = (self.before, &mut self.lock);
        let mut changes = std::mem::take(&mut self.gone);
        if changes.is_empty() && is_same(before, lock) {
            return Decision { changes: Vec::new(), events: self.events, effects: Vec::new(), answer };
        }
        lock.environment.version += 1;
        changes.push(Record::Environment(Box::new(lock.environment.clone())));
        changes.extend(
            changed(before.session.iter(), lock.session.iter()).map(|it| Record::Session(Box::new(it))),
        );
        changes.extend(
            changed(before.tickets.iter(), lock.tickets.iter()).map(|it| Record::Ticket(Box::new(it))),
        );
        let deployments = changed(before.deployments.iter(), lock.deployments.iter());
        changes.extend(deployments.map(|it| Record::EnvironmentDeployment(Box::new(it))));
        let changes = changes.into_iter().map(Change::Put).collect();
        Decision { changes, events: self.events, effects: Vec::new(), answer }
    }

    /// Refuses the command but keeps the effects of expired timers.
    pub(crate) fn refuse<A>(self, refusal: Refusal) -> Ruling<A> {
        self.finish(Err(refusal))
    }

    /// Writes a record that is no longer part of the lock.
    pub(super) fn gone(&mut self, record: Record) {
        self.gone.push(record);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.moment.now
    }

    pub(crate) fn lost_s(&self) -> i64 {
        self.moment.lost_s
    }

    /// Whether the environment was contested before this decision.
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

    /// Derives the entropy of the next id from the decision's entropy and a counter.
    pub(super) fn draw(&mut self) -> Entropy {
        let mut entropy = self.moment.entropy;
        entropy[9] ^= self.drawn;
        self.drawn =
            self.drawn.checked_add(1).unwrap_or_else(|| unreachable!("a decision makes few records"));
        entropy
    }

    pub(super) fn next_fence(&mut self) -> Fence {
        let next = self.lock.environment.fence.next(self.moment.epoch);
        self.lock.environment.fence = next;
        next
    }

    /// Takes a deployment out of the lock in its final state, which restarts the idle timer of its session.
    pub(crate) fn retire(&mut self, mut deployment: EnvironmentDeployment) {
        deployment.target.attempt = None;
        let now = self.now();
        if let Some(session) = &mut self.lock.session
            && deployment.target.work == Work::Session(session.id)
        {
            session.note_activity(now);
        }
        self.lock.deployments.retain(|other| other.id != deployment.id);
        self.gone.push(Record::EnvironmentDeployment(Box::new(deployment)));
    }

    /// Replaces a deployment that stays in the lock.
    pub(crate) fn replace(&mut self, deployment: EnvironmentDeployment) {
        if let Some(old) = self.lock.deployments.iter_mut().find(|old| old.id == deployment.id) {
            *old = deployment;
        }
    }

    /// The deployment after this decision.
    pub(crate) fn as_retired(&self, deployment: &EnvironmentDeployment) -> EnvironmentDeployment {
        let retired = self.gone.iter().rev().find_map(|record| match record {
            Record::EnvironmentDeployment(retired) if retired.id == deployment.id => Some(retired.as_ref()),
            _ => None,
        });
        let found = retired.or_else(|| self.lock.deployment(deployment.id));
        found.unwrap_or(deployment).clone()
    }

    /// Removes a ticket from the queue.
    pub(crate) fn leave(&mut self, id: TicketId, status: TicketStatus) -> Option<Ticket> {
        let index = self.lock.tickets.iter().position(|ticket| ticket.id == id)?;
        let ticket = Ticket { status, ..self.lock.tickets.remove(index) };
        self.gone.push(Record::Ticket(Box::new(ticket.clone())));
        Some(ticket)
    }

    /// The ticket after this decision.
    pub(crate) fn as_left(&self, ticket: &Ticket) -> Ticket {
        let left = self.gone.iter().rev().find_map(|record| match record {
            Record::Ticket(left) if left.id == ticket.id => Some(left.as_ref().clone()),
            _ => None,
        });
        left.unwrap_or_else(|| ticket.clone())
    }

    /// The session after this decision.
    pub(crate) fn as_ended(&self, named: &Session) -> Session {
        let ended = self.gone.iter().rev().find_map(|record| match record {
            Record::Session(session) if session.id == named.id => Some(session.as_ref().clone()),
            _ => None,
        });
        ended.unwrap_or_else(|| named.clone())
    }
}

/// The agenda is derived from the rest of the lock, so a difference in the agenda alone is no change and appends no
/// event. The sweep corrects it.
fn is_same(before: &Lock, after: &mut Lock) -> bool {
    let agenda = std::mem::replace(&mut after.environment.agenda, before.environment.agenda.clone());
    let is_same = after == before;
    after.environment.agenda = agenda;
    is_same
}

fn agenda(lock: &Lock) -> Agenda {
    let count = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let startable = lock.deployments.iter().find(|deployment| {
        deployment.status == DeploymentStatus::Queued
            && deployment::environment::obstacles(lock, deployment).iter().all(deployment::Blocked::is_pause)
    });
    Agenda {
        waiting: count(lock.tickets.len()),
        unfinished: count(lock.deployments.len()),
        holder: lock.session.as_ref().map(|session| session.id),
        due_at: settle::due_at(lock),
        startable: startable.map(|deployment| deployment.id),
    }
}

fn changed<'a, T: Clone + PartialEq + 'a>(
    before: impl Iterator<Item = &'a T> + Clone,
    after: impl Iterator<Item = &'a T>,
) -> impl Iterator<Item = T> {
    after.filter(move |record| !before.clone().any(|old| old == *record)).cloned()
}
