//! Webhooks: who is told of what, and what became of each telling.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::{EventKind, EventKindOrAll};
use crate::{Data, Replay};

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    #[schema(example = "whk_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// What definitions call it.
    #[schema(example = "ops")]
    pub name: String,
    /// Where it goes. Those who may not change webhooks see only the host: the rest may be a secret.
    #[schema(example = "https://hooks.acme.test/berth")]
    pub url: String,
    /// Kinds of events, or `*` for all.
    #[schema(value_type = Vec<EventKindOrAll>, example = json!(["deployment_failed"]))]
    pub kinds: Vec<String>,
    pub format: WebhookFormat,
    pub is_active: bool,
    /// Since when it is told nothing, and why where the server decided it.
    pub deactivated: Option<WebhookDeactivated>,
    /// Deliveries that wait to be sent, or to be tried again.
    pub pending: i64,
    /// Events it was never told of because it was too far behind.
    pub dropped: i64,
    /// Failed tries in a row; 0 when the last one was taken.
    pub failures: i64,
    /// Until when the signing secret before the present one is used as well.
    #[schema(format = DateTime)]
    pub old_secret_until: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl Replay for Webhook {}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDeactivated {
    #[schema(format = DateTime)]
    pub at: String,
    /// Null where somebody switched it off.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFormat {
    /// Standard Webhooks.
    Standard,
    /// A line of text, as Slack takes it.
    Slack,
}

/// With its signing secret, which is shown when it is made and never again.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookWithSecret {
    #[serde(flatten)]
    pub record: Webhook,
    /// What signatures are checked with: `whsec_…`. Null in a replay.
    pub secret: Option<String>,
}

impl Replay for WebhookWithSecret {
    const SHOWS_ONCE: bool = true;

    fn replayed(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { secret: None, ..self.clone() } })
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WebhookNew {
    #[schema(
        min_length = 1,
        max_length = 63,
        pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
        example = "ops"
    )]
    pub name: String,
    #[schema(max_length = 2048, example = "https://hooks.acme.test/berth")]
    pub url: String,
    /// Kinds of events, or `*` for all.
    #[schema(value_type = Vec<EventKindOrAll>, min_items = 1, max_items = 100, example = json!(["deployment_failed"]))]
    pub kinds: Vec<String>,
    /// `standard` if absent.
    pub format: Option<WebhookFormat>,
    /// true if absent.
    pub is_active: Option<bool>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WebhookPatch {
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: Option<String>,
    #[schema(max_length = 2048)]
    pub url: Option<String>,
    #[schema(value_type = Option<Vec<EventKindOrAll>>, min_items = 1, max_items = 100)]
    pub kinds: Option<Vec<String>>,
    pub format: Option<WebhookFormat>,
    /// Switched on again it is told of what happens from then on.
    pub is_active: Option<bool>,
}

/// What a receiver answered to a try-out.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookPing {
    /// It answered with a 2xx.
    pub is_accepted: bool,
    /// Null where nothing came back.
    pub status: Option<u16>,
    pub duration_ms: i64,
    /// Why nothing came back, or why the answer is not good.
    pub error: Option<String>,
    /// How the answer begins: at most 200 printable characters.
    pub excerpt: Option<String>,
}

impl Replay for WebhookPing {}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The same at every try; sent as `webhook-id`.
    #[schema(example = "dlv_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub webhook_id: String,
    pub event_id: String,
    /// The event's place in the history.
    pub sequence: i64,
    #[schema(value_type = EventKind, example = "deployment_failed")]
    pub kind: String,
    pub status: DeliveryStatus,
    /// Oldest first; the last 30 are kept.
    pub attempts: Vec<DeliveryAttempt>,
    #[schema(format = DateTime)]
    pub next_try_at: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
}

impl Replay for Delivery {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    Pending,
    Delivered,
    /// Not tried any more unless somebody asks.
    Failed,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttempt {
    pub number: i64,
    #[schema(format = DateTime)]
    pub at: String,
    pub duration_ms: i64,
    /// Null where nothing came back.
    pub status: Option<i64>,
    pub error: Option<String>,
}
