//! Problem details (RFC 9457) and the stable problem codes.

use serde::Serialize;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::environment::Holder;
use crate::event::{Permission, WireActor};
use crate::pipeline::Diagnostic;
use crate::repository::RepositoryPipeline;
use crate::session::SessionStatus;

macro_rules! codes {
    ($($name:ident, $status:literal, $text:literal, $title:literal, $doc:literal;)+) => {
        /// Problem codes. Codes are only added, never removed or renamed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($name,)+ }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text),+ }
            }

            pub const fn status(self) -> u16 {
                match self { $(Code::$name => $status),+ }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Code::$name => $title),+ }
            }

            /// What the code means and what to do, for its documentation page.
            pub const fn explanation(self) -> &'static str {
                match self { $(Code::$name => $doc),+ }
            }
        }
    };
}

codes! {
    InvalidRequest, 400, "invalid_request", "Invalid request",
        "The path or the body is not valid. `errors` lists each invalid field and what is wrong with it.";
    InvalidJson, 400, "invalid_json", "The body is not valid JSON",
        "The body could not be parsed as JSON. `detail` says where parsing failed.";
    InvalidParameter, 400, "invalid_parameter", "Invalid parameter",
        "A query or path parameter is not valid. `errors` names the parameter and what it accepts.";
    UnknownMember, 400, "unknown_member", "Unknown field",
        "The body has a field that this request does not accept. Nothing was changed. `errors` lists each unknown field, and suggests the field that was probably meant.";
    Unauthenticated, 401, "unauthenticated", "Authentication required",
        "The request has no API token or login, or it is invalid, expired or revoked, or its user has left the organization. Send `Authorization: Bearer <token>`.";
    IdentityUnverified, 401, "identity_unverified", "Your identity provider does not vouch for you",
        "You log in through an identity provider, and it has refused your account, or has not confirmed it for 15 minutes. Your logins and API tokens do not work until you log in again.";
    Forbidden, 403, "forbidden", "Permission denied",
        "Your roles do not allow this. `permission` names the missing permission, `scope` the resource, and `grantedBy` members who can grant it.";
    ReauthenticationRequired, 403, "reauthentication_required", "Confirm your password",
        "You entered your password in this browser more than an hour ago. Confirm it with `POST /api/v1/auth/confirm`, or with `POST /api/v1/auth/confirm-with-provider` if you logged in through an identity provider, and repeat the request. API tokens never need this.";
    SecondFactorCodeRequired, 403, "second_factor_code_required", "Enter a code",
        "The password is correct, and the account has a second factor. Repeat the request with `code`: the current code from the authenticator app, or a recovery code.";
    SecondFactorRequired, 403, "second_factor_required", "Set up a second factor",
        "The organization requires a second factor, and your account has none. Log in to the dashboard and set one up under Profile. Until then, your login and your API tokens have no access to the organization. Service accounts need none.";
    ProviderLoginFailed, 403, "provider_login_failed", "Login through the identity provider failed",
        "The identity provider refused the login, its response was not accepted, or its account has no access here. `detail` says why. Start the login again.";
    NotSessionHolder, 403, "not_session_holder", "Another member holds this session",
        "Only the holder of a session may do this. `holder` says who that is; they can hand over the environment to you.";
    NotEligible, 403, "not_eligible", "Not eligible to decide this approval",
        "The approval is restricted to other people, or excludes the people who wrote, started or retried the change. `detail` says which. Another person has to decide.";
    NotFound, 404, "not_found", "Not found",
        "The resource does not exist, or it belongs to an organization that your token has no access to.";
    MethodNotAllowed, 405, "method_not_allowed", "Method not allowed",
        "The path exists, but does not support this method. The `Allow` header lists the methods it supports.";
    RequestTimeout, 408, "request_timeout", "Request timed out",
        "The request was not received or not processed in time. Repeat it with the same `Idempotency-Key` to find out whether it took effect.";
    AlreadyExists, 409, "already_exists", "Already exists",
        "A resource with this name already exists. `detail` says which.";
    InvalidState, 409, "invalid_state", "Not possible in the current state",
        "The request is valid, but not possible in the current state of the resource. `detail` says why.";
    NothingToRollBackTo, 409, "nothing_to_roll_back_to", "Nothing to roll back to",
        "No other successful deployment of this stage is available. Deploy an earlier commit instead, or name a deployment in `to`.";
    EnvironmentLocked, 409, "environment_locked", "The environment is locked",
        "The environment is held. `holder`, `since`, `context` and `expiresAt` say by whom, since when, why and until when; `contact`, if present, says whom to ask. Join the queue with `\"queue\": true`, or take over with force-claim.";
    SessionNotActive, 409, "session_not_active", "The session is not active",
        "The session was released, has expired, or was taken over. `sessionStatus` says which, and `overriddenBy` says who took over. Claim the environment again.";
    AgentLimit, 409, "agent_limit", "A limit of this agent is reached",
        "`limit` names the limit: `sessions`, `sessionSeconds`, `deploymentsPerHour` or `forceClaim`. `detail` says what to do. An admin can change the limits of an agent.";
    AgentsStopped, 409, "agents_stopped", "All agents are stopped",
        "An admin has stopped all agents of the organization. They cannot claim or deploy until an admin resumes them.";
    ApprovalEnded, 409, "approval_ended", "The approval has ended",
        "It was approved or rejected, has expired, or has lapsed because what it was for has changed or no longer waits. `detail` says which, and what to do.";
    AlreadyVoted, 409, "already_voted", "You have already voted",
        "Each person votes once, whichever account or token they use. Another person has to decide.";
    IdempotencyInProgress, 409, "idempotency_in_progress", "The same request is still being processed",
        "A request with this `Idempotency-Key` is still being processed. Repeat it in a moment.";
    PreconditionFailed, 412, "precondition_failed", "The resource has changed",
        "`If-Match` names a version that is not the current one. Read the resource again before you repeat the request.";
    BodyTooLarge, 413, "body_too_large", "The body is too large",
        "The request body exceeds the limit. `detail` states the limit.";
    UnsupportedMediaType, 415, "unsupported_media_type", "Unsupported media type",
        "The body must be `application/json`.";
    PipelineInvalid, 422, "pipeline_invalid", "The pipeline definition has errors",
        "`diagnostics` lists every error with its line, column, source line and a suggestion.";
    CommitAmbiguous, 422, "commit_ambiguous", "Ambiguous commit",
        "Several commits of the repository start with `commitId`, and no branch or tag has that name. `candidates` lists some of them. Send more characters of the hash.";
    IdempotencyKeyReused, 422, "idempotency_key_reused", "The Idempotency-Key was used for another request",
        "The key was sent before with a different body. Use a new key for a new request.";
    RateLimited, 429, "rate_limited", "Too many requests",
        "Wait for the number of seconds in `Retry-After`.";
    Internal, 500, "internal", "Internal server error",
        "This is a bug in Berth. The server log has details under the `requestId`.";
    Unavailable, 503, "unavailable", "Service unavailable",
        "The server is starting, stopping or overloaded. Repeat the request, with the same `Idempotency-Key` if it was a POST.";
    StorageFull, 503, "storage_full", "The disk is full",
        "The server's disk is full. Reads still work; writes fail until space is freed. Nothing was changed.";
}

