//! Runner protocol over HTTP, in addition to [`crate::runner`].
//!
//! All paths are below `/api/v1/runner`. The runner authenticates with its credential as bearer token, which alone
//! identifies it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::runner::{Acquire, Assignment, Heartbeat, Isolation, Order, SecretText, Told};

/// Exchanges the registration token of a new runner for a credential.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Register {
    pub protocol: u32,
    /// Version of the runner.
    pub version: String,
    /// Name to use if none was chosen when the runner was created.
    pub name: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    pub runner_id: String,
    pub name: String,
    /// Bearer token for all further requests. Returned only once.
    pub credential: SecretText,
}

/// First request of every runner process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
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
    pub before: Option<Before>,
    /// Highest fence epoch that the runner has persisted. A server with a lower epoch was restored from an older state
    /// and raises its epoch above this one.
    #[serde(default)]
    pub epoch: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    pub boot: String,
    /// Nonces of attempts that may have started. All other granted attempts never started.
    pub begun: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Welcome {
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
pub struct AcquireAsked {
    #[serde(flatten)]
    pub asked: Acquire,
    pub wait_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acquired {
    pub assignments: Vec<Assignment>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatSent {
    #[serde(flatten)]
    pub beat: Heartbeat,
    pub wait_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatHeard {
    pub told: Vec<Told>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogTaken {
    pub order: Order,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactKept {
    pub digest: String,
}

/// Last request of a process that shuts down cleanly.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Goodbye {
    pub boot: String,
}

/// Response to a goodbye.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Farewell {}
