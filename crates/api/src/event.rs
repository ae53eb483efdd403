//! Events: the audit history.

use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    #[schema(example = "evt_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Position in the organization's history, from 1, without gaps.
    pub sequence: i64,
    #[schema(example = "pipeline_stopped")]
    pub kind: String,
    pub occurred_at: String,
    pub actor: Actor,
    pub request_id: Option<String>,
    pub subjects: Vec<Subject>,
    /// Facts of this kind of event.
    #[schema(value_type = Object)]
    pub data: serde_json::Value,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    #[serde(rename = "type")]
    pub kind: ActorKind,
    pub id: Option<String>,
    pub name: String,
    /// The API token it was done with, if it was one.
    pub token_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    User,
    Service,
    /// Berth itself.
    System,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    #[serde(rename = "type")]
    #[schema(example = "pipeline")]
    pub kind: String,
    pub id: String,
    pub name: Option<String>,
}
