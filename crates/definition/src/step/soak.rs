//! The step type `soak`: waits for a fixed time before the next step.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::ParamsSchema;
use super::spec::StepSpec;

pub(super) static SPEC: StepSpec = StepSpec {
    kind: BuiltinStepType::Soak,
    name: "soak",
    summary: "Waits for some time before the next step.",
    schema: SCHEMA,
    idempotent: true,
    on_lost: OnLost::Retry,
    compiled: LazyLock::new(|| ParamsSchema::compile(SCHEMA)),
};

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["duration"],
  "properties": {
    "duration": { "type": "string", "format": "berth-duration", "description": "How long to wait." }
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
    fn soak_accepts_only_a_duration() {
        check(&json!({ "duration": "10m" }), &expect![[""]]);
        check(&json!({}), &expect![" missing_param: the param `duration` is missing"]);
        check(
            &json!({ "duration": 10, "for": "10m" }),
            &expect![[r#"
            /duration wrong_type: expected text, found the number 10
            /for unknown_param: unknown param `for`; there is duration"#]],
        );
    }
}
