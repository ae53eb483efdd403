//! What a runner on another machine says to the server by HTTP, besides what [`crate::runner`] has.
//!
//! Everything is below `/api/v1/runner`, with the runner's credential as bearer token: that alone says who it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::runner::{Acquire, Assignment, Heartbeat, Isolation, Order, SecretText, Told};

/// The token of a new runner becomes a credential.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Register {
    pub protocol: u32,
    /// Of the program.
    pub version: String,
    /// What it wants to be called, where nobody has chosen a name for it.
    pub name: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    pub runner_id: String,
    pub name: String,
    /// Shown with every request from now on. It is not told again.
    pub credential: SecretText,
}

/// The first word of every process of a runner.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    pub protocol: u32,
    pub version: String,
    pub boot: String,
    pub labels: Vec<String>,
    /// Steps at once.
    pub slots: i64,
    /// How it isolates steps from its machine.
    pub isolation: Isolation,
    /// Paths that every step there can reach; its operator chooses them.
    #[serde(default)]
    pub exposed: Vec<String>,
    /// What the process before it left, of which nothing runs any more.
    pub before: Option<Before>,
    /// The highest epoch of fences it has seen, as its disk says. A server with a lower one has lost something, and
    /// raises its own above it.
    #[serde(default)]
    pub epoch: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    pub boot: String,
    /// Attempts that may have begun, by nonce. Whatever else it was granted never did.
    pub begun: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Welcome {
    pub runner_id: String,
    pub name: String,
    /// Of the server's program.
    pub version: String,
    /// The server's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// Without an answer for so long the runner stops its steps.
    pub self_stop_ms: u64,
    /// From TERM to KILL.
    pub stop_grace_ms: u64,
    pub heartbeat_ms: u64,
    /// The epoch of the fences that are given now, for the runner to remember.
    #[serde(default)]
    pub epoch: Option<i64>,
    /// What `runs_on` finds it by.
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

/// The last word of a process that ends in order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Goodbye {
    pub boot: String,
}

/// The answer to a goodbye.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Farewell {}
