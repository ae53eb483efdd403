//! Checks that what an expression refers to exists where the step runs.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::expression::{Context, ContextReference, PathMember};
use berth_core::pipeline::grammar::{SecretName, StepId, VarName};
use berth_core::pipeline::model::{StepDefinition, StepType, VarValue};
use berth_core::pipeline::secrets::StepPhase;
use berth_core::wording::{join_words, quote};

use super::graph::StepGraph;
use crate::read::DefinitionDraft;
use crate::report::{DefinitionProblem, ProblemReport};

/// Maximum number of stages and environments named in a message.
const NAMED_MAX: usize = 5;

/// Everything in a definition that expressions can refer to.
pub(super) struct KnownNames<'d> {
    places: Vec<ReferencePlace<'d>>,
    /// Variables as written in an expression: `vars.url`.
    vars: BTreeSet<String>,
    /// Build steps, keyed by the names of the outputs that they declare.
    build: BTreeMap<&'d str, &'d StepDefinition>,
    steps: BTreeMap<&'d str, &'d StepDefinition>,
}

/// A stage or an environment in which steps run.
struct ReferencePlace<'d> {
    kind: &'static str,
    name: &'d str,
    vars: &'d BTreeMap<VarName, VarValue>,
    skip: &'d BTreeSet<StepId>,
}

/// The step that contains a reference, and the names it may use.
pub(super) struct ReferenceScope<'d> {
    pub(super) known: &'d KnownNames<'d>,
    pub(super) phase: StepPhase,
    pub(super) step: &'d StepDefinition,
    pub(super) graph: &'d StepGraph,
}

impl<'d> KnownNames<'d> {
    pub(super) fn from_draft(draft: &'d DefinitionDraft<'_>) -> Self {
        let stages = draft.stages.iter().map(|site| {
            let stage = &site.value;
            ReferencePlace { kind: "stage", name: stage.name.as_str(), vars: &stage.vars, skip: &stage.skip }
        });
        let environments = draft.environments.iter().map(|site| {
            let (name, environment) = &site.value;
            ReferencePlace {
                kind: "environment",
                name: name.as_str(),
                vars: &environment.vars,
                skip: &environment.skip,
            }
        });
        let outputs =
            |step: &'d StepDefinition| step.outputs.iter().map(move |output| (output.as_str(), step));
        let places: Vec<ReferencePlace<'_>> = stages.chain(environments).collect();
        let names: BTreeSet<&VarName> = places.iter().flat_map(|place| place.vars.keys()).collect();
        Self {
            vars: names.into_iter().map(|name| format!("vars.{name}")).collect(),
            places,
            // Reversed, so that of several steps with the same output name the first one wins. Duplicates are reported
            // elsewhere.
            build: draft.build.iter().rev().flat_map(|site| outputs(&site.value)).collect(),
            steps: draft.steps.iter().rev().map(|site| (site.value.id.as_str(), &site.value)).collect(),
        }
    }
}

