//! Checks that references in expressions exist where the step runs.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::expression::{Context, Member, Reference};
use berth_core::pipeline::grammar::{SecretName, StepId, VarName};
use berth_core::pipeline::model::{Scalar, Step, StepType};
use berth_core::pipeline::secrets::Phase;
use berth_core::wording::{listed, quoted};

use super::graph::Graph;
use crate::read::Draft;
use crate::report::{Problem, Report};

/// Maximum number of stages and environments named in a message.
const NAMED_MAX: usize = 5;

/// Everything in a definition that expressions can refer to.
pub(super) struct Known<'d> {
    places: Vec<Place<'d>>,
    /// As written in an expression: `vars.url`.
    vars: BTreeSet<String>,
    /// Build steps by the outputs they declare.
    build: BTreeMap<&'d str, &'d Step>,
    steps: BTreeMap<&'d str, &'d Step>,
}

/// A stage or an environment.
struct Place<'d> {
    kind: &'static str,
    name: &'d str,
    vars: &'d BTreeMap<VarName, Scalar>,
    skip: &'d BTreeSet<StepId>,
}

/// The step that contains the reference.
pub(super) struct Scope<'d> {
    pub(super) known: &'d Known<'d>,
    pub(super) phase: Phase,
    pub(super) step: &'d Step,
    pub(super) graph: &'d Graph,
}

impl<'d> Known<'d> {
    pub(super) fn of(draft: &'d Draft<'_>) -> Self {
        let stages = draft.stages.iter().map(|site| {
            let stage = &site.value;
            Place { kind: "stage", name: stage.name.as_str(), vars: &stage.vars, skip: &stage.skip }
        });
        let environments = draft.environments.iter().map(|site| {
            let (name, environment) = &site.value;
            Place {
                kind: "environment",
                name: name.as_str(),
                vars: &environment.vars,
                skip: &environment.skip,
            }
        });
        let outputs = |step: &'d Step| step.outputs.iter().map(move |output| (output.as_str(), step));
        let places: Vec<Place<'_>> = stages.chain(environments).collect();
        let names: BTreeSet<&VarName> = places.iter().flat_map(|place| place.vars.keys()).collect();
        Self {
            vars: names.into_iter().map(|name| format!("vars.{name}")).collect(),
            places,
            // Duplicate names are reported elsewhere; in reverse, so that the first one wins.
            build: draft.build.iter().rev().flat_map(|site| outputs(&site.value)).collect(),
            steps: draft.steps.iter().rev().map(|site| (site.value.id.as_str(), &site.value)).collect(),
        }
    }
}

