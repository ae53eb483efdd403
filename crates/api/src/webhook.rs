//! Webhooks and their deliveries.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::{EventKind, EventKindOrAll};
use crate::{Data, ReplayableBody};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Webhook)]
pub struct WireWebhook {
    #[schema(example = "whk_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Name used in pipeline definitions.
    #[schema(example = "ops")]
    pub name: String,
    /// Receiver URL. Callers without `webhooks:write` see only the host, because the rest may contain a secret.
    #[schema(example = "https://hooks.acme.test/berth")]
    pub url: String,
    /// Event kinds to deliver, or `*` for all.
    #[schema(value_type = Vec<EventKindOrAll>, example = json!(["deployment_failed"]))]
    pub kinds: Vec<String>,
    pub format: WebhookFormat,
    pub is_active: bool,
    /// When the webhook was deactivated, and why if the server did it.
    pub deactivated: Option<WebhookDeactivated>,
    /// Number of deliveries waiting to be sent or retried.
    pub pending: i64,
    /// Number of events that were not delivered because the webhook was too far behind.
    pub dropped: i64,
    /// Consecutive failed attempts; 0 after a successful one.
    pub failures: i64,
    /// Until when deliveries are also signed with the previous secret.
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

impl ReplayableBody for WireWebhook {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDeactivated {
    #[schema(format = DateTime)]
    pub at: String,
    /// Null if a member deactivated it.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFormat {
    /// Signed JSON as specified by Standard Webhooks.
    Standard,
    /// One line of text in the format of Slack's incoming webhooks.
    Slack,
}

/// A webhook with its signing secret, which is returned only when the secret is created.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookWithSecret {
    #[serde(flatten)]
    pub record: WireWebhook,
    /// Secret for verifying signatures: `whsec_…`. Null in a replayed response.
    pub secret: Option<String>,
}

impl ReplayableBody for WebhookWithSecret {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { secret: None, ..self.clone() } })
    }
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
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
    /// Event kinds to deliver, or `*` for all.
    #[schema(value_type = Vec<EventKindOrAll>, min_items = 1, max_items = 100, example = json!(["deployment_failed"]))]
    pub kinds: Vec<String>,
    /// Defaults to `standard`.
    pub format: Option<WebhookFormat>,
    /// Defaults to true.
    pub is_active: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WebhookPatch {
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: Option<String>,
    #[schema(max_length = 2048)]
    pub url: Option<String>,
    #[schema(value_type = Option<Vec<EventKindOrAll>>, min_items = 1, max_items = 100)]
    pub kinds: Option<Vec<String>>,
    pub format: Option<WebhookFormat>,
    /// A reactivated webhook receives new events only.
    pub is_active: Option<bool>,
}

/// Result of a test message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookPing {
    /// Whether the receiver responded with a 2xx status.
    pub is_accepted: bool,
    /// HTTP status of the response; null if there was none.
    pub status: Option<u16>,
    pub duration_ms: i64,
    /// Why there was no response, or why it was not accepted.
    pub error: Option<String>,
    /// Start of the response body, at most 200 printable characters.
    pub excerpt: Option<String>,
}

impl ReplayableBody for WebhookPing {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub struct WireDelivery {
    /// Same for every attempt; sent as the `webhook-id` header.
    #[schema(example = "dlv_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub webhook_id: String,
    pub event_id: String,
    /// Sequence number of the event in the audit log.
    pub sequence: i64,
    #[schema(value_type = EventKind, example = "deployment_failed")]
    pub kind: String,
    pub status: DeliveryStatus,
    /// Oldest first, the last 30.
    pub attempts: Vec<DeliveryAttempt>,
    #[schema(format = DateTime)]
    pub next_try_at: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
}

impl ReplayableBody for WireDelivery {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    Pending,
    Delivered,
    /// No more attempts are made unless it is redelivered.
    Failed,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttempt {
    pub number: i64,
    #[schema(format = DateTime)]
    pub at: String,
    pub duration_ms: i64,
    /// HTTP status of the response; null if there was none.
    pub status: Option<i64>,
    pub error: Option<String>,
}
