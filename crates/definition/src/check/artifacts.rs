//! Checks that the names of artifacts and outputs are unique, and that each is produced before it is used.

use std::collections::BTreeMap;

use berth_core::pipeline::grammar::{ArtifactName, StepId};
use berth_core::pipeline::model::StepDefinition;
use berth_core::wording::quote;

use super::graph::StepGraph;
use crate::cursor::LocatedValue;
use crate::read::DefinitionDraft;
use crate::report::DefinitionProblem;

pub(super) fn check(draft: &DefinitionDraft<'_>, build: &StepGraph, stages: &StepGraph) {
    let made = artifact_makers(draft);
    for step in &draft.build {
        check_needed(step, &made, |maker| {
            draft.build.iter().any(|other| other.value.id == *maker) && build.is_before(maker, &step.value.id)
        });
    }
    for step in &draft.steps {
        check_needed(step, &made, |maker| {
            draft.build.iter().any(|other| other.value.id == *maker)
                || stages.is_before(maker, &step.value.id)
        });
    }
    check_outputs(draft);
}

fn artifact_makers<'d>(draft: &'d DefinitionDraft<'_>) -> BTreeMap<&'d ArtifactName, &'d StepId> {
    let mut made: BTreeMap<&ArtifactName, &StepId> = BTreeMap::new();
    for LocatedValue { value, at } in draft.build.iter().chain(&draft.steps) {
        for name in value.artifacts.keys() {
            let first = *made.entry(name).or_insert(&value.id);
            if *first != value.id {
                let place =
                    at.get("artifacts").and_then(|at| at.get(name.as_str())).unwrap_or_else(|| at.clone());
                let message = format!(
                    "the artifact `{name}` is made by the step `{first}` already; choose another name"
                );
                place.add_at_key(DefinitionProblem::error("duplicate_artifact", message));
            }
        }
    }
    made
}

fn check_needed(
    step: &LocatedValue<'_, StepDefinition>,
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
                    quote(name)
                );
                at.error("not_before", message);
            }
            None => {
                let problem = DefinitionProblem::error(
                    "unknown_artifact",
                    format!("no step makes the artifact {}", quote(name)),
                );
                at.add(problem.with_hint(at.report(), name, made.keys().map(|known| known.as_str())));
            }
        }
    }
}

/// Output names must be unique within the build, because `build.<output>` does not name the step.
fn check_outputs(draft: &DefinitionDraft<'_>) {
    let mut seen: BTreeMap<&str, &StepId> = BTreeMap::new();
    for LocatedValue { value, at } in &draft.build {
        for (at, name) in at.get("outputs").into_iter().flat_map(|at| at.texts()) {
            if let Some(first) = seen.insert(name, &value.id) {
                at.error(
                    "duplicate_output",
                    format!(
                        "the build has an output {} of the step `{first}` already; choose another name",
                        quote(name)
                    ),
                );
            }
        }
    }
}
