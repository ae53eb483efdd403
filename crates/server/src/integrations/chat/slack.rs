//! Slack: messages in Block Kit, and calls of the Web API.

use berth_core::notification::LinkAction;
use berth_engine::credential::RedactedString;
use berth_engine::egress::{EgressClient, EgressResponse, PostRequest};
use serde_json::{Value, json};

use super::{ChatContent, ChatItem};

/// Maximum number of characters of an error code of Slack that is shown.
const ERROR_CHARS_MAX: usize = 80;
/// Maximum length of the text in a confirmation dialog.
const CONFIRM_CHARS_MAX: usize = 300;
/// Prefix of the ids of Berth's buttons.
const ACTION_PREFIX: &str = "berth_";

/// Why a call of Slack's Web API failed. Never contains the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SlackError {
    #[error("Slack could not be reached: {0}")]
    Unreachable(String),
    #[error("Slack's rate limit was reached")]
    Busy(Option<i64>),
    #[error("Slack responded with {0}")]
    Status(u16),
    #[error("Slack refused the call: {0}")]
    Refused(String),
    #[error("Slack's response cannot be parsed")]
    Odd,
}

impl SlackError {
    pub(super) fn retry_after_s(&self) -> Option<i64> {
        if let SlackError::Busy(seconds) = self { *seconds } else { None }
    }
}

/// Slack's Web API with the bot token of an app. Its methods block.
pub(crate) struct SlackApi {
    /// With a trailing slash.
    pub(crate) url: String,
    pub(crate) token: RedactedString,
}

/// The workspace that a bot token belongs to.
pub(crate) struct SlackWorkspaceName {
    pub(crate) id: String,
    pub(crate) name: String,
}

impl SlackApi {
    /// Returns the workspace of the token.
    pub(crate) fn identify(&self, egress: &EgressClient) -> Result<SlackWorkspaceName, SlackError> {
        let answer = self.call(egress, "auth.test", &json!({}))?;
        let text = |name: &str| answer[name].as_str().map(str::to_owned).ok_or(SlackError::Odd);
        Ok(SlackWorkspaceName { id: text("team_id")?, name: text("team")? })
    }

    pub(super) fn post_message(
        &self,
        egress: &EgressClient,
        channel: &str,
        content: &ChatContent,
    ) -> Result<(), SlackError> {
        let mut body = message(content, true);
        body["channel"] = channel.into();
        self.call(egress, "chat.postMessage", &body).map(drop)
    }

    fn call(&self, egress: &EgressClient, method: &str, body: &Value) -> Result<Value, SlackError> {
        let post = PostRequest {
            url: format!("{}{method}", self.url),
            headers: vec![
                ("content-type", "application/json; charset=utf-8".to_owned()),
                ("authorization", format!("Bearer {}", self.token.reveal())),
            ],
            body: body.to_string(),
        };
        let answered = egress.post(&post).map_err(|failed| SlackError::Unreachable(failed.why))?;
        parse_answer(&answered)
    }
}

fn parse_answer(answered: &EgressResponse) -> Result<Value, SlackError> {
    match answered.status {
        200 => {}
        429 => return Err(SlackError::Busy(answered.retry_after_s)),
        status => return Err(SlackError::Status(status)),
    }
    let answer: Value = serde_json::from_slice(&answered.body).map_err(|_| SlackError::Odd)?;
    if answer["ok"] == true {
        return Ok(answer);
    }
    let code = answer["error"].as_str().ok_or(SlackError::Odd)?;
    // The code is untrusted.
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    Err(SlackError::Refused(code.chars().filter(is_plain).take(ERROR_CHARS_MAX).collect()))
}

/// A message for an incoming webhook, which has no buttons, because it does not come from the app.
pub(super) fn webhook_message(content: &ChatContent) -> Value {
    message(content, false)
}

fn message(content: &ChatContent, has_buttons: bool) -> Value {
    let text: Vec<String> = content.items.iter().map(|item| escape(&item.summary)).collect();
    let mut blocks = Vec::new();
    for item in &content.items {
        blocks.push(section(item));
        if has_buttons && !item.buttons.is_empty() {
            let buttons: Vec<Value> = item
                .buttons
                .iter()
                .map(|(action, subject)| button(*action, subject, &item.summary))
                .collect();
            blocks.push(json!({"type": "actions", "elements": buttons}));
        }
    }
    // Slack shows `text` in notifications, and the blocks in the channel.
    json!({"text": text.join("\n"), "blocks": blocks, "unfurl_links": false, "unfurl_media": false})
}

