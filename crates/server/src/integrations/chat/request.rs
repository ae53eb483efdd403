//! Requests of Slack: their signature, button presses, and slash commands.

use aws_lc_rs::hmac;
use berth_core::chat::is_slack_id;
use berth_core::forge::ForgeUser;
use berth_core::notification::LinkAction;
use berth_engine::credential::RedactedString;
use http::HeaderMap;
use serde_json::Value;

use super::slack::button_press;
use crate::integrations::forges::hooks::{decode_hex, single_header};
use crate::limits::SLACK_REQUEST_AGE_S_MAX;

/// Version of the signature, in the header and in the signed text.
const VERSION: &str = "v0";
/// Maximum length of the name of a Slack user that is stored.
const NAME_CHARS_MAX: usize = 100;

/// A request with a valid signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlackRequest {
    /// The workspace of the user.
    pub(crate) workspace: String,
    pub(crate) user: ForgeUser,
    pub(crate) kind: SlackRequestKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlackRequestKind {
    /// `/berth` with this text after it.
    Command(String),
    Button {
        action: LinkAction,
        /// The id of the approval or session.
        subject: String,
        /// Where to send what was done.
        response_url: String,
    },
}

/// Returns the signature of a request if it is valid: made with the secret over the time and the raw body, and not too
/// long ago. `now` is in Unix seconds.
pub(crate) fn verify_request(
    secret: &RedactedString,
    headers: &HeaderMap,
    body: &[u8],
    now: i64,
) -> Option<String> {
    let sent_at = single_header(headers, "x-slack-request-timestamp")?;
    let seconds: i64 = sent_at.parse().ok()?;
    if now.checked_sub(seconds)?.checked_abs()? > SLACK_REQUEST_AGE_S_MAX {
        return None;
    }
    let signature = single_header(headers, "x-slack-signature")?.strip_prefix("v0=")?;
    let tag = decode_hex(signature.as_bytes())?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    let mut signed = format!("{VERSION}:{sent_at}:").into_bytes();
    signed.extend_from_slice(body);
    hmac::verify(&key, &signed, &tag).ok()?;
    // The digits have one spelling, so that a replay cannot be disguised.
    Some(signature.to_ascii_lowercase())
}

/// Parses the form that Slack sends. `None` for requests that Berth does not use, such as a check of the certificate.
pub(crate) fn parse_request(body: &[u8]) -> Option<SlackRequest> {
    let field = |name: &str| {
        let found = url::form_urlencoded::parse(body).find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned())
    };
    if let Some(payload) = field("payload") {
        return parse_interaction(&serde_json::from_str(&payload).ok()?);
    }
    field("command")?;
    let user = slack_user(&field("user_id")?, &field("user_name").unwrap_or_default())?;
    let kind = SlackRequestKind::Command(field("text").unwrap_or_default());
    Some(SlackRequest { workspace: field("team_id")?, user, kind })
}

fn parse_interaction(payload: &Value) -> Option<SlackRequest> {
    if payload["type"] != "block_actions" {
        return None;
    }
    let (action, subject) = button_press(&payload["actions"][0])?;
    let user = &payload["user"];
    let name = user["username"].as_str().or_else(|| user["name"].as_str()).unwrap_or_default();
    // In a shared channel, the user may belong to another workspace than the channel.
    let workspace = user["team_id"].as_str().or_else(|| payload["team"]["id"].as_str())?;
    Some(SlackRequest {
        workspace: workspace.to_owned(),
        user: slack_user(user["id"].as_str()?, name)?,
        kind: SlackRequestKind::Button {
            action,
            subject,
            response_url: payload["response_url"].as_str()?.to_owned(),
        },
    })
}

