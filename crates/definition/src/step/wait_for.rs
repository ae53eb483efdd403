//! The step type `wait_for`: retries a command or a URL until it succeeds.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::ParamsSchema;
use super::spec::StepSpec;

pub(super) static SPEC: StepSpec = StepSpec {
    kind: BuiltinStepType::WaitFor,
    name: "wait_for",
    summary: "Runs a command or requests a URL until it succeeds.",
    schema: SCHEMA,
    idempotent: true,
    on_lost: OnLost::Retry,
    compiled: LazyLock::new(|| ParamsSchema::compile(SCHEMA)),
};

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "$comment": "give exactly one of `run` and `url`",
  "oneOf": [{ "required": ["run"] }, { "required": ["url"] }],
  "properties": {
    "run": {
      "type": "string",
      "minLength": 1,
      "description": "Shell command that exits with 0 when the wait is over. Must not contain expressions."
    },
    "url": { "type": "string", "format": "berth-url", "description": "URL that responds with 2xx when the wait is over." },
    "within": {
      "type": "string",
      "format": "berth-duration",
      "default": "10m",
      "description": "Time limit, after which the step fails."
    },
    "every": { "type": "string", "format": "berth-duration", "default": "5s", "description": "Delay between two attempts." }
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
    fn wait_for_requires_exactly_one_of_command_and_url() {
        check(&json!({ "run": "pg_isready", "within": "5m", "every": "2s" }), &expect![[""]]);
        check(&json!({ "url": "http://db.test" }), &expect![[""]]);
        check(&json!({ "within": "5m" }), &expect![" bad_param: give exactly one of `run` and `url`"]);
        check(
            &json!({ "run": "x", "url": "http://db.test" }),
            &expect![" bad_param: give exactly one of `run` and `url`"],
        );
    }
}
