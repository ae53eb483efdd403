//! What a runner and the server say to each other.
//!
//! A runner asks for work, gives signs of life, ships logs and reports how an attempt ended. Every answer tells it what
//! to do, and it obeys. The embedded runner and a remote one speak the same types; only the [`Link`] between differs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A runner's way to the server. Calls block; they are made from threads of the runner's own.
pub trait Link: Send + Sync {
    /// Work for at most `asked.places` steps; waits up to `wait` for some. Again with the same nonces is the same work.
    fn acquire(&self, asked: &Acquire, wait: Duration) -> Result<Vec<Assignment>, LinkError>;

    /// A sign of life for every attempt named. Answered at once when one of them has to stop, else after `wait`.
    fn heartbeat(&self, beat: &Heartbeat, wait: Duration) -> Result<Vec<Told>, LinkError>;

    /// Masked bytes of the attempt's log, from `offset`. Bytes that are there already are not written twice.
    fn append_log(&self, attempt: &AttemptRef, offset: u64, bytes: &[u8]) -> Result<Order, LinkError>;

    /// How the attempt ended; the log is complete before. What comes next of the same deployment, if anything does, is
    /// granted to `report.next_nonce` in the same commit.
    fn report(&self, report: &Report) -> Result<Reported, LinkError>;

    /// The pinned commit, unpacked into an empty directory. This and what follows may take long: it ends soon after it is no
    /// longer wanted.
    fn checkout(&self, attempt: &AttemptRef, into: &Path, wanted: Wanted<'_>) -> Result<(), LinkError>;

    /// An artifact that an earlier step kept, unpacked below `into` at the path it was kept from.
    fn fetch_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        into: &Path,
        wanted: Wanted<'_>,
    ) -> Result<(), LinkError>;

    /// A built registry, unpacked into an empty directory.
    fn fetch_registry(
        &self,
        attempt: &AttemptRef,
        digest: &str,
        into: &Path,
        wanted: Wanted<'_>,
    ) -> Result<(), LinkError>;

    /// Keeps what lies at a path below the workspace (a file or a directory); answers its digest.
    fn keep_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        place: (&Path, &str),
        wanted: Wanted<'_>,
    ) -> Result<String, LinkError>;
}

/// Whether something that takes long is still wanted. Asked on the thread of whoever waits for it.
pub type Wanted<'a> = &'a dyn Fn() -> bool;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// The server is not there, or cannot answer now: the same call again may succeed.
    Unavailable(String),
    /// The server has understood and says no; the text is for people.
    Refused(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Unavailable(text) | LinkError::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for LinkError {}

/// What a runner shall do about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Continue,
    /// Stop the work and report that it has stopped.
    Cancel,
    /// The attempt is over; stop the work, nothing that is said about it is kept.
    Stale,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acquire {
    /// New at every start of the runner: leases under another name are of a process that is gone.
    pub boot: String,
    /// One per place that is free, random: asking twice with one is asking once.
    pub nonces: Vec<String>,
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    pub boot: String,
    pub attempts: Vec<AttemptRef>,
    /// It finishes what it runs and takes nothing more.
    #[serde(default)]
    pub is_draining: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    pub nonce: String,
    pub order: Order,
    /// Why it has to stop, for the last line of its log: `taken over by Ada`.
    pub reason: Option<String>,
}

/// One execution of one step. The server believes the nonce, and looks the rest up.
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

/// A granted attempt, with all that is needed to execute it.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    pub attempt: AttemptRef,
    /// The step's id in the definition: `deploy`.
    pub step: String,
    pub step_name: String,
    /// A built-in type: `script`; or the type of a custom step as written, which `custom` describes.
    pub kind: String,
    pub custom: Option<CustomCall>,
    /// Expressions are resolved.
    #[schema(value_type = Object)]
    pub params: Map<String, Value>,
    /// Expressions are resolved; secrets are in it where the step asks for them.
    pub env: BTreeMap<String, String>,
    /// The variable holds the path of a file with this content.
    pub secret_files: BTreeMap<String, SecretText>,
    /// Every value that must not appear in the log.
    pub masked: Vec<SecretText>,
    /// `BERTH_*` of this attempt, without `BERTH_OUTPUT` and the like, which only the runner knows.
    pub facts: BTreeMap<String, String>,
    /// Names the step may write to `$BERTH_OUTPUT`.
    pub outputs: Vec<String>,
    /// What to keep after success, by name: a path below the workspace.
    pub artifacts: BTreeMap<String, String>,
    pub needs_artifacts: Vec<String>,
    /// False: the pipeline has no repository, the workspace is empty.
    pub has_source: bool,
    pub timeout_s: u64,
    pub network: Network,
    /// How long ago it was granted: an answer that got lost is given again, but no time is given again.
    #[serde(default)]
    pub granted_ms_ago: u64,
    /// For whom an environment is changed; absent for stages, which nobody holds.
    #[serde(default)]
    pub holder: Option<HolderFence>,
}