fn slack_user(id: &str, name: &str) -> Option<ForgeUser> {
    let name = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
    is_slack_id(id).then(|| ForgeUser { id: id.to_owned(), name })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in Slack's documentation.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const SIGNED_AT: i64 = 1_531_420_618;
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

    fn headers(seconds: &str, signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-slack-request-timestamp", seconds.parse().unwrap());
        headers.insert("x-slack-signature", signature.parse().unwrap());
        headers
    }

    #[test]
    fn signature_of_slacks_documentation_is_valid_for_five_minutes() {
        let secret = RedactedString::new(SECRET.into());
        let verify = |headers: &HeaderMap, body: &str, now| {
            verify_request(&secret, headers, body.as_bytes(), now).is_some()
        };
        let good = headers(&SIGNED_AT.to_string(), SIGNATURE);
        for (now, wanted) in [
            (SIGNED_AT, true),
            (SIGNED_AT + 300, true),
            (SIGNED_AT - 300, true),
            (SIGNED_AT + 301, false),
            (SIGNED_AT - 301, false),
        ] {
            assert_eq!(verify(&good, BODY, now), wanted, "{now}");
        }
        assert!(!verify(&good, &format!("{BODY}&x=y"), SIGNED_AT), "another body");
        let other = RedactedString::new("other".into());
        assert_eq!(verify_request(&other, &good, BODY.as_bytes(), SIGNED_AT), None);
        for bad in ["", "v0=", "v0=zz", "v1=00", &SIGNATURE[..20], &SIGNATURE.replace("v0=", "")] {
            assert!(!verify(&headers(&SIGNED_AT.to_string(), bad), BODY, SIGNED_AT), "{bad}");
        }
        for bad in ["", "x", "9223372036854775807", "-9223372036854775808", "1531420619"] {
            assert!(!verify(&headers(bad, SIGNATURE), BODY, SIGNED_AT), "{bad}");
        }
        let mut twice = good.clone();
        twice.append("x-slack-signature", SIGNATURE.parse().unwrap());
        assert!(!verify(&twice, BODY, SIGNED_AT), "a repeated header");
    }

    #[test]
    fn signature_has_one_spelling() {
        let secret = RedactedString::new(SECRET.into());
        let upper = format!("v0={}", SIGNATURE.trim_start_matches("v0=").to_ascii_uppercase());
        let found = [SIGNATURE, &upper].map(|sent| {
            verify_request(&secret, &headers(&SIGNED_AT.to_string(), sent), BODY.as_bytes(), SIGNED_AT)
        });
        assert!(found[0].is_some());
        assert_eq!(found[0], found[1]);
    }

    #[test]
    fn command_and_button_press_are_parsed() {
        let found = parse_request(BODY.as_bytes()).unwrap();
        assert_eq!((found.workspace.as_str(), found.user.id.as_str()), ("T1DC2JH3J", "U2CERLKJA"));
        assert_eq!(found.kind, SlackRequestKind::Command(String::new()));
        let payload = serde_json::json!({
            "type": "block_actions",
            "user": {"id": "U1", "username": "grace", "team_id": "T2"},
            "team": {"id": "T1"},
            "response_url": "https://hooks.slack.com/actions/x",
            "actions": [{"action_id": "berth_approve", "value": "apr_1"}],
        });
        let form = |payload: &Value| {
            let form = url::form_urlencoded::Serializer::new(String::new())
                .append_pair("payload", &payload.to_string())
                .finish();
            parse_request(form.as_bytes())
        };
        let found = form(&payload).unwrap();
        assert_eq!((found.workspace.as_str(), found.user.name.as_str()), ("T2", "grace"));
        for (pointer, value) in
            [("/type", "view_submission"), ("/user/id", "u 1"), ("/actions/0/action_id", "other")]
        {
            let mut odd = payload.clone();
            *odd.pointer_mut(pointer).unwrap() = value.into();
            assert_eq!(form(&odd), None, "{pointer}");
        }
        for odd in ["", "ssl_check=1", "payload=x", "command=%2Fberth&user_id=U1"] {
            assert_eq!(parse_request(odd.as_bytes()), None, "{odd}");
        }
    }
}
