//! Messages to chats: the destinations of an organization, and the messages that are to be sent to them.

pub mod command;
mod message;

pub use message::{ChatAttempt, ChatMessage};

use crate::id::ChatDestinationId;
use crate::name::Slug;
use crate::time::Timestamp;

/// Maximum length of the id of a Slack channel or user. Present ones have 9 to 11 characters.
const SLACK_ID_CHARS_MAX: usize = 32;

/// How messages reach a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatDestinationKind {
    /// An incoming webhook of Slack, or of a chat that accepts the same messages.
    SlackWebhook,
    /// A workflow of Microsoft Teams that posts an Adaptive Card when it receives a webhook request.
    TeamsWebhook,
    /// A channel, through the organization's Slack app.
    SlackChannel,
}

impl ChatDestinationKind {
    pub const ALL: [ChatDestinationKind; 3] = [
        ChatDestinationKind::SlackWebhook,
        ChatDestinationKind::TeamsWebhook,
        ChatDestinationKind::SlackChannel,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            ChatDestinationKind::SlackWebhook => "slack_webhook",
            ChatDestinationKind::TeamsWebhook => "teams_webhook",
            ChatDestinationKind::SlackChannel => "slack_channel",
        }
    }

    /// Whether messages go to a URL, which is a secret.
    pub const fn has_url(self) -> bool {
        matches!(self, ChatDestinationKind::SlackWebhook | ChatDestinationKind::TeamsWebhook)
    }
}

/// A place in a chat that notification rules can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatDestination {
    pub id: ChatDestinationId,
    /// The name by which rules refer to the destination.
    pub name: Slug,
    pub kind: ChatDestinationKind,
    /// The id of the channel, for [`ChatDestinationKind::SlackChannel`].
    pub channel: Option<String>,
    /// Consecutive failed attempts.
    pub failures: i64,
    /// Why the last attempt failed. `None` after a success.
    pub error: Option<String>,
    /// When the last message was delivered.
    pub delivered_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// Whether the text can be the id of a Slack channel, user or workspace, such as `C024BE91L`.
pub fn is_slack_id(text: &str) -> bool {
    (2..=SLACK_ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_id_has_only_capitals_and_digits() {
        for good in ["C024BE91L", "U0", "T0123456789"] {
            assert!(is_slack_id(good), "{good}");
        }
        for bad in ["", "C", "c024be91l", "#general", "C02/../x", &"C".repeat(33)] {
            assert!(!is_slack_id(bad), "{bad}");
        }
    }
}
