//! Conversion of environments, sessions and tickets into API responses.

use berth_api::deployment::WireDeployment;
use berth_api::environment as wire;
use berth_api::problem::{Code, ProblemDetails};
use berth_api::session as wire_session;
use berth_core::decision::CommandRefusal;
use berth_core::environment::{
    EnvironmentStatus, InactiveSession, Lock, LockConflict, LockHolder, Session, SessionDrain,
    SessionEndReason, SessionState, Ticket, TicketState, ends_at, eta,
};
use berth_core::event::ActorType;
use berth_core::id::OrgId;
use berth_core::pipeline::model::{
    ClaimTrigger, EnvironmentDefinition as Configuration, QueueOrder, ReleaseAction, ReleaseCondition,
    VarValue,
};
use berth_core::time::Timestamp;

use super::location;
use crate::error::AppError;
use crate::wire::actor_to_wire;

pub(super) fn environment_to_wire(lock: &Lock) -> wire::WireEnvironment {
    let environment = &lock.environment;
    wire::WireEnvironment {
        id: environment.id.to_string(),
        env_name: environment.name.to_string(),
        name: environment.name.to_string(),
        pipeline_id: environment.pipeline.to_string(),
        configuration: configuration_to_wire(&environment.configuration),
        lock_status: lock_status_to_wire(lock),
        lock: lock_to_wire(lock),
        state: match lock.state() {
            EnvironmentStatus::Clean => wire::EnvironmentState::Clean,
            EnvironmentStatus::Dirty => wire::EnvironmentState::Dirty,
            EnvironmentStatus::Resetting => wire::EnvironmentState::Resetting,
            EnvironmentStatus::Contested => wire::EnvironmentState::Contested,
            EnvironmentStatus::Unknown => wire::EnvironmentState::Unknown,
        },
        deployed_commit_id: environment.deployed_commit.as_ref().map(ToString::to_string),
        commit: None,
        fence: environment.fence.number(),
        queue_length: lock.tickets.len(),
        pull_request: None,
    }
}

fn configuration_to_wire(it: &Configuration) -> wire::EnvironmentConfiguration {
    let trigger = |trigger: &ClaimTrigger| match trigger {
        ClaimTrigger::PullRequest { target_branches, when } => wire::Trigger {
            on: "pull_request".into(),
            target_branches: Some(target_branches.clone()),
            labels: (!when.labels.is_empty()).then(|| when.labels.clone()),
            draft: when.draft,
        },
    };
    let rule = |rule: &ReleaseCondition| match rule {
        ReleaseCondition::PrClosed => wire::ReleaseRule { on: "pr_closed".into(), after_idle_seconds: None },
        ReleaseCondition::Timeout { after_idle } => {
            wire::ReleaseRule { on: "timeout".into(), after_idle_seconds: Some(after_idle.as_secs()) }
        }
    };
    let scalar = |value: &VarValue| match value {
        VarValue::Bool(it) => (*it).into(),
        VarValue::Number(it) => it.clone().into(),
        VarValue::Text(it) => it.clone().into(),
    };
    // Environments can always be claimed and released through the API, although definitions do not say so.
    let (by_api, ends_by_api) = (
        wire::Trigger { on: "api".into(), target_branches: None, labels: None, draft: None },
        wire::ReleaseRule { on: "api".into(), after_idle_seconds: None },
    );
    wire::EnvironmentConfiguration {
        triggers: std::iter::once(by_api).chain(it.triggers.iter().map(trigger)).collect(),
        release: std::iter::once(ends_by_api).chain(it.release.iter().map(rule)).collect(),
        on_release: match it.on_release {
            ReleaseAction::None => wire::OnRelease::None,
            ReleaseAction::DeployTracked => wire::OnRelease::DeployTracked,
        },
        vars: it.vars.iter().map(|(name, value)| (name.to_string(), scalar(value))).collect(),
        skip: it.skip.iter().map(ToString::to_string).collect(),
        labels: it.labels.iter().map(ToString::to_string).collect(),
        owner: it.owner.as_ref().map(ToString::to_string),
        ttl_seconds: it.ttl.and_then(|ttl| i64::try_from(ttl.as_secs()).ok()),
        queue: (!it.queue.is_default()).then(|| wire::QueueConfiguration {
            order: match it.queue.order {
                QueueOrder::Arrival => wire::WireQueueOrder::Arrival,
                QueueOrder::Class => wire::WireQueueOrder::Class,
            },
            ageing_seconds: it.queue.ageing.as_secs(),
        }),
    }
}

