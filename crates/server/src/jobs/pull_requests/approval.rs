//! Approves a fork's commit for deployment.

use berth_core::access::{AccessTarget, Action, EffectiveAccess};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::forge::{PullRequest, PullRequestStatus};
use berth_core::id::UserId;
use berth_core::repository::Repository;
use berth_store::Tx;
use berth_store::tables::{forge_account, member, pipeline, pull_request};

use super::forge_host;
use super::operate::list_wanted;
use crate::error::AppError;

/// Maximum number of pipelines read per repository.
const PIPELINES_MAX: i64 = 2_000;

/// Why a commit was not approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApprovalRefusal {
    /// The approver lacks a permission.
    NotAllowed(String),
    /// The pull request is in a state that allows no approval, such as a head that moved.
    Conflict(String),
}

impl ApprovalRefusal {
    pub(crate) fn into_text(self) -> String {
        match self {
            ApprovalRefusal::NotAllowed(text) | ApprovalRefusal::Conflict(text) => text,
        }
    }
}

/// The member who approves, with the access at this moment.
pub(crate) struct Approver<'a> {
    pub(crate) user: UserId,
    pub(crate) access: &'a EffectiveAccess,
}

/// Approves exactly this commit of a fork. The approver must be allowed to claim all environments that the pull request
/// could use, must be a person, and must not be its author.
pub(crate) fn approve(
    tx: &mut Tx<'_>,
    repository: &Repository,
    found: PullRequest,
    approver: &Approver<'_>,
    commit: &str,
) -> Result<Result<PullRequest, ApprovalRefusal>, AppError> {
    use ApprovalRefusal::{Conflict, NotAllowed};
    let mut targets = Vec::new();
    for pipeline in pipeline::list_of_repository(tx, repository.id, PIPELINES_MAX)? {
        for lock in list_wanted(tx, &found, &pipeline)? {
            let (pipeline, environment) = (pipeline.slug.to_string(), lock.environment.name.to_string());
            targets.push(AccessTarget::Environment { pipeline, environment });
        }
    }
    // Checked first, so that a caller without permission learns nothing about the pull request.
    let is_refused = |target: &&AccessTarget| !approver.access.may(Action::EnvironmentsClaim, target);
    if let Some(refused) = targets.iter().find(is_refused) {
        return Ok(Err(NotAllowed(format!("this requires the permission to claim {refused}"))));
    }
    if targets.is_empty() && !approver.access.may_everywhere(Action::EnvironmentsClaim) {
        return Ok(Err(NotAllowed("this requires the permission to claim environments".into())));
    }
    let author = forge_account::find_member(tx, &forge_host(repository), &found.seen.author.id)?;
    if author == Some(approver.user) {
        return Ok(Err(NotAllowed("the author cannot approve their own pull request".into())));
    }
    if member::find_view(tx, approver.user)?.is_none_or(|member| member.is_service) {
        return Ok(Err(NotAllowed("only people can approve the commit of a fork".into())));
    }
    if !found.seen.is_fork {
        return Ok(Err(Conflict("it is not from a fork and needs no approval".into())));
    }
    if found.seen.status != PullRequestStatus::Open {
        return Ok(Err(Conflict("the pull request is not open".into())));
    }
    if found.seen.head != commit {
        let text = format!("the head is now {}; review it and approve that commit", found.seen.head);
        return Ok(Err(Conflict(text)));
    }
    let name = format!("#{}", found.number);
    let subject = EventSubject::new("pull_request", found.number, Some(&name));
    let event = NewEvent::new(EventKind::PullRequestApproved, subject).with_subject(EventSubject::new(
        "repository",
        repository.id,
        None,
    ));
    tx.record(event.with("commitId", commit))?;
    let approved = PullRequest {
        approved_head: Some(commit.to_owned()),
        approved_by: Some(approver.user),
        due_at: Some(tx.now()),
        ..found
    };
    pull_request::put(tx, &approved)?;
    Ok(Ok(approved))
}
