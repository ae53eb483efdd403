//! Events: the audit history.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    #[schema(example = "evt_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Position in the organization's history, from 1, without gaps.
    pub sequence: i64,
    #[schema(value_type = EventKind, example = "pipeline_stopped")]
    pub kind: String,
    #[schema(format = DateTime)]
    pub occurred_at: String,
    pub actor: Actor,
    pub request_id: Option<String>,
    pub subjects: Vec<Subject>,
    /// Facts of this kind of event.
    #[schema(value_type = Object)]
    pub data: serde_json::Value,
    pub organization_id: String,
    /// The hash of the event before this one.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub previous_hash: String,
    /// SHA-256 over this event's canonical JSON without this member and `summary`.
    pub hash: String,
    /// What happened, in one line of plain text. Derived when the event is read; the wording may change.
    #[schema(example = "ada paused new deployments of web: database migration")]
    pub summary: String,
}

/// Names a schema of words that the core lists and the server writes into the document.
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
    /// What happened.
    EventKind,
    /// What happened, or `*` for everything.
    EventKindOrAll,
    /// What a role allows.
    Permission,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    #[serde(rename = "type")]
    pub kind: ActorKind,
    pub id: Option<String>,
    pub name: String,
    /// The API token it was done with, if it was one.
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

/// The end of a history: whoever keeps it can tell later whether anything before it was touched.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainHead {
    /// The last event's number.
    pub sequence: i64,
    /// The last event's hash.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub hash: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsVerify {
    /// A head kept elsewhere: then a history that was cut or written anew is found, too.
    pub head: Option<ChainHead>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    pub valid: bool,
    /// Events found as they were recorded: all, or those before the first problem.
    pub checked: i64,
    /// The number of the first event that is kept. Above 1: those before it were removed because they were old.
    pub first_sequence: i64,
    /// The head that was given is older than what is kept: it could not be compared, and says nothing about the rest.
    pub head_is_too_old: bool,
    pub head: ChainHead,
    pub first_problem: Option<ChainProblem>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ChainProblem {
    /// The place in the history, from 1.
    pub sequence: i64,
    pub reason: ChainReason,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChainReason {
    /// The content does not have the hash it carries.
    Edited,
    /// An event in the middle is gone.
    Missing,
    /// An event stands where it does not belong: inserted, doubled, swapped or replaced.
    Unexpected,
    /// Events at the end are gone.
    Truncated,
    /// The chain is whole, but not the one the head was taken from.
    HeadDiffers,
}
