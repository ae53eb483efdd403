//! Chat destinations, and the Slack app of an organization.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::ReplayableBody;

/// A place in a chat that notification rules can name.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChatDestination)]
pub struct WireChatDestination {
    #[schema(example = "chat_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Name used in notification rules.
    #[schema(example = "deploys")]
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ChatDestinationType,
    /// Host of the webhook's URL. The rest of the URL is a secret. Null without a webhook.
    #[schema(example = "hooks.slack.com")]
    pub host: Option<String>,
    /// Id of the Slack channel.
    pub channel: Option<String>,
    /// Number of messages waiting to be sent, at most 1,000.
    pub pending: i64,
    /// Consecutive failed attempts; 0 after a successful one.
    pub failures: i64,
    /// Why the last attempt failed; null after a successful one.
    pub error: Option<String>,
    /// When the last message was delivered.
    #[schema(format = DateTime)]
    pub delivered_at: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
}

impl ReplayableBody for WireChatDestination {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatDestinationType {
    /// An incoming webhook of Slack.
    SlackWebhook,
    /// A workflow of Microsoft Teams that starts with a webhook request.
    TeamsWebhook,
    /// A Slack channel, through the organization's Slack app.
    SlackChannel,
}

// No `Debug` on types that hold a secret.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ChatDestinationNew {
    #[schema(
        min_length = 1,
        max_length = 63,
        pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
        example = "deploys"
    )]
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ChatDestinationType,
    /// URL of the webhook. Required for webhooks.
    #[schema(max_length = 2048, example = "https://hooks.slack.com/services/T0/B0/x")]
    pub url: Option<String>,
    /// Id of the channel, such as `C024BE91L`. Required for `slack_channel`.
    #[schema(max_length = 32)]
    pub channel: Option<String>,
}

/// How the organization is connected to Slack, and what to enter there.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackSettings {
    /// Null if the organization is not connected.
    pub connection: Option<SlackWorkspace>,
    /// URL to which Slack sends button presses and slash commands.
    #[schema(example = "https://berth.acme.test/hooks/slack/org_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub request_url: String,
    /// Manifest from which Slack creates the app.
    #[schema(value_type = Object)]
    pub manifest: Value,
}

impl ReplayableBody for SlackSettings {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackWorkspace {
    #[schema(example = "T024BE7LD")]
    pub workspace_id: String,
    /// Name of the workspace.
    #[schema(example = "acme")]
    pub workspace: String,
    /// URL of Slack's Web API.
    #[schema(example = "https://slack.com/api/")]
    pub api_url: String,
    #[schema(format = DateTime)]
    pub connected_at: String,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SlackConnectionPut {
    /// Signing secret of the app, from its page "Basic Information".
    #[schema(min_length = 1, max_length = 200)]
    pub signing_secret: String,
    /// Bot token of the app, from its page "OAuth & Permissions".
    #[schema(min_length = 1, max_length = 400, example = "xoxb-1234")]
    pub bot_token: String,
    /// URL of Slack's Web API. Defaults to `https://slack.com/api/`.
    #[schema(max_length = 2048)]
    pub api_url: Option<String>,
}

/// What Slack shows to the member who sent a command. Empty for a button, whose outcome is sent separately.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct SlackReply {
    /// Who sees the text: `ephemeral` for only the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "ephemeral")]
    pub response_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
}