fn lock_status_to_wire(lock: &Lock) -> wire::LockStatus {
    if lock.session.is_some() { wire::LockStatus::Locked } else { wire::LockStatus::Unlocked }
}

fn lock_to_wire(lock: &Lock) -> Option<wire::WireLock> {
    let session = lock.session.as_ref()?;
    Some(wire::WireLock {
        status: wire::LockStatus::Locked,
        session_id: session.id.to_string(),
        holder: holder_to_wire(&session.holder),
        commit_id: session.commit.as_ref().map(ToString::to_string),
        context: session.context.as_ref().map(ToString::to_string),
        contact: session.contact.as_ref().map(ToString::to_string),
        claimed_at: session.claimed_at.to_string(),
        expires_at: ends_at(lock).map(|(at, _)| at.to_string()),
        lease_expires_at: session.lease_expires_at.map(|at| at.to_string()),
        fence: session.fence.number(),
        takeover: takeover_to_wire(lock),
    })
}

/// The announced takeover of the active session.
pub(in crate::app) fn takeover_to_wire(lock: &Lock) -> Option<wire_session::Takeover> {
    let (ticket, takeover) = lock.pending_takeover()?;
    Some(wire_session::Takeover {
        by: holder_to_wire(&ticket.holder),
        at: takeover.at.map(|at| at.to_string()),
        reason: takeover.why.as_ref().map(ToString::to_string),
    })
}

pub(in crate::app) fn holder_to_wire(it: &LockHolder) -> wire::Holder {
    wire::Holder {
        kind: match it.kind {
            _ if it.agent.is_some() => wire::HolderKind::Agent,
            ActorType::Service => wire::HolderKind::Service,
            ActorType::User | ActorType::System => wire::HolderKind::User,
        },
        id: it.id.to_string(),
        name: it.name.clone(),
        owner: it
            .agent
            .as_ref()
            .map(|agent| wire::HolderOwner { id: agent.owner.to_string(), name: agent.owner_name.clone() }),
    }
}

pub(super) fn session_status_to_wire(it: SessionState) -> wire_session::SessionStatus {
    match it {
        SessionState::Active => wire_session::SessionStatus::Active,
        SessionState::Released => wire_session::SessionStatus::Released,
        SessionState::Overridden => wire_session::SessionStatus::Overridden,
        SessionState::Expired => wire_session::SessionStatus::Expired,
    }
}

pub(super) fn end_reason_to_wire(it: SessionEndReason) -> wire_session::EndReason {
    match it {
        SessionEndReason::Released => wire_session::EndReason::Released,
        SessionEndReason::HandedOver => wire_session::EndReason::HandedOver,
        SessionEndReason::EnvironmentDeleted => wire_session::EndReason::EnvironmentDeleted,
        SessionEndReason::Overridden => wire_session::EndReason::Overridden,
        SessionEndReason::Expired => wire_session::EndReason::Expired,
        SessionEndReason::Idle => wire_session::EndReason::Idle,
        SessionEndReason::Lease => wire_session::EndReason::Lease,
        SessionEndReason::AgentsStopped => wire_session::EndReason::AgentsStopped,
        SessionEndReason::Restored => wire_session::EndReason::Restored,
    }
}

