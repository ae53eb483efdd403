//! Runner protocol: messages between a runner and the server.
//!
//! A runner requests work, sends heartbeats, uploads logs and reports how an attempt ended. Every response tells it
//! what to do. The embedded runner and remote runners use the same types; only the [`RunnerLink`] implementation differs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use crate::container::{ContainerAssignment, ImagePull, ServiceAssignment};

/// Connection from a runner to the server. Calls block and are made from the runner's own threads.
pub trait RunnerLink: Send + Sync {
    /// Acquires work for at most one step per nonce; waits up to `wait` for some. Repeating the nonces returns the same
    /// work.
    fn acquire(&self, asked: &AcquireParams, wait: Duration) -> Result<Vec<AttemptAssignment>, LinkError>;

    /// Sends a heartbeat for each attempt. Returns immediately if one of them must stop, else after `wait`.
    fn heartbeat(&self, beat: &RunnerHeartbeat, wait: Duration)
    -> Result<Vec<AttemptInstruction>, LinkError>;

    /// Appends masked bytes to the attempt's log at `offset`. Bytes that are already stored are not written again.
    fn append_log(&self, attempt: &AttemptRef, offset: u64, bytes: &[u8]) -> Result<AttemptOrder, LinkError>;

    /// Reports how the attempt ended; its log must be complete. The next step of the same deployment, if there is one,
    /// is granted to `report.next_nonce` in the same transaction.
    fn report(&self, report: &StepReport) -> Result<ReportReceipt, LinkError>;

    /// Pins an image of the attempt to a digest for the whole deployment. Returns the digest that the attempt must use,
    /// which another attempt may have pinned before.
    fn pin_image(&self, attempt: &AttemptRef, image: &str, digest: &str) -> Result<String, LinkError>;

    /// Unpacks the pinned commit into an empty directory. This and the following calls may take long; they return soon
    /// after
    /// `wanted` becomes false.
    fn checkout(&self, attempt: &AttemptRef, into: &Path, wanted: WantedCheck<'_>) -> Result<(), LinkError>;

    /// Fetches an artifact of an earlier step and unpacks it below `into`, at its original path.
    fn fetch_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        into: &Path,
        wanted: WantedCheck<'_>,
    ) -> Result<(), LinkError>;

    /// Unpacks a built registry into an empty directory.
    fn fetch_registry(
        &self,
        attempt: &AttemptRef,
        digest: &str,
        into: &Path,
        wanted: WantedCheck<'_>,
    ) -> Result<(), LinkError>;

    /// Uploads the file or directory at a path below the workspace; returns its digest.
    fn keep_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        place: (&Path, &str),
        wanted: WantedCheck<'_>,
    ) -> Result<String, LinkError>;
}

/// Returns whether a long call is still needed. Called on the thread that makes that call.
pub type WantedCheck<'a> = &'a dyn Fn() -> bool;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// The server is unreachable or cannot respond now; the call can be retried.
    Unavailable(String),
    /// The server rejected the call; the text is human-readable.
    Refused(String),
    /// The server has only the first bytes of the log, because another server received the following ones and has not
    /// passed them on. The runner sends the log again from there.
    LogGap { length: u64 },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Unavailable(text) | LinkError::Refused(text) => f.write_str(text),
            LinkError::LogGap { length } => write!(f, "the server has only {length} bytes of the log"),
        }
    }
}

impl std::error::Error for LinkError {}

/// What the runner must do about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOrder {
    Continue,
    /// Stop the attempt and report that it has stopped.
    Cancel,
    /// The attempt has ended on the server: stop it; reports about it are discarded.
    Stale,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcquireParams {
    /// Random per process. Leases with another value belong to a process that no longer runs.
    pub boot: String,
    /// Random, one per free slot. Repeating a nonce returns the same assignment.
    pub nonces: Vec<String>,
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerHeartbeat {
    pub boot: String,
    pub attempts: Vec<AttemptRef>,
    /// The runner finishes its running steps and accepts no new ones.
    #[serde(default)]
    pub is_draining: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptInstruction {
    pub nonce: String,
    pub order: AttemptOrder,
    /// Why it must stop, for the last line of its log, such as `taken over by Ada`.
    pub reason: Option<String>,
}

/// One attempt of a step. The server trusts only the nonce and looks up the rest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRef {
    pub organization_id: String,
    pub deployment_id: String,
    /// `stp_…`
    pub step_id: String,
    pub number: u32,
    pub nonce: String,
}

/// A granted attempt with everything needed to execute it.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptAssignment {
    pub attempt: AttemptRef,
    /// The step's id in the definition, such as `deploy`.
    pub step: String,
    pub step_name: String,
    /// Built-in step type, such as `script`, or the type of a custom step, described by `custom`.
    pub kind: String,
    pub custom: Option<CustomCall>,
    /// Params with all expressions resolved.
    #[schema(value_type = Object)]
    pub params: Map<String, Value>,
    /// Environment variables with all expressions resolved, including the secrets that the step uses.
    pub env: BTreeMap<String, String>,
    /// File contents by the name of the variable that holds the file's path.
    pub secret_files: BTreeMap<String, SecretText>,
    /// Values to mask in the log.
    pub masked: Vec<SecretText>,
    /// `BERTH_*` variables of the attempt, except those that only the runner knows, such as `BERTH_OUTPUT`.
    pub facts: BTreeMap<String, String>,
    /// Output names that the step may write to `$BERTH_OUTPUT`.
    pub outputs: Vec<String>,
    /// Paths below the workspace to store after success, by artifact name.
    pub artifacts: BTreeMap<String, String>,
    pub needs_artifacts: Vec<String>,
    /// False if the pipeline has no repository; the workspace is then empty.
    pub has_source: bool,
    /// Attempts with the same key get the same files, so that a runner may copy them from an earlier checkout.
    #[serde(default)]
    pub source_key: Option<String>,
    /// The files and directories to check out; empty for all.
    #[serde(default)]
    pub source_paths: Vec<String>,
    pub timeout_s: u64,
    pub network: Network,
    /// Time since the grant. A repeated response does not restart the step's timeout.
    #[serde(default)]
    pub granted_ms_ago: u64,
    /// Fence of the environment that is deployed to; absent for stages.
    #[serde(default)]
    pub holder: Option<HolderFence>,
    /// The container that the step runs in; absent for a step that runs on the runner's machine itself.
    #[serde(default)]
    pub container: Option<ContainerAssignment>,
    /// `USER:PASSWORD` for the registry of the step's image, or of the image that it builds.
    #[serde(default)]
    pub registry_credential: Option<SecretText>,
    /// Credentials of the cluster that a `kubernetes_apply` changes; absent if the runner lends its own.
    #[serde(default)]
    pub kubeconfig: Option<SecretText>,
    /// Whether the commit comes from a fork. Image builds of such commits share no layers with others.
    #[serde(default)]
    pub is_untrusted: bool,
}

