//! Locks of the remote lock protocol: sessions and tickets, found by their id alone, and the environments that can be
//! locked.

use std::collections::BTreeMap;

use berth_core::access::{Action, EffectiveAccess, permit};
use berth_core::environment::{
    EnvironmentStatus, InactiveSession, Lock, Session, SessionEndReason, Ticket, TicketCause, TicketState,
};
use berth_core::id::{SessionId, TicketId};
use berth_core::name::Slug;
use berth_core::pipeline::model::VarValue;
use berth_core::time::Timestamp;
use berth_store::StoreRead;
use berth_store::pagination::PageStart;
use berth_store::tables::pipeline::PipelineFilter;
use berth_store::tables::{environment, pipeline, session, ticket};

use super::{EnvironmentPath, holder, queue, response};
use crate::app::resource_access::{environment_in, require_on_environment};
use crate::app::{App, pipelines};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

/// Maximum number of pipelines whose environments are listed.
const PIPELINES_LISTED_MAX: i64 = 500;
/// Maximum number of environments that are listed.
const RESOURCES_LISTED_MAX: usize = 2_000;

/// What the id of a lock stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteLockKey {
    Session(SessionId),
    Ticket(TicketId),
}

/// A lock as its holder sees it.
#[derive(Debug, Clone)]
pub struct RemoteLock {
    /// The environment. If the lock is a claim of any of several environments, the granted one.
    pub place: EnvironmentPath,
    pub pipeline: Slug,
    pub vars: BTreeMap<String, String>,
    pub state: RemoteLockState,
}

#[derive(Debug, Clone)]
pub enum RemoteLockState {
    Waiting {
        ticket: TicketId,
    },
    /// The session is active, but work of an earlier session or a reset may still change the environment.
    Preparing {
        session: SessionId,
    },
    Held {
        session: SessionId,
        fence: i64,
    },
    /// The ticket was cancelled by a request.
    Cancelled,
    /// No ticket was granted within the waiting time.
    TimedOut,
    Ended {
        reason: RemoteLockEnd,
        detail: String,
    },
}

/// Why a lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteLockEnd {
    Session(SessionEndReason),
    Ticket(TicketCause),
}

/// An environment that the caller may lock.
#[derive(Debug, Clone)]
pub struct LockableEnvironment {
    pub pipeline: Slug,
    pub lock: Lock,
}

impl App {
    /// Finds a lock of the caller. `None` if there is none with this id, or if it belongs to another account.
    pub async fn find_remote_lock(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        key: RemoteLockKey,
    ) -> Result<Option<RemoteLock>, AppError> {
        let (access, by) = (who.access().clone(), holder(who.principal()));
        self.read(who, move |db| {
            let (lock, state) = match key {
                RemoteLockKey::Session(id) => {
                    let Some(found) = session::by_id(db, id)?.filter(|it| it.holder.is_same(&by)) else {
                        return Ok(None);
                    };
                    let lock = load_lock(db, &found)?;
                    let state = session_state(found, &lock, db.now());
                    (lock, state)
                }
                RemoteLockKey::Ticket(id) => {
                    let Some(found) = ticket::by_id(db, id)?.filter(|it| it.holder.is_same(&by)) else {
                        return Ok(None);
                    };
                    let lock = environment::by_id(db, found.environment)?;
                    let lock = lock.ok_or_else(|| AppError::bug("a ticket without an environment"))?;
                    let (lock, found) = queue::find_granted(db, lock, found)?;
                    let state = ticket_state(db, &found, &lock)?;
                    (lock, state)
                }
            };
            require_on_environment(db, &access, Action::EnvironmentsClaim, &lock.environment)?;
            let slug = pipeline::find_slug(db, lock.environment.pipeline)?;
            let slug = slug.ok_or_else(|| AppError::bug("an environment without a pipeline"))?;
            let vars = &lock.environment.configuration.vars;
            Ok(Some(RemoteLock {
                place: EnvironmentPath {
                    pipeline: lock.environment.pipeline.to_string(),
                    env_name: lock.environment.name.to_string(),
                },
                pipeline: slug,
                vars: vars.iter().map(|(name, value)| (name.to_string(), var_text(value))).collect(),
                state,
            }))
        })
        .await
    }

