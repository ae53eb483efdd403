//! `kubernetes_apply`: applies manifests to a Kubernetes cluster.

use super::BuiltinStep;
use crate::attempt::{RunningAttempt, StepResult};
use crate::kubernetes::apply_manifests;

pub(super) struct KubernetesApplyStep;

impl BuiltinStep for KubernetesApplyStep {
    fn name(&self) -> &'static str {
        "kubernetes_apply"
    }

    fn run(&self, attempt: &RunningAttempt<'_>) -> StepResult {
        apply_manifests(attempt)
    }
}
