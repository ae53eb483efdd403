//! Deployments: start, list, view, cancel, retry, roll back, resolve.

mod blockers;
mod operate;
mod response;
mod retry;
mod rollback;

use berth_api::deployment as wire;
use berth_core::access::{AccessTarget, Action, permit};
use berth_core::deployment::{Deployment, DeploymentPurpose, DeploymentTarget, EnvironmentDeployment};
use berth_core::environment::Lock;
use berth_core::id::{DeploymentId, OrgId, SessionId};
use berth_core::name::Slug;
use berth_store::StoreRead;
use berth_store::pagination::PageStart;
use berth_store::tables::{deployment, deployment_list, run};

pub use berth_store::tables::deployment_list::DeploymentFilter;
use berth_store::tables::{environment, pipeline};

pub use operate::{NewDeployment, SoakEnd};
pub(super) use response::status_to_wire;
pub use rollback::NewRollback;

use super::commit_details::fill_deployments;
use super::pull_requests::find_link_of_deployment;
use super::resource_access::{may_read, require_readable, visible_page};
use super::{ApiResponse, App, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::config::AppConfig;
use crate::error::AppError;
use berth_engine::RunCache;

/// The id or slug of the pipeline whose deployments are listed, and where the request specified it. An unknown pipeline
/// is a 404 in the path, but an invalid parameter in the query.
pub enum PipelineSelector {
    Path(String),
    Parameter(String),
}

impl PipelineSelector {
    fn key(&self) -> &str {
        let (PipelineSelector::Path(key) | PipelineSelector::Parameter(key)) = self;
        key
    }

    fn missing(&self) -> AppError {
        match self {
            PipelineSelector::Path(_) => AppError::not_found("pipeline"),
            PipelineSelector::Parameter(_) => {
                AppError::invalid_parameter("pipeline", "must be the id or the slug of a pipeline")
            }
        }
    }
}

impl App {
    pub async fn list_deployments(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsRead>,
        pipeline: Option<PipelineSelector>,
        mut filter: DeploymentFilter,
        from: PageStart,
        limit: i64,
        with_total: bool,
    ) -> Result<ResponsePage<wire::WireDeployment>, AppError> {
        let (access, config) = (who.access().clone(), self.config.clone());
        let slice = self.read(who, move |db| {
            if let Some(named) = pipeline {
                let is_visible = |slug: &Slug| {
                    access.may(Action::PipelinesRead, &AccessTarget::Pipeline(slug.to_string()))
                };
                let found = pipeline::find(db, named.key())?.filter(|found| is_visible(&found.slug));
                filter.pipeline = Some(found.ok_or_else(|| named.missing())?.id);
            }
            let found = match access.may_everywhere(Action::DeploymentsRead) {
                true => deployment_list::list(db, &filter, &from, limit, with_total)?,
                false => visible_page(
                    db,
                    (&from, limit),
                    |db, start, rows| deployment_list::list(db, &filter, start, rows, false),
                    |it| it.id.to_string(),
                    |db, it| may_read(db, &access, Action::DeploymentsRead, it),
                )?,
            };
            let items = found.items.iter().map(|it| to_list_item(db, it));
            let mut items = items.collect::<Result<Vec<_>, AppError>>()?;
            fill_deployments(db, &config.forges, &mut items)?;
            Ok(berth_store::pagination::ListPage { items, total: found.total, has_more: found.has_more })
        });
        let slice = slice.await?;
        Ok(ResponsePage::from_list_page(
            &slice,
            |it: &wire::WireDeployment| it.id.clone(),
            wire::WireDeployment::clone,
        ))
    }

    pub async fn view_deployment(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsRead>,
        id: String,
    ) -> Result<ApiResponse<wire::WireDeployment>, AppError> {
        let (plans, config) = (self.services.engine.run_cache().clone(), self.config.clone());
        let access = who.access().clone();
        self.read(who, move |db| {
            let found = find(db, &id)?;
            require_readable(db, &access, Action::DeploymentsRead, &found)?;
            response::full_response(db, &plans, &found, &config)
        })
        .await
    }
}

/// Parses a deployment id from a URL. An invalid id is a 404.
fn parse_id(id: &str) -> Result<DeploymentId, AppError> {
    id.parse().map_err(|_| AppError::not_found("deployment"))
}

fn find(db: &mut impl StoreRead, id: &str) -> Result<Deployment, AppError> {
    deployment::by_id(db, parse_id(id)?)?.ok_or_else(|| AppError::not_found("deployment"))
}

fn to_list_item(db: &mut impl StoreRead, it: &Deployment) -> Result<wire::WireDeployment, AppError> {
    Ok(match &it.target {
        DeploymentTarget::Environment(target) => {
            let pull_request = find_link_of_deployment(db, it)?;
            let lock = environment::by_id(db, target.environment)?;
            wire::WireDeployment { pull_request, ..response::deployment_summary(it, lock.as_ref()) }
        }
        DeploymentTarget::Stages(_) => {
            let stages = run::list_stages(db, it.id)?;
            wire::WireDeployment {
                stages: stages.iter().map(response::stage_to_wire).collect(),
                ..response::deployment_summary(it, None)
            }
        }
    })
}

pub(super) fn location(org: OrgId, id: DeploymentId) -> String {
    format!("/api/v1/organizations/{org}/deployments/{id}")
}

/// Builds the response to the request that created the deployment.
pub(super) fn build_response(it: &EnvironmentDeployment, lock: &Lock) -> ApiResponse<wire::WireDeployment> {
    let answer = ApiResponse::ok(to_summary(it, Some(lock))).with_version(lock.environment.version);
    if lock.is_paused && !it.status.is_final() { answer.with_variant("stopped") } else { answer }
}

/// Lists the unfinished deployments of a session, newest first.
pub(super) fn list_of_session(lock: &Lock, session: SessionId) -> Vec<wire::WireDeployment> {
    let ours = lock.deployments.iter().filter(|it| it.target.purpose == DeploymentPurpose::Session(session));
    ours.rev().map(|it| to_summary(it, Some(lock))).collect()
}

/// Converts a deployment into the form used in lists, without steps.
pub(super) fn to_summary(it: &EnvironmentDeployment, lock: Option<&Lock>) -> wire::WireDeployment {
    response::deployment_summary(&Deployment::from(it.clone()), lock)
}

/// Loads the full response after a deployment was changed.
fn load_full_response(
    db: &mut impl StoreRead,
    plans: &RunCache,
    id: DeploymentId,
    config: &AppConfig,
) -> Result<ApiResponse<wire::WireDeployment>, AppError> {
    let found = deployment::by_id(db, id)?.ok_or_else(|| AppError::not_found("deployment"))?;
    response::full_response(db, plans, &found, config)
}
