//! Turns a definition into a plan: which steps run in which stage, in which order, and with which inputs.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::deployment::run::{
    Plan, SourceCommit, StageGate, StagePlan, StageType, StepActivation, StepPlan,
};
use berth_core::deployment::{ExecutionFailure, FailureCode};
use berth_core::expression::{Context, EvaluationBudget, ExpressionContexts, is_true_within, references};
use berth_core::name::EnvName;
use berth_core::pipeline::PipelineDefinition;
use berth_core::pipeline::grammar::{StepId, VarName};
use berth_core::pipeline::model::{
    OnFailure, StageDefinition, StepCondition, StepDefinition, StepType, VarValue,
};
use berth_core::registry::AvailableSteps;
use berth_core::step::NetworkAccess;
use berth_core::wording::quote;
use serde_json::{Map, Value, json};

pub use crate::obstacles::{id_token_obstacles, obstacles};

/// The name of the stage that contains the build.
pub const BUILD: &str = "build";
/// Maximum size of a plan. A plan repeats the steps for every stage, so it can be much larger than its definition.
pub const PLAN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of steps in a plan. Each step is a database row, and all of them are read whenever a step ends.
pub const PLAN_STEPS_MAX: usize = 5_000;
/// Budget for evaluating all conditions while planning. Conditions that exceed it are evaluated when their step becomes
/// ready.
pub const PLAN_FUEL_MAX: usize = 1_000_000;

/// The target of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanTarget<'a> {
    /// All stages in order.
    Stages,
    Environment(&'a EnvName),
}

/// Inputs of a plan that are not in the definition.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanInputs {
    pub organization: EntityNames,
    pub pipeline: EntityNames,
    pub commit: String,
    pub source: Option<SourceCommit>,
    /// Values of the `trigger` context; planning adds the commit.
    pub trigger: Map<String, Value>,
    /// Values of the `session` and `environment` contexts; only for a deployment to an environment.
    pub session: Option<Map<String, Value>>,
    pub environment: Option<Map<String, Value>>,
    /// Network access of steps that do not specify it.
    pub default_network: NetworkAccess,
    /// The custom steps that the definition uses.
    pub offers: AvailableSteps,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityNames {
    pub id: String,
    pub slug: String,
    pub name: String,
}

/// Makes the plan of a deployment. Fails if this version of Berth cannot run all of it.
pub fn plan(
    definition: &PipelineDefinition,
    target: &PlanTarget<'_>,
    facts: &PlanInputs,
) -> Result<Plan, ExecutionFailure> {
    let plan = preview(definition, target, facts)?;
    match obstacles(&plan, &facts.offers).into_iter().next() {
        Some(first) => Err(not_runnable(first)),
        None => Ok(plan),
    }
}

/// Makes a plan for display only, even if this version of Berth cannot run it.
pub fn preview(
    definition: &PipelineDefinition,
    target: &PlanTarget<'_>,
    facts: &PlanInputs,
) -> Result<Plan, ExecutionFailure> {
    let places = places(definition, target)?;
    check_size(definition, places.len())?;
    let mut planning = StagePlanner { facts, budget: EvaluationBudget::new(PLAN_FUEL_MAX, PLAN_BYTES_MAX) };
    let mut stages = Vec::with_capacity(places.len() + 1);
    if !definition.build.is_empty() {
        if places.iter().any(|place| place.name == BUILD) {
            let detail = "`build` is the name of the build itself; give the stage or environment another one";
            return Err(not_runnable(detail.into()));
        }
        let (vars, skip) = (BTreeMap::new(), BTreeSet::new());
        let (vars, skip, gates) = (&vars, &skip, Vec::new());
        let on_failure = OnFailure::None;
        let build = PlannedPlace { name: BUILD, kind: StageType::Build, vars, skip, gates, on_failure };
        stages.push(planning.stage(&build, &definition.build)?);
    }
    for place in &places {
        stages.push(planning.stage(place, &definition.steps)?);
    }
    Ok(Plan { source: facts.source.clone(), stages, analyses_failures: definition.analysis.on_failure })
}

/// A stage or an environment to plan.
struct PlannedPlace<'d> {
    name: &'d str,
    kind: StageType,
    vars: &'d BTreeMap<VarName, VarValue>,
    skip: &'d BTreeSet<StepId>,
    gates: Vec<StageGate>,
    on_failure: OnFailure,
}

fn gates(stage: &StageDefinition) -> Vec<StageGate> {
    let approval = stage.requires.clone().map(StageGate::Approval);
    approval.into_iter().chain(stage.window.clone().map(StageGate::Open)).collect()
}