/// `lock` is the environment's current lock; `deployments` are the session's deployments, newest first.
pub(super) fn session_to_wire(
    it: &Session,
    org: OrgId,
    lock: &Lock,
    deployments: Vec<WireDeployment>,
) -> wire_session::WireSession {
    let is_active = lock.session.as_ref().is_some_and(|active| active.id == it.id);
    let override_end = it.end.as_ref().filter(|end| end.reason == SessionEndReason::Overridden);
    // An ended session still shows the expiry that it had while it was active.
    let expires_at = if is_active { ends_at(lock).map(|(at, _)| at) } else { it.expires_at };
    wire_session::WireSession {
        session_id: it.id.to_string(),
        id: it.id.to_string(),
        env_name: lock.environment.name.to_string(),
        environment_id: lock.environment.id.to_string(),
        pipeline_id: lock.environment.pipeline.to_string(),
        status: session_status_to_wire(it.status()),
        overridden: override_end.is_some(),
        overridden_by: override_end.map(|end| actor_to_wire(&end.by)),
        overridden_at: override_end.map(|end| end.at.to_string()),
        override_reason: override_end.and_then(|end| end.why.as_ref()).map(ToString::to_string),
        holder: holder_to_wire(&it.holder),
        commit_id: it.commit.as_ref().map(ToString::to_string),
        context: it.context.as_ref().map(ToString::to_string),
        contact: it.contact.as_ref().map(ToString::to_string),
        fence: it.fence.number(),
        claimed_at: it.claimed_at.to_string(),
        extended_at: it.extended_at.map(|at| at.to_string()),
        expires_at: expires_at.map(|at| at.to_string()),
        lease_seconds: it.lease_seconds,
        lease_expires_at: it.lease_expires_at.map(|at| at.to_string()),
        ended_at: it.end.as_ref().map(|end| end.at.to_string()),
        end_reason: it.end.as_ref().map(|end| end_reason_to_wire(end.reason)),
        ended_by: it.end.as_ref().map(|end| actor_to_wire(&end.by)),
        takeover: takeover_to_wire(lock).filter(|_| is_active),
        drain: it.drain.as_ref().map(|it| drain_to_wire(it, lock)),
        lock_status: if is_active { wire::LockStatus::Locked } else { wire::LockStatus::Unlocked },
        holds_lock: is_active,
        environment: wire_session::SessionEnvironment {
            lock_status: lock_status_to_wire(lock),
            lock: lock_to_wire(lock),
        },
        deployment_count: it.deployments,
        deployments_url: format!("/api/v1/organizations/{org}/deployments?session={}", it.id),
        deployment_history: deployments.clone(),
        deployments,
        pull_request: None,
        deployment_id: None,
        released: None,
        session_token: None,
    }
}

/// Converts a drain, with the deployments that have not stopped yet.
fn drain_to_wire(it: &SessionDrain, lock: &Lock) -> wire_session::Drain {
    let runs = |id: &&berth_core::id::DeploymentId| {
        lock.leftover_deployments().any(|deployment| deployment.id == **id)
    };
    wire_session::Drain {
        pending: it.pending.iter().filter(runs).map(ToString::to_string).collect(),
        deadline: it.deadline.to_string(),
        completed_at: it.completed_at.map(|at| at.to_string()),
    }
}

/// `lengths` are the durations of ended sessions in seconds, for the wait estimate.
pub(super) fn ticket_to_wire(
    it: &Ticket,
    lock: &Lock,
    lengths: &[i64],
    now: Timestamp,
) -> wire_session::WireTicket {
    let (status, ended_at, cause, session, deployment) = match &it.status {
        TicketState::Waiting => (wire_session::TicketStatus::Waiting, None, None, None, None),
        TicketState::Granted { at, session, deployment } => {
            (wire_session::TicketStatus::Granted, Some(at), None, Some(session), deployment.as_ref())
        }
        TicketState::Cancelled { at, cause } => {
            (wire_session::TicketStatus::Cancelled, Some(at), Some(cause.as_str()), None, None)
        }
        TicketState::Expired { at } => (wire_session::TicketStatus::Expired, Some(at), None, None, None),
    };
    let position = lock.position(it.id);
    let takeover_at = it.takeover.as_ref().and_then(|takeover| takeover.at);
    let eta = eta::estimate_wait(lock, it.id, lengths, now);
    wire_session::WireTicket {
        ticket_id: it.id.to_string(),
        id: it.id.to_string(),
        env_name: lock.environment.name.to_string(),
        status,
        position,
        eta_seconds: eta.and_then(|eta| eta.seconds),
        eta_basis: eta.map(|eta| match eta.basis {
            eta::EstimateBasis::Expiry => wire_session::EtaBasis::Expiry,
            eta::EstimateBasis::History => wire_session::EtaBasis::History,
            eta::EstimateBasis::Unknown => wire_session::EtaBasis::Unknown,
        }),
        group_id: it.group.map(|id| id.to_string()),
        holder: holder_to_wire(&it.holder),
        commit_id: it.terms.commit.as_ref().map(ToString::to_string),
        context: it.terms.context.as_ref().map(ToString::to_string),
        contact: it.terms.contact.as_ref().map(ToString::to_string),
        created_at: it.created_at.to_string(),
        expires_at: it.expires_at.to_string(),
        ended_at: ended_at.map(ToString::to_string),
        cause: cause.map(str::to_owned),
        session_id: session.map(ToString::to_string),
        deployment_id: deployment.map(ToString::to_string),
        takeover_at: takeover_at.map(|at| at.to_string()),
        session_token: None,
    }
}

