//! Endpoints of the remote lock protocol, with which the Lockable Resources plugin of Jenkins acquires, renews and
//! releases locks on another server. A lock is a session or a ticket, and all rules of the API apply.

mod request;
mod response;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use berth_api::problem::Code;
use berth_api::session::ClaimResult;
use berth_core::access::permit;
use berth_store::idempotency::IdempotencyKey;
use http::StatusCode;
use serde_json::{Value, json};

pub(in crate::http) use response::with_error_code;

use self::request::{LockRequest, LockTarget, ONE_AT_A_TIME, VariableName};
use self::response::{LockError, lock_to_wire, resource_to_wire, state_name};
use crate::app::{
    App, ClaimRequest, EnvironmentPath, IdempotentResponse, RemoteLock, RemoteLockKey, RemoteLockState,
};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::read_post;

/// Path of the protocol. The OpenAPI document leaves it out, because another project defines it.
pub const REMOTE_LOCK_PATH: &str = "/lockable-resources/remote/v1/";

/// Id of a lock that was not waited for.
const SKIPPED: &str = "skipped";
/// A release runs at most this often. The second run ends a session that was granted while its ticket was cancelled.
const RELEASE_RUNS_MAX: usize = 2;

type LockCaller = AuthorizedCaller<permit::EnvironmentsClaim>;

/// The id of a lock, which clients treat as opaque: a session or ticket, and the name of the variable that the client
/// asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LockId {
    key: RemoteLockKey,
    variable: Option<VariableName>,
}

impl LockId {
    fn variable(&self) -> Option<&str> {
        self.variable.as_ref().map(VariableName::as_str)
    }
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            RemoteLockKey::Session(id) => write!(f, "{id}")?,
            RemoteLockKey::Ticket(id) => write!(f, "{id}")?,
        }
        self.variable().map_or(Ok(()), |name| write!(f, ".{name}"))
    }
}

impl FromStr for LockId {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self, LockError> {
        let (id, variable) = text.split_once('.').map_or((text, None), |(id, name)| (id, Some(name)));
        let session = id.parse().map(RemoteLockKey::Session);
        let key = session.or_else(|_| id.parse().map(RemoteLockKey::Ticket));
        let variable = variable.map(|name| VariableName::parse(name).ok_or_else(LockError::unknown_lock));
        Ok(Self { key: key.map_err(|_| LockError::unknown_lock())?, variable: variable.transpose()? })
    }
}

/// Acquire a lock, or join the queue.
#[utoipa::path(post, path = "/lockable-resources/remote/v1/acquire", tag = "environments",
    responses((status = 202, description = "The id and state of the lock", body = Object)))]
pub(crate) async fn acquire_lock(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    request: Request,
) -> Result<Response, AppError> {
    let (bytes, once) = read_post(request, &app).await?;
    let asked = match LockRequest::parse(&bytes) {
        Ok(asked) => asked,
        Err(refused) => return Ok(refused.into_response()),
    };
    let (skips, variable) = (asked.skip_if_locked, asked.variable.clone());
    match claim(&app, &who, asked, once).await? {
        Ok(key) => {
            let id = LockId { key, variable };
            // The lock exists, so the client must get its id in any case. It polls the state.
            let lock = app.find_remote_lock(&who, key).await.ok().flatten();
            let state = lock.map_or("QUEUED", |lock| state_name(&lock.state).0);
            Ok(accepted(&id.to_string(), state))
        }
        Err(ClaimRefusal::Held(_)) if skips => Ok(accepted(SKIPPED, "SKIPPED")),
        Err(ClaimRefusal::Held(refused)) => Err(refused),
        Err(ClaimRefusal::Protocol(refused)) => Ok(refused.into_response()),
    }
}

/// Get the state of a lock.
#[utoipa::path(get, path = "/lockable-resources/remote/v1/acquire/{lockId}", tag = "environments",
    responses((status = 200, description = "The state of the lock", body = Object)))]
