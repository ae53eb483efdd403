//! Notifications of people, and the rules that decide which they get.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::event::{EventKind, EventKindOrAll};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Notification)]
pub struct WireNotification {
    #[schema(example = "ntf_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub event_id: String,
    #[schema(value_type = EventKind, example = "ticket_queued")]
    pub event_kind: String,
    /// Why the event concerns you; null if you subscribed to it by a rule.
    pub cause: Option<NotificationReason>,
    /// One line of plain text.
    #[schema(example = "Grace joined the queue for qa-1 of shop")]
    pub summary: String,
    /// Slug of the pipeline.
    pub pipeline: Option<String>,
    pub environment: Option<String>,
    pub stage: Option<String>,
    pub pipeline_id: Option<String>,
    pub deployment_id: Option<String>,
    pub session_id: Option<String>,
    pub ticket_id: Option<String>,
    pub approval_id: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Null if it has not been read.
    #[schema(format = DateTime)]
    pub read_at: Option<String>,
}

impl ReplayableBody for WireNotification {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NotificationCause)]
pub enum NotificationReason {
    TakenOver,
    TakeoverAnnounced,
    QueueJoined,
    SessionGranted,
    SessionExpiring,
    DeploymentFailed,
    ApprovalRequested,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationsRead {
    /// Number of notifications that were unread.
    pub read: i64,
}

impl ReplayableBody for NotificationsRead {}

/// The notification rules of a person, a team or the organization.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationRules {
    /// Whether these are the default rules, because none were set.
    pub is_default: bool,
    pub rules: Vec<NotificationRuleBody>,
    /// Null if the rules were never set.
    #[schema(format = DateTime)]
    pub updated_at: Option<String>,
}

impl ReplayableBody for NotificationRules {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NotificationRulesPut {
    /// Replaces all rules. An empty list turns all notifications off; null returns to the default rules.
    #[schema(max_items = 20)]
    pub rules: Option<Vec<NotificationRuleBody>>,
}

/// A notification rule. It applies to events that meet all of its conditions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = NotificationRule)]
pub struct NotificationRuleBody {
    pub channel: NotificationChannelName,
    /// Name of the chat destination of a rule of a team or of the organization. Without it, `chat` is a direct message
    /// in Slack to the person.
    #[serde(default)]
    #[schema(max_length = 63)]
    pub destination: Option<String>,
    /// `mine`: events that concern the person; with a destination, those that concern a member of the team. `all`: every
    /// event that the person may see; with a destination, every event.
    #[serde(default)]
    pub about: NotificationAbout,
    /// Kinds of events, or `["*"]`.
    #[serde(default = "all_kinds")]
    #[schema(value_type = Vec<EventKindOrAll>, example = json!(["*"]), min_items = 1, max_items = 100)]
    pub kinds: Vec<String>,
    /// Slug of a pipeline, or the beginning of slugs followed by `*`.
    #[serde(default)]
    #[schema(example = "shop", max_length = 64)]
    pub pipeline: Option<String>,
    /// Name of an environment or stage, or the beginning of names followed by `*`.
    #[serde(default)]
    #[schema(example = "qa-*", max_length = 64)]
    pub environment: Option<String>,
    /// Hours in which no message is sent. It is sent afterwards.
    #[serde(default)]
    pub quiet_hours: Option<QuietHoursBody>,
    /// Minimum time between two messages, in minutes. Notifications in between are sent together.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1440, example = 5)]
    pub digest_minutes: i64,
}

fn all_kinds() -> Vec<String> {
    vec!["*".to_owned()]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NotificationChannel)]
pub enum NotificationChannelName {
    Inbox,
    Email,
    Chat,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotificationAbout {
    #[default]
    Mine,
    All,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = QuietHours)]
pub struct QuietHoursBody {
    /// Start and end. An end before the start means that time on the next day.
    #[schema(example = "22:00-07:00", max_length = 11)]
    pub hours: String,
    /// Name in the IANA database.
    #[schema(example = "Europe/Vienna", max_length = 64)]
    pub time_zone: String,
}
