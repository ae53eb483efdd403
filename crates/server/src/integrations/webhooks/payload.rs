//! Webhook payloads: the event in the format of the API, or only its summary.

use berth_core::event::{Event, summarize};
use berth_core::time::Timestamp;
use berth_core::webhook::{PayloadFormat, Webhook};
use berth_store::tables::organization::Organization;
use serde_json::{Value, json};

use crate::wire;

/// The `type` of a test message. No event has this type.
const PING: &str = "ping";

/// The organization that owns the webhook, and the server's public URL.
pub(super) struct PayloadContext<'a> {
    pub(super) org: &'a Organization,
    pub(super) public_url: Option<&'a str>,
}

/// Builds the payload for an event. `pipeline` is the slug of the event's pipeline.
pub(super) fn event_payload(
    sender: &PayloadContext<'_>,
    webhook: &Webhook,
    event: &Event,
    pipeline: Option<&str>,
) -> String {
    let body = match webhook.format {
        PayloadFormat::Slack => slack_payload(&summarize(event, pipeline)),
        PayloadFormat::Standard => {
            let mut data = serde_json::to_value(wire::event_to_wire(event, pipeline)).unwrap_or_default();
            data["organization"] = organization(sender.org);
            data["links"] = links(sender, event);
            json!({"type": event.kind, "timestamp": event.occurred_at.to_string(), "data": data})
        }
    };
    body.to_string()
}

/// Builds the payload of a test message.
pub(crate) fn ping_payload(org: &Organization, webhook: &Webhook, now: Timestamp) -> String {
    let body = match webhook.format {
        PayloadFormat::Slack => {
            slack_payload(&format!("Test message from Berth: webhook {} of {} works", webhook.name, org.slug))
        }
        PayloadFormat::Standard => {
            let webhook = json!({"id": webhook.id.to_string(), "name": webhook.name.as_str()});
            let data = json!({"webhook": webhook, "organization": organization(org)});
            json!({"type": PING, "timestamp": now.to_string(), "data": data})
        }
    };
    body.to_string()
}

fn organization(org: &Organization) -> Value {
    json!({"id": org.id.to_string(), "slug": org.slug.as_str()})
}

/// Returns API links for the event. They are relative paths if the server has no public URL.
fn links(sender: &PayloadContext<'_>, event: &Event) -> Value {
    let base = format!("{}/api/v1/organizations/{}", sender.public_url.unwrap_or_default(), sender.org.id);
    let mut links = json!({"event": format!("{base}/events/{}", event.id)});
    for (kind, list) in [("deployment", "deployments"), ("pipeline", "pipelines")] {
        if let Some(subject) = event.subjects.iter().find(|subject| subject.kind == kind) {
            links[kind] = json!(format!("{base}/{list}/{}", subject.id));
        }
    }
    links
}

/// Builds a Slack message, escaping the three characters that are special in Slack.
fn slack_payload(line: &str) -> Value {
    let escaped = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({"text": escaped})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_payload_escapes_special_characters() {
        assert_eq!(slack_payload("<!channel> & <@U1|x>")["text"], "&lt;!channel&gt; &amp; &lt;@U1|x&gt;");
    }
}
