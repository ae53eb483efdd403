//! Reads stages with their approvals and windows.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::access::Role;
use berth_core::name::Email;
use berth_core::pipeline::grammar::{StepId, VarName};
use berth_core::pipeline::limits::{APPROVALS_MAX, DURATION_S_MAX};
use berth_core::pipeline::model::{Approver, OnFailure, Requires, Scalar, Stage};
use berth_core::pipeline::window::{DateRange, Day, Hours, Window, ZoneName};
use berth_core::wording::quoted;

use crate::cursor::{Cursor, Fields, Read, word};
use crate::report::Problem;
use crate::tree::Value;

/// Defaults for all stages.
#[derive(Default)]
pub(super) struct StageDefaults {
    vars: BTreeMap<VarName, Scalar>,
    requires: Option<Requires>,
    window: Option<Window>,
    on_failure: Option<OnFailure>,
}

impl StageDefaults {
    pub(super) fn read(at: &Cursor<'_>) -> Option<Self> {
        let fields = at.fields(&["vars", "requires", "window", "on_failure"])?;
        Some(Self {
            vars: vars(&fields),
            requires: fields.read("requires"),
            window: fields.read("window"),
            on_failure: fields.read("on_failure"),
        })
    }
}

pub(super) fn stage(at: &Cursor<'_>, defaults: &StageDefaults) -> Option<Stage> {
    let fields = at.fields(&["name", "vars", "skip", "requires", "window", "on_failure"])?;
    let mut all_vars = defaults.vars.clone();
    all_vars.extend(vars(&fields));
    // Read all fields before a missing name returns, so that every problem is reported.
    let skip = skip(&fields);
    let requires = fields.read("requires").or_else(|| defaults.requires.clone());
    let window = fields.read("window").or_else(|| defaults.window.clone());
    let on_failure = fields.read("on_failure").or(defaults.on_failure).unwrap_or_default();
    Some(Stage { name: fields.required("name")?, vars: all_vars, skip, requires, window, on_failure })
}

pub(super) fn vars(fields: &Fields<'_>) -> BTreeMap<VarName, Scalar> {
    fields.get("vars").map(|at| at.named("vars", word(VarName::parse), Scalar::read)).unwrap_or_default()
}

/// The existence of the ids is checked later, when all steps are known.
pub(super) fn skip(fields: &Fields<'_>) -> BTreeSet<StepId> {
    fields.list("skip", "step ids").into_iter().collect()
}

impl Read for Scalar {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        match &at.node.value {
            Value::Bool(value) => Some(Scalar::Bool(*value)),
            Value::Number { value, .. } => Some(Scalar::Number(value.clone())),
            Value::Text(_) => at.text().map(|text| Scalar::Text(text.to_owned())),
            Value::Null | Value::List(_) | Value::Map(_) => {
                at.wrong_type("text, a number, `true` or `false`");
                None
            }
        }
    }
}

impl Read for OnFailure {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        at.choice(&[("none", OnFailure::None), ("rollback", OnFailure::Rollback)])
    }
}

impl Read for Requires {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let fields = at.fields(&["approvals", "from", "self_approval", "timeout"])?;
        let requires = Requires {
            approvals: fields
                .get("approvals")
                .map_or(Some(1), |at| at.whole_number(1, APPROVALS_MAX))
                .unwrap_or(1),
            from: fields.list("from", "roles and e-mail addresses"),
            self_approval: fields.read("self_approval").unwrap_or(true),
            timeout: fields.get("timeout").and_then(|at| at.duration(1, DURATION_S_MAX)),
        };
        if let Some(told) = requires.too_few() {
            fields.get("approvals").unwrap_or_else(|| at.clone()).error("unfulfillable", told);
        }
        Some(requires)
    }
}

impl Read for Approver {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let text = at.text()?;
        if let Ok(role) = text.parse::<Role>() {
            return Some(Approver::Role(role));
        }
        match Email::parse(text) {
            Ok(email) => Some(Approver::Email(email)),
            Err(_) => {
                let message = format!("{} is neither a role nor an e-mail address", quoted(text));
                at.add(Problem::error("unknown_value", message).among(
                    at.report(),
                    text,
                    Role::ALL.map(Role::as_str),
                ));
                None
            }
        }
    }
}

impl Read for Window {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let fields = at.fields(&["timezone", "days", "hours", "except"])?;
        let days: BTreeSet<Day> = fields.list("days", "days").into_iter().collect();
        let hours = fields.get("hours").and_then(|at| at.parsed("bad_window", Hours::parse));
        let except = fields.list("except", "dates");
        let window = Window { timezone: fields.required("timezone")?, days, hours, except };
        if window.shuts_for_ever() {
            let place = fields.get("except").unwrap_or_else(|| at.clone());
            let message =
                "these dates leave no day on which the window would open; end the last range earlier";
            place.error("bad_window", message);
        }
        Some(window)
    }
}

impl Read for Day {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        at.choice(&Day::ALL)
    }
}

impl Read for DateRange {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        at.parsed("bad_window", DateRange::parse)
    }
}

impl Read for ZoneName {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let text = at.text()?;
        match ZoneName::parse(text) {
            Ok(zone) => Some(zone),
            Err(why) => {
                let known = ZoneName::known();
                let problem = Problem::error("unknown_timezone", format!("{} {why}", quoted(text)));
                at.add(problem.among(at.report(), text, known.iter().map(String::as_str)));
                None
            }
        }
    }
}
