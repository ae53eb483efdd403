//! The step type `kubernetes_apply`: applies manifests to a Kubernetes cluster.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::ParamsSchema;
use super::spec::StepSpec;

pub(super) static SPEC: StepSpec = StepSpec {
    kind: BuiltinStepType::KubernetesApply,
    name: "kubernetes_apply",
    summary: "Applies manifests to a Kubernetes cluster and waits until they are rolled out.",
    schema: SCHEMA,
    idempotent: true,
    on_lost: OnLost::Retry,
    compiled: LazyLock::new(|| ParamsSchema::compile(SCHEMA)),
};

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["manifests"],
  "properties": {
    "manifests": { "type": "array", "minItems": 1, "maxItems": 100, "items": { "type": "string", "minLength": 1, "format": "berth-path" }, "description": "Files and directories below the workspace. Of a directory, all `.yaml`, `.yml` and `.json` files are applied, but not those in its subdirectories." },
    "namespace": { "type": "string", "minLength": 1, "maxLength": 63, "description": "Namespace of objects that name none. Defaults to that of the credentials." },
    "kubeconfig": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "Name of the secret with the kubeconfig file. Without it, the runner's own credentials are used, if the runner allows it." },
    "context": { "type": "string", "minLength": 1, "maxLength": 253, "description": "Context in the kubeconfig. Defaults to its current context." },
    "force": { "type": "boolean", "default": false, "description": "Whether to change fields that another client manages." },
    "prune": { "type": "boolean", "default": false, "description": "Whether to delete objects that the pipeline has applied to the same environment or stage before, and that are not in the manifests any more." },
    "wait": { "type": "boolean", "default": true, "description": "Whether to wait until Deployments, StatefulSets, DaemonSets and Jobs are rolled out." },
    "within": { "type": "string", "format": "berth-duration", "default": "10m", "description": "Time limit of the rollouts, after which the step fails." }
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
    fn kubernetes_apply_requires_manifests_in_the_workspace() {
        check(&json!({ "manifests": ["deploy/"], "kubeconfig": "PROD", "within": "5m" }), &expect![[""]]);
        check(&json!({}), &expect![[" missing_param: the param `manifests` is missing"]]);
        check(
            &json!({ "manifests": ["../x"], "kubeconfig": "a b", "force": "yes" }),
            &expect![[r#"
            /manifests/0 bad_path: must be a path inside the workspace, like `services/shop`
            /kubeconfig bad_param: "a b" does not match "^[A-Za-z_][A-Za-z0-9_]*$"
            /force wrong_type: expected `true` or `false`, found the text `yes`"#]],
        );
    }
}
