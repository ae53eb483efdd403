//! The response of a custom step: the content of the output file that one call writes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Default pause between two polls.
pub const POLL_PAUSE_MS_DEFAULT: u64 = 5_000;
/// Shorter pauses would keep a runner busy.
pub const POLL_PAUSE_MS_MIN: u64 = 100;
/// Longer pauses would delay cancellation and timeout.
pub const POLL_PAUSE_MS_MAX: u64 = 3_600_000;
/// Maximum size of the polling state, which is passed in one command-line argument together with the params.
pub const POLLING_STATE_BYTES_MAX: usize = 64 * 1024;
const CONTEXT_CHARS_MAX: usize = 1_000;
const ERROR_CHARS_MAX: usize = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub enum CustomStepResponse {
    Succeeded {
        outputs: BTreeMap<String, String>,
    },
    Failed {
        error: String,
        code: Option<String>,
    },
    /// The step must be approved before it continues. `context` is shown to the approvers.
    ApprovalRequired {
        context: Option<String>,
    },
    /// The step's work is still in progress elsewhere; call it again with this state after the pause.
    Waiting {
        state: Value,
        pause_ms: u64,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStepResponse {
    status: String,
    data: Option<Value>,
    error: Option<Value>,
    error_code: Option<Value>,
    approval_request: Option<ApprovalRequest>,
    polling_state: Option<Value>,
    retry_after_ms: Option<f64>,
}

#[derive(Deserialize, Default)]
struct ApprovalRequest {
    context: Option<Value>,
}

impl CustomStepResponse {
    /// Parses a response. `Err` is a message for users that says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let written: RawStepResponse =
            serde_json::from_slice(bytes).map_err(|error| format!("its answer cannot be read: {error}"))?;
        match written.status.as_str() {
            "SUCCESS" => Ok(CustomStepResponse::Succeeded { outputs: outputs(written.data)? }),
            "FAILED" => {
                let error = written.error.map_or_else(|| "it gave no reason".into(), to_text);
                let code = written.error_code.map(to_text).map(|code| truncate(&code, CONTEXT_CHARS_MAX));
                Ok(CustomStepResponse::Failed { error: truncate(&error, ERROR_CHARS_MAX), code })
            }
            "APPROVAL_REQUIRED" => {
                let context = written.approval_request.unwrap_or_default().context;
                Ok(CustomStepResponse::ApprovalRequired {
                    context: context.map(|it| truncate(&to_text(it), CONTEXT_CHARS_MAX)),
                })
            }
            "TRIGGERED" | "POLL_AGAIN" => parse_waiting(written),
            other => Err(format!("its answer has the status {other:?}, which is not one of the protocol")),
        }
    }
}

fn parse_waiting(written: RawStepResponse) -> Result<CustomStepResponse, String> {
    let Some(state) = written.polling_state.filter(|state| !state.is_null()) else {
        return Err(format!("it answered {} without a pollingState", written.status));
    };
    let bytes = state.to_string().len();
    if bytes > POLLING_STATE_BYTES_MAX {
        return Err(format!(
            "its pollingState has {bytes} bytes, but at most {POLLING_STATE_BYTES_MAX} are kept; keep an id of it instead"
        ));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let asked = written.retry_after_ms.filter(|ms| ms.is_finite()).map(|ms| ms as u64);
    let pause_ms = asked.unwrap_or(POLL_PAUSE_MS_DEFAULT).clamp(POLL_PAUSE_MS_MIN, POLL_PAUSE_MS_MAX);
    Ok(CustomStepResponse::Waiting { state, pause_ms })
}

/// Converts the outputs to strings; values that are not strings become JSON.
fn outputs(data: Option<Value>) -> Result<BTreeMap<String, String>, String> {
    match data {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(members)) => Ok(to_texts(members)),
        Some(_) => Err("it answered SUCCESS with data that is not an object; outputs need names".into()),
    }
}

fn to_texts(members: Map<String, Value>) -> BTreeMap<String, String> {
    members
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name, to_text(value)))
        .collect()
}

fn to_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn truncate(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_to_text(text: &str) -> String {
        match CustomStepResponse::parse(text.as_bytes()) {
            Ok(answer) => format!("{answer:?}"),
            Err(told) => told,
        }
    }

    #[test]
    fn response_parses_every_protocol_status() {
        let cases = [
            (r#"{"status":"SUCCESS"}"#, r"Succeeded { outputs: {} }"),
            (
                r#"{"status":"SUCCESS","data":{"id":"d-1","count":3,"none":null,"list":[1]}}"#,
                r#"Succeeded { outputs: {"count": "3", "id": "d-1", "list": "[1]"} }"#,
            ),
            (
                r#"{"status":"FAILED","error":"no quota","errorCode":"QUOTA"}"#,
                r#"Failed { error: "no quota", code: Some("QUOTA") }"#,
            ),
            (r#"{"status":"FAILED"}"#, r#"Failed { error: "it gave no reason", code: None }"#),
            (r#"{"status":"APPROVAL_REQUIRED"}"#, "ApprovalRequired { context: None }"),
            (
                r#"{"status":"APPROVAL_REQUIRED","approvalRequest":{"context":"drop 3 tables"}}"#,
                r#"ApprovalRequired { context: Some("drop 3 tables") }"#,
            ),
            (
                r#"{"status":"TRIGGERED","pollingState":{"job":7}}"#,
                r#"Waiting { state: Object {"job": Number(7)}, pause_ms: 5000 }"#,
            ),
            (
                r#"{"status":"POLL_AGAIN","pollingState":1,"retryAfterMs":250.7}"#,
                "Waiting { state: Number(1), pause_ms: 250 }",
            ),
            (
                r#"{"status":"POLL_AGAIN","pollingState":1,"retryAfterMs":-5}"#,
                "Waiting { state: Number(1), pause_ms: 100 }",
            ),
            (
                r#"{"status":"POLL_AGAIN","pollingState":1,"retryAfterMs":1e300}"#,
                "Waiting { state: Number(1), pause_ms: 3600000 }",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_to_text(text), expected, "{text}");
        }
    }

    #[test]
    fn response_outside_protocol_is_rejected_with_message() {
        let cases = [
            (r#"{"status":"TRIGGERED"}"#, "it answered TRIGGERED without a pollingState"),
            (r#"{"status":"DONE"}"#, r#"its answer has the status "DONE", which is not one of the protocol"#),
            (r#"{"status":"SUCCESS","data":[1]}"#, "it answered SUCCESS with data that is not an object"),
            ("", "its answer cannot be read"),
            ("{}", "its answer cannot be read: missing field `status`"),
        ];
        for (text, expected) in cases {
            assert!(parse_to_text(text).starts_with(expected), "{text}: {}", parse_to_text(text));
        }
        let big =
            format!(r#"{{"status":"TRIGGERED","pollingState":"{}"}}"#, "x".repeat(POLLING_STATE_BYTES_MAX));
        assert!(
            parse_to_text(&big).starts_with("its pollingState has 65538 bytes"),
            "{}",
            parse_to_text(&big)
        );
    }
}
