//! The content that an approval is bound to.

use std::sync::Arc;

use serde_json::{Value, json};

use super::plan::{Plan, StageType};
use super::state::{Run, StepRun, StepRunStatus};

use std::collections::BTreeSet;

/// The content that is approved, as text to be hashed: commit, definition, build results, and the plan of the stage
/// with its inputs and secret versions. If `step` is set, also the results of the steps that it needs and the approval
/// request of a custom step.
pub fn approval_content(
    run: &Run,
    plan: &Plan,
    stage: usize,
    step: Option<usize>,
    commit: &str,
    definition_hash: &str,
) -> String {
    let is_build = |it: &&StepRun| run.stages[it.stage].kind == StageType::Build && it.stage != stage;
    let build: Vec<Value> =
        run.steps.iter().map(Arc::as_ref).filter(is_build).filter_map(step_results).collect();
    let before: Vec<Value> = step.map(|at| needed_results(run, plan, at)).unwrap_or_default();
    let mut bound = json!({
        "commit": commit,
        "definition": definition_hash,
        "build": build,
        "stage": plan.stages[stage].name,
        "plan": serde_json::to_value(&plan.stages[stage]).unwrap_or_default(),
        "step": step.map(|at| run.steps[at].step.as_str()),
        "before": before,
    });
    if let Some(asks) = step.and_then(|at| run.steps[at].pending_approval()) {
        bound["asks"] = json!(asks);
    }
    bound.to_string()
}

/// The results of all steps that a step needs, directly or indirectly.
fn needed_results(run: &Run, plan: &Plan, at: usize) -> Vec<Value> {
    let (stage, first) = (run.steps[at].stage, at - run.steps[at].index);
    let mut seen = BTreeSet::new();
    let mut open = vec![run.steps[at].index];
    while let Some(index) = open.pop() {
        let needs = plan.stages[stage].steps[index].needs.iter().copied();
        open.extend(needs.filter(|need| seen.insert(*need)));
    }
    seen.into_iter().filter_map(|index| step_results(&run.steps[first + index])).collect()
}

fn step_results(step: &StepRun) -> Option<Value> {
    let is_done = step.status == StepRunStatus::Succeeded;
    is_done.then(|| json!({ "step": step.step, "outputs": step.outputs, "artifacts": step.artifacts }))
}
