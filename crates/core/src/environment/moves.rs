//! Building blocks of the rules: open or end a session, plan a deployment, queue a ticket.

use super::draft::Draft;
use super::fence::Fence;
use super::lock::Lock;
use super::state::{
    Condition, Drain, End, EndReason, Holder, Session, Takeover, Ticket, TicketCause, TicketStatus, Wish,
};
use super::telling;
use crate::decision::Record;
use crate::deployment::{self, Cancel, CancelCause, Deployment, DeploymentStatus, EnvironmentTarget, Work};
use crate::event::{Actor, EventKind};
use crate::id::{DeploymentId, SessionId, TicketGroupId, TicketId, TokenId};
use crate::name::{CommitId, Reason};
use crate::pipeline::model::{OnRelease, ReleaseRule};
use crate::time::Timestamp;

/// Why and by whom a session ends.
pub(crate) struct Ending {
    pub(crate) reason: EndReason,
    pub(crate) by: Actor,
    pub(crate) why: Option<Reason>,
    pub(crate) successor: Option<SessionId>,
}

/// A requested deployment.
pub(crate) struct Asked {
    pub(crate) commit: CommitId,
    pub(crate) by: Actor,
    pub(crate) context: Option<Reason>,
    pub(crate) overrides_drain: Option<Reason>,
    /// The failed deployment that this one retries.
    pub(crate) retry_of: Option<DeploymentId>,
}

impl Asked {
    pub(crate) fn new(commit: CommitId, by: Actor) -> Self {
        Self { commit, by, context: None, overrides_drain: None, retry_of: None }
    }
}