pub(crate) async fn view_lock(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path(id): Path<String>,
) -> Result<Response, AppError> {
    if id == SKIPPED {
        return Ok(Json(json!({"lockId": SKIPPED, "state": "SKIPPED"})).into_response());
    }
    let Ok(id) = id.parse::<LockId>() else { return Ok(LockError::unknown_lock().into_response()) };
    let Some(lock) = find(&app, &who, id.key).await? else {
        return Ok(LockError::unknown_lock().into_response());
    };
    if let RemoteLockState::Preparing { session } = &lock.state {
        // The client sends heartbeats only when it has the lock, so a poll counts as one. If the session has just ended,
        // the next poll shows that.
        let renewed = app.renew_session_lease(&who, lock.place.clone(), session.to_string(), None).await;
        if let Err(refused) = renewed {
            tracing::debug!(?refused, "lease of a waiting lock not renewed");
        }
    }
    Ok(Json(lock_to_wire(&id, &lock)).into_response())
}

/// Send a heartbeat for a lock.
#[utoipa::path(post, path = "/lockable-resources/remote/v1/lease/{lockId}/heartbeat", tag = "environments",
    responses((status = 204, description = "The lock is held")))]
pub(crate) async fn renew_lock(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path(id): Path<String>,
) -> Result<Response, AppError> {
    let Ok(id) = id.parse::<LockId>() else { return Ok(LockError::not_held(None).into_response()) };
    let lock = find(&app, &who, id.key).await?;
    let Some((lock, session)) = lock.as_ref().and_then(|lock| Some((lock, active_session(&lock.state)?)))
    else {
        return Ok(LockError::not_held(lock.as_ref().map(|lock| &lock.state)).into_response());
    };
    match app.renew_session_lease(&who, lock.place.clone(), session, None).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(refused) if has_code(&refused, Code::SessionNotActive) => {
            let lock = find(&app, &who, id.key).await?;
            Ok(LockError::not_held(lock.as_ref().map(|lock| &lock.state)).into_response())
        }
        Err(refused) => Err(refused),
    }
}

/// Release a lock, or leave the queue. Has no effect on a lock that has ended or that never existed.
#[utoipa::path(post, path = "/lockable-resources/remote/v1/lease/{lockId}/release", tag = "environments",
    responses((status = 204, description = "The lock is not held any more")))]
