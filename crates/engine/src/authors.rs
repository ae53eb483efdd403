//! Finds the authors of the commits that a deployment brings into a stage. Approval rules can bar these authors from
//! approving.
//!
//! The authors are read from the repository outside of any transaction, before approval is requested. They are read
//! again if another commit has been deployed to the stage in the meantime.

use berth_core::deployment::StagesDeployment;
use berth_core::deployment::run::{SourceCommit, StageRunStatus, StageType};
use berth_core::id::{DeploymentId, OrgId, RepositoryId};
use berth_store::tables::{change_authors, current_deployment, deployment, plan, stage};
use berth_store::{StoreRead, TxContext};

use super::aggregate::DeploymentAggregate;
use super::loaded::LoadedDeployment;
use crate::error::EngineError;
use crate::git::CommitHash;
use crate::services::Services;

/// A range of commits whose authors have to be read.
pub struct CommitRange {
    deployment: DeploymentId,
    stage: String,
    repository: RepositoryId,
    /// The commit that is currently deployed. Empty if nothing is deployed, or nothing from this repository.
    base: String,
    head: String,
}

/// Returns the range of commits whose authors have to be read before approval of this stage can be requested. Returns
/// `None` if the rules do not need the authors, or they have been read already.
pub fn unread_range(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    stage: usize,
) -> Result<Option<CommitRange>, EngineError> {
    let Some(source) = &aggregate.plan.source else { return Ok(None) };
    if !aggregate.plan.stages[stage].may_bar_authors() || aggregate.deployment.has_bypass() {
        return Ok(None);
    }
    if let LoadedDeployment::Stages { deployment, .. } = &aggregate.deployment
        && deployment.target.trigger.rollback_of().is_some()
    {
        return Ok(None);
    }
    let (deployment, name) = (aggregate.run.deployment, &aggregate.run.stages[stage].name);
    let read = change_authors::load_base(db, deployment, name)?;
    // The base commit no longer changes once the deployment has entered the stage.
    if read.is_some() && aggregate.run.stages[stage].status != StageRunStatus::Queued {
        return Ok(None);
    }
    let base = base(db, aggregate, stage, source)?.unwrap_or_default();
    if read.as_ref() == Some(&base) {
        return Ok(None);
    }
    let (repository, head) = (source.repository, source.commit.clone());
    Ok(Some(CommitRange { deployment, stage: name.clone(), repository, base, head }))
}

/// Returns the commit that is currently deployed to the stage or environment. For the build stage, which all stages
/// share, returns the commit that is deployed to the last stage.
fn base(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    stage: usize,
    source: &SourceCommit,
) -> Result<Option<String>, EngineError> {
    match &aggregate.deployment {
        LoadedDeployment::Stages { deployment, .. } => {
            let planned = match aggregate.plan.stages[stage].kind {
                StageType::Build => aggregate.plan.stages.last(),
                StageType::Stage | StageType::Environment => aggregate.plan.stages.get(stage),
            };
            let Some(planned) = planned else { return Ok(None) };
            let Some((current, _)) = stage::by_name(db, deployment.pipeline, &planned.name)?.current else {
                return Ok(None);
            };
            Ok(deployment::stages_by_id(db, current)?.and_then(|it: StagesDeployment| it.resolved_commit))
        }
        LoadedDeployment::Environment { deployment, .. } => {
            let Some(current) = current_deployment::find_of_environment(db, deployment.target.environment)?
            else {
                return Ok(None);
            };
            let planned = plan::by_id(db, current.deployment)?.and_then(|plan| plan.source);
            Ok(planned.filter(|it| it.repository == source.repository).map(|it| it.commit))
        }
    }
}

/// Reads the authors from the repository and stores them. Returns false if the repository cannot be read now; the
/// caller then requests approval in a later pass.
pub async fn read_authors(services: &Services, org: OrgId, change: CommitRange) -> Result<bool, EngineError> {
    let CommitRange { deployment, stage, repository, base, head } = change;
    let (mirror, since) = (services.git.mirror(org, repository), CommitHash::parse(&base));
    let Some(until) = CommitHash::parse(&head) else {
        return Err(EngineError::bug("a commit without a whole hash"));
    };
    let authors = match services.git.run(org, move || mirror.authors(since.as_ref(), &until)).await? {
        Ok(authors) => authors,
        Err(error) => {
            tracing::warn!(%error, %deployment, %repository, "reading the authors of a change failed");
            return Ok(false);
        }
    };
    let done = services.store.transact(TxContext::system(Some(org)), move |tx| {
        Ok::<_, EngineError>(change_authors::put(tx, deployment, &stage, &base, &authors)?)
    });
    done.await?;
    Ok(true)
}
