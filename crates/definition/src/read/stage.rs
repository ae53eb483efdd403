//! Reads stages with their approvals and windows.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::access::Role;
use berth_core::pipeline::grammar::{StepId, VarName};
use berth_core::pipeline::limits::{APPROVALS_MAX, DURATION_S_MAX};
use berth_core::pipeline::model::{ApprovalPolicy, ApproverSelector, OnFailure, StageDefinition, VarValue};
use berth_core::pipeline::window::{DateRange, DeploymentWindow, WindowDay, WindowHours, ZoneName};
use berth_core::wording::quote;

use crate::cursor::{FieldReader, NodeCursor, ReadNode, parse_key};
use crate::report::DefinitionProblem;
use crate::tree::YamlValue;

/// Values of `stage_defaults`, which apply to all stages.
#[derive(Default)]
pub(super) struct StageDefaults {
    vars: BTreeMap<VarName, VarValue>,
    requires: Option<ApprovalPolicy>,
    window: Option<DeploymentWindow>,
    on_failure: Option<OnFailure>,
}

impl StageDefaults {
    pub(super) fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let fields = at.fields(&["vars", "requires", "window", "on_failure"])?;
        Some(Self {
            vars: vars(&fields),
            requires: fields.read("requires"),
            window: fields.read("window"),
            on_failure: fields.read("on_failure"),
        })
    }
}

pub(super) fn stage(at: &NodeCursor<'_>, defaults: &StageDefaults) -> Option<StageDefinition> {
    let fields = at.fields(&["name", "vars", "skip", "requires", "window", "on_failure"])?;
    let mut all_vars = defaults.vars.clone();
    all_vars.extend(vars(&fields));
    // All other fields are read before `name`, whose absence ends the function, so that every problem is reported.
    let skip = skip(&fields);
    let requires = fields.read("requires").or_else(|| defaults.requires.clone());
    let window = fields.read("window").or_else(|| defaults.window.clone());
    let on_failure = fields.read("on_failure").or(defaults.on_failure).unwrap_or_default();
    Some(StageDefinition {
        name: fields.read_required("name")?,
        vars: all_vars,
        skip,
        requires,
        window,
        on_failure,
    })
}

pub(super) fn vars(fields: &FieldReader<'_>) -> BTreeMap<VarName, VarValue> {
    fields
        .get("vars")
        .map(|at| at.named_entries("vars", parse_key(VarName::parse), VarValue::read))
        .unwrap_or_default()
}

/// Reads the ids of steps to skip. Whether they exist is checked later, when all steps are known.
pub(super) fn skip(fields: &FieldReader<'_>) -> BTreeSet<StepId> {
    fields.list("skip", "step ids").into_iter().collect()
}

impl ReadNode for VarValue {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        match &at.node.value {
            YamlValue::Bool(value) => Some(VarValue::Bool(*value)),
            YamlValue::Number { value, .. } => Some(VarValue::Number(value.clone())),
            YamlValue::Text(_) => at.text().map(|text| VarValue::Text(text.to_owned())),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Map(_) => {
                at.wrong_type("text, a number, `true` or `false`");
                None
            }
        }
    }
}

impl ReadNode for OnFailure {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        at.choice(&[("none", OnFailure::None), ("rollback", OnFailure::Rollback)])
    }
}

impl ReadNode for ApprovalPolicy {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let fields = at.fields(&["approvals", "from", "self_approval", "timeout"])?;
        let requires = ApprovalPolicy {
            approvals: fields
                .get("approvals")
                .map_or(Some(1), |at| at.whole_number(1, APPROVALS_MAX))
                .unwrap_or(1),
            from: fields.list("from", "roles and e-mail addresses"),
            self_approval: fields.read("self_approval").unwrap_or(true),
            timeout: fields.get("timeout").and_then(|at| at.duration(1, DURATION_S_MAX)),
        };
        if let Some(told) = requires.unmeetable_reason() {
            fields.get("approvals").unwrap_or_else(|| at.clone()).error("unfulfillable", told);
        }
        Some(requires)
    }
}

impl ReadNode for ApproverSelector {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let text = at.text()?;
        match ApproverSelector::try_from(text.to_owned()) {
            Ok(approver) => Some(approver),
            Err(invalid) => {
                let message = format!("{} {invalid}", quote(text));
                at.add(DefinitionProblem::error("unknown_value", message).with_hint(
                    at.report(),
                    text,
                    Role::ALL.map(Role::as_str),
                ));
                None
            }
        }
    }
}

impl ReadNode for DeploymentWindow {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let fields = at.fields(&["timezone", "days", "hours", "except"])?;
        let days: BTreeSet<WindowDay> = fields.list("days", "days").into_iter().collect();
        let hours = fields.get("hours").and_then(|at| at.parse_text("bad_window", WindowHours::parse));
        let except = fields.list("except", "dates");
        let window = DeploymentWindow { timezone: fields.read_required("timezone")?, days, hours, except };
        if window.never_opens_again() {
            let place = fields.get("except").unwrap_or_else(|| at.clone());
            let message =
                "these dates leave no day on which the window would open; end the last range earlier";
            place.error("bad_window", message);
        }
        Some(window)
    }
}

impl ReadNode for WindowDay {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        at.choice(&WindowDay::ALL)
    }
}

impl ReadNode for DateRange {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        at.parse_text("bad_window", DateRange::parse)
    }
}

impl ReadNode for ZoneName {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let text = at.text()?;
        match ZoneName::parse(text) {
            Ok(zone) => Some(zone),
            Err(why) => {
                let known = ZoneName::all_names();
                let problem = DefinitionProblem::error("unknown_timezone", format!("{} {why}", quote(text)));
                at.add(problem.with_hint(at.report(), text, known.iter().map(String::as_str)));
                None
            }
        }
    }
}
