//! Runners, as people see them. What they say to the server is in [`crate::runner`].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::runner::Isolation;
use crate::{Data, Replay};

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Runner {
    /// `run_…`; `embedded` for the runner inside the server.
    #[schema(example = "run_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Null while it has not come, and nobody has chosen one for it.
    pub name: Option<String>,
    pub state: RunnerState,
    /// It is part of the server: it is there as long as the server is, for all organizations.
    pub is_embedded: bool,
    /// What it can do, for `runs_on`.
    pub labels: Vec<String>,
    /// What it may say that it can do, besides its system and architecture; fixed when it was created.
    pub allowed_labels: Vec<String>,
    /// How far it keeps steps apart from its machine; null for one that has not come yet.
    #[schema(value_type = Option<Isolation>)]
    pub isolation: Option<String>,
    /// Paths of its machine that its operator exposes to every step.
    pub exposed: Vec<String>,
    /// Steps at once.
    pub slots: Option<i64>,
    /// Of the program it runs.
    pub version: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
    #[schema(format = DateTime)]
    pub registered_at: Option<String>,
    /// Null for the runner inside the server, and for one that has not come yet.
    #[schema(format = DateTime)]
    pub last_seen_at: Option<String>,
    /// Until when its registration token can be used; null once it was.
    #[schema(format = DateTime)]
    pub token_expires_at: Option<String>,
    /// What it runs of this organization.
    pub running: Vec<RunnerStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunnerState {
    /// Its registration token was not used yet.
    Pending,
    Online,
    /// It finishes what it runs and takes nothing more.
    Draining,
    Offline,
    /// It went silent without a goodbye.
    Lost,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerStep {
    pub deployment_id: String,
    pub step_id: String,
    /// Its id in the definition.
    pub step: String,
    #[schema(format = DateTime)]
    pub since: String,
}

impl Replay for Runner {}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerCreated {
    #[serde(flatten)]
    pub record: Runner,
    /// What the runner registers with, once, within an hour; shown here and never again. Null in a replay.
    pub token: Option<String>,
}

impl Replay for RunnerCreated {
    const SHOWS_ONCE: bool = true;

    fn replayed(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { token: None, ..self.clone() } })
    }
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RunnerNew {
    /// Without it the runner says what it is called when it registers.
    #[schema(max_length = 63, example = "build-1")]
    pub name: Option<String>,
    /// What `runs_on` finds it by, besides its system and architecture. The runner may say fewer, and no others.
    #[serde(default)]
    #[schema(max_items = 32, example = json!(["gpu"]))]
    pub labels: Vec<String>,
}
