//! The step type `script`: runs a shell script in a fresh checkout.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::ParamsSchema;
use super::spec::StepSpec;

pub(super) static SPEC: StepSpec = StepSpec {
    kind: BuiltinStepType::Script,
    name: "script",
    summary: "Runs a shell script in a fresh checkout.",
    schema: SCHEMA,
    idempotent: false,
    on_lost: OnLost::Ask,
    compiled: LazyLock::new(|| ParamsSchema::compile(SCHEMA)),
};

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["run"],
  "properties": {
    "run": {
      "type": "string",
      "minLength": 1,
      "description": "Script to run. Must not contain expressions; pass values through `env`."
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
    fn script_requires_non_empty_run() {
        check(&json!({ "run": "./deploy.sh" }), &expect![[""]]);
        check(&json!({}), &expect![" missing_param: the param `run` is missing"]);
        check(&json!({ "run": "" }), &expect!["/run out_of_range: must not be empty"]);
        check(
            &json!({ "run": ["a"], "rnu": "bash" }),
            &expect![[r#"
            /run wrong_type: expected text, found a list
            /rnu unknown_param: unknown param `rnu`; did you mean `run`?"#]],
        );
    }
}
