//! Failure analyses: request, preview, list, view, and change their settings. `jobs::analyze` produces the analyses.

use berth_api::analysis as wire;
use berth_api::problem::Code;
use berth_core::access::{Action, EffectiveAccess, permit};
use berth_core::analysis::{
    Analysis, AnalysisModel, AnalysisState, AnalyzerSettings, ModelLimits, ModelProvider, NewAnalysis,
    TokenUsage,
};
use berth_core::deployment::Deployment;
use berth_core::deployment::run::{Run, StepRun, StepRunStatus};
use berth_core::event::{EventKind, NewEvent};
use berth_core::id::{AnalysisId, DeploymentId};
use berth_core::secret::ScopePath;
use berth_engine::analysis_requests::{new_analysis, request};
use berth_engine::limits::ANALYSES_WAITING_MAX;
use berth_store::StoreRead;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::analysis::{self, ModelRequest};
use berth_store::tables::{analysis_settings, deployment, organization, plan, run, secret};

use super::resource_access::{may_read, require_everywhere, require_readable};
use super::{ApiResponse, App, IdempotentResponse, ResponsePage, fixes, organization_subject};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::jobs::analyze::{EvidenceLines, StoredFindings, preview};
use crate::wire::actor_to_wire;

pub struct NewAnalysisSettings {
    /// `None` if only the built-in rules are used.
    pub model: Option<AnalysisModel>,
    pub limits: ModelLimits,
    pub permits_definition: bool,
}