impl Draft<'_> {
    /// Opens a session without appending an event. The caller has checked that none is active.
    pub(crate) fn open(&mut self, id: SessionId, holder: Holder, wish: &Wish) -> Fence {
        let now = self.now();
        let fence = self.next_fence();
        self.lock.environment.sessions += 1;
        let configuration = &self.lock.environment.configuration;
        let default_ttl = configuration.ttl.map(|ttl| i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
        let ttl_seconds = wish.ttl_seconds.or(default_ttl);
        let idle = configuration.release.iter().filter_map(|rule| match rule {
            ReleaseRule::Timeout { after_idle } => i64::try_from(after_idle.as_secs()).ok(),
            ReleaseRule::PrClosed => None,
        });
        let idle_seconds = idle.min();
        let mut session = Session {
            id,
            environment: self.lock.environment.id,
            number: self.lock.environment.sessions,
            fence,
            holder,
            commit: wish.commit.clone(),
            context: wish.context.clone(),
            claimed_at: now,
            extended_at: None,
            extensions: 0,
            ttl_seconds,
            expires_at: ttl_seconds.map(|seconds| now.plus_seconds(seconds)),
            idle_seconds,
            active_at: now,
            warned_of: None,
            deployments: 0,
            drain: None,
            end: None,
        };
        // Without an active session, everything still running counts as left over.
        self.lock.session = None;
        let pending: Vec<_> = self.lock.left_over().map(|deployment| deployment.id).collect();
        if !pending.is_empty() {
            session.drain =
                Some(Drain { pending, deadline: now.plus_seconds(self.lost_s()), completed_at: None });
        }
        self.lock.session = Some(session);
        fence
    }

    pub(crate) fn new_session_id(&mut self) -> SessionId {
        SessionId::from_parts(self.now(), self.draw())
    }

    /// Opens a session, deploys its commit if requested, and appends the events.
    pub(crate) fn grant(&mut self, id: SessionId, holder: &Holder, wish: &Wish) -> Option<DeploymentId> {
        let previous = self.lock.environment.fence;
        self.open(id, holder.clone(), wish);
        if let Some(session) = &self.lock.session {
            let event = telling::opened(&self.lock, session, previous);
            self.record(event);
        }
        match &wish.commit {
            Some(commit) if wish.deploy => Some(self.deploy(Asked::new(commit.clone(), holder.actor()))),
            _ => None,
        }
    }

    /// Plans a deployment of the active session.
    pub(crate) fn deploy(&mut self, asked: Asked) -> DeploymentId {
        let now = self.now();
        let (work, fence) = match &mut self.lock.session {
            Some(session) => {
                session.deployments += 1;
                session.commit = Some(asked.commit.clone());
                (Work::Session(session.id), session.fence)
            }
            None => unreachable!("deploys are asked for in a session"),
        };
        self.lock.prolong(None, now);
        self.plan(work, fence, asked)
    }

    fn plan(&mut self, work: Work, fence: Fence, asked: Asked) -> DeploymentId {
        let id = DeploymentId::from_parts(self.now(), self.draw());
        self.lock.environment.deployments += 1;
        let deployment = Deployment {
            id,
            number: self.lock.environment.deployments,
            pipeline: self.lock.environment.pipeline,
            definition_hash: self.lock.environment.definition_hash.clone(),
            commit: asked.commit,
            resolved_commit: None,
            reason: asked.context,
            requested_by: asked.by,
            status: DeploymentStatus::Queued,
            created_at: self.now(),
            started_at: None,
            finished_at: None,
            target: EnvironmentTarget {
                environment: self.lock.environment.id,
                name: self.lock.environment.name.clone(),
                work,
                fence,
                attempt: None,
                retry_of: asked.retry_of,
                overrides_drain: asked.overrides_drain,
            },
        };
        let event = deployment::environment::deployment_event(
            EventKind::DeploymentQueued,
            &self.lock.environment,
            &deployment,
        )
        .with_some("retryOf", deployment.target.retry_of);
        self.record(event);
        self.lock.deployments.push(deployment);
        id
    }

    /// Ends the active session: cancels its queued deployments and tells the running one to stop. The caller appends
    /// the event.
    pub(crate) fn end(&mut self, ending: Ending) -> Option<Session> {
        let mut session = self.lock.session.take()?;
        let Ending { reason, by, why, successor } = ending;
        session.end = Some(End { at: self.now(), reason, by: by.clone(), why, successor });
        self.gone(Record::Session(Box::new(session.clone())));
        let of_session = self.lock.deployments.iter();
        let ids: Vec<_> = of_session
            .filter(|deployment| deployment.target.work == Work::Session(session.id))
            .map(|deployment| deployment.id)
            .collect();
        let cancel = Cancel { by, cause: CancelCause::SessionEnded, reason: None };
        for id in ids {
            deployment::environment::cancel::apply(self, id, &cancel);
        }
        Some(session)
    }

    /// Plans a reset of a changed environment if its definition asks for one. It takes its fence now, so that the next
    /// holder's is higher.
    pub(crate) fn plan_reset(&mut self) {
        let environment = &self.lock.environment;
        let is_wanted = environment.configuration.on_release == OnRelease::DeployTracked
            && environment.condition != Condition::Clean
            && environment.is_declared
            && !self.lock.is_being_reset();
        if let Some(commit) = self.lock.tracked.clone().filter(|_| is_wanted) {
            let fence = self.next_fence();
            self.plan(Work::Reset, fence, Asked::new(commit, Actor::system()));
        }
    }

    pub(crate) fn queue(
        &mut self,
        holder: Holder,
        token: Option<TokenId>,
        wish: Wish,
        expires_at: Timestamp,
        takeover: Option<Takeover>,
        group: Option<TicketGroupId>,
    ) -> Ticket {
        self.lock.environment.tickets += 1;
        let ticket = Ticket {
            id: TicketId::from_parts(self.now(), self.draw()),
            environment: self.lock.environment.id,
            number: self.lock.environment.tickets,
            holder,
            token,
            wish,
            created_at: self.now(),
            expires_at,
            takeover,
            group,
            is_entitled: true,
            status: TicketStatus::Waiting,
        };
        self.lock.tickets.push(ticket.clone());
        // Takeovers first, then by arrival.
        self.lock.tickets.sort_by_key(|ticket| (ticket.takeover.is_none(), ticket.number));
        let event = telling::ticket(EventKind::TicketQueued, &self.lock, &ticket)
            .with("position", self.lock.position(ticket.id).unwrap_or_default());
        self.record(event);
        ticket
    }

    /// Cancels all tickets.
    pub(crate) fn dissolve(&mut self, cause: TicketCause) {
        for id in self.lock.tickets.iter().map(|ticket| ticket.id).collect::<Vec<_>>() {
            let status = TicketStatus::Cancelled { at: self.now(), cause };
            if let Some(ticket) = self.leave(id, status) {
                let event = telling::ticket(EventKind::TicketCancelled, &self.lock, &ticket);
                self.record(event);
            }
        }
    }
}

impl Lock {
    /// Restarts the timers of the active session after activity. Never shortens it.
    pub(crate) fn prolong(&mut self, ttl_seconds: Option<i64>, now: Timestamp) {
        let Some(session) = &mut self.session else { return };
        session.note_activity(now);
        let later = ttl_seconds.or(session.ttl_seconds).map(|seconds| now.plus_seconds(seconds));
        // A session without expiry stays without.
        if let (Some(at), Some(later)) = (session.expires_at, later) {
            session.expires_at = Some(at.max(later));
        }
    }
}
