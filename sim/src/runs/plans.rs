//! Random plans: generates a small, readable description of a plan, and builds the plan from it.

use std::collections::BTreeMap;
use std::fmt;

use berth_core::deployment::run::{Plan, StagePlan, StageType, StepActivation, StepPlan};
use berth_core::id::RegistryId;
use berth_core::pipeline::checkout::CheckoutScope;
use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::model::{OnFailure, RetryPolicy, StepType};
use berth_core::pipeline::seconds::DurationSeconds;
use berth_core::registry::{InputMode, PinnedStep, RegistryName};
use berth_core::step::{BuiltinStepType, NetworkAccess, OnLost};
use berth_core::time::Timestamp;

use crate::random::SeededRandom;

/// Describes a plan, limited to what matters to the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanShape {
    pub stages: Vec<(StageType, Vec<StepShape>)>,
}

/// Describes a step, limited to what matters to the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepShape {
    pub needs: Vec<usize>,
    pub runs: RunCondition,
    /// Maximum number of attempts, and seconds between them.
    pub retry: Option<(u32, u64)>,
    pub on_lost: OnLost,
}

/// Whether a step runs once its needs are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunCondition {
    Always,
    /// The step never runs, which is already known at planning time.
    Never,
    IfTrue,
    IfFalse,
    /// The condition is invalid.
    IfBroken,
}

const NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

/// Generates a random shape.
pub fn shape(chance: &mut SeededRandom) -> PlanShape {
    let count = chance.pick(&[1, 1, 2, 2, 3, 4]);
    let stages = (0..count).map(|at| {
        let kinds = match at {
            0 => &[StageType::Build, StageType::Stage, StageType::Environment][..],
            _ => &[StageType::Stage, StageType::Environment][..],
        };
        (chance.pick(kinds), steps(chance))
    });
    PlanShape { stages: stages.collect() }
}

fn steps(chance: &mut SeededRandom) -> Vec<StepShape> {
    let count = chance.pick(&[0, 1, 2, 2, 3, 3, 3, 4, 5, 8]);
    let order = order(chance, count);
    let way = chance.below(3);
    (0..count)
        .map(|at| StepShape {
            needs: needs(chance, &order, at, way),
            runs: match chance.below(100) {
                0..6 => RunCondition::Never,
                6..10 => RunCondition::IfFalse,
                10..14 => RunCondition::IfTrue,
                14 => RunCondition::IfBroken,
                _ => RunCondition::Always,
            },
            retry: chance
                .percent(40)
                .then(|| (1 + u32::from(chance.below_u8(4)), chance.pick(&[0, 1, 5, 60]))),
            on_lost: chance.pick(&[OnLost::Ask, OnLost::Retry, OnLost::Retry, OnLost::Fail]),
        })
        .collect()
}

/// Returns a random order in which the steps can depend on each other; mostly the order in which they are written.
fn order(chance: &mut SeededRandom, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if chance.percent(30) {
        for at in (1..count).rev() {
            let other = usize::try_from(chance.below(at as u64 + 1)).unwrap_or(0);
            order.swap(at, other);
        }
    }
    order
}

fn needs(chance: &mut SeededRandom, order: &[usize], at: usize, way: u64) -> Vec<usize> {
    let before: Vec<usize> = (0..order.len()).filter(|other| order[*other] < order[at]).collect();
    match way {
        // Each step needs the previous one.
        0 => before.into_iter().filter(|other| order[*other] + 1 == order[at]).collect(),
        // The steps form a random graph.
        1 => before.into_iter().filter(|_| chance.percent(35)).collect(),
        // The steps are parallel, with a few exceptions.
        _ => before.into_iter().filter(|_| chance.percent(8)).collect(),
    }
}

