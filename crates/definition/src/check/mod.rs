//! Checks the references between the parts of a definition.

mod artifacts;
mod expressions;
mod graph;
mod params;
mod references;

use std::collections::BTreeMap;

use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::model::{ReleaseAction, StepDefinition};
use berth_core::registry::AvailableSteps;
use berth_core::step::{NetworkAccess, is_request};
use berth_core::wording::quote;

use self::graph::StepGraph;
use super::cursor::LocatedValue;
use super::read::DefinitionDraft;
use super::report::DefinitionProblem;

pub(super) fn check_all(draft: &DefinitionDraft<'_>, offers: Option<&AvailableSteps>) {
    check_unique_ids(draft);
    check_unique_stages(draft);
    check_environment_names(draft);
    check_skips(draft);
    check_tracked(draft);
    let build = StepGraph::build(&draft.build, &draft.steps);
    let stages = StepGraph::build(&draft.steps, &draft.build);
    artifacts::check(draft, &build, &stages);
    for step in draft.build.iter().chain(&draft.steps) {
        params::check(step, offers);
        check_network(step);
    }
    expressions::check(draft, &build, &stages);
}

/// Step ids must be unique across build steps and regular steps, so that an id in a log or a URL identifies one step.
fn check_unique_ids(draft: &DefinitionDraft<'_>) {
    let mut seen: BTreeMap<&StepId, &str> = BTreeMap::new();
    for LocatedValue { value, at } in draft.build.iter().chain(&draft.steps) {
        if let Some(first) = seen.insert(&value.id, value.name.as_str()) {
            let place = at.get("id").or_else(|| at.get("name")).unwrap_or_else(|| at.clone());
            let message = format!(
                "the id `{}` is taken by the step {}; give this one an `id` of its own",
                value.id,
                quote(first)
            );
            place.add(DefinitionProblem::error("duplicate_step_id", message));
        }
    }
}

fn check_unique_stages(draft: &DefinitionDraft<'_>) {
    let mut seen = std::collections::BTreeSet::new();
    for LocatedValue { value, at } in &draft.stages {
        if !seen.insert(&value.name) {
            let place = at.get("name").unwrap_or_else(|| at.clone());
            place.error("duplicate_stage", format!("there is already a stage `{}`", value.name));
        }
    }
}

/// An environment must not have the name of a stage, because secrets and rules are looked up by that name.
fn check_environment_names(draft: &DefinitionDraft<'_>) {
    for LocatedValue { value: (name, _), at } in &draft.environments {
        if draft.stages.iter().any(|stage| stage.value.name.as_str() == name.as_str()) {
            let message = format!("there is a stage `{name}`: an ephemeral environment needs another name");
            at.error("duplicate_stage", message);
        }
    }
}

fn check_skips(draft: &DefinitionDraft<'_>) {
    let places =
        draft.stages.iter().map(|site| &site.at).chain(draft.environments.iter().map(|site| &site.at));
    for (at, id) in places.filter_map(|at| at.get("skip")).flat_map(|at| at.texts()) {
        if StepId::parse(id).is_ok() && !draft.steps.iter().any(|step| step.value.id.as_str() == id) {
            let problem = if is_step(&draft.build, id) {
                let message = format!("{} is part of the build, which no stage runs; remove it", quote(id));
                DefinitionProblem::error("unknown_step", message)
            } else {
                let problem = DefinitionProblem::error(
                    "unknown_step",
                    format!("there is no step {} to skip", quote(id)),
                );
                problem.with_hint(at.report(), id, ids(&draft.steps))
            };
            at.add(problem);
        }
    }
}

fn check_tracked(draft: &DefinitionDraft<'_>) {
    for LocatedValue { value: (_, environment), at } in &draft.environments {
        if environment.on_release == ReleaseAction::DeployTracked && draft.tracks().is_none() {
            let place = at.get("on_release").unwrap_or_else(|| at.clone());
            place.error(
                "missing_field",
                "`deploy_tracked` needs a branch to deploy; add `tracks` to the pipeline",
            );
        }
    }
}

/// Rejects `network: none` for steps that send requests: the runner itself sends the request, so a sandbox could not
/// block it.
fn check_network(LocatedValue { value, at }: &LocatedValue<'_, StepDefinition>) {
    if value.network == Some(NetworkAccess::None) && is_request(&value.kind, &value.params) {
        let place = at.get("network").unwrap_or_else(|| at.clone());
        place.error("no_network", "this step needs the network; remove `network`");
    }
}

fn is_step(steps: &[LocatedValue<'_, StepDefinition>], id: &str) -> bool {
    ids(steps).any(|known| known == id)
}

fn ids<'s>(steps: &'s [LocatedValue<'_, StepDefinition>]) -> impl Iterator<Item = &'s str> {
    steps.iter().map(|step| step.value.id.as_str())
}
