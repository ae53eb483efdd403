//! Runner protocol over HTTP, in addition to [`crate::runner`].
//!
//! All paths are below `/api/v1/runner`. The runner authenticates with its credential as bearer token, which alone
//! identifies it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::runner::{
    AcquireParams, AttemptAssignment, AttemptInstruction, AttemptOrder, Isolation, RunnerHeartbeat,
    SecretText,
};

/// Exchanges the registration token of a new runner for a credential.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationRequest {
    pub protocol: u32,
    /// Version of the runner.
    pub version: String,
    /// Name to use if none was chosen when the runner was created.
    pub name: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredRunner {
    pub runner_id: String,
    pub name: String,
    /// Bearer token for all further requests. Returned only once.
    pub credential: SecretText,
}

/// First request of every runner process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerHello {
    pub protocol: u32,
    pub version: String,
    pub boot: String,
    pub labels: Vec<String>,
    /// Maximum number of concurrent steps.
    pub slots: i64,
    /// How the runner isolates steps from its machine.
    pub isolation: Isolation,
    /// Host paths that the operator exposes to every step.
    #[serde(default)]
    pub exposed: Vec<String>,
    /// State left by the previous process, none of whose steps run any more.
    pub before: Option<PreviousBoot>,
    /// Highest fence epoch that the runner has persisted. A server with a lower epoch was restored from an older state
    /// and raises its epoch above this one.
    #[serde(default)]
    pub epoch: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviousBoot {
    pub boot: String,
    /// Nonces of attempts that may have started. All other granted attempts never started.
    pub begun: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerWelcome {
    pub runner_id: String,
    pub name: String,
    /// Version of the server.
    pub version: String,
    /// Server time, in milliseconds since the Unix epoch.
    pub now_ms: i64,
    /// The runner stops its steps after this time without a response.
    pub self_stop_ms: u64,
    /// Time from SIGTERM to SIGKILL.
    pub stop_grace_ms: u64,
    pub heartbeat_ms: u64,
    /// Current fence epoch, for the runner to persist.
    #[serde(default)]
    pub epoch: Option<i64>,
    /// Labels matched by `runs_on`.
    #[serde(default)]
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcquireRequest {
    #[serde(flatten)]
    pub asked: AcquireParams,
    pub wait_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcquiredWork {
    pub assignments: Vec<AttemptAssignment>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatRequest {
    #[serde(flatten)]
    pub beat: RunnerHeartbeat,
    pub wait_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatResult {
    pub told: Vec<AttemptInstruction>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogReceipt {
    pub order: AttemptOrder,
    /// Set if nothing was appended, because this server does not have the log up to the request's offset. The runner
    /// sends the log again from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resend_from: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactReceipt {
    pub digest: String,
}

/// Pins an image of an attempt to a digest for the whole deployment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinImageRequest {
    /// Nonce of the attempt.
    pub attempt: String,
    /// The image as the step names it.
    pub image: String,
    /// The digest that the runner has resolved.
    pub digest: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImage {
    /// The digest that the attempt must use. An earlier attempt may have pinned another one.
    pub digest: String,
}

/// Last request of a process that shuts down cleanly.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerGoodbye {
    pub boot: String,
}

/// Response to a goodbye.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GoodbyeReceipt {}