fn places<'d>(
    definition: &'d PipelineDefinition,
    target: &PlanTarget<'d>,
) -> Result<Vec<PlannedPlace<'d>>, ExecutionFailure> {
    match target {
        PlanTarget::Stages if definition.stages.is_empty() => {
            Err(not_runnable("the definition has no stages; name one of its environments".into()))
        }
        PlanTarget::Stages => Ok(definition
            .stages
            .iter()
            .map(|stage| PlannedPlace {
                name: stage.name.as_str(),
                kind: StageType::Stage,
                vars: &stage.vars,
                skip: &stage.skip,
                gates: gates(stage),
                on_failure: stage.on_failure,
            })
            .collect()),
        PlanTarget::Environment(name) => {
            let environment = definition.ephemeral_environments.get(*name).ok_or_else(|| {
                not_runnable(format!("the definition has no environment {}", quote(name.as_str())))
            })?;
            Ok(vec![PlannedPlace {
                name: name.as_str(),
                kind: StageType::Environment,
                vars: &environment.vars,
                skip: &environment.skip,
                gates: Vec::new(),
                on_failure: OnFailure::None,
            }])
        }
    }
}

fn check_size(definition: &PipelineDefinition, places: usize) -> Result<(), ExecutionFailure> {
    let bytes = |steps: &[StepDefinition]| serde_json::to_string(steps).map_or(usize::MAX, |text| text.len());
    let total = bytes(&definition.steps).saturating_mul(places).saturating_add(bytes(&definition.build));
    let steps = definition.steps.len().saturating_mul(places) + definition.build.len();
    if steps > PLAN_STEPS_MAX {
        return Err(not_runnable(format!(
            "the stages have {steps} steps in all, but a plan may have at most {PLAN_STEPS_MAX}; split the pipeline"
        )));
    }
    if total > PLAN_BYTES_MAX {
        return Err(not_runnable(format!(
            "the steps of all stages together come to {total} bytes, but a plan may have at most {PLAN_BYTES_MAX}; split the pipeline"
        )));
    }
    Ok(())
}

struct StagePlanner<'f> {
    facts: &'f PlanInputs,
    budget: EvaluationBudget,
}

impl StagePlanner<'_> {
    fn stage(
        &mut self,
        place: &PlannedPlace<'_>,
        steps: &[StepDefinition],
    ) -> Result<StagePlan, ExecutionFailure> {
        let contexts = self.contexts(place);
        let kept: Vec<&StepDefinition> = steps.iter().filter(|step| !place.skip.contains(&step.id)).collect();
        let order = StepOrder::new(steps, &kept);
        let mut planned = Vec::with_capacity(kept.len());
        for step in kept {
            let when = self.activation(step, &contexts)?;
            let custom = match &step.kind {
                StepType::Custom(kind) => self.facts.offers.get(kind).and_then(|offer| offer.as_ref().ok()),
                StepType::Builtin(_) => None,
            };
            let custom = custom.map(|offer| offer.pinned.clone());
            let default = self.facts.default_network;
            let network = match (&step.container, default) {
                (None, default) => step.network.unwrap_or(default),
                (Some(container), NetworkAccess::Host) => container.network.unwrap_or(NetworkAccess::Bridge),
                (Some(container), default) => container.network.unwrap_or(default),
            };
            let mut planned_step = StepPlan { custom, network, ..plan_step(step, order.needs(step), when) };
            planned_step.require_container_runner();
            planned.push(planned_step);
        }
        Ok(StagePlan {
            name: place.name.to_owned(),
            kind: place.kind,
            contexts,
            steps: planned,
            gates: place.gates.clone(),
            on_failure: place.on_failure,
            secrets: BTreeMap::new(),
        })
    }

    /// The values that expressions in this stage can use. Stages and environments share the same steps, so a context
    /// that exists only in environments is null in a stage.
    fn contexts(&self, place: &PlannedPlace<'_>) -> ExpressionContexts {
        let facts = self.facts;
        let kind = match place.kind {
            StageType::Build => "build",
            StageType::Stage => "stage",
            StageType::Environment => "environment",
        };
        // All deployments of a commit share one build, so the build must not depend on what triggered the first of
        // them.
        let mut trigger = if place.kind == StageType::Build { Map::new() } else { facts.trigger.clone() };
        trigger.insert("commit".into(), facts.commit.clone().into());
        let vars = place.vars.iter().map(|(name, value)| (name.to_string(), var_to_json(value))).collect();
        let (mut environment, mut session) = (Value::Null, Value::Null);
        if place.kind == StageType::Environment {
            let mut known = facts.environment.clone().unwrap_or_default();
            known.insert("name".into(), place.name.into());
            environment = Value::Object(known);
            session = facts.session.clone().map_or(Value::Null, Value::Object);
        }
        [
            (Context::Vars, Value::Object(vars)),
            (Context::Stage, json!({ "name": place.name, "kind": kind })),
            (Context::Pipeline, names_context(&facts.pipeline)),
            (Context::Organization, names_context(&facts.organization)),
            (Context::Trigger, Value::Object(trigger)),
            (Context::Environment, environment),
            (Context::Session, session),
        ]
        .into_iter()
        .map(|(context, value)| (context.as_str().to_owned(), value))
        .collect()
    }

    /// Evaluates a condition now if everything it refers to is known, so that errors are reported before anything runs.
    fn activation(
        &mut self,
        step: &StepDefinition,
        contexts: &ExpressionContexts,
    ) -> Result<StepActivation, ExecutionFailure> {
        let Some(StepCondition(text)) = &step.condition else { return Ok(StepActivation::Always) };
        let found = references(text).unwrap_or_default();
        let known = found.iter().all(|reference| contexts.contains_key(reference.context.as_str()));
        if !known || self.budget.is_spent() {
            return Ok(StepActivation::If(text.clone()));
        }
        match is_true_within(text, contexts, &mut self.budget) {
            Ok(true) => Ok(StepActivation::Always),
            Ok(false) => Ok(StepActivation::Never),
            Err(_) if self.budget.is_spent() => Ok(StepActivation::If(text.clone())),
            Err(error) => {
                let detail = format!("the condition of the step `{}` cannot be evaluated: {error}", step.id);
                Err(not_runnable(detail))
            }
        }
    }
}

