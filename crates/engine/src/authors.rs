//! Authors: who wrote what a deployment brings into a stage. They are read from the repository outside of any
//! transaction, before people are asked, and again when the stage has got something else since.

use berth_core::id::{DeploymentId, OrgId, RepositoryId};
use berth_core::rollout::Rollout;
use berth_core::run::{Source, StageKind, StageStatus};
use berth_store::query::deployed;
use berth_store::records::{rollout as rollouts, stage as stages};
use berth_store::tables::{change_authors, plan};
use berth_store::{Context, Read};

use super::whole::{Head, Whole};
use crate::error::EngineError;
use crate::git::Sha;
use crate::services::Services;

/// Commits whose authors are to be read.
pub struct Change {
    deployment: DeploymentId,
    stage: String,
    repository: RepositoryId,
    /// What is there now; empty: nothing, or nothing of this repository.
    base: String,
    head: String,
}

/// What is to be read before people are asked about this stage. `None`: nothing, or it was read.
pub fn unread(db: &mut impl Read, whole: &Whole, stage: usize) -> Result<Option<Change>, EngineError> {
    let Some(source) = &whole.plan.source else { return Ok(None) };
    if !whole.plan.stages[stage].may_bar_authors() || whole.head.passes_gates() {
        return Ok(None);
    }
    if let Head::Stages { rollout, .. } = &whole.head
        && rollout.trigger.takes_back().is_some()
    {
        return Ok(None);
    }
    let (deployment, name) = (whole.run.deployment, &whole.run.stages[stage].name);
    let read = change_authors::base(db, deployment, name)?;
    // Nothing else comes into a stage that was entered.
    if read.is_some() && whole.run.stages[stage].status != StageStatus::Queued {
        return Ok(None);
    }
    let base = base(db, whole, stage, source)?.unwrap_or_default();
    if read.as_ref() == Some(&base) {
        return Ok(None);
    }
    let (repository, head) = (source.repository, source.commit.clone());
    Ok(Some(Change { deployment, stage: name.clone(), repository, base, head }))
}

/// The commit that a stage or an environment has. A build is for all stages: there it is what the last one has.
fn base(
    db: &mut impl Read,
    whole: &Whole,
    stage: usize,
    source: &Source,
) -> Result<Option<String>, EngineError> {
    match &whole.head {
        Head::Stages { rollout, .. } => {
            let planned = match whole.plan.stages[stage].kind {
                StageKind::Build => whole.plan.stages.last(),
                StageKind::Stage | StageKind::Environment => whole.plan.stages.get(stage),
            };
            let Some(planned) = planned else { return Ok(None) };
            let Some((current, _)) = stages::by_name(db, rollout.pipeline, &planned.name)?.current else {
                return Ok(None);
            };
            Ok(rollouts::by_id(db, current)?.and_then(|it: Rollout| it.resolved_commit))
        }
        Head::Environment { deployment, .. } => {
            let Some(current) = deployed::in_environment(db, deployment.environment)? else {
                return Ok(None);
            };
            let planned = plan::by_id(db, current.deployment)?.and_then(|plan| plan.source);
            Ok(planned.filter(|it| it.repository == source.repository).map(|it| it.commit))
        }
    }
}

/// Reads and keeps them. False: the repository cannot be read now, and people are not asked yet.
pub async fn read(services: &Services, org: OrgId, change: Change) -> Result<bool, EngineError> {
    let Change { deployment, stage, repository, base, head } = change;
    let (mirror, since) = (services.git.mirror(org, repository), Sha::parse(&base));
    let Some(until) = Sha::parse(&head) else {
        return Err(EngineError::bug("a commit without a whole hash"));
    };
    let authors = match services.git.run(org, move || mirror.authors(since.as_ref(), &until)).await? {
        Ok(authors) => authors,
        Err(error) => {
            tracing::warn!(%error, %deployment, %repository, "authors of a change could not be read");
            return Ok(false);
        }
    };
    let done = services.store.transact(Context::system(Some(org)), move |tx| {
        Ok::<_, EngineError>(change_authors::put(tx, deployment, &stage, &base, &authors)?)
    });
    done.await?;
    Ok(true)
}