/// Adds details to a refusal: the holder, the start and end of the session, its reason, and links to possible next
/// actions.
pub(in crate::app) fn refusal_error(
    refusal: CommandRefusal,
    org: OrgId,
    lock: &Lock,
    now: Timestamp,
) -> AppError {
    match refusal {
        CommandRefusal::EnvironmentLocked(locked) => environment_locked(&locked, org, lock, now).into(),
        CommandRefusal::SessionNotActive(not_active) => session_not_active(&not_active).into(),
        CommandRefusal::NotSessionHolder(by) => {
            let text = format!("the session is held by {}; only they may do this", by.name);
            ProblemDetails::new(Code::NotSessionHolder, text)
                .with_member("holder", to_json_value(&holder_to_wire(&by)))
                .into()
        }
        CommandRefusal::FenceMoved { current } => {
            let text = refusal.to_string();
            let current = current.map(berth_core::environment::fence::Fence::number);
            ProblemDetails::new(Code::PreconditionFailed, text).with_member("currentFence", current).into()
        }
        other => other.into(),
    }
}

fn environment_locked(locked: &LockConflict, org: OrgId, lock: &Lock, now: Timestamp) -> ProblemDetails {
    let session = &locked.session;
    let name = &lock.environment.name;
    let until = ends_at(lock).map(|(at, _)| at);
    let why = session.context.as_ref().map(|why| format!(" (\"{why}\")")).unwrap_or_default();
    let end = until.map(|at| format!(", until {at}")).unwrap_or_default();
    let text = if locked.is_self {
        let contact = session.contact.as_ref().map(|contact| format!(" for {contact}")).unwrap_or_default();
        format!(
            "you already hold environment \"{name}\"{contact}, since {}: session {}",
            session.claimed_at, session.id
        )
    } else {
        format!(
            "environment \"{name}\" has been held by {} since {}{why}{end}. Join the queue with \"queue\": true, \
             or take over with force-claim.",
            session.holder_label(),
            session.claimed_at
        )
    };
    let base = location(org, lock);
    let problem = ProblemDetails::new(Code::EnvironmentLocked, text)
        .with_member("holder", to_json_value(&holder_to_wire(&session.holder)))
        .with_member("since", session.claimed_at.to_string())
        .with_member("context", session.context.as_ref().map(ToString::to_string))
        .with_member("commitId", session.commit.as_ref().map(ToString::to_string))
        .with_member("expiresAt", until.map(|at| at.to_string()))
        .with_member("sessionId", session.id.to_string())
        .with_member("fence", session.fence.number())
        .with_member("queueLength", locked.queue_length)
        .with_member("self", locked.is_self)
        .with_member(
            "links",
            serde_json::json!({ "queue": format!("{base}/queue"), "forceClaim": format!("{base}/force-claim") }),
        );
    let problem = match &session.contact {
        Some(contact) => problem.with_member("contact", contact.to_string()),
        None => problem,
    };
    match until {
        Some(at) => problem.with_member("retryAfterSeconds", at.seconds_since(now).max(1)),
        None => problem,
    }
}

pub(in crate::app) fn session_not_active(it: &InactiveSession) -> ProblemDetails {
    let session = &it.session;
    let end = session.end.as_ref();
    let by = end.filter(|end| end.reason == SessionEndReason::Overridden);
    let text = match (by, end) {
        (Some(end), _) => {
            let why = end.why.as_ref().map(|why| format!(": \"{why}\"")).unwrap_or_default();
            format!("{} took over the environment at {}{why}", end.by.name, end.at)
        }
        (None, Some(end)) => format!("the session ended at {}: {}", end.at, end.reason.as_str()),
        (None, None) => "the session is not active".to_owned(),
    };
    ProblemDetails::new(Code::SessionNotActive, text)
        .with_member("sessionStatus", session.status().as_str())
        .with_member("overriddenBy", by.map(|end| to_json_value(&actor_to_wire(&end.by))))
        .with_member("overriddenAt", by.map(|end| end.at.to_string()))
        .with_member("overrideReason", by.and_then(|end| end.why.as_ref()).map(ToString::to_string))
        .with_member("currentFence", it.current_fence.number())
}

fn to_json_value(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}
