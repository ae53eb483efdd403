//! Commit statuses on forges: the status that a commit should have in one context.

use crate::forge::outbox::ForgeWrite;
use crate::forge::progress::StageProgress;
use crate::id::{DeploymentId, RepositoryId};
use crate::time::Timestamp;

/// The state that a commit status shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitState {
    Pending,
    Success,
    Failure,
    /// Cancelled, or no outcome.
    Error,
}

impl CommitState {
    pub const ALL: &'static [CommitState] =
        &[CommitState::Pending, CommitState::Success, CommitState::Failure, CommitState::Error];

    /// The name that GitHub and Gitea use.
    pub const fn as_str(self) -> &'static str {
        match self {
            CommitState::Pending => "pending",
            CommitState::Success => "success",
            CommitState::Failure => "failure",
            CommitState::Error => "error",
        }
    }
}

/// The status of a commit in one context, and how far it was written to the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatusRecord {
    pub repository: RepositoryId,
    /// The full hash.
    pub commit: String,
    /// For example `berth/shop/production`.
    pub context: String,
    /// The newest deployment of the commit in this context.
    pub deployment: DeploymentId,
    pub state: CommitState,
    pub description: String,
    pub write: ForgeWrite,
}

impl CommitStatusRecord {
    /// Returns the record after a deployment's status is seen. `None` if nothing changes, for example because a newer
    /// deployment determines the status.
    pub fn apply(
        current: Option<&Self>,
        key: (RepositoryId, &str, &str),
        deployment: DeploymentId,
        wanted: &StageProgress,
        now: Timestamp,
    ) -> Option<Self> {
        let state = wanted.progress.commit_state();
        if let Some(current) = current {
            let is_same = current.deployment == deployment
                && current.state == state
                && current.description == wanted.description;
            if is_same || current.deployment > deployment {
                return None;
            }
        }
        let (repository, commit, context) = key;
        Some(Self {
            repository,
            commit: commit.to_owned(),
            context: context.to_owned(),
            deployment,
            state,
            description: wanted.description.to_owned(),
            write: ForgeWrite::after_change(current.map(|it| &it.write), now),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::progress::DeploymentProgress;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn deployment_id(number: i64) -> DeploymentId {
        DeploymentId::from_parts(at(number), [0; 10])
    }

    fn apply(
        current: Option<&CommitStatusRecord>,
        deployment: i64,
        progress: DeploymentProgress,
    ) -> Option<CommitStatusRecord> {
        let repository = RepositoryId::from_parts(at(1), [0; 10]);
        let wanted = StageProgress { name: "qa-1".into(), progress, description: "x" };
        let key = (repository, "4d6d0ebe", "berth/shop/qa-1");
        CommitStatusRecord::apply(current, key, deployment_id(deployment), &wanted, at(10))
    }

    #[test]
    fn status_of_the_newest_deployment_is_wanted() {
        let first = apply(None, 2, DeploymentProgress::Queued).unwrap();
        assert_eq!((first.state, first.write.version), (CommitState::Pending, 1));
        assert_eq!(apply(Some(&first), 2, DeploymentProgress::InProgress), None, "it shows the same");
        assert_eq!(apply(Some(&first), 1, DeploymentProgress::Failure), None, "it is older");
        let second = apply(Some(&first), 3, DeploymentProgress::Queued).unwrap();
        assert_eq!((second.write.version, second.deployment), (2, deployment_id(3)));
    }
}