    /// Lists the environments of a pipeline that have the label and that the caller may claim, by name.
    pub async fn list_labelled_environments(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        pipeline: String,
        label: String,
    ) -> Result<Vec<String>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let locks = list_claimable(db, &access, &pipeline, &label)?;
            Ok(locks.iter().map(|lock| lock.environment.name.to_string()).collect())
        })
        .await
    }

    /// Lists the environments that the caller may claim.
    pub async fn list_lockable_environments(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
    ) -> Result<Vec<LockableEnvironment>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let (filter, start) = (PipelineFilter::default(), PageStart::Offset(0));
            let page = pipelines::list_visible(db, &access, &filter, &start, PIPELINES_LISTED_MAX)?;
            let mut found = Vec::new();
            for pipeline in page.items {
                for lock in environment::list_of_pipeline(db, pipeline.id)? {
                    let target = environment_in(&pipeline.slug, &lock.environment);
                    if lock.environment.is_declared && access.may(Action::EnvironmentsClaim, &target) {
                        found.push(LockableEnvironment { pipeline: pipeline.slug.clone(), lock });
                    }
                    if found.len() == RESOURCES_LISTED_MAX {
                        return Ok(found);
                    }
                }
            }
            Ok(found)
        })
        .await
    }
}

/// Lists the environments of a pipeline that have the label and that the caller may claim.
pub(super) fn list_claimable(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    pipeline: &str,
    label: &str,
) -> Result<Vec<Lock>, AppError> {
    let found = pipelines::find(db, access, Action::PipelinesRead, pipeline)?;
    let mut locks = environment::list_of_pipeline(db, found.id)?;
    locks.retain(|lock| {
        let environment = &lock.environment;
        let has_label = environment.configuration.labels.iter().any(|it| it.as_str() == label);
        let target = environment_in(&found.slug, environment);
        environment.is_declared && has_label && access.may(Action::EnvironmentsClaim, &target)
    });
    Ok(locks)
}

fn load_lock(db: &mut impl StoreRead, of: &Session) -> Result<Lock, AppError> {
    let lock = environment::by_id(db, of.environment)?;
    lock.ok_or_else(|| AppError::bug("a session without an environment"))
}

fn session_state(found: Session, lock: &Lock, now: Timestamp) -> RemoteLockState {
    let (session, fence) = (found.id, found.fence.number());
    if let Some(end) = &found.end {
        let reason = RemoteLockEnd::Session(end.reason);
        let current_fence = lock.session.as_ref().map_or(lock.environment.fence, |it| it.fence);
        let problem = response::session_not_active(&InactiveSession { session: found, current_fence });
        return RemoteLockState::Ended { reason, detail: problem.detail };
    }
    // The job that ends sessions may not have run yet.
    let is_over = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    let overdue = match (is_over(found.lease_expires_at), is_over(found.expires_at)) {
        (true, _) => Some((SessionEndReason::Lease, "no heartbeat arrived within the lease")),
        (_, true) => Some((SessionEndReason::Expired, "the session has expired")),
        (false, false) => None,
    };
    match (overdue, lock.state()) {
        (Some((reason, detail)), _) => {
            RemoteLockState::Ended { reason: RemoteLockEnd::Session(reason), detail: detail.to_owned() }
        }
        (None, EnvironmentStatus::Contested | EnvironmentStatus::Resetting) => {
            RemoteLockState::Preparing { session }
        }
        (None, _) => RemoteLockState::Held { session, fence },
    }
}

fn ticket_state(db: &mut impl StoreRead, found: &Ticket, lock: &Lock) -> Result<RemoteLockState, AppError> {
    Ok(match &found.status {
        TicketState::Waiting => RemoteLockState::Waiting { ticket: found.id },
        TicketState::Expired { .. } => RemoteLockState::TimedOut,
        TicketState::Cancelled { cause: TicketCause::Requested, .. } => RemoteLockState::Cancelled,
        TicketState::Cancelled { cause, .. } => RemoteLockState::Ended {
            reason: RemoteLockEnd::Ticket(*cause),
            detail: format!("the ticket was cancelled: {}", cause.as_str()),
        },
        TicketState::Granted { session, .. } => {
            let granted = session::by_id(db, *session)?;
            let granted = granted.ok_or_else(|| AppError::bug("a granted ticket without a session"))?;
            // A session that was handed over belongs to another holder, and has ended for this one.
            session_state(granted, lock, db.now())
        }
    })
}

fn var_text(value: &VarValue) -> String {
    match value {
        VarValue::Bool(it) => it.to_string(),
        VarValue::Number(it) => it.to_string(),
        VarValue::Text(it) => it.clone(),
    }
}