impl App {
    /// Requests an analysis of a failed step. Each attempt has at most one analysis; a repeated request returns the
    /// existing one.
    pub async fn request_analysis(
        &self,
        who: &AuthorizedCaller<permit::AnalysisRun>,
        deployment: String,
        step: Option<String>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::AnalysisOrPreview>, AppError> {
        let org = who.org();
        let asked = self.change(who, once, move |tx, standing| {
            let id = find_analysable(tx, &standing.access, &deployment)?;
            let run = run::by_id(tx, id)?.ok_or_else(no_failed_step_error)?;
            let plan = plan::by_id(tx, id)?.ok_or_else(no_failed_step_error)?;
            let failed = find_failed_step(&run, step.as_deref())?;
            if analysis::count_unfinished(tx, ANALYSES_WAITING_MAX)? >= ANALYSES_WAITING_MAX {
                return Err(AppError::busy(
                    "too many analyses are queued in this organization; try again later",
                ));
            }
            let by = tx.actor().clone();
            let found = request(tx, &run, &plan, failed, by)?;
            let location = format!("/api/v1/organizations/{org}/analyses/{}", found.id);
            let body = wire::AnalysisOrPreview::Analysis(Box::new(to_response(&found)));
            Ok(ApiResponse::accepted(location, body).with_version(found.version))
        });
        let asked = asked.await;
        self.jobs.analyses.wake();
        asked
    }

    /// Returns the request that an analysis would send to the model, without sending it.
    pub async fn preview_analysis(
        &self,
        who: &AuthorizedCaller<permit::AnalysisRun>,
        deployment: String,
        step: Option<String>,
    ) -> Result<ApiResponse<wire::AnalysisOrPreview>, AppError> {
        let (asked_by, access) = (who.context().actor, who.access().clone());
        let meant = self.read(who, move |db| {
            let id = find_analysable(db, &access, &deployment)?;
            let run = run::by_id(db, id)?.ok_or_else(no_failed_step_error)?;
            let plan = plan::by_id(db, id)?.ok_or_else(no_failed_step_error)?;
            let failed = find_failed_step(&run, step.as_deref())?;
            let new: NewAnalysis =
                new_analysis(AnalysisId::from_parts(db.now(), [0; 10]), &run, &plan, failed, asked_by);
            Ok(Analysis::request(new, db.now()).answer)
        });
        let would = preview(&self.services, who.org(), &meant.await?).await?;
        let body = match would {
            None => wire::AnalysisPreview { analyser: "rules".into(), url: None, body: None },
            Some(would) => wire::AnalysisPreview {
                analyser: would.analyser,
                url: Some(would.url),
                body: Some(would.body),
            },
        };
        Ok(ApiResponse::ok(wire::AnalysisOrPreview::Preview(body)))
    }

    pub async fn list_analyses(
        &self,
        who: &AuthorizedCaller<permit::AnalysisRead>,
        deployment: String,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireAnalysis>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let (id, shows_source) = find_readable(db, &access, &deployment)?;
            let slice = analysis::list_of_deployment(db, id, &from, limit)?;
            let show = |found: &Analysis| hide_source(to_response(found), shows_source);
            Ok(ResponsePage::from_list_page(&slice, |found: &Analysis| found.id.to_string(), show))
        })
        .await
    }

    pub async fn view_analysis(
        &self,
        who: &AuthorizedCaller<permit::AnalysisRead>,
        id: String,
    ) -> Result<ApiResponse<wire::WireAnalysis>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let found = find(db, &access, Action::AnalysisRead, &id)?;
            let id = found.id;
            let shows_source = may_on_analysis(db, &access, Action::AnalysisSource, &found)?;
            let requests = analysis::list_requests(db, id)?;
            let pull = fixes::find_for_failure(db, &found)?;
            let pulled = pull.as_ref().map(|pull| format!(".{}.{}", pull.analysis, pull.version));
            let hidden = if shows_source { "" } else { ".no-source" };
            let variant = format!("{}{}{hidden}", requests.len(), pulled.unwrap_or_default());
            let body = wire::WireAnalysis {
                requests: requests.iter().map(to_wire_request).collect(),
                pull_request: pull.as_ref().map(fixes::to_response).map(Box::new),
                ..to_response(&found)
            };
            let body = hide_source(body, shows_source);
            Ok(ApiResponse::ok(body).with_version(found.version).with_variant(variant))
        })
        .await
    }

    pub async fn view_analysis_settings(
        &self,
        who: &AuthorizedCaller<permit::AnalysisRead>,
    ) -> Result<ApiResponse<wire::AnalysisSettings>, AppError> {
        require_everywhere(who.access(), Action::AnalysisRead)?;
        self.read(who, |db| Ok(settings_response(&analysis_settings::load(db)?))).await
    }

    pub async fn change_analysis_settings(
        &self,
        who: &AuthorizedCaller<permit::AnalysisSettings>,
        new: NewAnalysisSettings,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::AnalysisSettings>, AppError> {
        if let Some(base) = new.model.as_ref().and_then(|model| model.base_url.as_deref()) {
            let allowed = self.services.egress.policy().check(base);
            allowed.map_err(|why| AppError::invalid_member("/baseUrl", why.to_string()))?;
        }
        self.change(who, None, move |tx, _| {
            let before = analysis_settings::load(tx)?;
            super::check_version(before.version, expected)?;
            let next = AnalyzerSettings {
                model: new.model,
                limits: new.limits,
                permits_definition: new.permits_definition,
                ..before.clone()
            };
            if next == before {
                return Ok(settings_response(&before));
            }
            if let Some(name) = next.model.as_ref().and_then(|model| model.api_key.as_ref())
                && secret::by_name(tx, name, &ScopePath::Organization)?.is_none()
            {
                return Err(AppError::invalid_member("/apiKeySecret", "is not a secret of the organization"));
            }
            let next = AnalyzerSettings { version: before.version + 1, updated_at: Some(tx.now()), ..next };
            analysis_settings::put(tx, &next)?;
            let org = tx.org()?;
            let organization =
                organization::by_id(tx, org)?.ok_or_else(|| AppError::not_found("organization"))?;
            let event =
                NewEvent::new(EventKind::AnalysisSettingsUpdated, organization_subject(&organization));
            let event = event.with_some("analyser", next.model.as_ref().map(AnalysisModel::analyser));
            let event = event.with_some("baseUrl", next.model.as_ref().and_then(|it| it.base_url.as_ref()));
            tx.record(event.with("permitDefinition", next.permits_definition))?;
            Ok(settings_response(&next))
        })
        .await
    }
}

