//! The list of built-in step types.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::{ParamsSchema, SchemaRefused};
use super::{approval, dummy, http_check, image_build, kubernetes_apply, script, soak, wait_for};

/// Describes a step type for the parser, the documentation and editors.
pub struct StepSpec {
    pub kind: BuiltinStepType,
    /// The name of the step type, as used in `type:`.
    pub name: &'static str,
    /// A one-line summary for lists and documentation.
    pub summary: &'static str,
    /// JSON Schema of `params`.
    pub schema: &'static str,
    /// Whether running a step of this type twice has the same effect as running it once.
    pub idempotent: bool,
    /// The value of `on_lost` for steps that do not set it.
    pub on_lost: OnLost,
    pub(super) compiled: LazyLock<Result<ParamsSchema, SchemaRefused>>,
}

pub static BUILTINS: [&StepSpec; 8] = [
    &script::SPEC,
    &http_check::SPEC,
    &approval::SPEC,
    &soak::SPEC,
    &wait_for::SPEC,
    &dummy::SPEC,
    &image_build::SPEC,
    &kubernetes_apply::SPEC,
];

/// Names reserved for future step types.
pub const PLANNED: [&str; 6] = ["container", "docker_build", "terraform", "kubernetes", "helm", "ssh"];

impl StepSpec {
    pub fn by_name(name: &str) -> Option<&'static StepSpec> {
        BUILTINS.into_iter().find(|spec| spec.name == name)
    }

    pub fn for_type(kind: BuiltinStepType) -> &'static StepSpec {
        match kind {
            BuiltinStepType::Script => &script::SPEC,
            BuiltinStepType::HttpCheck => &http_check::SPEC,
            BuiltinStepType::Approval => &approval::SPEC,
            BuiltinStepType::Soak => &soak::SPEC,
            BuiltinStepType::WaitFor => &wait_for::SPEC,
            BuiltinStepType::Dummy => &dummy::SPEC,
            BuiltinStepType::ImageBuild => &image_build::SPEC,
            BuiltinStepType::KubernetesApply => &kubernetes_apply::SPEC,
        }
    }

    /// The schema of `params`. It is compiled once and cached.
    pub fn params(&self) -> Result<&ParamsSchema, &SchemaRefused> {
        self.compiled.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_type_is_found_by_name_and_kind() {
        for spec in BUILTINS {
            assert!(std::ptr::eq(StepSpec::by_name(spec.name).expect(spec.name), spec));
            assert!(std::ptr::eq(StepSpec::for_type(spec.kind), spec));
            assert_eq!(serde_json::to_value(spec.kind).expect("json"), spec.name);
            assert_eq!(spec.kind.as_str(), spec.name);
            assert!(!PLANNED.contains(&spec.name));
        }
    }

    #[test]
    fn every_built_in_schema_compiles_and_describes_each_param() {
        for spec in BUILTINS {
            spec.params().unwrap_or_else(|refused| panic!("{}: {refused}", spec.name));
            let schema: serde_json::Value = serde_json::from_str(spec.schema).expect(spec.name);
            assert_eq!(schema["type"], "object", "{}", spec.name);
            assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
            for (name, param) in schema["properties"].as_object().expect("properties") {
                assert!(param["description"].is_string(), "{}.{name} has no description", spec.name);
            }
        }
    }

    #[test]
    fn idempotent_built_in_types_are_retried_when_lost() {
        for spec in BUILTINS {
            assert!(!spec.idempotent || spec.on_lost == OnLost::Retry, "{}", spec.name);
        }
    }
}
