//! Endpoints for deployments.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::deployment::{
    DeploymentNew, DeploymentStatus, StageRetry, StageRollback, StepResolution, WireDeployment,
};
use berth_api::page::List;
use berth_api::pipeline::ReasonBody;
use berth_core::access::permit;
use berth_core::deployment::run::OutcomeResolution;
use berth_core::deployment::run::retry::RetryStart;
use berth_core::id::{DeploymentId, EnvironmentId};
use berth_core::name::{CommitId, EnvName, Reason};
use berth_engine::git::is_abbreviation;
use http::HeaderMap;

use super::events::{follow, last_event_id, parse_time, wants_stream};
use super::sessions::{has_news, parse_required_reason};
use crate::app::{
    App, DeploymentFilter, EventFilter, IdempotentResponse, NewDeployment, NewRollback, PipelineSelector,
    SoakEnd,
};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::input_checker::InputChecker;
use crate::http::query::{ListResponse, PageQuery, QueryParams};

/// Get a deployment. With `wait`, responds when it changes or has finished. With `Accept: text/event-stream`, streams
/// its events.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}", tag = "deployments",
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "Seconds to wait for a change, at most 50"),
           ("Last-Event-ID" = Option<i64>, Header, description = "Stream events after this sequence number")),
    responses((status = 200, description = "The deployment, or a stream of its events", content(
        (Data<WireDeployment> = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn view_deployment(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsRead>,
    Path((_, id)): Path<(String, String)>,
    headers: HeaderMap,
    params: QueryParams,
) -> Result<Response, AppError> {
    let last = last_event_id(&headers, &params)?;
    if wants_stream(&headers) {
        let found = app.view_deployment(&who, id).await?.body.id;
        let filter = EventFilter { deployment: Some(found), ..EventFilter::default() };
        return follow(&app, who.authorize_also()?, filter, (last, false), &headers).await;
    }
    let mut waiting = app.begin_long_poll(&who, params.wait()?)?;
    loop {
        let seen = app.view_deployment(&who, id.clone()).await?;
        if !waiting.wait_for_change(has_news(&headers, &seen, is_final(seen.body.status))).await {
            return Ok(seen.into_response());
        }
    }
}

/// Cancel a deployment. Steps that have not started are cancelled, running steps are stopped. Cancelling again has no
/// effect.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/cancel", tag = "deployments",
    request_body = Option<ReasonBody>, responses((status = 200, body = Data<WireDeployment>)))]
pub(crate) async fn cancel_deployment(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsOperate>,
    Path((_, id)): Path<(String, String)>,
    posted: PostBody<ReasonBody>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let mut check = InputChecker::default();
    let reason = check.optional("/reason", posted.body.reason.as_deref(), Reason::parse);
    app.cancel_deployment(&who, id, check.finish(Some(reason))?, posted.idempotency_key).await
}

/// Cancel a stage. The deployment ends with it and later stages are skipped. Cancelling again has no effect.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/cancel",
    tag = "deployments", request_body = Option<ReasonBody>, responses((status = 200, body = Data<WireDeployment>)))]
pub(crate) async fn cancel_stage(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsOperate>,
    Path((_, id, stage)): Path<(String, String, String)>,
    posted: PostBody<ReasonBody>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let mut check = InputChecker::default();
    let reason = check.optional("/reason", posted.body.reason.as_deref(), Reason::parse);
    app.cancel_stage(&who, id, stage, check.finish(Some(reason))?, posted.idempotency_key).await
}

/// Retry a failed stage. Runs the steps that did not succeed, or all steps, with the same commit, definition and
/// secrets. In an environment, starts a new deployment of the same commit in the session of the failed one, which must
/// still be active.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/retry",
    tag = "deployments", request_body = Option<StageRetry>,
    responses((status = 200, body = Data<WireDeployment>),
              (status = 202, description = "In an environment: the new deployment", body = Data<WireDeployment>)))]
pub(crate) async fn retry_stage(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsOperate>,
    Path((_, id, stage)): Path<(String, String, String)>,
    posted: PostBody<StageRetry>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let from = match posted.body.from.as_deref() {
        None | Some("failed") => RetryStart::Failed,
        Some("start") => RetryStart::Start,
        Some(_) => return Err(AppError::invalid_member("/from", "must be `failed` or `start`")),
    };
    app.retry_stage(&who, id, stage, from, posted.idempotency_key).await
}