/// Error response, sent as `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct ProblemDetails {
    /// Documentation page of the code.
    #[serde(rename = "type")]
    #[schema(example = "/docs/errors/not_found")]
    pub kind: String,
    #[schema(example = "Not found")]
    pub title: String,
    #[schema(example = 404)]
    pub status: u16,
    /// Human-readable explanation of this occurrence. The wording may change.
    pub detail: String,
    /// Path of the request.
    pub instance: String,
    /// Stable, machine-readable code.
    #[schema(value_type = Code)]
    pub code: String,
    /// Id of the request, as in the server log.
    pub request_id: String,
    /// With `invalid_request`, `invalid_parameter`, `unknown_member` and `commit_ambiguous`: each invalid part of the
    /// request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<InputError>,
    /// Additional fields that depend on the code.
    #[serde(flatten)]
    #[schema(value_type = ProblemMembers)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

/// Additional fields of some codes.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct ProblemMembers {
    /// With `forbidden`: the missing permission, if a role can grant it.
    #[schema(nullable = false)]
    pub permission: Option<Permission>,
    /// With `forbidden`: the resource for which the permission is missing, in the form of a scope.
    #[schema(nullable = false, example = "environment:shop/qa-1")]
    pub scope: Option<String>,
    /// With `forbidden`: names of members who can grant the permission.
    #[schema(nullable = false)]
    pub granted_by: Option<Vec<String>>,
    /// With `rate_limited`, and with `environment_locked` if the session expires: same value as `Retry-After`.
    #[schema(nullable = false, minimum = 0)]
    pub retry_after_seconds: Option<i64>,
    /// With `environment_locked` and `not_session_holder`: who holds the session.
    #[schema(nullable = false)]
    pub holder: Option<Holder>,
    /// With `environment_locked`: when the environment was claimed.
    #[schema(nullable = false, format = DateTime)]
    pub since: Option<String>,
    /// With `environment_locked`: context given by the holder.
    pub context: Option<String>,
    /// With `environment_locked`: whom to ask about the session, if the claim named a contact.
    #[schema(nullable = false)]
    pub contact: Option<String>,
    /// With `environment_locked`: commit given by the holder.
    pub commit_id: Option<String>,
    /// With `environment_locked`: when the session expires; null if it does not.
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// With `environment_locked`: id of the active session.
    #[schema(nullable = false)]
    pub session_id: Option<String>,
    /// With `environment_locked`: fencing token of the active session.
    #[schema(nullable = false)]
    pub fence: Option<i64>,
    /// With `environment_locked`: number of waiting tickets.
    #[schema(nullable = false, minimum = 0)]
    pub queue_length: Option<i64>,
    /// With `environment_locked`: true if the caller is the holder.
    #[schema(nullable = false, rename = "self")]
    pub is_self: Option<bool>,
    /// With `environment_locked`: links to join the queue and to take over.
    #[schema(nullable = false)]
    pub links: Option<ProblemLinks>,
    /// With `environment_locked` on claim-any: all environments with the label.
    #[schema(nullable = false)]
    pub environments: Option<Vec<HeldEnvironment>>,
    /// With `session_not_active`: how the session ended.
    #[schema(nullable = false)]
    pub session_status: Option<SessionStatus>,
    /// With `session_not_active`: who took over the environment.
    pub overridden_by: Option<WireActor>,
    /// With `session_not_active`: when the environment was taken over.
    #[schema(format = DateTime)]
    pub overridden_at: Option<String>,
    /// With `session_not_active`: reason given for the takeover.
    pub override_reason: Option<String>,
    /// With `session_not_active`, and with `precondition_failed` on an environment: the environment's current fencing
    /// token.
    pub current_fence: Option<i64>,
    /// With `agent_limit`: the name of the limit.
    #[schema(nullable = false, example = "sessions")]
    pub limit: Option<String>,
    /// With `commit_ambiguous`: some of the matching commits.
    #[schema(nullable = false)]
    pub candidates: Option<Vec<String>>,
    /// With `pipeline_invalid`: errors in the definition.
    #[schema(nullable = false)]
    pub diagnostics: Option<Vec<Diagnostic>>,
    /// With `invalid_state` when deleting a repository: pipelines defined in it.
    #[schema(nullable = false)]
    pub pipelines: Option<Vec<RepositoryPipeline>>,
    /// With `invalid_state` when deleting a secret or step registry: pipelines that use it.
    #[schema(nullable = false)]
    pub used_by: Option<Vec<ProblemUser>>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct ProblemLinks {
    pub queue: String,
    pub force_claim: String,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct HeldEnvironment {
    pub env_name: String,
    pub holder: Holder,
    #[schema(nullable = false)]
    pub contact: Option<String>,
    #[schema(format = DateTime)]
    pub since: String,
    pub queue_length: i64,
}

/// A pipeline that uses the record: identified by `id` for a step registry, by `pipelineId` for a secret.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct ProblemUser {
    #[schema(nullable = false)]
    pub id: Option<String>,
    #[schema(nullable = false)]
    pub pipeline_id: Option<String>,
    pub slug: String,
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let codes = Code::ALL.iter().map(|code| code.as_str());
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes)).into()
    }
}

impl ToSchema for Code {
    fn name() -> std::borrow::Cow<'static, str> {
        "ProblemCode".into()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct InputError {
    /// JSON pointer into the body, or name of the parameter.
    #[schema(example = "/slug")]
    pub pointer: String,
    pub code: InputErrorCode,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputErrorCode {
    /// The value is not valid.
    Invalid,
    /// The value is required.
    Required,
    /// The field does not exist.
    UnknownMember,
}

impl ProblemDetails {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/docs/errors/{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            instance: String::new(),
            code: code.as_str().to_owned(),
            request_id: String::new(),
            errors: Vec::new(),
            more: serde_json::Map::new(),
        }
    }

    #[must_use]
    pub fn with_member(mut self, member: &str, value: impl Into<serde_json::Value>) -> Self {
        self.more.insert(member.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn with_errors(mut self, errors: Vec<InputError>) -> Self {
        self.errors = errors;
        self
    }
}
