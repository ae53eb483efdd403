//! Analyses: asked for, listed, viewed; and how they are made. Making them is the work of `analysis/`.

use berth_api::analysis as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::analysis::{Analysis, Settings, State};
use berth_core::event::{EventKind, NewEvent};
use berth_core::id::{AnalysisId, DeploymentId};
use berth_core::run::{Run, StepRun, StepStatus};
use berth_store::Read;
use berth_store::idempotency::OnceKey;
use berth_store::query::{From, analyses, deployments};
use berth_store::records::{analysis, analysis_settings, organization, plan, run};

use super::wire::actor;
use super::{Answer, App, Outcome, Page, organization_subject};
use crate::access::Authorized;
use crate::analysis::{Found, Lines, request};
use crate::error::AppError;
use crate::limits::ANALYSES_WAITING_MAX;

impl App {
    /// One for each attempt: asked for again, the one there is.
    pub async fn request_analysis(
        &self,
        who: &Authorized<permit::AnalysisRun>,
        deployment: String,
        step: Option<String>,
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::Analysis>, AppError> {
        let org = who.org();
        let asked = self.change(who, once, move |tx, _| {
            let id = find_deployment(tx, &deployment)?;
            let run = run::by_id(tx, id)?.ok_or_else(nothing_failed)?;
            let plan = plan::by_id(tx, id)?.ok_or_else(nothing_failed)?;
            let failed = failed_step(&run, step.as_deref())?;
            if analyses::unfinished(tx, ANALYSES_WAITING_MAX)? >= ANALYSES_WAITING_MAX {
                return Err(AppError::busy("too many analyses of the organization wait; ask again later"));
            }
            let by = tx.actor().clone();
            let found = request(tx, &run, &plan, failed, by)?;
            let location = format!("/api/v1/organizations/{org}/analyses/{}", found.id);
            Ok(Answer { status: 202, location: Some(location), ..answer(&found) })
        });
        let asked = asked.await;
        self.analyses.nudge();
        asked
    }

    pub async fn list_analyses(
        &self,
        who: &Authorized<permit::AnalysisRead>,
        deployment: String,
        from: From,
        limit: i64,
    ) -> Result<Page<wire::Analysis>, AppError> {
        self.read(who, move |db| {
            let id = find_deployment(db, &deployment)?;
            let slice = analyses::of_deployment(db, id, &from, limit)?;
            Ok(Page::of(&slice, |found: &Analysis| found.id.to_string(), shown))
        })
        .await
    }

    pub async fn view_analysis(
        &self,
        who: &Authorized<permit::AnalysisRead>,
        id: String,
    ) -> Result<Answer<wire::Analysis>, AppError> {
        self.read(who, move |db| {
            let missing = || AppError::not_found("analysis");
            let id: AnalysisId = id.parse().map_err(|_| missing())?;
            Ok(answer(&analysis::by_id(db, id)?.ok_or_else(missing)?))
        })
        .await
    }

    pub async fn view_analysis_settings(
        &self,
        who: &Authorized<permit::AnalysisRead>,
    ) -> Result<Answer<wire::AnalysisSettings>, AppError> {
        self.read(who, |db| Ok(settings_answer(&analysis_settings::load(db)?))).await
    }

    pub async fn change_analysis_settings(
        &self,
        who: &Authorized<permit::AnalysisSettings>,
        permits_definition: bool,
        expected: Option<i64>,
    ) -> Result<Outcome<wire::AnalysisSettings>, AppError> {
        self.change(who, None, move |tx, _| {
            let before = analysis_settings::load(tx)?;
            super::check_version(before.version, expected)?;
            if before.permits_definition == permits_definition {
                return Ok(settings_answer(&before));
            }
            let next = Settings {
                permits_definition,
                version: before.version + 1,
                updated_at: Some(tx.now()),
                ..before
            };
            analysis_settings::put(tx, &next)?;
            let org = tx.org()?;
            let organization =
                organization::by_id(tx, org)?.ok_or_else(|| AppError::not_found("organization"))?;
            let event =
                NewEvent::new(EventKind::AnalysisSettingsUpdated, organization_subject(&organization));
            tx.record(event.with("permitDefinition", next.permits_definition))?;
            Ok(settings_answer(&next))
        })
        .await
    }
}

fn find_deployment(db: &mut impl Read, id: &str) -> Result<DeploymentId, AppError> {
    let missing = || AppError::not_found("deployment");
    let id: DeploymentId = id.parse().map_err(|_| missing())?;
    deployments::by_id(db, id)?.map(|_| id).ok_or_else(missing)
}

fn nothing_failed() -> AppError {
    AppError::new(Code::InvalidState, "no step of this deployment has failed: there is nothing to look into")
}

/// The one that is meant, or the one that failed first: others may have failed because of it.
fn failed_step<'a>(run: &'a Run, meant: Option<&str>) -> Result<&'a StepRun, AppError> {
    let steps = || run.steps.iter().map(AsRef::as_ref);
    let is_meant = |step: &&StepRun| {
        meant.is_none_or(|meant| step.id.to_string() == meant || step.step.as_str() == meant)
    };
    if !steps().any(|step| is_meant(&step)) {
        return Err(if meant.is_some() { AppError::not_found("step") } else { nothing_failed() });
    }
    let failed = steps().filter(is_meant).filter(|step| step.status == StepStatus::Failed);
    failed.min_by_key(|step| step.finished_at).ok_or_else(|| match meant {
        None => nothing_failed(),
        Some(_) => {
            AppError::new(Code::InvalidState, "this step has not failed: there is nothing to look into")
        }
    })
}

