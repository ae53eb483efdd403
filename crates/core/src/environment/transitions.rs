//! Building blocks of the lock rules: open or end a session, add a deployment, queue a ticket.

use super::draft::LockDraft;
use super::events;
use super::fence::Fence;
use super::limits::LEASE_S_AGENT;
use super::lock::Lock;
use super::order::sort_tickets;
use super::state::{
    ClaimTerms, EnvironmentCondition, LockHolder, PendingTakeover, Session, SessionDrain, SessionEnd,
    SessionEndReason, Ticket, TicketCause, TicketState,
};
use crate::decision::DomainRecord;
use crate::deployment::{
    self, CancelCause, CancelRequest, Deployment, DeploymentPurpose, DeploymentState, EnvironmentTarget,
};
use crate::event::{Actor, EventKind};
use crate::id::{DeploymentId, SessionId, TicketGroupId, TicketId, TokenId};
use crate::name::{CommitId, Reason};
use crate::pipeline::model::{ReleaseAction, ReleaseCondition};
use crate::time::Timestamp;

/// Why a session ends, and who ends it.
pub(crate) struct SessionEnding {
    pub(crate) reason: SessionEndReason,
    pub(crate) by: Actor,
    pub(crate) why: Option<Reason>,
    pub(crate) successor: Option<SessionId>,
}

/// The parameters of a new deployment.
pub(crate) struct DeploymentRequest {
    pub(crate) commit: CommitId,
    pub(crate) by: Actor,
    pub(crate) context: Option<Reason>,
    pub(crate) overrides_drain: Option<Reason>,
    /// The failed deployment that this one retries.
    pub(crate) retry_of: Option<DeploymentId>,
    pub(crate) is_untrusted: bool,
}

impl DeploymentRequest {
    pub(crate) fn new(commit: CommitId, by: Actor) -> Self {
        Self { commit, by, context: None, overrides_drain: None, retry_of: None, is_untrusted: false }
    }
}

