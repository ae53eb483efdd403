//! Plan: the steps of one deployment, in order, or why this version cannot run them.
//!
//! Decided before anything begins: a deployment that would have to stop half-way never touches its environment.

use std::collections::BTreeSet;

use berth_core::deployment::{Cause, Failure};
use berth_core::name::EnvName;
use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::model::{Step, StepType};
use berth_core::pipeline::{Definition, parse};
use berth_core::step::Builtin;
use serde_json::Value;

use super::dummy::Dummy;

/// The build and the steps of a definition, without those the environment skips.
pub(super) fn plan(source: Option<&str>, environment: &EnvName) -> Result<Vec<Dummy>, Failure> {
    let parsed = source.map(parse).ok_or_else(|| refused("its definition is not stored any more"))?;
    let Some(definition) = parsed.definition else {
        let first = parsed.diagnostics.first().map_or("it has errors", |found| &found.message);
        return Err(refused(format!("this version cannot read its definition: {first}")));
    };
    let Definition { build, steps, ephemeral_environments, .. } = definition;
    let Some(environment) = ephemeral_environments.get(environment) else {
        return Err(refused(format!("its definition names no environment {environment}")));
    };
    let kept = |step: &Step| !environment.skip.contains(&step.id);
    [build, steps]
        .into_iter()
        .flat_map(|phase| in_order(phase.into_iter().filter(kept).collect()))
        .map(|step| runnable(&step))
        .collect()
}

pub(super) fn refused(detail: impl Into<String>) -> Failure {
    Failure { cause: Cause::NotRunnable, detail: detail.into() }
}

/// As written, except where a step needs a later one. Checked definitions have no circles; a step that is skipped
/// keeps nobody waiting.
fn in_order(mut left: Vec<Step>) -> Vec<Step> {
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waiting: BTreeSet<StepId> = left.iter().map(|step| step.id.clone()).collect();
        let is_ready = |step: &Step| !step.needs.iter().any(|id| waiting.contains(id));
        let next = left.iter().position(is_ready).unwrap_or(0);
        ordered.push(left.remove(next));
    }
    ordered
}

fn runnable(step: &Step) -> Result<Dummy, Failure> {
    let (id, kind) = (step.id.as_str(), String::from(step.kind.clone()));
    if step.kind != StepType::Builtin(Builtin::Dummy) {
        let text = format!("step \"{id}\" is of type {kind}; this version runs only dummy steps yet");
        return Err(refused(text));
    }
    if step.condition.is_some() {
        let text = format!("step \"{id}\" has a condition; this version does not evaluate `if` yet");
        return Err(refused(text));
    }
    if !step.runs_on.is_empty() {
        let text =
            format!("step \"{id}\" wants a machine of its own; this version does not know `runs_on` yet");
        return Err(refused(text));
    }
    if Value::Object(step.params.clone()).to_string().contains("${{") {
        let text =
            format!("step \"{id}\" has an expression in its params; this version does not evaluate them yet");
        return Err(refused(text));
    }
    let unreadable = |error| refused(format!("the params of step \"{}\" cannot be read: {error}", step.id));
    Dummy::of(step).map_err(unreadable)
}
