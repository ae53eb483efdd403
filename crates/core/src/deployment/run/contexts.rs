//! The values that a step's expressions can refer to when the step starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::plan::{Plan, StageType, StepActivation, StepPlan};
use super::state::{Run, StepRun, StepRunStatus};
use crate::expression::{EvaluationError, ExpressionContexts, is_true};
use crate::pipeline::grammar::SecretName;
use crate::pipeline::secrets::collect_from_text;

impl Plan {
    /// The contexts from the plan plus the outputs of finished steps. Secrets are not included.
    pub fn contexts_for(&self, run: &Run, stage: usize) -> ExpressionContexts {
        let mut contexts = self.stages.get(stage).map(|planned| planned.contexts.clone()).unwrap_or_default();
        let build = self.stages.iter().position(|planned| planned.kind == StageType::Build);
        let built: Map<String, Value> =
            succeeded_steps(run, build).flat_map(|step| outputs(&step.outputs)).collect();
        let steps: Map<String, Value> = succeeded_steps(run, Some(stage))
            .map(|step| (step.step.to_string(), Value::Object(outputs(&step.outputs).collect())))
            .collect();
        contexts.insert("build".to_owned(), Value::Object(built));
        contexts.insert("steps".to_owned(), Value::Object(steps));
        contexts
    }

    /// Evaluates the step's condition. Called once all steps that it needs have ended.
    pub fn decide_when(&self, run: &Run, stage: usize, index: usize) -> Result<bool, EvaluationError> {
        let planned = self.stages.get(stage).and_then(|planned| planned.steps.get(index));
        match planned.map(|step| &step.when) {
            Some(StepActivation::Always) => Ok(true),
            Some(StepActivation::Never) => Ok(false),
            Some(StepActivation::If(condition)) => is_true(condition, &self.contexts_for(run, stage)),
            None => {
                Err(EvaluationError { message: format!("the plan has no step {index} in stage {stage}") })
            }
        }
    }
}

/// The secrets that the step refers to.
pub fn secrets_used(step: &StepPlan) -> BTreeSet<SecretName> {
    let mut found = Vec::new();
    for text in step.templates() {
        collect_from_text(text, "", &mut found);
    }
    let in_files = step.secret_files.values().cloned();
    found
        .into_iter()
        .map(|(name, _)| name)
        .chain(in_files)
        .chain(step.registry_credential())
        .chain(step.kubeconfig())
        .collect()
}

/// Only these steps have outputs: a skipped or failed step has none, whatever an earlier attempt produced.
fn succeeded_steps(run: &Run, stage: Option<usize>) -> impl Iterator<Item = &StepRun> {
    let is_it = move |step: &&StepRun| Some(step.stage) == stage && step.status == StepRunStatus::Succeeded;
    run.steps.iter().map(Arc::as_ref).filter(is_it)
}

fn outputs(outputs: &BTreeMap<String, String>) -> impl Iterator<Item = (String, Value)> {
    outputs.iter().map(|(name, value)| (name.clone(), Value::String(value.clone())))
}
