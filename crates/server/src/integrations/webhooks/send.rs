//! Sends one signed webhook request and converts the outcome to an entry of the delivery log.

use berth_core::id::DeliveryId;
use berth_core::webhook::DeliveryResult;
use berth_engine::credential::RedactedString;
use berth_engine::egress::{EgressClient, EgressFailure, EgressResponse, PostRequest};
use tokio::sync::oneshot;

use crate::error::AppError;
use crate::limits::ANSWER_EXCERPT_CHARS_MAX;

/// A webhook request to send.
pub(crate) struct WebhookRequest {
    pub(crate) id: DeliveryId,
    pub(crate) url: String,
    pub(crate) body: String,
    /// Valid signing secrets, the current one first.
    pub(crate) secrets: Vec<RedactedString>,
    /// Time of this attempt in Unix seconds.
    pub(crate) seconds: i64,
}

impl WebhookRequest {
    /// Sends the request on a separate thread. A blocking task of the runtime would delay shutdown if the receiver
    /// hangs.
    pub(crate) async fn send(self, egress: &EgressClient) -> Result<WebhookSendResult, AppError> {
        let (tell, answer) = oneshot::channel();
        let egress = egress.clone();
        let started = std::thread::Builder::new().name("webhook".into()).spawn(move || {
            // This fails only if the server is stopping and the receiving task no longer exists.
            let _ = tell.send(egress.post(&self.build_request()));
        });
        started.map_err(|error| AppError::bug(format!("cannot start a thread: {error}")))?;
        answer.await.map(WebhookSendResult).map_err(|_| AppError::bug("sending to a webhook broke"))
    }

    fn build_request(&self) -> PostRequest {
        let id = self.id.to_string();
        let signature = super::sign::signatures(&self.secrets, &id, self.seconds, &self.body);
        PostRequest {
            url: self.url.clone(),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("webhook-id", id),
                ("webhook-timestamp", self.seconds.to_string()),
                ("webhook-signature", signature),
            ],
            body: self.body.clone(),
        }
    }
}

/// The outcome of an attempt.
pub(crate) struct WebhookSendResult(Result<EgressResponse, EgressFailure>);

impl WebhookSendResult {
    pub(crate) fn to_attempt(&self) -> DeliveryResult {
        let millis = |took: std::time::Duration| i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        match &self.0 {
            Err(failed) => DeliveryResult {
                status: None,
                error: Some(failed.why.clone()),
                duration_ms: millis(failed.took),
                retry_after_s: None,
            },
            Ok(answered) => DeliveryResult {
                status: Some(answered.status),
                error: describe_status(answered.status),
                duration_ms: millis(answered.took),
                retry_after_s: answered.retry_after_s,
            },
        }
    }

    /// Returns the beginning of the receiver's response.
    pub(crate) fn excerpt(&self) -> Option<String> {
        self.0.as_ref().ok().map(|answered| excerpt(&answered.body)).filter(|text| !text.is_empty())
    }
}

fn describe_status(status: u16) -> Option<String> {
    match status {
        200..300 => None,
        300..400 => Some(format!(
            "responded with {status}: redirects are not followed; set the webhook to the final URL"
        )),
        410 => Some("responded with 410 Gone".to_owned()),
        _ => Some(format!("responded with {status}")),
    }
}

/// Reduces untrusted text to one short line of printable characters.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let is_plain = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let plain: String =
        text.chars().map(|c| if is_plain(c) { c } else { ' ' }).take(ANSWER_EXCERPT_CHARS_MAX).collect();
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_is_short_and_printable() {
        assert_eq!(excerpt(b"ok\r\n"), "ok");
        assert_eq!(excerpt("a\u{1b}[31mb\u{202e}c\u{0}".as_bytes()), "a [31mb c");
        assert_eq!(excerpt(&[0xff, b'x']), "\u{fffd}x");
        assert_eq!(excerpt(&vec![b'x'; 100_000]).len(), ANSWER_EXCERPT_CHARS_MAX);
    }
}
