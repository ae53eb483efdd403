//! Responses of the remote lock protocol: states, environment variables, and errors with `errorCode` and `message`.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use berth_api::problem::{Code, ProblemDetails};
use berth_core::environment::SessionEndReason;
use http::StatusCode;
use serde_json::{Value, json};

use super::LockId;
use crate::app::{LockableEnvironment, RemoteLock, RemoteLockEnd, RemoteLockState};
use crate::http::respond::OwnErrorBody;

/// An error of the protocol.
#[derive(Debug)]
pub(super) struct LockError {
    status: StatusCode,
    pub(super) code: &'static str,
    message: String,
}

impl LockError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(super) fn unknown_resource() -> Self {
        let text = "there is no environment of this name that you may claim; a resource is named \
                    pipeline/environment, for example shop/qa-1";
        Self::new(StatusCode::NOT_FOUND, "UNKNOWN_RESOURCE", text)
    }

    pub(super) fn unknown_label() -> Self {
        let text = "there is no environment with this label that you may claim; a label is written pipeline/label, \
                    for example shop/small";
        Self::new(StatusCode::NOT_FOUND, "UNKNOWN_LABEL", text)
    }

    pub(super) fn unknown_lock() -> Self {
        Self::new(StatusCode::NOT_FOUND, "LOCK_NOT_FOUND", "you have no lock with this id")
    }

    /// The response to a heartbeat of a lock that is not held.
    pub(super) fn not_held(state: Option<&RemoteLockState>) -> Self {
        let (code, message) = match state {
            Some(RemoteLockState::Ended {
                reason: RemoteLockEnd::Session(SessionEndReason::Released),
                ..
            }) => ("LOCK_NOT_FOUND", "the lock was released".to_owned()),
            Some(RemoteLockState::Ended { reason, detail }) => (end_code(*reason), detail.clone()),
            Some(RemoteLockState::Waiting { .. }) => {
                ("LOCK_NOT_FOUND", "the lock is still queued".to_owned())
            }
            _ => ("LOCK_NOT_FOUND", "the lock is not held".to_owned()),
        };
        Self::new(StatusCode::GONE, code, message)
    }
}

impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        let body = json!({"errorCode": self.code, "message": self.message});
        let mut response = (self.status, Json(body)).into_response();
        response.extensions_mut().insert(OwnErrorBody);
        response
    }
}

/// Adds the members that clients of the protocol read to a problem of the API.
pub(in crate::http) fn with_error_code(problem: ProblemDetails) -> ProblemDetails {
    let code = match problem.code.as_str() {
        code if code == Code::BodyTooLarge.as_str() => "PAYLOAD_TOO_LARGE".to_owned(),
        code => code.to_uppercase(),
    };
    let message = problem.detail.clone();
    problem.with_member("errorCode", code).with_member("message", message)
}

/// The name of a state in the protocol, and why the lock is in it.
pub(super) fn state_name(state: &RemoteLockState) -> (&'static str, Option<&'static str>) {
    match state {
        RemoteLockState::Waiting { .. } | RemoteLockState::Preparing { .. } => ("QUEUED", None),
        RemoteLockState::Held { .. } => ("ACQUIRED", None),
        RemoteLockState::Cancelled => ("CANCELLED", Some("RELEASED")),
        RemoteLockState::TimedOut => ("FAILED", Some("LOCK_WAIT_TIMEOUT")),
        RemoteLockState::Ended { reason, .. } => ("FAILED", Some(end_code(*reason))),
    }
}

fn end_code(reason: RemoteLockEnd) -> &'static str {
    match reason {
        RemoteLockEnd::Session(SessionEndReason::Released) => "RELEASED",
        RemoteLockEnd::Session(SessionEndReason::Lease) => "LOCK_STALE",
        RemoteLockEnd::Session(SessionEndReason::Overridden) => "LOCK_OVERRIDDEN",
        RemoteLockEnd::Session(SessionEndReason::Expired | SessionEndReason::Idle) => "LOCK_EXPIRED",
        RemoteLockEnd::Session(_) | RemoteLockEnd::Ticket(_) => "LOCK_ENDED",
    }
}

/// The response to a poll.
pub(super) fn lock_to_wire(id: &LockId, lock: &RemoteLock) -> Value {
    let (state, code) = state_name(&lock.state);
    let mut body = json!({"lockId": id.to_string(), "state": state});
    if let Some(code) = code {
        body["errorCode"] = code.into();
    }
    match &lock.state {
        RemoteLockState::Held { session, fence } => {
            body["resources"] = json!([resource_name(lock)]);
            body["lockEnvVars"] = json!(env_vars(id, lock, &session.to_string(), *fence));
        }
        RemoteLockState::Ended { detail, .. } => body["message"] = detail.as_str().into(),
        RemoteLockState::TimedOut => {
            body["message"] = "the environment did not become free within the waiting time".into();
        }
        RemoteLockState::Cancelled => body["message"] = "the ticket was cancelled".into(),
        RemoteLockState::Waiting { .. } | RemoteLockState::Preparing { .. } => {}
    }
    body
}

fn resource_name(lock: &RemoteLock) -> String {
    format!("{}/{}", lock.pipeline, lock.place.env_name)
}

/// Environment variables of the locked block: the ones that `berth env claim` sets, and, with `variable`, the name of the
/// resource and its properties.
fn env_vars(id: &LockId, lock: &RemoteLock, session: &str, fence: i64) -> BTreeMap<String, String> {
    let mut vars = BTreeMap::new();
    if let Some(variable) = id.variable() {
        vars.insert(variable.to_owned(), resource_name(lock));
        vars.insert(format!("{variable}0"), resource_name(lock));
        for (name, value) in &lock.vars {
            vars.insert(format!("{variable}0_{name}"), value.clone());
        }
    }
    vars.insert("BERTH_ENVIRONMENT".to_owned(), lock.place.env_name.clone());
    vars.insert("BERTH_SESSION_ID".to_owned(), session.to_owned());
    vars.insert("BERTH_FENCE".to_owned(), fence.to_string());
    vars
}

pub(super) fn resource_to_wire(it: &LockableEnvironment) -> Value {
    let environment = &it.lock.environment;
    let labels = environment.configuration.labels.iter().map(|label| format!("{}/{label}", it.pipeline));
    let mut body = json!({
        "name": format!("{}/{}", it.pipeline, environment.name),
        "labels": labels.collect::<Vec<_>>(),
        "description": "",
        "state": "FREE",
    });
    if let Some(session) = &it.lock.session {
        body["state"] = "LOCKED".into();
        body["heldByKind"] = "REMOTE_CLIENT".into();
        body["heldByClientId"] = session.holder_label().into();
        body["since"] = (session.claimed_at.as_micros() / 1_000).into();
    }
    body
}
