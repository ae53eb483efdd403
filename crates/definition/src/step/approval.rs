//! The step type `approval`: waits until enough people have approved.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::ParamsSchema;
use super::spec::StepSpec;

pub(super) static SPEC: StepSpec = StepSpec {
    kind: BuiltinStepType::Approval,
    name: "approval",
    summary: "Waits until enough people have approved.",
    schema: SCHEMA,
    idempotent: false,
    on_lost: OnLost::Ask,
    compiled: LazyLock::new(|| ParamsSchema::compile(SCHEMA)),
};

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "approvals": {
      "type": "integer",
      "minimum": 1,
      "maximum": 20,
      "default": 1,
      "description": "Number of people who must approve."
    },
    "from": {
      "type": "array",
      "maxItems": 500,
      "items": { "type": "string", "format": "berth-approver" },
      "description": "Eligible roles (or higher) and e-mail addresses. Defaults to every member who may approve."
    },
    "self_approval": {
      "type": "boolean",
      "default": true,
      "description": "Whether people who wrote, committed or co-authored part of the change, or started or retried the deployment, may approve it."
    },
    "timeout": { "type": "string", "format": "berth-duration", "description": "Time limit for the approvals, after which the step fails." },
    "message": { "type": "string", "maxLength": 1000, "description": "Instructions for approvers." }
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
    fn approval_accepts_roles_and_addresses_as_approvers() {
        check(&json!({}), &expect![[""]]);
        check(
            &json!({ "approvals": 2, "from": ["admin", "ada@acme.test"], "timeout": "24h" }),
            &expect![[""]],
        );
        check(
            &json!({ "approvals": 0, "from": ["boss"], "timeout": "0s" }),
            &expect![[r#"
            /approvals out_of_range: must be at least 1
            /from/0 unknown_value: must be a role (viewer, deployer, admin, owner) or an e-mail address
            /timeout bad_duration: must be a duration like 30s, 10m, 24h or 1h30m"#]],
        );
        check(
            &json!({ "approvers": 2 }),
            &expect!["/approvers unknown_param: unknown param `approvers`; did you mean `approvals`?"],
        );
    }
}