/// The dependencies between the steps of a stage, without its skipped steps.
struct StepOrder<'d> {
    all: BTreeMap<&'d StepId, &'d StepDefinition>,
    /// Indexes of the steps that are not skipped.
    places: BTreeMap<&'d StepId, usize>,
}

impl<'d> StepOrder<'d> {
    fn new(steps: &'d [StepDefinition], kept: &[&'d StepDefinition]) -> Self {
        Self {
            all: steps.iter().map(|step| (&step.id, step)).collect(),
            places: kept.iter().enumerate().map(|(index, step)| (&step.id, index)).collect(),
        }
    }

    /// Indexes of the steps that a step waits for. A skipped step is replaced by the steps that it needs itself.
    fn needs(&self, step: &'d StepDefinition) -> Vec<usize> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open: Vec<&StepId> = step.needs.iter().collect();
        while let Some(id) = open.pop() {
            match self.places.get(id) {
                Some(place) => {
                    found.insert(*place);
                }
                None if seen.insert(id) => {
                    open.extend(self.all.get(id).into_iter().flat_map(|step| &step.needs));
                }
                None => {}
            }
        }
        found.into_iter().collect()
    }
}

fn plan_step(step: &StepDefinition, needs: Vec<usize>, when: StepActivation) -> StepPlan {
    StepPlan {
        id: step.id.clone(),
        name: step.name.to_string(),
        kind: step.kind.clone(),
        custom: None,
        needs,
        when,
        params: step.params.clone(),
        env: step.env.clone(),
        secret_files: step.secret_files.clone(),
        id_token: step.id_token.clone(),
        outputs: step.outputs.clone(),
        artifacts: step.artifacts.clone(),
        needs_artifacts: step.needs_artifacts.clone(),
        timeout: step.timeout,
        retry: step.retry,
        on_lost: step.on_lost,
        runs_on: step.runs_on.clone(),
        network: step.network.unwrap_or_default(),
        checkout: step.checkout.clone(),
        container: step.container.clone(),
        services: step.services.clone(),
    }
}

fn names_context(named: &EntityNames) -> Value {
    json!({ "id": named.id, "slug": named.slug, "name": named.name })
}

fn var_to_json(scalar: &VarValue) -> Value {
    match scalar {
        VarValue::Bool(value) => Value::Bool(*value),
        VarValue::Number(value) => Value::Number(value.clone()),
        VarValue::Text(text) => Value::String(text.clone()),
    }
}

fn not_runnable(detail: String) -> ExecutionFailure {
    ExecutionFailure { cause: FailureCode::NotRunnable, detail }
}