fn answer(found: &Analysis) -> Answer<wire::Analysis> {
    Answer::ok(shown(found)).at_version(found.version)
}

fn settings_answer(settings: &Settings) -> Answer<wire::AnalysisSettings> {
    let body = wire::AnalysisSettings {
        permit_definition: settings.permits_definition,
        updated_at: settings.updated_at.map(|at| at.to_string()),
    };
    Answer::ok(body).at_version(settings.version)
}

fn shown(it: &Analysis) -> wire::Analysis {
    let (status, error) = match &it.state {
        State::Queued => (wire::AnalysisStatus::Queued, None),
        State::Running => (wire::AnalysisStatus::Running, None),
        State::Succeeded { .. } => (wire::AnalysisStatus::Succeeded, None),
        State::Failed { error, .. } => (wire::AnalysisStatus::Failed, Some(error.clone())),
    };
    let answer = it.answer();
    let found = answer.map(|answer| Found::read(&answer.result)).unwrap_or_default();
    let lines = |it: &Lines| wire::AnalysisLines { first_line: it.first_line, last_line: it.last_line };
    wire::Analysis {
        id: it.id.to_string(),
        status,
        deployment_id: it.deployment.to_string(),
        pipeline_id: it.pipeline.to_string(),
        stage: it.stage.clone(),
        step_id: it.step.to_string(),
        step: it.step_name.to_string(),
        attempt: it.attempt,
        commit_id: it.commit.clone(),
        actor: actor(&it.asked_by),
        analyser: answer.map(|answer| answer.analyser.clone()),
        fingerprint: answer.map(|answer| answer.fingerprint.clone()),
        reused_from: answer.and_then(|answer| answer.reused_from).map(|id| id.to_string()),
        root_cause: found.root_cause,
        category: found.category,
        confidence: found.confidence.as_deref().and_then(confidence),
        evidence: found
            .evidence
            .into_iter()
            .map(|it| wire::AnalysisEvidence {
                first_line: it.lines.first_line,
                last_line: it.lines.last_line,
                text: it.text,
            })
            .collect(),
        advice: found.advice,
        rule: found.rule,
        new_lines: found.new_lines.iter().map(lines).collect(),
        suggested_fix: answer
            .and_then(|answer| answer.fix.as_ref())
            .map(|fix| wire::AnalysisFix { summary: fix.summary.clone(), diff: fix.diff.clone() }),
        error,
        created_at: it.created_at.to_string(),
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at().map(|at| at.to_string()),
    }
}

fn confidence(word: &str) -> Option<wire::AnalysisConfidence> {
    match word {
        "low" => Some(wire::AnalysisConfidence::Low),
        "medium" => Some(wire::AnalysisConfidence::Medium),
        "high" => Some(wire::AnalysisConfidence::High),
        _ => None,
    }
}
