//! Stores which deployments the forge should show as its own.

use berth_core::deployment::{Deployment, DeploymentPurpose, DeploymentTarget};
use berth_core::forge::progress::{DeploymentProgress, StageProgress};
use berth_core::forge_deployment::{ForgeDeploymentKey, ForgeDeploymentRecord};
use berth_core::id::{EnvironmentId, RepositoryId};
use berth_core::name::Slug;
use berth_core::pipeline::state::Pipeline;
use berth_core::repository::Repository;
use berth_store::tables::{deployment, environment, forge_deployment, pipeline};
use berth_store::{StoreRead, Tx};

use super::fan_out::find_status_repository;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::integrations::forges::ForgeRepository;
use crate::limits::PIPELINES_PER_REPOSITORY_MAX;

/// A pipeline whose deployments are shown on a forge.
pub(super) struct DeploymentScope {
    repository: RepositoryId,
    /// The pipeline, if the repository has several. Then it is part of the names of environments on the forge.
    pipeline: Option<Slug>,
}

impl DeploymentScope {
    /// Returns the scope of a pipeline. `None` if the repository's forge has no deployments.
    pub(super) fn load(
        db: &mut impl StoreRead,
        config: &AppConfig,
        repository: &Repository,
        of: &Pipeline,
    ) -> Result<Option<Self>, AppError> {
        let located = ForgeRepository::locate(&repository.url, &config.forges);
        if located.is_none_or(|(forge, _)| forge.deployments().is_none()) {
            return Ok(None);
        }
        let limit = i64::try_from(PIPELINES_PER_REPOSITORY_MAX).unwrap_or(i64::MAX);
        let all = pipeline::list_of_repository(db, repository.id, limit)?;
        let is_single = all.iter().all(|it| it.id == of.id || it.retired_at.is_some());
        Ok(Some(Self { repository: repository.id, pipeline: (!is_single).then(|| of.slug.clone()) }))
    }

    /// Returns the name on the forge of a stage or environment.
    fn environment(&self, name: &str) -> String {
        self.pipeline.as_ref().map_or_else(|| name.to_owned(), |pipeline| format!("{pipeline}/{name}"))
    }

    /// Stores the deployment if it has changed. A successful one replaces what was deployed before.
    pub(super) fn store(
        &self,
        tx: &mut Tx<'_>,
        of: &Deployment,
        commit: &str,
        wanted: &StageProgress,
    ) -> Result<(), AppError> {
        let environment = self.environment(&wanted.name);
        let current = forge_deployment::by_key(tx, self.repository, of.id, &environment)?;
        let key = ForgeDeploymentKey {
            repository: self.repository,
            deployment: of.id,
            environment: &environment,
            commit,
            is_transient: matches!(of.target, DeploymentTarget::Environment(_)),
        };
        let now = tx.now();
        let Some(changed) = ForgeDeploymentRecord::apply(current.as_ref(), key, wanted, now) else {
            return Ok(());
        };
        forge_deployment::put(tx, &changed)?;
        if changed.progress == DeploymentProgress::Success {
            for earlier in forge_deployment::list_active(tx, self.repository, &environment)? {
                if earlier.deployment < of.id {
                    forge_deployment::put(tx, &earlier.deactivate(now))?;
                }
            }
        }
        Ok(())
    }
}

/// Marks what ended sessions have deployed in an environment as not deployed any more.
pub(super) fn deactivate_released(
    tx: &mut Tx<'_>,
    config: &AppConfig,
    id: EnvironmentId,
) -> Result<(), AppError> {
    let Some(lock) = environment::by_id(tx, id)? else { return Ok(()) };
    let Some(pipeline) = pipeline::by_id(tx, lock.environment.pipeline)? else { return Ok(()) };
    let Some(repository) = find_status_repository(tx, config, &pipeline)? else { return Ok(()) };
    let Some(scope) = DeploymentScope::load(tx, config, &repository, &pipeline)? else { return Ok(()) };
    let (now, active) = (tx.now(), lock.session.as_ref().map(|session| session.id));
    let name = scope.environment(lock.environment.name.as_str());
    for deployed in forge_deployment::list_active(tx, repository.id, &name)? {
        let found = deployment::by_id(tx, deployed.deployment)?;
        let is_in_use = found.is_some_and(|it| match &it.target {
            DeploymentTarget::Environment(target) => match target.purpose {
                DeploymentPurpose::Session(session) => Some(session) == active,
                DeploymentPurpose::Reset => true,
            },
            DeploymentTarget::Stages(_) => true,
        });
        if !is_in_use {
            forge_deployment::put(tx, &deployed.deactivate(now))?;
        }
    }
    Ok(())
}
