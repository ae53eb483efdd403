//! Agents: their limits, and the switch that stops all agents of an organization.

use berth_api::agent as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::agent::{AgentHolder, AgentLimitReached, AgentLimits, TakeoverScope};
use berth_core::decision::CommandRefusal;
use berth_core::environment::stop_agents::stop_agents;
use berth_core::environment::{ClaimTerms, Lock, LockHolder};
use berth_core::event::{ActorType, EventKind, EventSubject, NewEvent};
use berth_core::id::UserId;
use berth_core::name::Reason;
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::agent::{self, Agent, AgentStop};
use berth_store::tables::environment;
use berth_store::tables::user::{self, UserAccount};
use berth_store::{StoreRead, Tx};

use super::{ApiResponse, App, IdempotentResponse};
use crate::auth::authorize::{AuthorizedCaller, Principal};
use crate::error::AppError;
use crate::wire::actor_to_wire;

impl App {
    pub async fn view_agents(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
    ) -> Result<ApiResponse<wire::WireAgentsStatus>, AppError> {
        let stop = self.read(who, |db| Ok(agent::find_stop(db)?)).await?;
        Ok(ApiResponse::ok(status_to_wire(stop.as_ref())))
    }

    /// Stops all agents: ends their sessions, cancels their tickets, and refuses their claims and deployments from now
    /// on. Stopping again has no effect.
    pub async fn stop_agents(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        reason: Option<Reason>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireAgentsStatus>, AppError> {
        let (org, by) = (who.org(), who.principal().actor());
        let done = self.change(who, once, move |tx, _| {
            if let Some(stop) = agent::find_stop(tx)? {
                return Ok(ApiResponse::ok(status_to_wire(Some(&stop))));
            }
            let stop = AgentStop { at: tx.now(), by: by.clone(), reason };
            agent::put_stop(tx, &stop)?;
            let (mut sessions, mut tickets) = (0, 0);
            loop {
                let before = (sessions, tickets);
                for id in agent::list_environments(tx)? {
                    let lock = environment::by_id(tx, id)?;
                    let lock = lock.ok_or_else(|| AppError::bug("a session without an environment"))?;
                    let decision = stop_agents(&lock, by.clone(), stop.reason.as_ref(), &tx.moment()?);
                    let stopped = tx.commit(decision)?;
                    sessions += stopped.sessions;
                    tickets += stopped.tickets;
                }
                if (sessions, tickets) == before {
                    break;
                }
            }
            let event = NewEvent::new(EventKind::AgentsStopped, EventSubject::new("organization", org, None));
            let event = event.with_some("reason", stop.reason.as_ref());
            tx.record(event.with("sessionsEnded", sessions).with("ticketsCancelled", tickets))?;
            Ok(ApiResponse::ok(wire::WireAgentsStatus {
                sessions_ended: Some(sessions),
                tickets_cancelled: Some(tickets),
                ..status_to_wire(Some(&stop))
            }))
        });
        let done = done.await;
        self.services.wake_engine();
        done
    }

    /// Lets agents claim and deploy again.
    pub async fn resume_agents(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireAgentsStatus>, AppError> {
        let org = who.org();
        self.change(who, once, move |tx, _| {
            if agent::find_stop(tx)?.is_some() {
                agent::delete_stop(tx)?;
                let subject = EventSubject::new("organization", org, None);
                tx.record(NewEvent::new(EventKind::AgentsResumed, subject))?;
            }
            Ok(ApiResponse::ok(status_to_wire(None)))
        })
        .await
    }
}

/// Checks a claim against the limits of an agent, and notes in `by` that it is one. `None` if the caller is no agent.
pub(super) fn admit_claim(
    tx: &mut Tx<'_>,
    by: &mut LockHolder,
    terms: &ClaimTerms,
) -> Result<Option<Agent>, AppError> {
    let Some(found) = find_running(tx, by.id, by.kind == ActorType::Service)? else { return Ok(None) };
    let limits = found.limits;
    check(limits.check_ttl(terms.ttl_seconds))?;
    check(limits.check_sessions(agent::count_used_sessions(tx, by.id)?))?;
    if is_deploying(terms) {
        check(limits.check_deployments(found.hour, tx.now()))?;
    }
    let (owner, owner_name) = load_owner(tx, by.id)?;
    by.agent = Some(Box::new(AgentHolder { owner, owner_name, session_seconds: limits.session_seconds }));
    Ok(Some(found))
}

/// Like [`admit_claim`], for a force-claim of this environment.
pub(super) fn admit_force_claim(
    tx: &mut Tx<'_>,
    by: &mut LockHolder,
    terms: &ClaimTerms,
    lock: &Lock,
) -> Result<Option<Agent>, AppError> {
    let found = admit_claim(tx, by, terms)?;
    if let Some(found) = &found {
        check(found.limits.check_takeover(lock.session.as_ref().map(|session| &session.holder)))?;
    }
    Ok(found)
}

/// Counts the deployment of an accepted claim, if it asked for one.
pub(super) fn count_claim(tx: &mut Tx<'_>, by: Option<&Agent>, terms: &ClaimTerms) -> Result<(), AppError> {
    count_deployment(tx, by.filter(|_| is_deploying(terms)))
}

fn is_deploying(terms: &ClaimTerms) -> bool {
    terms.deploy && terms.commit.is_some()
}

/// Checks a deployment against the limits of an agent. `None` if the caller is no agent.
pub(super) fn admit_deployment(tx: &mut Tx<'_>, who: &Principal) -> Result<Option<Agent>, AppError> {
    let found = find_running(tx, who.user, who.is_service)?;
    if let Some(found) = &found {
        check(found.limits.check_deployments(found.hour, tx.now()))?;
    }
    Ok(found)
}

/// Checks that agents are not stopped, if the caller is one. For requests that let a deployment go on.
pub(super) fn require_not_stopped(tx: &mut Tx<'_>, who: &Principal) -> Result<(), AppError> {
    find_running(tx, who.user, who.is_service).map(drop)
}

/// Counts a deployment that was accepted.
pub(super) fn count_deployment(tx: &mut Tx<'_>, by: Option<&Agent>) -> Result<(), AppError> {
    let Some(by) = by else { return Ok(()) };
    let hour = by.hour.with_deployment(tx.now());
    Ok(agent::set_hour(tx, by.user, hour)?)
}

/// Finds an agent, and fails if all agents are stopped.
fn find_running(tx: &mut Tx<'_>, user: UserId, is_service: bool) -> Result<Option<Agent>, AppError> {
    if !is_service {
        return Ok(None);
    }
    let Some(found) = agent::by_user(tx, user)? else { return Ok(None) };
    let Some(stop) = agent::find_stop(tx)? else { return Ok(Some(found)) };
    let why = stop.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let text = format!("{} stopped all agents at {}{why}", stop.by.name, stop.at);
    Err(AppError::new(Code::AgentsStopped, text))
}

fn check(result: Result<(), AgentLimitReached>) -> Result<(), AppError> {
    Ok(result.map_err(CommandRefusal::AgentLimit)?)
}

fn load_owner(db: &mut impl StoreRead, user: UserId) -> Result<(UserId, String), AppError> {
    let account = user::by_id(db, user)?.map(|found| found.account);
    let Some(UserAccount::Service { owner, .. }) = account else {
        return Err(AppError::bug("an agent that is no service account"));
    };
    let found = user::by_id(db, owner)?.ok_or_else(|| AppError::bug("an agent without an owner"))?;
    Ok((owner, found.name.to_string()))
}

pub(super) fn limits_to_wire(it: &AgentLimits) -> wire::WireAgentLimits {
    wire::WireAgentLimits {
        sessions: it.sessions,
        session_seconds: it.session_seconds,
        deployments_per_hour: it.deployments_per_hour,
        force_claim: match it.force_claim {
            TakeoverScope::Never => wire::WireTakeoverScope::Never,
            TakeoverScope::Agents => wire::WireTakeoverScope::Agents,
            TakeoverScope::Anyone => wire::WireTakeoverScope::Anyone,
        },
    }
}

fn status_to_wire(stop: Option<&AgentStop>) -> wire::WireAgentsStatus {
    wire::WireAgentsStatus {
        stopped: stop.is_some(),
        stopped_at: stop.map(|stop| stop.at.to_string()),
        stopped_by: stop.map(|stop| actor_to_wire(&stop.by)),
        reason: stop.and_then(|stop| stop.reason.as_ref()).map(ToString::to_string),
        sessions_ended: None,
        tickets_cancelled: None,
    }
}