/// Roll back a stage. Redeploys what the stage had before this deployment, or the given earlier deployment, with the
/// same commit, definition, secrets, outputs and artifacts. Promotion into the stage is paused until the pipeline is
/// resumed.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/rollback",
    tag = "deployments", request_body = Option<StageRollback>, responses((status = 202, body = Data<WireDeployment>)))]
pub(crate) async fn rollback_stage(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::StagesDeploy>,
    Path((_, id, stage)): Path<(String, String, String)>,
    posted: PostBody<StageRollback>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let mut check = InputChecker::default();
    let to = check.optional("/to", posted.body.to.as_deref(), |text| {
        text.parse::<DeploymentId>().map_err(|_| "must be the id of a deployment, like `dep_…`")
    });
    let reason = check.optional("/reason", posted.body.reason.as_deref(), Reason::parse);
    let new = check.finish(Some(NewRollback { to, reason }))?;
    app.rollback_stage(&who, id, stage, new, posted.idempotency_key).await
}

/// Resolve a step whose outcome is unknown.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/resolve",
    tag = "deployments", request_body = StepResolution, responses((status = 200, body = Data<WireDeployment>)))]
pub(crate) async fn resolve_step(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsOperate>,
    Path((_, id, step)): Path<(String, String, String)>,
    posted: PostBody<StepResolution>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let resolution = match posted.body.outcome.as_str() {
        "ran" => OutcomeResolution::Ran,
        "retry" => OutcomeResolution::Retry,
        "fail" => OutcomeResolution::Fail,
        _ => return Err(AppError::invalid_member("/outcome", "must be `ran`, `retry` or `fail`")),
    };
    app.resolve_step(&who, id, step, resolution, posted.idempotency_key).await
}

/// End a soak early. The deployment continues.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/end-soak",
    tag = "deployments", request_body = Option<ReasonBody>, responses((status = 200, body = Data<WireDeployment>)))]
pub(crate) async fn end_soak(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsOperate>,
    Path((_, id, step)): Path<(String, String, String)>,
    posted: PostBody<ReasonBody>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let mut check = InputChecker::default();
    let reason = check.optional("/reason", posted.body.reason.as_deref(), Reason::parse);
    app.end_soak(&who, id, step, SoakEnd::Passed, check.finish(Some(reason))?, posted.idempotency_key).await
}

/// Reject a soak. The step and its stage fail.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/reject-soak",
    tag = "deployments", request_body = Option<ReasonBody>, responses((status = 200, body = Data<WireDeployment>)))]
pub(crate) async fn reject_soak(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsOperate>,
    Path((_, id, step)): Path<(String, String, String)>,
    posted: PostBody<ReasonBody>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let mut check = InputChecker::default();
    let reason = check.optional("/reason", posted.body.reason.as_deref(), Reason::parse);
    app.end_soak(&who, id, step, SoakEnd::Rejected, check.finish(Some(reason))?, posted.idempotency_key).await
}

/// List deployments, newest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/deployments", tag = "deployments",
    params(("pipeline" = Option<String>, Query, description = "Only deployments of this pipeline (id or slug)"),
           ("environment" = Option<String>, Query, description = "Only deployments to this environment (name or id)"),
           ("session" = Option<String>, Query, description = "Only deployments of this session (id)"),
           ("stage" = Option<String>, Query, description = "Only deployments through this stage, or to the environment with this name"),
           ("commit" = Option<String>, Query, description = "Only deployments of this commit: as given in the request, or a prefix of its hash"),
           ("status" = Option<DeploymentStatus>, Query, description = "Only deployments with this status"),
           ("actor" = Option<String>, Query, description = "Only deployments started by this user (id)"),
           ("from" = Option<String>, Query, format = DateTime, description = "Only deployments created at or after this time"),
           ("to" = Option<String>, Query, format = DateTime, description = "Only deployments created before this time"),
           ("total" = Option<bool>, Query, description = "Return the total number of records, up to 10,000")),
    responses((status = 200, body = List<WireDeployment>)))]
