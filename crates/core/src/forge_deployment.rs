//! Deployments of stages and environments as the forge's own deployments, where it has them.

use crate::forge::outbox::ForgeWrite;
use crate::forge::progress::{DeploymentProgress, StageProgress};
use crate::id::{DeploymentId, RepositoryId};
use crate::time::Timestamp;

/// Description of a deployment that is not what is deployed any more.
const REPLACED: &str = "no longer deployed";

/// A deployment of one stage or environment, and how far it was written to the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeDeploymentRecord {
    pub repository: RepositoryId,
    pub deployment: DeploymentId,
    /// The environment's name on the forge. It names the pipeline if the repository has several.
    pub environment: String,
    /// The full hash.
    pub commit: String,
    /// Whether the environment exists only for a time, like that of a pull request.
    pub is_transient: bool,
    pub progress: DeploymentProgress,
    pub description: String,
    /// The deployment's id on the forge. `None` until it was created there.
    pub forge_id: Option<String>,
    pub write: ForgeWrite,
}

/// What identifies a deployment on a forge.
#[derive(Debug, Clone, Copy)]
pub struct ForgeDeploymentKey<'a> {
    pub repository: RepositoryId,
    pub deployment: DeploymentId,
    pub environment: &'a str,
    pub commit: &'a str,
    pub is_transient: bool,
}

impl ForgeDeploymentRecord {
    /// Returns the record after a deployment's progress is seen. `None` if nothing changes. A deployment that has not
    /// reached the stage, or ended before it did, is not shown.
    pub fn apply(
        current: Option<&Self>,
        key: ForgeDeploymentKey<'_>,
        wanted: &StageProgress,
        now: Timestamp,
    ) -> Option<Self> {
        use DeploymentProgress::{Error, Inactive, Planned, Success};
        let is_hidden = match current {
            None => matches!(wanted.progress, Planned | Inactive | Error),
            Some(current) => {
                let is_same =
                    current.progress == wanted.progress && current.description == wanted.description;
                let is_replaced = current.progress == Inactive && wanted.progress == Success;
                is_same || is_replaced || wanted.progress == Planned
            }
        };
        if is_hidden {
            return None;
        }
        let ForgeDeploymentKey { repository, deployment, environment, commit, is_transient } = key;
        Some(Self {
            repository,
            deployment,
            environment: environment.to_owned(),
            commit: commit.to_owned(),
            is_transient,
            progress: wanted.progress,
            description: wanted.description.to_owned(),
            forge_id: current.and_then(|it| it.forge_id.clone()),
            write: ForgeWrite::after_change(current.map(|it| &it.write), now),
        })
    }

    /// Returns the record of a deployment that another one has replaced, or whose session has ended.
    #[must_use]
    pub fn deactivate(self, now: Timestamp) -> Self {
        let write = ForgeWrite::after_change(Some(&self.write), now);
        let (progress, description) = (DeploymentProgress::Inactive, REPLACED.to_owned());
        Self { progress, description, write, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(
        current: Option<&ForgeDeploymentRecord>,
        progress: DeploymentProgress,
    ) -> Option<ForgeDeploymentRecord> {
        let at = Timestamp::from_micros(1);
        let key = ForgeDeploymentKey {
            repository: RepositoryId::from_parts(at, [0; 10]),
            deployment: DeploymentId::from_parts(at, [0; 10]),
            environment: "qa-1",
            commit: "4d6d0ebe",
            is_transient: true,
        };
        let wanted = StageProgress { name: "qa-1".into(), progress, description: progress.as_str() };
        ForgeDeploymentRecord::apply(current, key, &wanted, at)
    }

    #[test]
    fn deployment_is_shown_from_the_moment_it_reaches_the_stage() {
        use DeploymentProgress::{Error, Failure, InProgress, Inactive, Planned, Queued, Success};
        for hidden in [Planned, Inactive, Error] {
            assert_eq!(apply(None, hidden), None, "{hidden:?}");
        }
        for shown in [Queued, InProgress, Success, Failure] {
            assert!(apply(None, shown).is_some(), "{shown:?}");
        }
        let queued = ForgeDeploymentRecord { forge_id: Some("7".into()), ..apply(None, Queued).unwrap() };
        assert_eq!(apply(Some(&queued), Queued), None, "it is the same");
        let cancelled = apply(Some(&queued), Error).unwrap();
        assert_eq!((cancelled.write.version, cancelled.forge_id.as_deref()), (2, Some("7")));
    }

    #[test]
    fn replaced_deployment_stays_inactive() {
        let done = apply(None, DeploymentProgress::Success).unwrap();
        let replaced = done.deactivate(Timestamp::from_micros(2));
        assert_eq!((replaced.progress, replaced.write.version), (DeploymentProgress::Inactive, 2));
        assert_eq!(apply(Some(&replaced), DeploymentProgress::Success), None);
        assert!(apply(Some(&replaced), DeploymentProgress::InProgress).is_some(), "a stage is retried");
    }
}
