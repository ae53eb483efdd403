//! Params against the schema of the step type, told at the place in the YAML.

use serde_json::Value as Json;

use crate::pipeline::cursor::{Cursor, Site};
use crate::pipeline::model::{Approver, Requires, Step, StepType};
use crate::pipeline::report::Problem;
use crate::pipeline::tree::Value;
use crate::step::Builtin;

pub(super) fn check(step: &Site<'_, Step>) {
    // The schema of a custom step is known to its registry only.
    let StepType::Builtin(builtin) = step.value.kind else { return };
    let at = step.at.get("params");
    if at.as_ref().is_some_and(|at| !matches!(at.node.value, Value::Map(_))) {
        return;
    }
    let place = at.or_else(|| step.at.get("type")).unwrap_or_else(|| step.at.clone());
    let found = match builtin.spec().params() {
        Ok(schema) => schema.check(&Json::Object(step.value.params.clone()), |text| text.contains("${{")),
        Err(refused) => return place.error("bad_schema", refused.to_string()),
    };
    if builtin == Builtin::Approval && found.is_empty() {
        people(&place, &step.value.params);
    }
    for problem in found {
        let about_all = problem.pointer.is_empty();
        let target = place.descend(&problem.pointer);
        let told = Problem::error(
            problem.code,
            format!("{} (step type `{}`)", problem.message, builtin.spec().name),
        );
        let told = match problem.suggestion {
            Some(suggestion) => told.suggesting(suggestion),
            None => told,
        };
        if about_all || problem.code == "unknown_param" { target.add_at_key(told) } else { target.add(told) }
    }
}

/// Whether those who are named are enough, where that is known before it runs.
fn people(place: &Cursor<'_>, params: &serde_json::Map<String, Json>) {
    let approvals = params.get("approvals").map_or(Some(1), Json::as_u64);
    let from = params.get("from").cloned().unwrap_or_default();
    let from: Option<Vec<Approver>> = serde_json::from_value(from).ok();
    let (Some(approvals), Some(from)) = (approvals.and_then(|count| u32::try_from(count).ok()), from) else {
        return;
    };
    let rule = Requires { approvals, from, self_approval: true, timeout: None };
    if let Some(told) = rule.too_few() {
        place.error("unfulfillable", told);
    }
}
