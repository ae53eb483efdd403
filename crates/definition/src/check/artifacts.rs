//! Checks that artifacts and outputs are unique and produced before they are used.

use std::collections::BTreeMap;

use berth_core::pipeline::grammar::{ArtifactName, StepId};
use berth_core::pipeline::model::Step;
use berth_core::wording::quoted;

use super::graph::Graph;
use crate::cursor::Site;
use crate::read::Draft;
use crate::report::Problem;

pub(super) fn check(draft: &Draft<'_>, build: &Graph, stages: &Graph) {
    let made = made(draft);
    for step in &draft.build {
        needed(step, &made, |maker| {
            draft.build.iter().any(|other| other.value.id == *maker) && build.is_before(maker, &step.value.id)
        });
    }
    for step in &draft.steps {
        needed(step, &made, |maker| {
            draft.build.iter().any(|other| other.value.id == *maker)
                || stages.is_before(maker, &step.value.id)
        });
    }
    outputs(draft);
}

fn made<'d>(draft: &'d Draft<'_>) -> BTreeMap<&'d ArtifactName, &'d StepId> {
    let mut made: BTreeMap<&ArtifactName, &StepId> = BTreeMap::new();
    for Site { value, at } in draft.build.iter().chain(&draft.steps) {
        for name in value.artifacts.keys() {
            let first = *made.entry(name).or_insert(&value.id);
            if *first != value.id {
                let place =
                    at.get("artifacts").and_then(|at| at.get(name.as_str())).unwrap_or_else(|| at.clone());
                let message = format!(
                    "the artifact `{name}` is made by the step `{first}` already; choose another name"
                );
                place.add_at_key(Problem::error("duplicate_artifact", message));
            }
        }
    }
    made
}

fn needed(
    step: &Site<'_, Step>,
    made: &BTreeMap<&ArtifactName, &StepId>,
    is_ready: impl Fn(&StepId) -> bool,
) {
    for (at, name) in step.at.get("needs_artifacts").into_iter().flat_map(|at| at.texts()) {
        let Ok(artifact) = ArtifactName::parse(name) else { continue };
        match made.get(&artifact) {
            Some(maker) if is_ready(maker) => {}
            Some(maker) => {
                let message = format!(
                    "the artifact {} is made by the step `{maker}`, which does not end before this one; add it to `needs`",
                    quoted(name)
                );
                at.error("not_before", message);
            }
            None => {
                let problem = Problem::error(
                    "unknown_artifact",
                    format!("no step makes the artifact {}", quoted(name)),
                );
                at.add(problem.among(at.report(), name, made.keys().map(|known| known.as_str())));
            }
        }
    }
}

/// Outputs of the build must be unique, because `build.<output>` does not name a step.
fn outputs(draft: &Draft<'_>) {
    let mut seen: BTreeMap<&str, &StepId> = BTreeMap::new();
    for Site { value, at } in &draft.build {
        for (at, name) in at.get("outputs").into_iter().flat_map(|at| at.texts()) {
            if let Some(first) = seen.insert(name, &value.id) {
                at.error(
                    "duplicate_output",
                    format!(
                        "the build has an output {} of the step `{first}` already; choose another name",
                        quoted(name)
                    ),
                );
            }
        }
    }
}