impl Scope<'_> {
    pub(super) fn check(&self, reference: &Reference, report: &Report<'_>) -> Result<(), Problem> {
        let context = reference.context;
        let per_stage =
            [Context::Stage, Context::Vars, Context::Steps, Context::Environment, Context::Session];
        if self.phase == Phase::Build && per_stage.contains(&context) {
            let message =
                format!("`{}` is not known in the build, which runs once for all stages", context.as_str());
            return Err(Problem::error("not_in_build", message));
        }
        match context {
            Context::Vars => self.variable(reference, report),
            Context::Build => self.build_output(reference, report),
            Context::Steps => self.step_output(reference, report),
            Context::Secrets => secret(reference),
            Context::Stage
            | Context::Pipeline
            | Context::Organization
            | Context::Trigger
            | Context::Environment
            | Context::Session => Ok(()),
        }
    }

    fn variable(&self, reference: &Reference, report: &Report<'_>) -> Result<(), Problem> {
        let name = written(reference, 0, "vars.<name>")?;
        let places = &self.known.places;
        let missing: Vec<&Place<'_>> = places.iter().filter(|place| !place.vars.contains_key(name)).collect();
        if missing.len() == places.len() {
            let written = format!("vars.{name}");
            let problem =
                Problem::error("unknown_var", format!("no stage or environment sets {}", quoted(&written)));
            return Err(problem.among(report, &written, self.known.vars.iter().map(String::as_str)));
        }
        let missing: Vec<String> = missing
            .into_iter()
            .filter(|place| !place.skip.contains(&self.step.id))
            .map(|place| format!("{} `{}`", place.kind, place.name))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let more = missing.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "`vars.{name}` is not set in {}{more}; set it there, or skip the step `{}` there",
            listed(missing.iter().map(String::as_str).take(NAMED_MAX), "and"),
            self.step.id
        );
        Err(Problem::error("var_missing", message))
    }

    fn build_output(&self, reference: &Reference, report: &Report<'_>) -> Result<(), Problem> {
        let name = written(reference, 0, "build.<output>")?;
        let Some(maker) = self.known.build.get(name) else {
            let known: Vec<String> = self.known.build.keys().map(|known| format!("build.{known}")).collect();
            let problem = Problem::error(
                "unknown_output",
                format!("no build step declares the output {}", quoted(name)),
            );
            return Err(problem.among(report, &format!("build.{name}"), known.iter().map(String::as_str)));
        };
        if self.phase == Phase::Build { self.is_ready(maker) } else { Ok(()) }
    }

    fn step_output(&self, reference: &Reference, report: &Report<'_>) -> Result<(), Problem> {
        const HOW: &str = "steps.<id>.<output>";
        let (id, output) = (written(reference, 0, HOW)?, written(reference, 1, HOW)?);
        let Some(maker) = self.known.steps.get(id) else {
            if self.known.build.values().any(|step| step.id.as_str() == id) {
                let message = format!(
                    "{} is a step of the build; its outputs are written `build.{output}`",
                    quoted(id)
                );
                return Err(Problem::error("unknown_step", message).suggesting(format!("build.{output}")));
            }
            let known: Vec<String> =
                self.known.steps.keys().map(|known| format!("steps.{known}.{output}")).collect();
            let problem = Problem::error("unknown_step", format!("there is no step {}", quoted(id)));
            return Err(problem.among(
                report,
                &format!("steps.{id}.{output}"),
                known.iter().map(String::as_str),
            ));
        };
        // The outputs of a custom step are only known after it has run.
        let is_open = matches!(maker.kind, StepType::Custom(_)) && maker.outputs.is_empty();
        if !is_open && !maker.outputs.iter().any(|known| known.as_str() == output) {
            let known: Vec<String> =
                maker.outputs.iter().map(|known| format!("steps.{id}.{known}")).collect();
            let message = format!("the step `{id}` does not list {} in its `outputs`", quoted(output));
            let problem = Problem::error("unknown_output", message);
            return Err(problem.among(
                report,
                &format!("steps.{id}.{output}"),
                known.iter().map(String::as_str),
            ));
        }
        self.is_ready(maker)?;
        let runs_this = |place: &&Place<'_>| !place.skip.contains(&self.step.id);
        match self.known.places.iter().filter(runs_this).find(|place| place.skip.contains(&maker.id)) {
            None => Ok(()),
            Some(Place { kind, name, .. }) => {
                let message =
                    format!("the step `{id}` is skipped in {kind} `{name}`, so this is empty there");
                Err(Problem::warning("output_of_skipped_step", message))
            }
        }
    }

    fn is_ready(&self, maker: &Step) -> Result<(), Problem> {
        if self.graph.is_before(&maker.id, &self.step.id) {
            return Ok(());
        }
        let message = format!("the step `{}` does not end before this one; add it to `needs`", maker.id);
        Err(Problem::error("not_before", message))
    }
}

fn secret(reference: &Reference) -> Result<(), Problem> {
    let name = written(reference, 0, "secrets.<NAME>")?;
    if SecretName::parse(name).is_ok() && reference.members.len() == 1 {
        return Ok(());
    }
    let message = format!("{} is not a secret name; write `secrets.NAME`", quoted(name));
    Err(Problem::error("invalid_name", message))
}

/// Requires a literal member name, because computed ones cannot be checked before the run.
fn written<'r>(reference: &'r Reference, index: usize, how: &str) -> Result<&'r str, Problem> {
    match reference.members.get(index) {
        Some(Member::Name(name)) => Ok(name),
        Some(Member::Computed) | None => {
            let message = format!(
                "`{}` must be followed by a name that is written out: `{how}`",
                reference.context.as_str()
            );
            Err(Problem::error("computed_reference", message))
        }
    }
}