/// Builds the plan that a shape describes.
pub fn plan(shape: &PlanShape) -> Plan {
    let stages = shape.stages.iter().zip(NAMES).map(|((kind, steps), name)| StagePlan {
        name: name.to_owned(),
        kind: *kind,
        contexts: BTreeMap::new(),
        steps: steps.iter().enumerate().map(|(at, step)| planned_step(name, at, step)).collect(),
        gates: Vec::new(),
        on_failure: OnFailure::None,
        secrets: BTreeMap::new(),
    });
    Plan { source: None, stages: stages.collect(), analyses_failures: false }
}

fn planned_step(stage: &str, at: usize, shape: &StepShape) -> StepPlan {
    let name = format!("{stage}-{at}");
    StepPlan {
        id: StepId::parse(&name).unwrap_or_else(|wrong| unreachable!("{wrong}")),
        name,
        kind: StepType::Builtin(BuiltinStepType::Dummy),
        custom: None,
        needs: shape.needs.clone(),
        when: match shape.runs {
            RunCondition::Always => StepActivation::Always,
            RunCondition::Never => StepActivation::Never,
            RunCondition::IfTrue => StepActivation::If("true".to_owned()),
            RunCondition::IfFalse => StepActivation::If("false".to_owned()),
            RunCondition::IfBroken => StepActivation::If("never(".to_owned()),
        },
        params: Default::default(),
        env: BTreeMap::new(),
        secret_files: BTreeMap::new(),
        id_token: None,
        outputs: Vec::new(),
        artifacts: BTreeMap::new(),
        needs_artifacts: Vec::new(),
        timeout: None,
        retry: shape.retry.map(|(attempts, seconds)| RetryPolicy {
            attempts,
            backoff: DurationSeconds::from_secs(seconds),
        }),
        on_lost: shape.on_lost,
        runs_on: Vec::new(),
        network: NetworkAccess::Host,
        checkout: CheckoutScope::All,
        container: None,
        services: BTreeMap::new(),
    }
}

/// Returns a plan with one stage of custom steps, in sequence or in parallel.
pub(super) fn custom_plan(chance: &mut SeededRandom) -> Plan {
    let count = usize::from(1 + chance.below_u8(3));
    let is_chain = chance.percent(50);
    let steps = (0..count).map(|at| StepShape {
        needs: if is_chain { at.checked_sub(1).into_iter().collect() } else { Vec::new() },
        runs: RunCondition::Always,
        retry: chance.percent(30).then_some((3, 5)),
        on_lost: chance.pick(&[OnLost::Ask, OnLost::Ask, OnLost::Retry, OnLost::Fail]),
    });
    let shape = PlanShape { stages: vec![(StageType::Environment, steps.collect())] };
    let mut plan = plan(&shape);
    for step in plan.stages.iter_mut().flat_map(|stage| &mut stage.steps) {
        step.kind = StepType::Custom("tools/deploy".into());
        step.timeout = Some(DurationSeconds::from_secs(chance.pick(&[30, 600, 86_400])));
        step.custom = Some(pinned_versions());
    }
    plan
}

fn pinned_versions() -> PinnedStep {
    PinnedStep {
        registry: RegistryId::from_parts(Timestamp::from_micros(1), [5; 10]),
        name: RegistryName::parse("tools").unwrap_or_else(|wrong| unreachable!("{wrong}")),
        commit: "c0ffee".into(),
        digest: "sha256:00".into(),
        step_type: "DEPLOY".into(),
        start: "./start".into(),
        input: InputMode::Argument,
    }
}

impl fmt::Display for PlanShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((kind, steps), name) in self.stages.iter().zip(NAMES) {
            writeln!(f, "     {name}: {kind:?}")?;
            for (at, step) in steps.iter().enumerate() {
                let StepShape { needs, runs, retry, on_lost } = step;
                writeln!(
                    f,
                    "       {name}-{at}: needs {needs:?}, retry {retry:?}, lost: {on_lost:?}, runs: {runs:?}"
                )?;
            }
        }
        Ok(())
    }
}
