//! Dry run of a definition: the plan it would produce.

use berth_api::deployment::StageKind;
use berth_api::plan as wire;
use berth_api::problem::{Code, ProblemDetails};
use berth_core::access::{Action, permit};
use berth_core::deployment::ExecutionFailure;
use berth_core::deployment::run::{Plan, StagePlan, StageType, StepActivation, StepPlan};
use berth_core::expression::{EvaluationBudget, MarkerRenderer};
use berth_core::name::{CommitId, EnvName};
use berth_core::pipeline::PipelineDefinition;
use berth_core::registry::AvailableSteps;
use berth_core::step::NetworkAccess;
use berth_definition::planning::{
    EntityNames, PLAN_FUEL_MAX, PlanInputs, PlanTarget, id_token_obstacles, obstacles, preview,
};
use berth_engine::definitions::parse_definition;
use berth_store::tables::{organization, pipeline, registry};

use super::pipelines::find;
use super::resource_access::{require_everywhere, require_whole_pipeline};
use super::{ApiResponse, App};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

/// Maximum number of bytes that evaluated expressions add to a plan. Beyond this limit, expressions are shown
/// unevaluated.
const PLAN_SHOWN_BYTES_MAX: usize = 4 * 1024 * 1024;

pub struct PlanPreviewRequest {
    pub of: PlanSource,
    pub environment: Option<EnvName>,
    pub commit: Option<CommitId>,
}

pub enum PlanSource {
    Source(String),
    /// Id or slug.
    Pipeline(String),
}

impl App {
    /// Returns a plan without storing anything. The plan may include features that this version of Berth cannot run
    /// yet.
    pub async fn plan_pipeline(
        &self,
        who: &AuthorizedCaller<permit::PipelinesRead>,
        asked: PlanPreviewRequest,
    ) -> Result<ApiResponse<wire::WirePlan>, AppError> {
        let PlanPreviewRequest { of, environment, commit } = asked;
        let (org, access) = (who.org(), who.access().clone());
        let read = self.read(who, move |db| {
            let org = organization::by_id(db, org)?.ok_or_else(|| AppError::not_found("organization"))?;
            let organization = EntityNames {
                id: org.id.to_string(),
                slug: org.slug.to_string(),
                name: org.name.to_string(),
            };
            let key = match of {
                PlanSource::Source(source) => {
                    require_everywhere(&access, Action::PipelinesRead)?;
                    return Ok((organization, org.default_network, None, source));
                }
                PlanSource::Pipeline(key) => key,
            };
            let found = find(db, &access, Action::PipelinesRead, &key)?;
            require_whole_pipeline(&access, &found.slug)?;
            let source = pipeline::load_definition(db, &found.definition_hash)?
                .ok_or_else(|| AppError::bug(format!("{} has no definition", found.id)))?;
            let (id, slug, name) = (found.id.to_string(), found.slug.to_string(), found.name.to_string());
            Ok((organization, org.default_network, Some(EntityNames { id, slug, name }), source))
        });
        let (organization, default_network, pipeline, source) = read.await?;
        let definition = self.parsing.run(org, move || parse_definition(&source)).await??;
        let types = definition.custom_types();
        let looked_up = self.read(who, move |db| {
            Ok::<_, AppError>(registry::resolve_types(db, types.iter().map(String::as_str))?)
        });
        let offers = looked_up.await?;
        let lacks_issuer = self.services.config.public_url.is_none();
        let planned = self.parsing.run(org, move || {
            check_plan_target(&definition, environment.as_ref())?;
            let organization = Some(organization);
            let known = PlanFacts { organization, pipeline, commit, default_network, offers, lacks_issuer };
            plan_definition(&definition, environment.as_ref(), known).map_err(|failure| {
                let problem = ProblemDetails::new(Code::PipelineInvalid, failure.detail);
                AppError::from(problem.with_member("diagnostics", serde_json::json!([])))
            })
        });
        Ok(ApiResponse::ok(planned.await??))
    }
}

/// Inputs of a dry run. Missing inputs are replaced with markers.
#[derive(Default)]
pub struct PlanFacts {
    pub organization: Option<EntityNames>,
    pub pipeline: Option<EntityNames>,
    pub commit: Option<CommitId>,
    pub default_network: NetworkAccess,
    pub offers: AvailableSteps,
    /// The server cannot issue ID tokens.
    pub lacks_issuer: bool,
}