/// Finds an analysis and checks the permission on its deployment.
pub(super) fn find(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    id: &str,
) -> Result<Analysis, AppError> {
    let missing = || AppError::not_found("analysis");
    let id: AnalysisId = id.parse().map_err(|_| missing())?;
    let found = analysis::by_id(db, id)?.ok_or_else(missing)?;
    if may_on_analysis(db, access, action, &found)? {
        return Ok(found);
    }
    Err(match may_on_analysis(db, access, Action::AnalysisRead, &found)? {
        true => AppError::forbidden(action, None),
        false => missing(),
    })
}

fn may_on_analysis(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    analysis: &Analysis,
) -> Result<bool, AppError> {
    if access.may_everywhere(action) {
        return Ok(true);
    }
    let found = deployment::by_id(db, analysis.deployment)?;
    found.map_or(Ok(false), |found| may_read(db, access, action, &found))
}

/// Finds a deployment whose analyses the caller may read. Also returns whether they include source code.
fn find_readable(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    id: &str,
) -> Result<(DeploymentId, bool), AppError> {
    let found = load_deployment(db, id)?;
    require_readable(db, access, Action::AnalysisRead, &found)?;
    Ok((found.id, may_read(db, access, Action::AnalysisSource, &found)?))
}

/// Finds a deployment whose failures the caller may analyse.
fn find_analysable(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    id: &str,
) -> Result<DeploymentId, AppError> {
    let found = load_deployment(db, id)?;
    if !may_read(db, access, Action::AnalysisRun, &found)? {
        require_readable(db, access, Action::AnalysisRead, &found)?;
        return Err(AppError::forbidden(Action::AnalysisRun, None));
    }
    Ok(found.id)
}

fn load_deployment(db: &mut impl StoreRead, id: &str) -> Result<Deployment, AppError> {
    let missing = || AppError::not_found("deployment");
    let id: DeploymentId = id.parse().map_err(|_| missing())?;
    deployment::by_id(db, id)?.ok_or_else(missing)
}

fn no_failed_step_error() -> AppError {
    AppError::new(Code::InvalidState, "no step of this deployment has failed; there is nothing to analyse")
}

/// Returns the named step. Without a name, returns the step that failed first, because later failures may be a
/// consequence of the first one.
fn find_failed_step<'a>(run: &'a Run, meant: Option<&str>) -> Result<&'a StepRun, AppError> {
    let steps = || run.steps.iter().map(AsRef::as_ref);
    let is_meant = |step: &&StepRun| {
        meant.is_none_or(|meant| step.id.to_string() == meant || step.step.as_str() == meant)
    };
    if !steps().any(|step| is_meant(&step)) {
        return Err(if meant.is_some() { AppError::not_found("step") } else { no_failed_step_error() });
    }
    let failed = steps().filter(is_meant).filter(|step| step.status == StepRunStatus::Failed);
    failed.min_by_key(|step| step.finished_at).ok_or_else(|| match meant {
        None => no_failed_step_error(),
        Some(_) => AppError::new(Code::InvalidState, "this step has not failed; there is nothing to analyse"),
    })
}

/// Removes source code from an analysis unless `is_shown` is true. Viewers have no access to source code.
fn hide_source(mut analysis: wire::WireAnalysis, is_shown: bool) -> wire::WireAnalysis {
    if !is_shown {
        for request in &mut analysis.requests {
            request.body = None;
        }
        if let Some(fix) = &mut analysis.suggested_fix {
            fix.diff = None;
        }
    }
    analysis
}

fn to_wire_request(it: &ModelRequest) -> wire::AnalysisRequest {
    wire::AnalysisRequest {
        number: it.number,
        analyser: it.analyser.clone(),
        url: it.url.clone(),
        body: Some(it.body.clone()),
        hash: it.hash.clone(),
        status: it.status,
        error: it.error.clone(),
        usage: to_wire_usage(it.usage),
        sent_at: it.sent_at.to_string(),
    }
}

