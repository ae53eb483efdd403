//! Runners in the public API. The runner protocol is in [`crate::runner`].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::runner::Isolation;
use crate::{Data, ReplayableBody};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Runner)]
pub struct WireRunner {
    /// `run_…`; `embedded` for the runner inside the server.
    #[schema(example = "run_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Null until the runner registers, unless a name was chosen when it was created.
    pub name: Option<String>,
    pub state: RunnerState,
    /// True for the runner inside the server, which serves all organizations.
    pub is_embedded: bool,
    /// Labels matched by `runs_on`.
    pub labels: Vec<String>,
    /// Labels that the runner may advertise, besides its operating system and architecture. Fixed when it was created.
    pub allowed_labels: Vec<String>,
    /// How the runner isolates steps from its machine; null until it first connects.
    #[schema(value_type = Option<Isolation>)]
    pub isolation: Option<String>,
    /// Host paths that the operator exposes to every step.
    pub exposed: Vec<String>,
    /// Maximum number of concurrent steps.
    pub slots: Option<i64>,
    /// Version of the runner.
    pub version: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
    #[schema(format = DateTime)]
    pub registered_at: Option<String>,
    /// Null for the embedded runner, and until the runner first connects.
    #[schema(format = DateTime)]
    pub last_seen_at: Option<String>,
    /// When the registration token expires; null once it was used.
    #[schema(format = DateTime)]
    pub token_expires_at: Option<String>,
    /// Steps of this organization that are running.
    pub running: Vec<RunnerStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunnerState {
    /// Its registration token has not been used yet.
    Pending,
    Online,
    /// It finishes its running steps and accepts no new ones.
    Draining,
    Offline,
    /// It stopped sending heartbeats without shutting down cleanly.
    Lost,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerStep {
    pub deployment_id: String,
    pub step_id: String,
    /// The step's id in the definition.
    pub step: String,
    #[schema(format = DateTime)]
    pub since: String,
}

impl ReplayableBody for WireRunner {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerCreated {
    #[serde(flatten)]
    pub record: WireRunner,
    /// Registration token. Valid once, for one hour. Returned only when the runner is created; null in a replayed
    /// response.
    pub token: Option<String>,
}

impl ReplayableBody for RunnerCreated {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { token: None, ..self.clone() } })
    }
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RunnerNew {
    /// Defaults to the name that the runner chooses when it registers.
    #[schema(max_length = 63, example = "build-1")]
    pub name: Option<String>,
    /// Labels that the runner may advertise, besides its operating system and architecture.
    #[serde(default)]
    #[schema(max_items = 32, example = json!(["gpu"]))]
    pub labels: Vec<String>,
}
