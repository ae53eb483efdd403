//! The dependency graph of the steps: reports unknown ids and cycles, and determines the order of execution.

use std::collections::BTreeMap;

use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::model::StepDefinition;
use berth_core::wording::quote;

use super::ids;
use crate::cursor::LocatedValue;
use crate::report::DefinitionProblem;

/// The order of the steps of one phase (build or stages).
pub(super) struct StepGraph {
    places: BTreeMap<StepId, usize>,
    /// `before[later][earlier]` says whether `earlier` ends before `later` starts; `None` for steps that are part of a
    /// cycle.
    before: Vec<Option<Vec<bool>>>,
}

impl StepGraph {
    /// Builds the graph and reports problems in the `needs` of `steps`. `others` are the steps of the other phase,
    /// which cannot be needed.
    pub(super) fn build(
        steps: &[LocatedValue<'_, StepDefinition>],
        others: &[LocatedValue<'_, StepDefinition>],
    ) -> Self {
        check_needs(steps, others);
        let mut places: BTreeMap<StepId, usize> = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            // Duplicate ids are reported elsewhere; here the id refers to the first step that has it.
            places.entry(step.value.id.clone()).or_insert(index);
        }
        let needs: Vec<Vec<usize>> = steps
            .iter()
            .enumerate()
            .map(|(index, step)| match places.get(&step.value.id) {
                Some(first) if *first == index => {
                    step.value.needs.iter().filter_map(|id| places.get(id).copied()).collect()
                }
                _ => Vec::new(),
            })
            .collect();
        Self { places, before: order(steps, &needs) }
    }

    /// Whether `earlier` ends before `later` starts. Also true if `later` is part of a cycle, which is already
    /// reported.
    pub(super) fn is_before(&self, earlier: &StepId, later: &StepId) -> bool {
        let before = self.places.get(later).and_then(|later| self.before[*later].as_ref());
        before.is_none_or(|before| self.places.get(earlier).is_some_and(|earlier| before[*earlier]))
    }
}

/// Sorts the steps topologically. If no step is ready, the remaining steps contain a cycle; it is reported and removed,
/// and sorting continues.
fn order(steps: &[LocatedValue<'_, StepDefinition>], needs: &[Vec<usize>]) -> Vec<Option<Vec<bool>>> {
    let mut before: Vec<Option<Vec<bool>>> = vec![None; steps.len()];
    let mut done = vec![false; steps.len()];
    loop {
        let mut progress = false;
        for index in 0..steps.len() {
            if !done[index] && needs[index].iter().all(|need| done[*need]) {
                let mut earlier = vec![false; steps.len()];
                for need in &needs[index] {
                    earlier[*need] = true;
                    for (mine, theirs) in earlier.iter_mut().zip(before[*need].iter().flatten()) {
                        *mine |= *theirs;
                    }
                }
                before[index] = Some(earlier);
                done[index] = true;
                progress = true;
            }
        }
        if !progress {
            let Some(start) = done.iter().position(|done| !done) else { return before };
            let cycle = cycle(needs, &done, start);
            report_cycle(steps, &cycle);
            for index in cycle {
                done[index] = true;
            }
        }
    }
}

fn check_needs(steps: &[LocatedValue<'_, StepDefinition>], others: &[LocatedValue<'_, StepDefinition>]) {
    for step in steps {
        for (at, id) in step.at.get("needs").into_iter().flat_map(|at| at.texts()) {
            if StepId::parse(id).is_err() || ids(steps).any(|known| known == id) {
                continue;
            }
            let problem = if ids(others).any(|known| known == id) {
                let message = format!(
                    "{} is not in the same part: the build always finishes before any stage starts, so remove it",
                    quote(id)
                );
                DefinitionProblem::error("unknown_step", message)
            } else {
                let problem =
                    DefinitionProblem::error("unknown_step", format!("there is no step {}", quote(id)));
                problem.with_hint(at.report(), id, ids(steps))
            };
            at.add(problem);
        }
    }
}

/// Starting at `start`, follows needed steps that are not sorted yet until one repeats. Returns the cycle, beginning
/// with the step that comes first in the definition.
fn cycle(needs: &[Vec<usize>], done: &[bool], start: usize) -> Vec<usize> {
    let mut path = vec![start];
    while let Some(next) = path.last().and_then(|last| needs[*last].iter().copied().find(|need| !done[*need]))
    {
        if let Some(again) = path.iter().position(|seen| *seen == next) {
            path.drain(..again);
            break;
        }
        path.push(next);
    }
    let first = path.iter().enumerate().min_by_key(|(_, index)| **index).map_or(0, |(at, _)| at);
    path.rotate_left(first);
    path
}

fn report_cycle(steps: &[LocatedValue<'_, StepDefinition>], cycle: &[usize]) {
    let Some(first) = cycle.first().map(|index| &steps[*index]) else { return };
    let round: Vec<&str> =
        cycle.iter().chain(cycle.first()).map(|index| steps[*index].value.id.as_str()).collect();
    let message = match round.as_slice() {
        [own, _] => format!("the step `{own}` waits for itself; remove it from `needs`"),
        _ => format!("these steps wait for each other: {}; remove one of the needs", round.join(" → ")),
    };
    let place = first.at.get("needs").unwrap_or_else(|| first.at.clone());
    place.add_at_key(DefinitionProblem::error("cycle", message));
}
