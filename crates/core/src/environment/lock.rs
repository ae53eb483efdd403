//! The lock: everything one decision about an environment needs to see, and all it can change. Its root is the
//! environment: whatever changes, the environment's version rises.

use super::state::{Condition, Environment, Session, State, Takeover, Ticket, TicketStatus};
use crate::decision::{Change, Decision, Record};
use crate::deployment::{DeploymentStatus, EnvironmentDeployment, Work};
use crate::id::{DeploymentId, TicketId};
use crate::name::CommitId;

#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    pub environment: Environment,
    /// The active one.
    pub session: Option<Session>,
    /// Those who wait, in the order in which they will be granted.
    pub tickets: Vec<Ticket>,
    /// Deployments that have not ended, in the order in which they were asked for.
    pub deployments: Vec<EnvironmentDeployment>,
    /// The pipeline is stopped: nothing starts.
    pub is_paused: bool,
    /// What a reset deploys, if that is known.
    pub tracked: Option<CommitId>,
}

impl Lock {
    pub fn state(&self) -> State {
        match self.environment.condition {
            Condition::Unknown => State::Unknown,
            _ if self.is_contested() => State::Contested,
            _ if self.is_resetting() => State::Resetting,
            Condition::Dirty => State::Dirty,
            Condition::Clean => State::Clean,
        }
    }

    /// Attempts of ended sessions that may still run. A reset's own do not count: it is not older work.
    pub fn left_over(&self) -> impl Iterator<Item = &EnvironmentDeployment> {
        let active = self.session.as_ref().map(|session| session.id);
        self.deployments.iter().filter(move |deployment| {
            deployment.attempt().is_some()
                && matches!(deployment.target.work, Work::Session(id) if Some(id) != active)
        })
    }

    pub fn is_contested(&self) -> bool {
        self.left_over().next().is_some()
    }

    pub fn is_resetting(&self) -> bool {
        self.reset().is_some()
    }

    /// The reset that is due or runs.
    pub fn reset(&self) -> Option<&EnvironmentDeployment> {
        self.resets().next()
    }

    /// A second one may wait for one that was told to stop.
    pub(crate) fn resets(&self) -> impl Iterator<Item = &EnvironmentDeployment> {
        self.deployments.iter().filter(|deployment| deployment.target.work == Work::Reset)
    }

    /// One that will put the environment back: one that was told to stop will not.
    pub(crate) fn is_being_reset(&self) -> bool {
        self.resets().any(|reset| !matches!(reset.status, DeploymentStatus::Cancelling(_)))
    }

    pub fn deployment(&self, id: DeploymentId) -> Option<&EnvironmentDeployment> {
        self.deployments.iter().find(|deployment| deployment.id == id)
    }

    /// From 1; `None` for a ticket that does not wait.
    pub fn position(&self, id: TicketId) -> Option<usize> {
        self.tickets.iter().position(|ticket| ticket.id == id).map(|index| index + 1)
    }

    /// The takeover the present holder has to expect.
    pub fn pending_takeover(&self) -> Option<(&Ticket, &Takeover)> {
        let active = self.session.as_ref()?.id;
        let pending = |ticket: &'_ Ticket| ticket.takeover.as_ref().is_some_and(|plan| plan.target == active);
        let ticket = self.tickets.iter().find(|ticket| pending(ticket))?;
        Some((ticket, ticket.takeover.as_ref()?))
    }

    /// Whether a deployment of the active session has not ended: then idle time does not run.
    pub fn is_busy(&self) -> bool {
        let active = self.session.as_ref().map(|session| session.id);
        self.deployments
            .iter()
            .any(|deployment| matches!(deployment.target.work, Work::Session(id) if Some(id) == active))
    }

    /// Whether one of them has started.
    pub fn is_deploying(&self) -> bool {
        let active = self.session.as_ref().map(|session| session.id);
        self.deployments.iter().any(|deployment| {
            deployment.attempt().is_some()
                && matches!(deployment.target.work, Work::Session(id) if Some(id) == active)
        })
    }
}

impl Lock {
    /// The lock as a decision about it leaves it, without asking the store.
    #[must_use]
    pub fn after<A>(&self, decision: &Decision<A>) -> Lock {
        let mut lock = self.clone();
        for Change::Put(record) in &decision.changes {
            match record {
                Record::Environment(it) => lock.environment = it.as_ref().clone(),
                Record::Session(it) if it.end.is_none() => lock.session = Some(it.as_ref().clone()),
                Record::Session(it) => drop(lock.session.take_if(|active| active.id == it.id)),
                Record::Ticket(it) => {
                    lock.tickets.retain(|ticket| ticket.id != it.id);
                    if it.status == TicketStatus::Waiting {
                        lock.tickets.push(it.as_ref().clone());
                    }
                }
                Record::EnvironmentDeployment(it) => {
                    lock.deployments.retain(|deployment| deployment.id != it.id);
                    if !it.status.is_final() {
                        lock.deployments.push(it.as_ref().clone());
                    }
                }
                Record::Pipeline(_)
                | Record::StagesDeployment(_)
                | Record::Run(_)
                | Record::Approval(_)
                | Record::Stage(_)
                | Record::StageEnd(_)
                | Record::Analysis(_)
                | Record::FixPullRequest(_) => {}
            }
        }
        lock.tickets.sort_by_key(|ticket| (ticket.takeover.is_none(), ticket.number));
        lock.deployments.sort_by_key(|deployment| deployment.number);
        lock
    }
}