impl LockDraft<'_> {
    /// Opens a session without appending an event. The caller has checked that no session is active.
    pub(crate) fn open_session(&mut self, id: SessionId, holder: LockHolder, wish: &ClaimTerms) -> Fence {
        let now = self.now();
        let fence = self.next_fence();
        self.lock.environment.sessions += 1;
        let configuration = &self.lock.environment.configuration;
        let default_ttl = configuration.ttl.map(|ttl| i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
        let agent = holder.agent.as_deref();
        let ttl_seconds = wish.ttl_seconds.or(default_ttl);
        let ttl_seconds = match agent {
            Some(agent) => Some(ttl_seconds.unwrap_or(i64::MAX).min(agent.session_seconds)),
            None => ttl_seconds,
        };
        // An agent may crash without being noticed.
        let lease_seconds = wish.lease_seconds.or(agent.map(|_| LEASE_S_AGENT));
        let idle = configuration.release.iter().filter_map(|rule| match rule {
            ReleaseCondition::Timeout { after_idle } => i64::try_from(after_idle.as_secs()).ok(),
            ReleaseCondition::PrClosed => None,
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
            contact: wish.contact.clone(),
            claimed_at: now,
            extended_at: None,
            extensions: 0,
            ttl_seconds,
            expires_at: ttl_seconds.map(|seconds| now.plus_seconds(seconds)),
            lease_seconds,
            lease_expires_at: lease_seconds.map(|seconds| now.plus_seconds(seconds)),
            idle_seconds,
            active_at: now,
            warned_of: None,
            deployments: 0,
            drain: None,
            end: None,
        };
        // With no active session, all running deployments count as left over from ended sessions.
        self.lock.session = None;
        let pending: Vec<_> = self.lock.leftover_deployments().map(|deployment| deployment.id).collect();
        if !pending.is_empty() {
            session.drain =
                Some(SessionDrain { pending, deadline: now.plus_seconds(self.lost_s()), completed_at: None });
        }
        self.lock.session = Some(session);
        fence
    }

    pub(crate) fn new_session_id(&mut self) -> SessionId {
        SessionId::from_parts(self.now(), self.next_entropy())
    }

    /// Opens a session, deploys its commit if the claim requested that, and appends the events.
    pub(crate) fn grant_session(
        &mut self,
        id: SessionId,
        holder: &LockHolder,
        wish: &ClaimTerms,
    ) -> Option<DeploymentId> {
        let previous = self.lock.environment.fence;
        self.open_session(id, holder.clone(), wish);
        if let Some(session) = &self.lock.session {
            let event = events::session_opened_event(&self.lock, session, previous);
            self.record(event);
        }
        match &wish.commit {
            Some(commit) if wish.deploy => {
                let asked = DeploymentRequest::new(commit.clone(), holder.actor());
                let asked = DeploymentRequest { is_untrusted: wish.is_untrusted, ..asked };
                Some(self.deploy_in_session(asked))
            }
            _ => None,
        }
    }

    /// Adds a deployment to the active session.
    pub(crate) fn deploy_in_session(&mut self, asked: DeploymentRequest) -> DeploymentId {
        let now = self.now();
        let (work, fence) = match &mut self.lock.session {
            Some(session) => {
                session.deployments += 1;
                session.commit = Some(asked.commit.clone());
                (DeploymentPurpose::Session(session.id), session.fence)
            }
            None => unreachable!("deploys are asked for in a session"),
        };
        self.lock.extend_session(None, now);
        self.add_deployment(work, fence, asked)
    }

    fn add_deployment(
        &mut self,
        work: DeploymentPurpose,
        fence: Fence,
        asked: DeploymentRequest,
    ) -> DeploymentId {
        let id = DeploymentId::from_parts(self.now(), self.next_entropy());
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
            status: DeploymentState::Queued,
            created_at: self.now(),
            started_at: None,
            finished_at: None,
            target: EnvironmentTarget {
                environment: self.lock.environment.id,
                name: self.lock.environment.name.clone(),
                purpose: work,
                fence,
                attempt: None,
                retry_of: asked.retry_of,
                overrides_drain: asked.overrides_drain,
                is_untrusted: asked.is_untrusted,
            },
        };
        let event = deployment::environment::deployment_event(
            EventKind::DeploymentQueued,
            &self.lock.environment,
            &deployment,
        )
        .with_some("retryOf", deployment.target.retry_of);
        let event = if deployment.target.is_untrusted { event.with("untrusted", true) } else { event };
        self.record(event);
        self.lock.deployments.push(deployment);
        id
    }

    /// Ends the active session: cancels its queued deployments and tells the runner of the running one to stop. The
    /// caller appends the event.
    pub(crate) fn end_session(&mut self, ending: SessionEnding) -> Option<Session> {
        let mut session = self.lock.session.take()?;
        let SessionEnding { reason, by, why, successor } = ending;
        session.end = Some(SessionEnd { at: self.now(), reason, by: by.clone(), why, successor });
        self.retire_record(DomainRecord::Session(Box::new(session.clone())));
        let of_session = self.lock.deployments.iter();
        let ids: Vec<_> = of_session
            .filter(|deployment| deployment.target.purpose == DeploymentPurpose::Session(session.id))
            .map(|deployment| deployment.id)
            .collect();
        let cancel = CancelRequest { by, cause: CancelCause::SessionEnded, reason: None };
        for id in ids {
            deployment::environment::cancel::cancel_in_draft(self, id, &cancel);
        }
        Some(session)
    }

    /// Adds a reset if the environment is not clean and its definition asks for resets. The reset takes its fence now,
    /// so that the next holder's fence is higher.
    pub(crate) fn plan_reset(&mut self) {
        let environment = &self.lock.environment;
        let is_wanted = environment.configuration.on_release == ReleaseAction::DeployTracked
            && environment.condition != EnvironmentCondition::Clean
            && environment.is_declared
            && !self.lock.is_being_reset();
        if let Some(commit) = self.lock.tracked.clone().filter(|_| is_wanted) {
            let fence = self.next_fence();
            self.add_deployment(
                DeploymentPurpose::Reset,
                fence,
                DeploymentRequest::new(commit, Actor::system()),
            );
        }
    }

    pub(crate) fn queue_ticket(
        &mut self,
        holder: LockHolder,
        token: Option<TokenId>,
        wish: ClaimTerms,
        expires_at: Timestamp,
        takeover: Option<PendingTakeover>,
        group: Option<TicketGroupId>,
    ) -> Ticket {
        self.lock.environment.tickets += 1;
        let ticket = Ticket {
            id: TicketId::from_parts(self.now(), self.next_entropy()),
            environment: self.lock.environment.id,
            number: self.lock.environment.tickets,
            holder,
            token,
            terms: wish,
            created_at: self.now(),
            expires_at,
            takeover,
            group,
            is_entitled: true,
            status: TicketState::Waiting,
        };
        self.lock.tickets.push(ticket.clone());
        let now = self.now();
        sort_tickets(&mut self.lock.tickets, &self.lock.environment.configuration.queue, now);
        self.record(events::ticket_queued_event(&self.lock, &ticket));
        ticket
    }

    /// Cancels all waiting tickets.
    pub(crate) fn cancel_tickets(&mut self, cause: TicketCause) {
        for id in self.lock.tickets.iter().map(|ticket| ticket.id).collect::<Vec<_>>() {
            let status = TicketState::Cancelled { at: self.now(), cause };
            if let Some(ticket) = self.remove_ticket(id, status) {
                let event = events::ticket_event(EventKind::TicketCancelled, &self.lock, &ticket);
                self.record(event);
            }
        }
    }
}

impl Lock {
    /// Restarts the idle timer, the lease and the TTL of the active session. Never shortens the session.
    pub(crate) fn extend_session(&mut self, ttl_seconds: Option<i64>, now: Timestamp) {
        let Some(session) = &mut self.session else { return };
        session.note_activity(now);
        session.renew_lease(now);
        let later = ttl_seconds.or(session.ttl_seconds).map(|seconds| now.plus_seconds(seconds));
        let later = later.map(|at| session.length_limit().map_or(at, |limit| at.min(limit)));
        // A session that does not expire stays that way.
        if let (Some(at), Some(later)) = (session.expires_at, later) {
            session.expires_at = Some(at.max(later));
        }
    }
}