/// A runner that has executed work of a later holder refuses that of an earlier one, whatever the server says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HolderFence {
    /// `env_…`
    pub environment_id: String,
    pub fence: i64,
    /// `ses_…`: a fence that was given twice has had two of them. A reset has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub session_id: Option<String>,
}

/// One call of a custom step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomCall {
    /// Of the built registry, which is fetched once and kept.
    pub digest: String,
    /// Shell text, run in the directory of the built registry.
    pub start: String,
    pub input: CallInput,
    /// The registry's own type.
    pub step_type: String,
    /// What the step answered to be remembered. With it the call is a poll, which may be repeated.
    #[schema(value_type = Option<Object>)]
    pub polling_state: Option<Value>,
    /// Who agreed, after the step had asked.
    pub approved_by: Option<String>,
    /// The calls before this one have written so much of the attempt's log.
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
pub struct Report {
    pub attempt: AttemptRef,
    pub outcome: Outcome,
    pub isolation: Isolation,
    /// What its processes could reach; absent where none was started.
    #[serde(default)]
    pub network: Option<Network>,
    /// Paths of the machine that the operator exposes to every step.
    #[serde(default)]
    pub exposed: Vec<String>,
    /// The length of the whole log.
    pub log_bytes: u64,
    /// A place for what comes next; absent when the runner wants nothing more.
    pub next_nonce: Option<String>,
    pub boot: String,
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    Succeeded {
        outputs: BTreeMap<String, String>,
        /// Digests by name.
        artifacts: BTreeMap<String, String>,
    },
    Failed {
        cause: FailureCause,
        /// For people: `exited with 126: permission denied`.
        detail: String,
        exit_code: Option<i32>,
    },
    /// It was told to stop and has; nothing of it runs any more.
    Stopped,
    /// It was stopped because the runner ends.
    Interrupted,
    /// Nothing of it ever ran: preparing failed for a reason that is not the step's, such as a full disk.
    NeverStarted {
        detail: String,
        /// It was refused: work of a later holder was executed under this fence, or of another one under its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known_fence: Option<i64>,
    },
    /// A custom step wants to be called again, with what it remembers. The attempt goes on without a process.
    Waiting {
        #[schema(value_type = Object)]
        state: Value,
        pause_ms: u64,
    },
    /// A custom step wants people to agree before it is called again.
    ApprovalRequired { context: Option<String> },
    /// A custom step ended without an answer: nobody knows whether it took effect.
    Unanswered { detail: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// It ended by itself, and not with 0.
    Exited,
    /// A signal ended it that nobody of us sent.
    Killed,
    TimedOut,
    /// It could not be begun: no such program, bad params, an output that is no `name=value`.
    Invalid,
    /// It did its work, but what it had to leave behind is not there.
    MissingArtifact,
}

/// How far an attempt was kept apart from the rest of the machine, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Nothing ran as a process of its own.
    None,
    /// A process group; what leaves it is looked for in `/proc`.
    Process,
    /// Besides, the kernel keeps it from writing outside of its workspace.
    Landlock,
    /// A PID namespace and a private `/proc`.
    Bubblewrap,
}

/// What a step reaches of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The same as its machine.
    Host,
    /// A loopback interface of its own, and nothing else.
    None,
}

impl Outcome {
    /// Nothing of it ever ran.
    pub fn never_started(detail: String) -> Self {
        Outcome::NeverStarted { detail, known_fence: None }
    }
}

/// Params and variables may hold secrets.
impl fmt::Debug for Assignment {
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
pub struct Reported {
    /// `Stale`: nothing that was said is kept.
    pub order: Order,
    pub next: Option<Assignment>,
}

/// Travels to the runner that may know it; is never printed.
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
