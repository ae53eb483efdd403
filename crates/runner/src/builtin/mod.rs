//! Built-in step types that a runner executes. The server handles `approval` and `soak` itself.

mod dummy;
mod http_check;
mod image_build;
#[cfg(feature = "kubernetes")]
mod kubernetes_apply;
mod script;
mod wait_for;

use crate::attempt::{RunningAttempt, StepResult};

pub(crate) trait BuiltinStep: Sync {
    fn name(&self) -> &'static str;

    fn run(&self, attempt: &RunningAttempt<'_>) -> StepResult;
}

pub(crate) static BUILTINS: &[&dyn BuiltinStep] = &[
    &script::ScriptStep,
    &http_check::HttpCheck,
    &wait_for::WaitFor,
    &dummy::DummyStep,
    &image_build::ImageBuildStep,
    #[cfg(feature = "kubernetes")]
    &kubernetes_apply::KubernetesApplyStep,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_step_has_a_definition() {
        for kind in BUILTINS {
            assert!(berth_core::step::BuiltinStepType::from_name(kind.name()).is_some(), "{}", kind.name());
        }
    }
}