impl ReferenceScope<'_> {
    pub(super) fn check(
        &self,
        reference: &ContextReference,
        report: &ProblemReport<'_>,
    ) -> Result<(), DefinitionProblem> {
        let context = reference.context;
        let per_stage =
            [Context::Stage, Context::Vars, Context::Steps, Context::Environment, Context::Session];
        if self.phase == StepPhase::Build && per_stage.contains(&context) {
            let message =
                format!("`{}` is not known in the build, which runs once for all stages", context.as_str());
            return Err(DefinitionProblem::error("not_in_build", message));
        }
        match context {
            Context::Vars => self.check_variable(reference, report),
            Context::Build => self.check_build_output(reference, report),
            Context::Steps => self.check_step_output(reference, report),
            Context::Secrets => check_secret(reference),
            Context::Stage
            | Context::Pipeline
            | Context::Organization
            | Context::Trigger
            | Context::Environment
            | Context::Session => Ok(()),
        }
    }

    fn check_variable(
        &self,
        reference: &ContextReference,
        report: &ProblemReport<'_>,
    ) -> Result<(), DefinitionProblem> {
        let name = literal_member(reference, 0, "vars.<name>")?;
        let places = &self.known.places;
        let missing: Vec<&ReferencePlace<'_>> =
            places.iter().filter(|place| !place.vars.contains_key(name)).collect();
        if missing.len() == places.len() {
            let written = format!("vars.{name}");
            let problem = DefinitionProblem::error(
                "unknown_var",
                format!("no stage or environment sets {}", quote(&written)),
            );
            return Err(problem.with_hint(report, &written, self.known.vars.iter().map(String::as_str)));
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
            join_words(missing.iter().map(String::as_str).take(NAMED_MAX), "and"),
            self.step.id
        );
        Err(DefinitionProblem::error("var_missing", message))
    }

    fn check_build_output(
        &self,
        reference: &ContextReference,
        report: &ProblemReport<'_>,
    ) -> Result<(), DefinitionProblem> {
        let name = literal_member(reference, 0, "build.<output>")?;
        let Some(maker) = self.known.build.get(name) else {
            let known: Vec<String> = self.known.build.keys().map(|known| format!("build.{known}")).collect();
            let problem = DefinitionProblem::error(
                "unknown_output",
                format!("no build step declares the output {}", quote(name)),
            );
            return Err(problem.with_hint(
                report,
                &format!("build.{name}"),
                known.iter().map(String::as_str),
            ));
        };
        if self.phase == StepPhase::Build { self.check_order(maker) } else { Ok(()) }
    }

    fn check_step_output(
        &self,
        reference: &ContextReference,
        report: &ProblemReport<'_>,
    ) -> Result<(), DefinitionProblem> {
        const HOW: &str = "steps.<id>.<output>";
        let (id, output) = (literal_member(reference, 0, HOW)?, literal_member(reference, 1, HOW)?);
        let Some(maker) = self.known.steps.get(id) else {
            if self.known.build.values().any(|step| step.id.as_str() == id) {
                let message =
                    format!("{} is a step of the build; its outputs are written `build.{output}`", quote(id));
                return Err(DefinitionProblem::error("unknown_step", message)
                    .with_suggestion(format!("build.{output}")));
            }
            let known: Vec<String> =
                self.known.steps.keys().map(|known| format!("steps.{known}.{output}")).collect();
            let problem = DefinitionProblem::error("unknown_step", format!("there is no step {}", quote(id)));
            return Err(problem.with_hint(
                report,
                &format!("steps.{id}.{output}"),
                known.iter().map(String::as_str),
            ));
        };
        // A custom step without declared outputs may produce any output; they are only known once it has run.
        let is_open = matches!(maker.kind, StepType::Custom(_)) && maker.outputs.is_empty();
        if !is_open && !maker.outputs.iter().any(|known| known.as_str() == output) {
            let known: Vec<String> =
                maker.outputs.iter().map(|known| format!("steps.{id}.{known}")).collect();
            let message = format!("the step `{id}` does not list {} in its `outputs`", quote(output));
            let problem = DefinitionProblem::error("unknown_output", message);
            return Err(problem.with_hint(
                report,
                &format!("steps.{id}.{output}"),
                known.iter().map(String::as_str),
            ));
        }
        self.check_order(maker)?;
        let runs_this = |place: &&ReferencePlace<'_>| !place.skip.contains(&self.step.id);
        match self.known.places.iter().filter(runs_this).find(|place| place.skip.contains(&maker.id)) {
            None => Ok(()),
            Some(ReferencePlace { kind, name, .. }) => {
                let message =
                    format!("the step `{id}` is skipped in {kind} `{name}`, so this is empty there");
                Err(DefinitionProblem::warning("output_of_skipped_step", message))
            }
        }
    }

    fn check_order(&self, maker: &StepDefinition) -> Result<(), DefinitionProblem> {
        if self.graph.is_before(&maker.id, &self.step.id) {
            return Ok(());
        }
        let message = format!("the step `{}` does not end before this one; add it to `needs`", maker.id);
        Err(DefinitionProblem::error("not_before", message))
    }
}

fn check_secret(reference: &ContextReference) -> Result<(), DefinitionProblem> {
    let name = literal_member(reference, 0, "secrets.<NAME>")?;
    if SecretName::parse(name).is_ok() && reference.members.len() == 1 {
        return Ok(());
    }
    let message = format!("{} is not a secret name; write `secrets.NAME`", quote(name));
    Err(DefinitionProblem::error("invalid_name", message))
}

/// Requires a literal member name, because a computed name cannot be checked before the run.
fn literal_member<'r>(
    reference: &'r ContextReference,
    index: usize,
    how: &str,
) -> Result<&'r str, DefinitionProblem> {
    match reference.members.get(index) {
        Some(PathMember::Name(name)) => Ok(name),
        Some(PathMember::Computed) | None => {
            let message = format!(
                "`{}` must be followed by a name that is written out: `{how}`",
                reference.context.as_str()
            );
            Err(DefinitionProblem::error("computed_reference", message))
        }
    }
}