pub(crate) async fn release_lock(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path(id): Path<String>,
) -> Result<StatusCode, AppError> {
    let Ok(id) = id.parse::<LockId>() else { return Ok(StatusCode::NO_CONTENT) };
    for _ in 0..RELEASE_RUNS_MAX {
        let Some(lock) = find(&app, &who, id.key).await? else { break };
        if let RemoteLockState::Waiting { ticket } = &lock.state {
            app.leave_queue(&who, lock.place, ticket.to_string()).await?;
        } else if let Some(session) = active_session(&lock.state) {
            app.release_session(&who, lock.place, session, None).await?;
        } else {
            break;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// List the environments that the caller may lock.
#[utoipa::path(get, operation_id = "listLockableResources", path = "/lockable-resources/remote/v1/resources", tag = "environments",
    responses((status = 200, description = "The resources and their states", body = Object)))]
pub(crate) async fn list_resources(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
) -> Result<Json<Value>, AppError> {
    let found = app.list_lockable_environments(&who).await?;
    let resources: Vec<Value> = found.iter().map(resource_to_wire).collect();
    Ok(Json(json!({"acceptNewAcquires": true, "resources": resources})))
}

enum ClaimRefusal {
    /// The environment is held, and the client does not wait.
    Held(AppError),
    Protocol(LockError),
}

/// Claims what the request asks for. Returns the session or the ticket.
async fn claim(
    app: &App,
    who: &LockCaller,
    asked: LockRequest,
    once: Option<IdempotencyKey>,
) -> Result<Result<RemoteLockKey, ClaimRefusal>, AppError> {
    let terms = ClaimRequest {
        wish: asked.terms,
        wait_seconds: (!asked.skip_if_locked).then_some(asked.wait_seconds),
        session_token: false,
    };
    let unknown = match asked.target {
        LockTarget::Resource { .. } => LockError::unknown_resource,
        LockTarget::Label { .. } => LockError::unknown_label,
    };
    let claimed = match asked.target {
        LockTarget::Resource { pipeline, environment } => {
            let place = EnvironmentPath { pipeline, env_name: environment };
            app.claim_session(who, place, terms, once).await
        }
        LockTarget::Label { pipeline, label, all: false } => {
            app.claim_any(who, pipeline, label, terms, once).await
        }
        LockTarget::Label { pipeline, label, all: true } => {
            let found = app.list_labelled_environments(who, pipeline.clone(), label).await;
            match found.as_deref() {
                Ok([one]) => {
                    let place = EnvironmentPath { pipeline, env_name: one.clone() };
                    app.claim_session(who, place, terms, once).await
                }
                Ok([_, _, ..]) => {
                    let text = ONE_AT_A_TIME;
                    let refused = LockError::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", text);
                    return Ok(Err(ClaimRefusal::Protocol(refused)));
                }
                _ => found.and(Err(AppError::not_found("label"))),
            }
        }
    };
    match claimed {
        Ok(claimed) => lock_key(claimed).map(Ok),
        Err(refused) if has_code(&refused, Code::EnvironmentLocked) => Ok(Err(ClaimRefusal::Held(refused))),
        Err(refused) if has_code(&refused, Code::NotFound) || is_unknown_label(&refused) => {
            Ok(Err(ClaimRefusal::Protocol(unknown())))
        }
        Err(refused) => Err(refused),
    }
}

/// Returns the session or ticket of a claim, also of an earlier request with the same idempotency key.
fn lock_key(claimed: IdempotentResponse<ClaimResult>) -> Result<RemoteLockKey, AppError> {
    let (session, ticket) = match claimed {
        IdempotentResponse::Fresh(answer) => match answer.body {
            ClaimResult::Session(session) => (Some(session.session_id), None),
            ClaimResult::Ticket(ticket) => (None, Some(ticket.ticket_id)),
        },
        IdempotentResponse::Replayed(stored) => {
            let body: Value = serde_json::from_str(&stored.body).unwrap_or_default();
            let text = |name: &str| body["data"][name].as_str().map(str::to_owned);
            // A ticket also has a session id once it is granted.
            match text("ticketId") {
                Some(ticket) => (None, Some(ticket)),
                None => (text("sessionId"), None),
            }
        }
    };
    let session = session.and_then(|id| id.parse().ok()).map(RemoteLockKey::Session);
    let ticket = || ticket.and_then(|id| id.parse().ok()).map(RemoteLockKey::Ticket);
    session.or_else(ticket).ok_or_else(|| AppError::bug("a claim without a session or ticket"))
}

/// Finds a lock of the caller. An environment that the caller may not see counts as absent.
async fn find(app: &App, who: &LockCaller, key: RemoteLockKey) -> Result<Option<RemoteLock>, AppError> {
    match app.find_remote_lock(who, key).await {
        Err(refused) if has_code(&refused, Code::NotFound) => Ok(None),
        found => found,
    }
}

fn active_session(state: &RemoteLockState) -> Option<String> {
    match state {
        RemoteLockState::Preparing { session } | RemoteLockState::Held { session, .. } => {
            Some(session.to_string())
        }
        _ => None,
    }
}

fn accepted(id: &str, state: &str) -> Response {
    (StatusCode::ACCEPTED, Json(json!({"lockId": id, "state": state}))).into_response()
}

fn has_code(error: &AppError, code: Code) -> bool {
    matches!(error, AppError::Problem(problem) if problem.code == code.as_str())
}

/// Whether a claim of any environment was refused because none has the label.
fn is_unknown_label(error: &AppError) -> bool {
    let AppError::Problem(problem) = error else { return false };
    problem.errors.iter().any(|error| error.pointer == "/label")
}
