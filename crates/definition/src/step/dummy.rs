//! The step type `dummy`: simulates work, for tests and for trying out pipelines.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::ParamsSchema;
use super::spec::StepSpec;

pub(super) static SPEC: StepSpec = StepSpec {
    kind: BuiltinStepType::Dummy,
    name: "dummy",
    summary: "Simulates work, for demos and tests.",
    schema: SCHEMA,
    idempotent: true,
    on_lost: OnLost::Retry,
    compiled: LazyLock::new(|| ParamsSchema::compile(SCHEMA)),
};

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "outcome": {
      "enum": ["succeed", "fail", "hang"],
      "default": "succeed",
      "description": "How the step ends. `hang` runs until the timeout or a cancellation."
    },
    "duration": { "type": "string", "format": "berth-duration", "description": "How long the step runs. Defaults to zero." },
    "stop_after": { "type": "string", "format": "berth-duration", "description": "How long the step takes to stop when it is cancelled. Defaults to zero. Like every step, it is killed after 10 seconds." },
    "message": { "type": "string", "maxLength": 1000, "description": "Line to write to the log." },
    "outputs": {
      "type": "object",
      "maxProperties": 100,
      "additionalProperties": { "type": "string" },
      "description": "Outputs to write. List them in the step's `outputs` too."
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
    fn dummy_accepts_known_outcomes_only() {
        check(&json!({}), &expect![[""]]);
        check(
            &json!({ "outcome": "fail", "duration": "2s", "message": "no", "outputs": { "image": "a" } }),
            &expect![[""]],
        );
        check(&json!({ "outcome": "hang", "stop_after": "3s" }), &expect![[""]]);
        check(
            &json!({ "outcome": "faill", "outputs": { "image": 1 } }),
            &expect![[r#"
            /outcome unknown_value: `faill` is not known here; did you mean `fail`?
            /outputs/image wrong_type: expected text, found the number 1"#]],
        );
    }
}
