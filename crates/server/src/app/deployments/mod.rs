//! Deployments: start, list, view, cancel, retry, roll back, resolve.

mod blocked;
mod operate;
mod retry;
mod rollback;
mod shown;

use berth_api::deployment as wire;
use berth_core::access::permit;
use berth_core::deployment::{Deployment, EnvironmentDeployment, DeploymentTarget, DeploymentPurpose};
use berth_core::environment::Lock;
use berth_core::id::{DeploymentId, OrgId, SessionId};
use berth_store::Read;
use berth_store::pagination::From;
use berth_store::tables::{deployment, deployment_list, run};

pub use berth_store::tables::deployment_list::DeploymentFilter;
use berth_store::tables::{environment, pipeline};

pub use operate::{NewDeployment, SoakEnd};
pub use rollback::NewRollback;

use super::{Answer, App, Page};
use crate::auth::authorize::Authorized;
use crate::error::AppError;
use berth_engine::RunCache;

/// The id or slug of the pipeline to list, and where the request named it. An unknown one is a 404 in the path, but an
/// invalid parameter in the query.
pub enum OfPipeline {
    Path(String),
    Parameter(String),
}

impl OfPipeline {
    fn key(&self) -> &str {
        let (OfPipeline::Path(key) | OfPipeline::Parameter(key)) = self;
        key
    }

    fn missing(&self) -> AppError {
        match self {
            OfPipeline::Path(_) => AppError::not_found("pipeline"),
            OfPipeline::Parameter(_) => {
                AppError::invalid_parameter("pipeline", "must be the id or the slug of a pipeline")
            }
        }
    }
}

impl App {
    pub async fn list_deployments(
        &self,
        who: &Authorized<permit::DeploymentsRead>,
        pipeline: Option<OfPipeline>,
        mut filter: DeploymentFilter,
        from: From,
        limit: i64,
        with_total: bool,
    ) -> Result<Page<wire::Deployment>, AppError> {
        let slice = self.read(who, move |db| {
            if let Some(named) = pipeline {
                let found = pipeline::find(db, named.key())?.ok_or_else(|| named.missing())?;
                filter.pipeline = Some(found.id);
            }
            let found = deployment_list::list(db, &filter, &from, limit, with_total)?;
            let items = found.items.iter().map(|it| listed(db, it)).collect::<Result<_, AppError>>()?;
            Ok(berth_store::pagination::Slice { items, total: found.total, has_more: found.has_more })
        });
        let slice = slice.await?;
        Ok(Page::of(&slice, |it: &wire::Deployment| it.id.clone(), wire::Deployment::clone))
    }

    pub async fn view_deployment(
        &self,
        who: &Authorized<permit::DeploymentsRead>,
        id: String,
    ) -> Result<Answer<wire::Deployment>, AppError> {
        let (plans, labels) = (self.services.engine.run_cache().clone(), self.config.runner_labels.clone());
        self.read(who, move |db| {
            let found = find(db, &id)?;
            shown::in_full(db, &plans, &found, labels.as_deref())
        })
        .await
    }
}

/// Parses a deployment id from a URL. An invalid id is a 404.
fn parse(id: &str) -> Result<DeploymentId, AppError> {
    id.parse().map_err(|_| AppError::not_found("deployment"))
}

fn find(db: &mut impl Read, id: &str) -> Result<Deployment, AppError> {
    deployment::by_id(db, parse(id)?)?.ok_or_else(|| AppError::not_found("deployment"))
}

fn listed(db: &mut impl Read, it: &Deployment) -> Result<wire::Deployment, AppError> {
    Ok(match &it.target {
        DeploymentTarget::Environment(target) => shown::head(it, environment::by_id(db, target.environment)?.as_ref()),
        DeploymentTarget::Stages(_) => {
            let stages = run::stages(db, it.id)?;
            wire::Deployment { stages: stages.iter().map(shown::stage).collect(), ..shown::head(it, None) }
        }
    })
}

pub(super) fn location(org: OrgId, id: DeploymentId) -> String {
    format!("/api/v1/organizations/{org}/deployments/{id}")
}

/// The response to the request that created the deployment.
pub(super) fn answer(it: &EnvironmentDeployment, lock: &Lock) -> Answer<wire::Deployment> {
    let answer = Answer::ok(shown(it, Some(lock))).at_version(lock.environment.version);
    if lock.is_paused && !it.status.is_final() { answer.varying_by("stopped") } else { answer }
}

/// The unfinished deployments of a session, newest first.
pub(super) fn of_lock(lock: &Lock, session: SessionId) -> Vec<wire::Deployment> {
    let ours = lock.deployments.iter().filter(|it| it.target.purpose == DeploymentPurpose::Session(session));
    ours.rev().map(|it| shown(it, Some(lock))).collect()
}

/// Converts a deployment into the form used in lists, without steps.
pub(super) fn shown(it: &EnvironmentDeployment, lock: Option<&Lock>) -> wire::Deployment {
    shown::head(&Deployment::from(it.clone()), lock)
}

/// The full response after a change of a deployment.
fn changed(
    db: &mut impl Read,
    plans: &RunCache,
    id: DeploymentId,
    labels: Option<&[String]>,
) -> Result<Answer<wire::Deployment>, AppError> {
    let found = deployment::by_id(db, id)?.ok_or_else(|| AppError::not_found("deployment"))?;
    shown::in_full(db, plans, &found, labels)
}
