//! Checks params against the schema of the step type, and reports each problem at its position in the YAML.

use berth_core::pipeline::model::{ApprovalPolicy, ApproverSelector, StepDefinition, StepType};
use berth_core::registry::AvailableSteps;
use berth_core::step::BuiltinStepType;
use serde_json::Value as Json;

use crate::cursor::{LocatedValue, NodeCursor};
use crate::custom_step::check_params;
use crate::diagnostic::DiagnosticSeverity;
use crate::report::DefinitionProblem;
use crate::step::params::UNKNOWN_PARAM;
use crate::step::{ParamProblem, StepSpec};
use crate::tree::YamlValue;

pub(super) fn check(step: &LocatedValue<'_, StepDefinition>, offers: Option<&AvailableSteps>) {
    let builtin = match &step.value.kind {
        StepType::Builtin(builtin) => *builtin,
        // The type could not be read, which is already reported.
        StepType::Custom(kind) if kind.is_empty() => return,
        StepType::Custom(kind) => return check_custom(step, kind, offers),
    };
    let at = step.at.get("params");
    if at.as_ref().is_some_and(|at| !matches!(at.node.value, YamlValue::Map(_))) {
        return;
    }
    let place = at.or_else(|| step.at.get("type")).unwrap_or_else(|| step.at.clone());
    let found = match StepSpec::for_type(builtin).params() {
        Ok(schema) => schema.check(&Json::Object(step.value.params.clone()), |text| text.contains("${{")),
        Err(refused) => return place.error("bad_schema", refused.to_string()),
    };
    if builtin == BuiltinStepType::Approval && found.is_empty() {
        check_approvers(&place, &step.value.params);
    }
    for problem in found {
        report_problem(&place, DiagnosticSeverity::Error, builtin.as_str(), problem);
    }
}

/// Checks the params of a custom step against the schema from its registry. An unknown param is only a warning, because
/// the step ignores it.
fn check_custom(step: &LocatedValue<'_, StepDefinition>, kind: &str, offers: Option<&AvailableSteps>) {
    let at = step.at.get("type").unwrap_or_else(|| step.at.clone());
    match offers.map(|offers| offers.get(kind)) {
        None => {
            let message =
                "custom steps are only known to a server: this one and its params are not checked here";
            at.add(DefinitionProblem::warning("custom_step_unchecked", message));
        }
        Some(Some(Ok(offer))) => {
            let place = step.at.get("params").unwrap_or(at);
            for problem in check_params(offer, &step.value.params) {
                let is_dropped = problem.code == UNKNOWN_PARAM;
                let severity =
                    if is_dropped { DiagnosticSeverity::Warning } else { DiagnosticSeverity::Error };
                report_problem(&place, severity, kind, problem);
            }
        }
        // Only a warning, because the registry may be added later, and the pipeline must stay editable until then.
        Some(Some(Err(why))) => at.add(DefinitionProblem::warning("unknown_custom_step", why.clone())),
        Some(None) => {
            at.add(DefinitionProblem::warning("unknown_custom_step", "there is no such custom step"));
        }
    }
}

fn report_problem(place: &NodeCursor<'_>, severity: DiagnosticSeverity, kind: &str, problem: ParamProblem) {
    let ParamProblem { pointer, code, message, suggestion } = problem;
    let target = place.descend(&pointer);
    let told =
        DefinitionProblem { severity, code, message: format!("{message} (step type `{kind}`)"), suggestion };
    if pointer.is_empty() || code == UNKNOWN_PARAM { target.add_at_key(told) } else { target.add(told) }
}

/// Checks that `from` names enough approvers, if that can be known before the run.
fn check_approvers(place: &NodeCursor<'_>, params: &serde_json::Map<String, Json>) {
    let approvals = params.get("approvals").map_or(Some(1), Json::as_u64);
    let from = params.get("from").cloned().unwrap_or_default();
    let from: Option<Vec<ApproverSelector>> = serde_json::from_value(from).ok();
    let (Some(approvals), Some(from)) = (approvals.and_then(|count| u32::try_from(count).ok()), from) else {
        return;
    };
    let rule = ApprovalPolicy { approvals, from, self_approval: true, timeout: None };
    if let Some(told) = rule.unmeetable_reason() {
        place.error("unfulfillable", told);
    }
}
