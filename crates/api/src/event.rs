//! Events of the audit log.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Event)]
pub struct WireEvent {
    #[schema(example = "evt_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Position in the organization's audit log, starting at 1, without gaps.
    pub sequence: i64,
    #[schema(value_type = EventKind, example = "pipeline_stopped")]
    pub kind: String,
    #[schema(format = DateTime)]
    pub occurred_at: String,
    pub actor: WireActor,
    pub request_id: Option<String>,
    pub subjects: Vec<Subject>,
    /// Fields specific to this kind of event.
    #[schema(value_type = Object)]
    pub data: serde_json::Value,
    pub organization_id: String,
    /// Hash of the previous event.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub previous_hash: String,
    /// SHA-256 over the event's canonical JSON without this field and `summary`.
    pub hash: String,
    /// One-line description in plain text. Generated on read; the wording may change.
    #[schema(example = "ada paused new deployments of web: database migration")]
    pub summary: String,
}

/// Declares string schemas whose enum values the server fills in from lists of the core crate.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident,)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new().schema_type(Type::String).into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

words! {
    /// Kind of event.
    EventKind,
    /// Kind of event, or `*` for all.
    EventKindOrAll,
    /// Permission granted by a role.
    Permission,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Actor)]
pub struct WireActor {
    #[serde(rename = "type")]
    pub kind: ActorKind,
    pub id: Option<String>,
    pub name: String,
    /// API token that was used; null if none was.
    pub token_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    User,
    Service,
    /// Berth itself.
    System,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    #[serde(rename = "type")]
    #[schema(example = "pipeline")]
    pub kind: String,
    pub id: String,
    pub name: Option<String>,
}

/// Last event of the audit log. Keep it outside Berth to detect later changes to earlier events.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainHead {
    /// Sequence number of the last event.
    pub sequence: i64,
    /// Hash of the last event.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub hash: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsVerify {
    /// Head saved earlier. Needed to detect an audit log that was truncated or rewritten.
    pub head: Option<ChainHead>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Verification)]
pub struct ChainVerification {
    pub valid: bool,
    /// Number of events that are intact: all, or those before the first problem.
    pub checked: i64,
    /// Sequence number of the first retained event. Above 1 if older events were removed by retention.
    pub first_sequence: i64,
    /// The given head is older than the first retained event, so it could not be checked.
    pub head_is_too_old: bool,
    pub head: ChainHead,
    pub first_problem: Option<ChainProblem>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ChainProblem {
    /// Position in the audit log, starting at 1.
    pub sequence: i64,
    pub reason: ChainReason,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChainReason {
    /// The event's content does not match its hash.
    Edited,
    /// An event is missing.
    Missing,
    /// An event does not belong at this position: inserted, duplicated, swapped or replaced.
    Unexpected,
    /// Events at the end are missing.
    Truncated,
    /// The hash chain is intact, but does not contain the given head.
    HeadDiffers,
}
