//! Sends messages to chats: Slack and Microsoft Teams.

mod request;
mod slack;
mod teams;

pub(crate) use request::{SlackRequest, SlackRequestKind, parse_request, verify_request};
pub(crate) use slack::SlackApi;

use berth_core::chat::{ChatAttempt, ChatDestinationKind};
use berth_core::notification::LinkAction;
use berth_engine::credential::RedactedString;
use berth_engine::egress::{EgressClient, EgressFailure, EgressResponse, PostRequest};
use serde_json::Value;

use super::forges::run_on_thread;
use crate::error::AppError;

/// What one message to a chat says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChatContent {
    pub(crate) items: Vec<ChatItem>,
}

/// A notification in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChatItem {
    pub(crate) summary: String,
    /// The dashboard page of what the notification is about.
    pub(crate) url: Option<String>,
    /// What a member can do with a button, and the id of the approval or session that it is done to.
    pub(crate) buttons: Vec<(LinkAction, String)>,
}

/// Where a message is sent.
pub(crate) enum ChatRecipient {
    Webhook {
        kind: ChatDestinationKind,
        url: RedactedString,
    },
    /// A channel, or a user for a direct message.
    Slack {
        api: SlackApi,
        channel: String,
    },
}

impl ChatRecipient {
    /// Sends a message and waits for the outcome.
    pub(crate) async fn send(
        self,
        egress: &EgressClient,
        content: ChatContent,
    ) -> Result<ChatAttempt, AppError> {
        let egress = egress.clone();
        run_on_thread(move || match self {
            ChatRecipient::Webhook { kind, url } => {
                let body = match kind {
                    ChatDestinationKind::TeamsWebhook => teams::card(&content),
                    ChatDestinationKind::SlackWebhook | ChatDestinationKind::SlackChannel => {
                        slack::webhook_message(&content)
                    }
                };
                let headers = vec![("content-type", "application/json".to_owned())];
                let post = PostRequest { url: url.reveal().to_owned(), headers, body: body.to_string() };
                to_attempt(egress.post(&post), url.reveal())
            }
            ChatRecipient::Slack { api, channel } => match api.post_message(&egress, &channel, &content) {
                Ok(()) => ChatAttempt::Sent,
                Err(error) => {
                    ChatAttempt::Failed { why: error.to_string(), retry_after_s: error.retry_after_s() }
                }
            },
        })
        .await
    }
}

/// Sends what a button did to the URL that Slack named for it. The inner error says why it was not sent.
pub(crate) async fn send_reply(
    egress: &EgressClient,
    url: String,
    body: Value,
) -> Result<Result<(), String>, AppError> {
    let egress = egress.clone();
    let headers = vec![("content-type", "application/json".to_owned())];
    let post = PostRequest { url, headers, body: body.to_string() };
    run_on_thread(move || match to_attempt(egress.post(&post), &post.url) {
        ChatAttempt::Sent => Ok(()),
        ChatAttempt::Failed { why, .. } => Err(why),
    })
    .await
}

/// Turns the response of a webhook into an outcome. Its body is not shown, because it may repeat parts of the URL.
fn to_attempt(sent: Result<EgressResponse, EgressFailure>, url: &str) -> ChatAttempt {
    match sent {
        Ok(answered) if (200..300).contains(&answered.status) => ChatAttempt::Sent,
        Ok(answered) => ChatAttempt::Failed {
            why: format!("the chat responded with {}", answered.status),
            retry_after_s: answered.retry_after_s,
        },
        Err(failed) => ChatAttempt::Failed { why: failed.why.replace(url, "…"), retry_after_s: None },
    }
}
