//! The step type `http_check`: requests a URL until the response is as expected.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::ParamsSchema;
use super::spec::StepSpec;

pub(super) static SPEC: StepSpec = StepSpec {
    kind: BuiltinStepType::HttpCheck,
    name: "http_check",
    summary: "Requests a URL until it responds as expected.",
    schema: SCHEMA,
    idempotent: true,
    on_lost: OnLost::Retry,
    compiled: LazyLock::new(|| ParamsSchema::compile(SCHEMA)),
};

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["url"],
  "properties": {
    "url": { "type": "string", "format": "berth-url", "description": "URL to request." },
    "method": { "enum": ["GET", "HEAD"], "default": "GET", "description": "HTTP method." },
    "expect_status": {
      "type": "integer",
      "minimum": 100,
      "maximum": 599,
      "default": 200,
      "description": "Expected HTTP status."
    },
    "within": {
      "type": "string",
      "format": "berth-duration",
      "default": "60s",
      "description": "Time limit, after which the step fails."
    }
  }
}"#;

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::SPEC;
    use crate::step::params::findings;

    fn check(params: &Value, expected: &Expect) {
        expected.assert_eq(&findings(&SPEC, params));
    }

    #[test]
    fn http_check_validates_url_and_status() {
        check(
            &json!({ "url": "https://shop.test/health", "expect_status": 200, "within": "60s" }),
            &expect![[""]],
        );
        check(
            &json!({ "url": "${{ vars.url }}/health", "expect_status": "${{ vars.status }}" }),
            &expect![[""]],
        );
        check(
            &json!({ "url": "shop.test", "expect_status": 20, "within": "soon" }),
            &expect![[r#"
            /url bad_url: must be a URL that begins with http:// or https://
            /expect_status out_of_range: must be at least 100
            /within bad_duration: must be a duration like 30s, 10m, 24h or 1h30m"#]],
        );
        check(
            &json!({ "expect_state": 200 }),
            &expect![[r#"
            /expect_state unknown_param: unknown param `expect_state`; did you mean `expect_status`?
             missing_param: the param `url` is missing"#]],
        );
        check(
            &json!({ "url": "http://a b", "method": "POST", "within": 60 }),
            &expect![[r#"
            /url bad_url: must be a URL that begins with http:// or https://
            /method unknown_value: `POST` is not known here; there are GET and HEAD
            /within wrong_type: expected text, found the number 60"#]],
        );
    }
}
