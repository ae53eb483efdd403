//! Adds commits to responses: title, author, time, and links to the forge.
//!
//! Responses are built with the ids of deployments first. Then the commits of all of them are loaded in one statement.

use berth_api::approval::WireApproval;
use berth_api::commit::{CommitAuthor, WireCommit};
use berth_api::deployment::WireDeployment;
use berth_api::environment::WireEnvironment;
use berth_api::pipeline::{CurrentCommit, FailedDeployment};
use berth_core::id::{ApprovalId, DeploymentId, EnvironmentId};
use berth_store::StoreRead;
use berth_store::tables::commit::{self, CommitRecord, DeployedCommit};

use crate::error::AppError;
use crate::integrations::forges::{ForgeHost, ForgeRepository};

/// Converts a commit. `forges` are the configured hosts of forges.
pub(super) fn commit_to_wire(it: &DeployedCommit, forges: &[ForgeHost]) -> WireCommit {
    let CommitRecord { commit, title, author, authored_at, .. } = &it.record;
    WireCommit {
        commit_id: commit.clone(),
        title: title.clone(),
        author: CommitAuthor { name: author.clone() },
        authored_at: authored_at.to_string(),
        url: ForgeRepository::commit_page(&it.url, forges, commit),
    }
}

/// The URL of the forge's comparison of a commit with what was deployed before.
pub(super) fn compare_url(it: &DeployedCommit, base: Option<&str>, forges: &[ForgeHost]) -> Option<String> {
    let head = it.record.commit.as_str();
    ForgeRepository::compare_page(&it.url, forges, base.filter(|base| *base != head)?, head)
}

pub(super) fn fill_deployments<'a>(
    db: &mut impl StoreRead,
    forges: &[ForgeHost],
    bodies: impl IntoIterator<Item = &'a mut WireDeployment>,
) -> Result<(), AppError> {
    let mut bodies: Vec<_> = bodies.into_iter().collect();
    let ids: Vec<_> = bodies.iter().filter_map(|it| it.id.parse::<DeploymentId>().ok()).collect();
    let found = commit::list_with_bases(db, &ids)?;
    for body in &mut bodies {
        let known = body.id.parse().ok().and_then(|id: DeploymentId| found.get(&id));
        body.commit = known.map(|it| commit_to_wire(it, forges));
        body.compare_url = known.and_then(|it| compare_url(it, it.base.as_deref(), forges));
    }
    Ok(())
}

pub(super) fn fill_approvals(
    db: &mut impl StoreRead,
    forges: &[ForgeHost],
    bodies: &mut [WireApproval],
) -> Result<(), AppError> {
    let ids: Vec<_> = bodies.iter().filter_map(|it| it.deployment_id.parse::<DeploymentId>().ok()).collect();
    let found = commit::list_of_deployments(db, &ids)?;
    let ids: Vec<_> = bodies.iter().filter_map(|it| it.id.parse::<ApprovalId>().ok()).collect();
    let bases = commit::list_approval_bases(db, &ids)?;
    for body in bodies {
        let known = body.deployment_id.parse().ok().and_then(|id: DeploymentId| found.get(&id));
        let base = body.id.parse().ok().and_then(|id: ApprovalId| bases.get(&id));
        body.commit = known.map(|it| commit_to_wire(it, forges));
        let base = base.and_then(|it| it.commit.as_deref());
        body.compare_url = known.and_then(|it| compare_url(it, base, forges));
    }
    Ok(())
}

pub(super) fn fill_environments<'a>(
    db: &mut impl StoreRead,
    forges: &[ForgeHost],
    bodies: impl IntoIterator<Item = &'a mut WireEnvironment>,
) -> Result<(), AppError> {
    let mut bodies: Vec<_> = bodies.into_iter().filter(|it| it.deployed_commit_id.is_some()).collect();
    let ids: Vec<_> = bodies.iter().filter_map(|it| it.id.parse::<EnvironmentId>().ok()).collect();
    let found = commit::list_of_environments(db, &ids)?;
    for body in &mut bodies {
        let known = body.id.parse().ok().and_then(|id: EnvironmentId| found.get(&id));
        body.commit = known.map(|it| commit_to_wire(it, forges));
    }
    Ok(())
}

/// A place in a response that shows the commit of a deployment.
pub(super) struct CommitSlot<'a> {
    deployment: Option<DeploymentId>,
    commit: &'a mut Option<WireCommit>,
}

impl<'a> From<&'a mut CurrentCommit> for CommitSlot<'a> {
    fn from(it: &'a mut CurrentCommit) -> Self {
        Self { deployment: it.deployment_id.parse().ok(), commit: &mut it.commit }
    }
}

impl<'a> From<&'a mut FailedDeployment> for CommitSlot<'a> {
    fn from(it: &'a mut FailedDeployment) -> Self {
        Self { deployment: it.deployment_id.parse().ok(), commit: &mut it.commit }
    }
}

pub(super) fn fill_slots(
    db: &mut impl StoreRead,
    forges: &[ForgeHost],
    slots: Vec<CommitSlot<'_>>,
) -> Result<(), AppError> {
    let ids: Vec<_> = slots.iter().filter_map(|it| it.deployment).collect();
    let found = commit::list_of_deployments(db, &ids)?;
    for slot in slots {
        let known = slot.deployment.and_then(|id| found.get(&id));
        *slot.commit = known.map(|it| commit_to_wire(it, forges));
    }
    Ok(())
}