fn section(item: &ChatItem) -> Value {
    let mut text = escape(&item.summary);
    if let Some(url) = &item.url {
        text.push_str(&format!("  <{}|Open in Berth>", escape(url)));
    }
    // `verbatim` keeps Slack from turning names in the text into mentions.
    json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}})
}

/// A button with Slack's own confirmation dialog.
fn button(action: LinkAction, subject: &str, summary: &str) -> Value {
    let plain = |text: &str| json!({"type": "plain_text", "text": text});
    let style = match action {
        LinkAction::Approve => Some("primary"),
        LinkAction::Reject | LinkAction::Release => Some("danger"),
        LinkAction::Extend | LinkAction::Yield => None,
    };
    let mut made = json!({
        "type": "button",
        "text": plain(action.label()),
        "action_id": format!("{ACTION_PREFIX}{}", action.as_str()),
        "value": subject,
        "confirm": {
            "title": plain(&format!("{}?", action.label())),
            "text": plain(&summary.chars().take(CONFIRM_CHARS_MAX).collect::<String>()),
            "confirm": plain(action.label()),
            "deny": plain("Cancel"),
        },
    });
    if let Some(style) = style {
        made["style"] = style.into();
    }
    made
}

/// Returns what a pressed button does, and the id of the approval or session that it is done to.
pub(crate) fn button_press(pressed: &Value) -> Option<(LinkAction, String)> {
    let name = pressed["action_id"].as_str()?.strip_prefix(ACTION_PREFIX)?;
    let action = LinkAction::ALL.into_iter().find(|action| action.as_str() == name)?;
    Some((action, pressed["value"].as_str()?.to_owned()))
}

/// Escapes the characters that Slack interprets.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> ChatContent {
        let buttons =
            vec![(LinkAction::Approve, "apr_1".to_owned()), (LinkAction::Reject, "apr_1".to_owned())];
        let url = Some("https://berth.test/o/acme/deployments/dep_1?a=1&b=2".to_owned());
        ChatContent { items: vec![ChatItem { summary: "<!channel> & co".into(), url, buttons }] }
    }

    #[test]
    fn message_cannot_mention_a_channel() {
        let made = webhook_message(&content());
        assert_eq!(made["text"], "&lt;!channel&gt; &amp; co");
        let section = &made["blocks"][0]["text"];
        let link = "<https://berth.test/o/acme/deployments/dep_1?a=1&amp;b=2|Open in Berth>";
        assert_eq!(section["text"], format!("&lt;!channel&gt; &amp; co  {link}"));
        assert_eq!(section["verbatim"], true);
        assert_eq!(made["blocks"].as_array().map(Vec::len), Some(1), "a webhook has no buttons");
    }

    #[test]
    fn button_is_confirmed_and_read_back() {
        let made = message(&content(), true);
        let [approve, reject] = [0, 1].map(|index| &made["blocks"][1]["elements"][index]);
        assert_eq!(button_press(approve), Some((LinkAction::Approve, "apr_1".into())));
        assert_eq!(button_press(reject), Some((LinkAction::Reject, "apr_1".into())));
        assert_eq!(approve["confirm"]["deny"]["text"], "Cancel");
        for other in
            [json!({}), json!({"action_id": "approve", "value": "apr_1"}), json!({"action_id": "berth_x"})]
        {
            assert_eq!(button_press(&other), None);
        }
    }

    #[test]
    fn refusal_of_slack_is_shown_without_markup() {
        let answer = |status, body: &str, retry_after_s| EgressResponse {
            status,
            retry_after_s,
            headers: http::HeaderMap::new(),
            body: body.as_bytes().to_vec(),
            took: std::time::Duration::ZERO,
        };
        for (answered, wanted) in [
            (
                answer(200, r#"{"ok":false,"error":"<b>not_in_channel"}"#, None),
                SlackError::Refused("bnot_in_channel".into()),
            ),
            (answer(200, "<html>", None), SlackError::Odd),
            (answer(429, "", Some(30)), SlackError::Busy(Some(30))),
            (answer(503, "", None), SlackError::Status(503)),
        ] {
            assert_eq!(parse_answer(&answered).unwrap_err(), wanted);
        }
    }
}