pub(crate) async fn list_deployments(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireDeployment>, AppError> {
    let pipeline = paging.params.text("pipeline")?;
    list_filtered(&app, &who, pipeline.map(PipelineSelector::Parameter), paging).await
}

/// List the deployments of a pipeline, newest first. Includes those through its stages and in its environments.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/deployments", tag = "deployments",
    params(("environment" = Option<String>, Query, description = "Only deployments to this environment (name or id)"),
           ("session" = Option<String>, Query, description = "Only deployments of this session (id)"),
           ("stage" = Option<String>, Query, description = "Only deployments through this stage, or to the environment with this name"),
           ("commit" = Option<String>, Query, description = "Only deployments of this commit: as given in the request, or a prefix of its hash"),
           ("status" = Option<DeploymentStatus>, Query, description = "Only deployments with this status"),
           ("actor" = Option<String>, Query, description = "Only deployments started by this user (id)"),
           ("from" = Option<String>, Query, format = DateTime, description = "Only deployments created at or after this time"),
           ("to" = Option<String>, Query, format = DateTime, description = "Only deployments created before this time"),
           ("total" = Option<bool>, Query, description = "Return the total number of records, up to 10,000")),
    responses((status = 200, body = List<WireDeployment>)))]
pub(crate) async fn list_pipeline_deployments(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsRead>,
    Path((_, pipeline)): Path<(String, String)>,
    paging: PageQuery,
) -> Result<ListResponse<WireDeployment>, AppError> {
    list_filtered(&app, &who, Some(PipelineSelector::Path(pipeline)), paging).await
}

const STATUSES: &[&str] =
    &["queued", "running", "waiting", "cancelling", "succeeded", "failed", "cancelled", "superseded"];

async fn list_filtered(
    app: &App,
    who: &AuthorizedCaller<permit::DeploymentsRead>,
    pipeline: Option<PipelineSelector>,
    paging: PageQuery,
) -> Result<ListResponse<WireDeployment>, AppError> {
    let params = &paging.params;
    let with_total = params.one_of("total", &["true", "false"])?.as_deref() == Some("true");
    let commit = params.name("commit", CommitId::parse)?.map(|commit| commit.to_string());
    let filter = DeploymentFilter {
        pipeline: None,
        environment: parse_environment(params)?,
        session: params.id("session", "a session, like `ses_…`")?,
        stage: params.text("stage")?,
        // Convert an abbreviated commit id to lower case, because commit ids are stored in lower case.
        commit: commit.map(|text| if is_abbreviation(&text) { text.to_lowercase() } else { text }),
        status: params.one_of("status", STATUSES)?,
        actor: params.id("actor", "a user, like `usr_…`")?,
        since: parse_time(params, "from")?,
        until: parse_time(params, "to")?,
    };
    let start = paging.start::<DeploymentId>()?;
    let page = app.list_deployments(who, pipeline, filter, start, paging.limit, with_total).await?;
    Ok(paging.list(page))
}

/// Returns the name or id of an environment from the query.
fn parse_environment(params: &QueryParams) -> Result<Option<String>, AppError> {
    let Some(text) = params.get("environment")? else { return Ok(None) };
    if text.parse::<EnvironmentId>().is_ok() || EnvName::parse(text).is_ok() {
        return Ok(Some(text.to_owned()));
    }
    Err(AppError::invalid_parameter("environment", "must be the name or the id of an environment"))
}

/// Deploy a commit through the stages of a pipeline.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/deployments", tag = "deployments",
    request_body = Option<DeploymentNew>, responses((status = 202, body = Data<WireDeployment>)))]
pub(crate) async fn start_deployment(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::StagesDeploy>,
    Path((_, pipeline)): Path<(String, String)>,
    posted: PostBody<DeploymentNew>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let commit = check.optional("/commitId", body.commit_id.as_deref(), CommitId::parse);
    let reference = check.optional("/ref", body.reference.as_deref(), CommitId::parse);
    let reason = check.optional("/reason", body.reason.as_deref(), Reason::parse);
    if commit.is_some() && reference.is_some() {
        return Err(AppError::invalid_member("/ref", "cannot be combined with commitId"));
    }
    let pointer = if reference.is_some() { "/ref" } else { "/commitId" };
    let commit = commit.or(reference);
    let bypass = body.bypass.as_ref().map(|given| given.reason.as_str());
    let bypass = bypass.and_then(|text| check.require("/bypass/reason", parse_required_reason(text)));
    let new = check.finish(Some(NewDeployment { commit, pointer, reason, bypass }))?;
    app.start_deployment(&who, pipeline, new, posted.idempotency_key).await
}

pub(super) const fn is_final(status: DeploymentStatus) -> bool {
    match status {
        DeploymentStatus::Queued
        | DeploymentStatus::Running
        | DeploymentStatus::Waiting
        | DeploymentStatus::Cancelling => false,
        DeploymentStatus::Succeeded
        | DeploymentStatus::Failed
        | DeploymentStatus::Cancelled
        | DeploymentStatus::Superseded => true,
    }
}