/// Plans a definition, with markers such as `[COMMIT]` in place of unknown values.
pub fn plan_definition(
    definition: &PipelineDefinition,
    environment: Option<&EnvName>,
    known: PlanFacts,
) -> Result<wire::WirePlan, ExecutionFailure> {
    let marker =
        |what: &str, name: String| EntityNames { id: format!("[{what}]"), slug: format!("[{what}]"), name };
    let facts = PlanInputs {
        organization: known.organization.unwrap_or_else(|| marker("ORGANIZATION", "[ORGANIZATION]".into())),
        pipeline: known.pipeline.unwrap_or_else(|| marker("PIPELINE", definition.name.to_string())),
        commit: known.commit.map_or_else(|| "[COMMIT]".to_owned(), |commit| commit.to_string()),
        source: None,
        trigger: serde_json::Map::new(),
        session: None,
        environment: None,
        default_network: known.default_network,
        offers: known.offers,
    };
    let target = environment.map_or(PlanTarget::Stages, PlanTarget::Environment);
    preview(definition, &target, &facts).map(|plan| {
        let mut response = to_response(&plan, &facts.offers);
        if known.lacks_issuer {
            response.obstacles.extend(id_token_obstacles(&plan));
        }
        response
    })
}

/// Checks that the requested environment exists, so that a wrong name is reported as an error in the request and not in
/// the definition.
fn check_plan_target(definition: &PipelineDefinition, environment: Option<&EnvName>) -> Result<(), AppError> {
    if environment.is_some_and(|name| !definition.ephemeral_environments.contains_key(name)) {
        return Err(AppError::invalid_member("/environment", "is not an environment of the definition"));
    }
    if environment.is_none() && definition.stages.is_empty() {
        let detail = "the definition has no stages; name one of its environments";
        return Err(AppError::invalid_member("/environment", detail));
    }
    Ok(())
}

fn to_response(plan: &Plan, offers: &AvailableSteps) -> wire::WirePlan {
    let nothing = berth_core::expression::ExpressionContexts::new();
    let mut marks = MarkerRenderer::new(&nothing, EvaluationBudget::new(PLAN_FUEL_MAX, PLAN_SHOWN_BYTES_MAX));
    let mut stages = Vec::with_capacity(plan.stages.len());
    for stage in &plan.stages {
        marks = marks.with(&stage.contexts);
        stages.push(wire::PlannedStage {
            name: stage.name.clone(),
            kind: match stage.kind {
                StageType::Build => StageKind::Build,
                StageType::Stage => StageKind::Stage,
                StageType::Environment => StageKind::Environment,
            },
            steps: stage.steps.iter().map(|step| step_to_response(step, stage, &mut marks)).collect(),
        });
    }
    wire::WirePlan { stages, obstacles: obstacles(plan, offers) }
}

fn step_to_response(step: &StepPlan, stage: &StagePlan, marks: &mut MarkerRenderer<'_>) -> wire::PlannedStep {
    let (runs, condition) = match &step.when {
        StepActivation::Always => (wire::PlannedCondition::Always, None),
        StepActivation::Never => (wire::PlannedCondition::Never, None),
        StepActivation::If(condition) => (wire::PlannedCondition::If, Some(condition.clone())),
    };
    let needs = step.needs.iter().filter_map(|place| stage.steps.get(*place));
    wire::PlannedStep {
        id: step.id.to_string(),
        name: step.name.clone(),
        kind: step.kind.clone().into(),
        needs: needs.map(|need| need.id.to_string()).collect(),
        runs,
        condition,
        env: step.env.iter().map(|(name, text)| (name.to_string(), marks.text(text))).collect(),
        secret_files: step
            .secret_files
            .iter()
            .map(|(name, secret)| (name.to_string(), format!("[SECRET:{secret}]")))
            .chain(
                step.id_token.iter().map(|it| (it.file.to_string(), format!("[ID_TOKEN:{}]", it.audience))),
            )
            .collect(),
        params: step.params.iter().map(|(name, value)| (name.clone(), marks.value(value))).collect(),
        runs_on: step.runs_on.iter().map(ToString::to_string).collect(),
        network: berth_engine::wire::network(step.network),
        image: step.container.as_ref().map(|container| marks.text(&container.image)),
    }
}
