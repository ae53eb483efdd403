//! Messages to Microsoft Teams: an Adaptive Card for a workflow that starts with a webhook request.

use serde_json::{Value, json};

use super::{ChatContent, ChatItem};

const SCHEMA: &str = "http://adaptivecards.io/schemas/adaptive-card.json";
/// Teams refuses later versions of Adaptive Cards in workflows.
const VERSION: &str = "1.4";

/// Builds the request to the workflow.
pub(super) fn card(content: &ChatContent) -> Value {
    let body: Vec<Value> = content.items.iter().map(text_block).collect();
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {"$schema": SCHEMA, "type": "AdaptiveCard", "version": VERSION, "body": body},
        }],
    })
}

/// A `TextRun` shows text as it is; a `TextBlock` would interpret Markdown in it.
fn text_block(item: &ChatItem) -> Value {
    let mut runs = vec![json!({"type": "TextRun", "text": item.summary})];
    if let Some(url) = &item.url {
        let open = json!({"type": "Action.OpenUrl", "url": url});
        runs.push(json!({"type": "TextRun", "text": " "}));
        runs.push(json!({"type": "TextRun", "text": "Open in Berth", "selectAction": open}));
    }
    json!({"type": "RichTextBlock", "inlines": runs})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_shows_text_without_interpreting_it() {
        let item = |summary: &str, url: Option<&str>| ChatItem {
            summary: summary.into(),
            url: url.map(str::to_owned),
            buttons: Vec::new(),
        };
        let items =
            vec![item("[x](https://evil.test) *b*", Some("https://berth.test/o/acme")), item("y", None)];
        let made = card(&ChatContent { items });
        let body = &made["attachments"][0]["content"]["body"];
        assert_eq!(body[0]["type"], "RichTextBlock");
        assert_eq!(body[0]["inlines"][0]["text"], "[x](https://evil.test) *b*");
        assert_eq!(body[0]["inlines"][2]["selectAction"]["url"], "https://berth.test/o/acme");
        assert_eq!(body[1]["inlines"].as_array().map(Vec::len), Some(1));
    }
}
