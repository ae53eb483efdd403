//! Endpoints for failure analyses and their settings.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::analysis::{
    AnalysisNew, AnalysisOrPreview, AnalysisPreview, AnalysisProvider, AnalysisSettings, AnalysisSettingsPut,
    WireAnalysis,
};
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::analysis::{AnalysisModel, ModelLimits, ModelProvider};
use berth_core::id::AnalysisId;
use berth_core::pipeline::grammar::SecretName;

use crate::app::{ApiResponse, App, IdempotentResponse, NewAnalysisSettings};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery};

/// Analyse a failed step. If an analysis of it exists, returns that one.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/analyses", tag = "analyses",
    request_body = Option<AnalysisNew>,
    responses((status = 202, body = Data<WireAnalysis>), (status = 200, body = Data<AnalysisPreview>)))]
pub(crate) async fn request_analysis(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::AnalysisRun>,
    Path((_, deployment)): Path<(String, String)>,
    posted: PostBody<AnalysisNew>,
) -> Result<IdempotentResponse<AnalysisOrPreview>, AppError> {
    let AnalysisNew { step_id, preview } = posted.body;
    if preview.unwrap_or(false) {
        return app.preview_analysis(&who, deployment, step_id).await.map(IdempotentResponse::Fresh);
    }
    app.request_analysis(&who, deployment, step_id, posted.idempotency_key).await
}

/// List the analyses of a deployment, newest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/analyses", tag = "analyses",
    responses((status = 200, body = List<WireAnalysis>)))]
pub(crate) async fn list_analyses(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::AnalysisRead>,
    Path((_, deployment)): Path<(String, String)>,
    paging: PageQuery,
) -> Result<ListResponse<WireAnalysis>, AppError> {
    let page = app.list_analyses(&who, deployment, paging.start::<AnalysisId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Get an analysis.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/analyses/{analysisId}", tag = "analyses",
    responses((status = 200, body = Data<WireAnalysis>)))]
pub(crate) async fn view_analysis(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::AnalysisRead>,
    Path((_, id)): Path<(String, String)>,
) -> Result<ApiResponse<WireAnalysis>, AppError> {
    app.view_analysis(&who, id).await
}

/// Get the analysis settings.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/analysis-settings", tag = "analyses",
    responses((status = 200, body = Data<AnalysisSettings>)))]
pub(crate) async fn view_analysis_settings(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::AnalysisRead>,
) -> Result<ApiResponse<AnalysisSettings>, AppError> {
    app.view_analysis_settings(&who).await
}

/// Replace the analysis settings.
#[utoipa::path(put, path = "/api/v1/organizations/{orgId}/analysis-settings", tag = "analyses",
    request_body = AnalysisSettingsPut, responses((status = 200, body = Data<AnalysisSettings>)))]
pub(crate) async fn put_analysis_settings(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::AnalysisSettings>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<AnalysisSettingsPut>,
) -> Result<IdempotentResponse<AnalysisSettings>, AppError> {
    let mut check = InputChecker::default();
    let secret = check.optional("/apiKeySecret", body.api_key_secret.as_deref(), SecretName::parse);
    let provider = match body.provider {
        AnalysisProvider::None => None,
        AnalysisProvider::Anthropic => Some(ModelProvider::Anthropic),
        AnalysisProvider::Openai => Some(ModelProvider::Openai),
    };
    // Validate all members even if no provider is set. They would have no effect then, but an invalid value is probably
    // a mistake.
    let base_url = check.optional("/baseUrl", body.base_url.as_deref(), base_url);
    let is_named = body.model.is_some();
    let name = check.optional("/model", body.model.as_deref(), model_name);
    if provider.is_some() && !is_named {
        check.require::<(), _>("/model", Err(NO_MODEL));
    }
    let model = provider.zip(name).map(|(provider, name)| AnalysisModel {
        provider,
        base_url,
        name,
        api_key: secret,
    });
    let usual = ModelLimits::default();
    let mut limit = |pointer: &str, sent: Option<i64>, usual: i64, (least, most): (i64, i64)| {
        let number = sent.unwrap_or(usual);
        let fits = (least..=most).contains(&number).then_some(number);
        check.require(pointer, fits.ok_or_else(|| format!("must be from {least} to {most}"))).unwrap_or(usual)
    };
    let limits = ModelLimits {
        output_tokens_max: limit(
            "/outputTokensMax",
            body.output_tokens_max,
            usual.output_tokens_max,
            ModelLimits::OUTPUT_TOKENS,
        ),
        monthly_tokens_max: limit(
            "/monthlyTokensMax",
            body.monthly_tokens_max,
            usual.monthly_tokens_max,
            ModelLimits::MONTHLY_TOKENS,
        ),
        timeout_s: limit("/timeoutSeconds", body.timeout_seconds, usual.timeout_s, ModelLimits::TIMEOUT_S),
    };
    check.finish(Some(()))?;
    let new =
        NewAnalysisSettings { model, limits, permits_definition: body.permit_definition.unwrap_or(false) };
    app.change_analysis_settings(&who, new, expected).await
}

const NO_MODEL: &str = "must be the name of a model, 1 to 200 characters without spaces";

/// Checks the format of a model name.
fn model_name(sent: &str) -> Result<String, &'static str> {
    const NAME_CHARS_MAX: usize = 200;
    let is_plain =
        (1..=NAME_CHARS_MAX).contains(&sent.chars().count()) && sent.chars().all(|c| c.is_ascii_graphic());
    if is_plain { Ok(sent.to_owned()) } else { Err(NO_MODEL) }
}

fn base_url(sent: &str) -> Result<String, &'static str> {
    const URL_CHARS_MAX: usize = 2_048;
    match sent.chars().count() <= URL_CHARS_MAX {
        true => Ok(sent.to_owned()),
        false => Err("must be at most 2,048 characters"),
    }
}
