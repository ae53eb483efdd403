//! Checks of references between the parts of a definition.

mod artifacts;
mod expressions;
mod graph;
mod params;
mod references;

use std::collections::BTreeMap;

use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::model::{OnRelease, Step};
use berth_core::registry::Offers;
use berth_core::step::{Network, is_request};
use berth_core::wording::quoted;

use self::graph::Graph;
use super::cursor::Site;
use super::read::Draft;
use super::report::Problem;

pub(super) fn all(draft: &Draft<'_>, offers: Option<&Offers>) {
    unique_ids(draft);
    unique_stages(draft);
    unlike_stages(draft);
    skips(draft);
    tracked(draft);
    let build = Graph::of(&draft.build, &draft.steps);
    let stages = Graph::of(&draft.steps, &draft.build);
    artifacts::check(draft, &build, &stages);
    for step in draft.build.iter().chain(&draft.steps) {
        params::check(step, offers);
        network(step);
    }
    expressions::check(draft, &build, &stages);
}

/// Ids are unique across build and steps, so that a name in a log or a URL identifies one step.
fn unique_ids(draft: &Draft<'_>) {
    let mut seen: BTreeMap<&StepId, &str> = BTreeMap::new();
    for Site { value, at } in draft.build.iter().chain(&draft.steps) {
        if let Some(first) = seen.insert(&value.id, value.name.as_str()) {
            let place = at.get("id").or_else(|| at.get("name")).unwrap_or_else(|| at.clone());
            let message = format!(
                "the id `{}` is taken by the step {}; give this one an `id` of its own",
                value.id,
                quoted(first)
            );
            place.add(Problem::error("duplicate_step_id", message));
        }
    }
}

fn unique_stages(draft: &Draft<'_>) {
    let mut seen = std::collections::BTreeSet::new();
    for Site { value, at } in &draft.stages {
        if !seen.insert(&value.name) {
            let place = at.get("name").unwrap_or_else(|| at.clone());
            place.error("duplicate_stage", format!("there is already a stage `{}`", value.name));
        }
    }
}

/// Secrets and rules are looked up by name, so an environment must not share the name of a stage.
fn unlike_stages(draft: &Draft<'_>) {
    for Site { value: (name, _), at } in &draft.environments {
        if draft.stages.iter().any(|stage| stage.value.name.as_str() == name.as_str()) {
            let message = format!("there is a stage `{name}`: an ephemeral environment needs another name");
            at.error("duplicate_stage", message);
        }
    }
}

fn skips(draft: &Draft<'_>) {
    let places =
        draft.stages.iter().map(|site| &site.at).chain(draft.environments.iter().map(|site| &site.at));
    for (at, id) in places.filter_map(|at| at.get("skip")).flat_map(|at| at.texts()) {
        if StepId::parse(id).is_ok() && !draft.steps.iter().any(|step| step.value.id.as_str() == id) {
            let problem = if is_step(&draft.build, id) {
                let message = format!("{} is part of the build, which no stage runs; remove it", quoted(id));
                Problem::error("unknown_step", message)
            } else {
                let problem =
                    Problem::error("unknown_step", format!("there is no step {} to skip", quoted(id)));
                problem.among(at.report(), id, ids(&draft.steps))
            };
            at.add(problem);
        }
    }
}

fn tracked(draft: &Draft<'_>) {
    for Site { value: (_, environment), at } in &draft.environments {
        if environment.on_release == OnRelease::DeployTracked && draft.tracks().is_none() {
            let place = at.get("on_release").unwrap_or_else(|| at.clone());
            place.error(
                "missing_field",
                "`deploy_tracked` needs a branch to deploy; add `tracks` to the pipeline",
            );
        }
    }
}

/// The runner itself sends the request of such a step, so no sandbox can cut it off from the network.
fn network(Site { value, at }: &Site<'_, Step>) {
    if value.network == Some(Network::None) && is_request(&value.kind, &value.params) {
        let place = at.get("network").unwrap_or_else(|| at.clone());
        place.error("no_network", "this step needs the network; remove `network`");
    }
}

fn is_step(steps: &[Site<'_, Step>], id: &str) -> bool {
    ids(steps).any(|known| known == id)
}

fn ids<'s>(steps: &'s [Site<'_, Step>]) -> impl Iterator<Item = &'s str> {
    steps.iter().map(|step| step.value.id.as_str())
}