fn to_wire_usage(it: TokenUsage) -> wire::AnalysisUsage {
    wire::AnalysisUsage { input_tokens: it.input_tokens, output_tokens: it.output_tokens }
}

fn settings_response(settings: &AnalyzerSettings) -> ApiResponse<wire::AnalysisSettings> {
    let model = settings.model.as_ref();
    let provider = match model.map(|model| model.provider) {
        None => wire::AnalysisProvider::None,
        Some(ModelProvider::Anthropic) => wire::AnalysisProvider::Anthropic,
        Some(ModelProvider::Openai) => wire::AnalysisProvider::Openai,
    };
    let body = wire::AnalysisSettings {
        provider,
        base_url: model.and_then(|model| model.base_url.clone()),
        model: model.map(|model| model.name.clone()),
        api_key_secret: model.and_then(|model| model.api_key.as_ref()).map(ToString::to_string),
        output_tokens_max: settings.limits.output_tokens_max,
        monthly_tokens_max: settings.limits.monthly_tokens_max,
        timeout_seconds: settings.limits.timeout_s,
        permit_definition: settings.permits_definition,
        updated_at: settings.updated_at.map(|at| at.to_string()),
    };
    ApiResponse::ok(body).with_version(settings.version)
}

fn to_response(it: &Analysis) -> wire::WireAnalysis {
    let (status, error) = match &it.state {
        AnalysisState::Queued => (wire::AnalysisStatus::Queued, None),
        AnalysisState::Running => (wire::AnalysisStatus::Running, None),
        AnalysisState::Succeeded { .. } => (wire::AnalysisStatus::Succeeded, None),
        AnalysisState::Failed { error, .. } => (wire::AnalysisStatus::Failed, Some(error.clone())),
    };
    let answer = it.output();
    let found = answer.map(|answer| StoredFindings::read(&answer.result)).unwrap_or_default();
    let lines =
        |it: &EvidenceLines| wire::AnalysisLines { first_line: it.first_line, last_line: it.last_line };
    wire::WireAnalysis {
        id: it.id.to_string(),
        status,
        deployment_id: it.deployment.to_string(),
        pipeline_id: it.pipeline.to_string(),
        stage: it.stage.clone(),
        step_id: it.step.to_string(),
        step: it.step_name.to_string(),
        attempt: it.attempt,
        commit_id: it.commit.clone(),
        actor: actor_to_wire(&it.asked_by),
        analyser: answer.map(|answer| answer.analyser.clone()),
        fingerprint: answer.map(|answer| answer.fingerprint.clone()),
        reused_from: answer.and_then(|answer| answer.reused_from).map(|id| id.to_string()),
        root_cause: found.root_cause,
        category: found.category,
        confidence: found.confidence.as_deref().and_then(parse_confidence),
        evidence: found
            .evidence
            .into_iter()
            .map(|it| wire::AnalysisEvidence {
                first_line: it.lines.first_line,
                last_line: it.lines.last_line,
                text: it.text,
                supported: it.supported,
            })
            .collect(),
        advice: found.advice,
        rule: found.rule,
        new_lines: found.new_lines.iter().map(lines).collect(),
        suggested_fix: answer
            .and_then(|answer| answer.fix.as_ref())
            .map(|fix| wire::AnalysisFix { summary: fix.summary.clone(), diff: Some(fix.diff.clone()) }),
        pull_request: None,
        note: answer.and_then(|answer| answer.note.clone()),
        usage: answer.and_then(|answer| answer.usage).map(to_wire_usage),
        requests: Vec::new(),
        error,
        created_at: it.created_at.to_string(),
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at().map(|at| at.to_string()),
    }
}

fn parse_confidence(word: &str) -> Option<wire::AnalysisConfidence> {
    match word {
        "low" => Some(wire::AnalysisConfidence::Low),
        "medium" => Some(wire::AnalysisConfidence::Medium),
        "high" => Some(wire::AnalysisConfidence::High),
        _ => None,
    }
}
