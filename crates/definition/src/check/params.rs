//! Checks params against the schema of the step type and reports problems at their position in the YAML.

use berth_core::pipeline::model::{Approver, Requires, Step, StepType};
use berth_core::registry::Offers;
use berth_core::step::Builtin;
use serde_json::Value as Json;

use crate::cursor::{Cursor, Site};
use crate::custom_step::misfits;
use crate::diagnostic::Severity;
use crate::report::Problem;
use crate::step::params::UNKNOWN_PARAM;
use crate::step::{ParamProblem, StepSpec};
use crate::tree::Value;

pub(super) fn check(step: &Site<'_, Step>, offers: Option<&Offers>) {
    let builtin = match &step.value.kind {
        StepType::Builtin(builtin) => *builtin,
        // The type could not be read.
        StepType::Custom(kind) if kind.is_empty() => return,
        StepType::Custom(kind) => return custom(step, kind, offers),
    };
    let at = step.at.get("params");
    if at.as_ref().is_some_and(|at| !matches!(at.node.value, Value::Map(_))) {
        return;
    }
    let place = at.or_else(|| step.at.get("type")).unwrap_or_else(|| step.at.clone());
    let found = match StepSpec::of(builtin).params() {
        Ok(schema) => schema.check(&Json::Object(step.value.params.clone()), |text| text.contains("${{")),
        Err(refused) => return place.error("bad_schema", refused.to_string()),
    };
    if builtin == Builtin::Approval && found.is_empty() {
        people(&place, &step.value.params);
    }
    for problem in found {
        tell(&place, Severity::Error, builtin.as_str(), problem);
    }
}

/// Checks the params of a custom step against the schema in its registry. Unknown params are only a warning, because a
/// step ignores them.
fn custom(step: &Site<'_, Step>, kind: &str, offers: Option<&Offers>) {
    let at = step.at.get("type").unwrap_or_else(|| step.at.clone());
    match offers.map(|offers| offers.get(kind)) {
        None => {
            let message =
                "custom steps are only known to a server: this one and its params are not checked here";
            at.add(Problem::warning("custom_step_unchecked", message));
        }
        Some(Some(Ok(offer))) => {
            let place = step.at.get("params").unwrap_or(at);
            for problem in misfits(offer, &step.value.params) {
                let is_dropped = problem.code == UNKNOWN_PARAM;
                let severity = if is_dropped { Severity::Warning } else { Severity::Error };
                tell(&place, severity, kind, problem);
            }
        }
        // Only warnings: the registry may be added later, and pipelines must stay editable while it is missing.
        Some(Some(Err(why))) => at.add(Problem::warning("unknown_custom_step", why.clone())),
        Some(None) => at.add(Problem::warning("unknown_custom_step", "there is no such custom step")),
    }
}

fn tell(place: &Cursor<'_>, severity: Severity, kind: &str, problem: ParamProblem) {
    let ParamProblem { pointer, code, message, suggestion } = problem;
    let target = place.descend(&pointer);
    let told = Problem { severity, code, message: format!("{message} (step type `{kind}`)"), suggestion };
    if pointer.is_empty() || code == UNKNOWN_PARAM { target.add_at_key(told) } else { target.add(told) }
}

/// Checks that enough approvers are named, if that is known before the run.
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
