//! Says which parts of a plan cannot be run.

use std::collections::BTreeSet;

use berth_core::deployment::run::{Plan, StepActivation, StepPlan};
use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::model::StepType;
use berth_core::registry::AvailableSteps;
use berth_core::step::{NetworkAccess, is_request};
use berth_core::wording::quote;

use crate::custom_step::check_params;
use crate::step::params::UNKNOWN_PARAM;

/// Sentences that say which parts of the plan cannot be run.
pub fn obstacles(plan: &Plan, offers: &AvailableSteps) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    for step in steps.filter(|step| step.when != StepActivation::Never) {
        for sentence in obstacles_of(step, offers) {
            // Every stage contains the same steps, so the same sentence would be repeated.
            if !found.contains(&sentence) {
                found.push(sentence);
            }
        }
    }
    found
}

/// Sentences that name the steps which ask for an ID token, for a server that cannot issue them.
pub fn id_token_obstacles(plan: &Plan) -> Vec<String> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    let asking = steps.filter(|step| step.when != StepActivation::Never && step.id_token.is_some());
    let ids: BTreeSet<&StepId> = asking.map(|step| &step.id).collect();
    let sentence = |id| {
        format!(
            "the step `{id}` asks for an ID token, but this server has no public URL that other services could verify it at; set `public_url`"
        )
    };
    ids.into_iter().map(sentence).collect()
}

fn obstacles_of(step: &StepPlan, offers: &AvailableSteps) -> Vec<String> {
    let id = &step.id;
    if step.network == NetworkAccess::None && !step.services.is_empty() {
        return vec![format!(
            "the step `{id}` has services, but steps of this organization have no network access by default; add `network: bridge` to its `container`"
        )];
    }
    let StepType::Custom(kind) = &step.kind else {
        let is_cut_off = step.network == NetworkAccess::None && is_request(&step.kind, &step.params);
        return Vec::from_iter(is_cut_off.then(|| {
            format!(
                "the step `{id}` needs the network, but steps of this organization have no network access by default; add `network: host` to it"
            )
        }));
    };
    match offers.get(kind.as_str()) {
        None => vec![format!(
            "the step `{id}` is of the type {}, and custom steps are only known to a server",
            quote(kind)
        )],
        Some(Err(why)) => vec![format!("the step `{id}`: {why}")],
        Some(Ok(offer)) => check_params(offer, &step.params)
            .into_iter()
            .filter(|problem| problem.code != UNKNOWN_PARAM)
            .map(|problem| format!("the step `{id}`: params{}: {}", problem.pointer, problem.message))
            .collect(),
    }
}