/// Fencing token of an environment. A runner that has executed work under a later fence rejects work under an earlier
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HolderFence {
    /// `env_…`
    pub environment_id: String,
    pub fence: i64,
    /// `ses_…`; lets the runner detect a fence that was issued twice. Absent for a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub session_id: Option<String>,
}

/// One call of a custom step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomCall {
    /// Digest of the built registry, which the runner fetches once and caches.
    pub digest: String,
    /// Shell command, run in the directory of the built registry.
    pub start: String,
    pub input: CallInput,
    /// The step's type as declared by the registry.
    pub step_type: String,
    /// State returned by the previous call. If set, the call is a poll and may be repeated.
    #[schema(value_type = Option<Object>)]
    pub polling_state: Option<Value>,
    /// Who approved, if the step had requested an approval.
    pub approved_by: Option<String>,
    /// Log bytes written by the attempt's previous calls.
    pub log_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallInput {
    Argument,
    File,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    pub attempt: AttemptRef,
    pub outcome: StepRunOutcome,
    pub isolation: Isolation,
    /// Network access of its processes; absent if no process was started.
    #[serde(default)]
    pub network: Option<Network>,
    /// Host paths that the operator exposes to every step.
    #[serde(default)]
    pub exposed: Vec<String>,
    /// Length of the whole log.
    pub log_bytes: u64,
    /// Nonce for the next step; absent if the runner wants no more work.
    pub next_nonce: Option<String>,
    pub boot: String,
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepRunOutcome {
    Succeeded {
        outputs: BTreeMap<String, String>,
        /// Artifact digests by name.
        artifacts: BTreeMap<String, String>,
    },
    Failed {
        cause: FailureCause,
        /// Human-readable, such as `exited with 126: permission denied`.
        detail: String,
        exit_code: Option<i32>,
    },
    /// The attempt was stopped on request; none of its processes run any more.
    Stopped,
    /// The attempt was stopped because the runner shuts down.
    Interrupted,
    /// No part of it ran: preparation failed for a reason outside the step, such as a full disk.
    NeverStarted {
        detail: String,
        /// Set if the runner rejected the attempt because of work it had executed under this fence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known_fence: Option<i64>,
    },
    /// A custom step asks to be called again with this state. The attempt continues without a process.
    Waiting {
        #[schema(value_type = Object)]
        state: Value,
        pause_ms: u64,
    },
    /// A custom step requires an approval before it is called again.
    ApprovalRequired { context: Option<String> },
    /// A custom step exited without a response; whether it took effect is unknown.
    Unanswered { detail: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// Exited with a non-zero exit code.
    Exited,
    /// Ended by a signal that the runner did not send.
    Killed,
    TimedOut,
    /// Could not be started: missing program or invalid params; or wrote an invalid output.
    Invalid,
    /// Succeeded, but a declared artifact is missing.
    MissingArtifact,
}

/// How an attempt was isolated from the runner's machine, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// No process was started.
    None,
    /// Separate process group; processes that leave it are found through `/proc`.
    Process,
    /// `process`, and Landlock prevents writes outside the workspace.
    Landlock,
    /// PID namespace and private `/proc`.
    Bubblewrap,
    /// A container, or a build by the container engine.
    Container,
}

/// Network access of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The network of the runner's machine.
    Host,
    /// Loopback only.
    None,
    /// The network of a container, which reaches other networks through the runner's machine.
    Bridge,
}

impl StepRunOutcome {
    pub fn never_started(detail: String) -> Self {
        StepRunOutcome::NeverStarted { detail, known_fence: None }
    }
}

/// Params and variables may hold secrets.
impl fmt::Debug for AttemptAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt, step, kind, .. } = self;
        f.debug_struct("Assignment")
            .field("attempt", attempt)
            .field("step", step)
            .field("kind", kind)
            .finish()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportReceipt {
    /// `Stale` if the report was discarded.
    pub order: AttemptOrder,
    pub next: Option<AttemptAssignment>,
}

/// A secret sent to a runner. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String)]
pub struct SecretText(String);

impl SecretText {
    pub fn new(value: String) -> Self {
        Self(value)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}
