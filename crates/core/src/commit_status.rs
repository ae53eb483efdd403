//! Commit statuses on forges: which ones a deployment wants, and when they are written.
//!
//! A record holds the status that a commit should have. Its version rises with every change; the forge has the status
//! if that version was written. So only the newest state is written, however often it changed.

use crate::deployment::run::{StageRun, StageRunStatus};
use crate::deployment::{Deployment, DeploymentPurpose, DeploymentState, DeploymentTarget};
use crate::id::{DeploymentId, RepositoryId};
use crate::time::Timestamp;

/// How long a status is retried before Berth gives up.
pub const GIVE_UP_AFTER_S: i64 = 24 * 3_600;
/// Pause after the first failure; it doubles with each further one.
pub const RETRY_S_MIN: i64 = 2;
pub const RETRY_S_MAX: i64 = 600;
/// Maximum length of an error that is stored.
const ERROR_CHARS_MAX: usize = 500;

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

/// The status that a deployment wants for one stage or environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedStatus {
    /// Name of the stage or environment.
    pub name: String,
    pub state: CommitState,
    pub description: &'static str,
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
    /// Rises with every change of the status.
    pub version: i64,
    /// The last version that was written to the forge; 0 if there is none.
    pub written_version: i64,
    /// When the status last changed.
    pub wanted_at: Timestamp,
    /// Consecutive failed attempts to write it.
    pub failures: i64,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// When to write it. `None` if it was written, or Berth has given up.
    pub due_at: Option<Timestamp>,
}

/// The result of an attempt to write a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteResult {
    Written,
    /// Failed; try again, at the earliest after this number of seconds.
    Retry {
        error: String,
        wait_s: i64,
    },
    /// The repository is not on a known forge any more, or has no token.
    Impossible {
        error: String,
    },
}

impl CommitStatusRecord {
    /// Returns the record after a deployment's status is seen. `None` if nothing changes, for example because a newer
    /// deployment determines the status.
    pub fn apply(
        current: Option<Self>,
        key: (RepositoryId, &str, &str),
        deployment: DeploymentId,
        wanted: &WantedStatus,
        now: Timestamp,
    ) -> Option<Self> {
        let (version, written_version) =
            current.as_ref().map_or((0, 0), |it| (it.version, it.written_version));
        if let Some(current) = current {
            let is_same = current.deployment == deployment
                && current.state == wanted.state
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
            state: wanted.state,
            description: wanted.description.to_owned(),
            version: version + 1,
            written_version,
            wanted_at: now,
            failures: 0,
            error: None,
            due_at: Some(now),
        })
    }

    /// Returns the record after an attempt to write the version `sent`, which may be older than the record's.
    pub fn record_write(self, sent: i64, result: &WriteResult, now: Timestamp) -> Self {
        let shorten = |error: &str| Some(error.chars().take(ERROR_CHARS_MAX).collect());
        match result {
            WriteResult::Written => {
                let due_at = self.due_at.filter(|_| self.version != sent);
                Self { written_version: sent, failures: 0, error: None, due_at, ..self }
            }
            WriteResult::Impossible { error } => Self { error: shorten(error), due_at: None, ..self },
            WriteResult::Retry { error, wait_s } => {
                let failures = self.failures + 1;
                let is_over = now.seconds_since(self.wanted_at) >= GIVE_UP_AFTER_S;
                let due_at = (!is_over).then(|| now.plus_seconds((*wait_s).max(retry_pause_s(failures))));
                Self { failures, error: shorten(error), due_at, ..self }
            }
        }
    }
}

/// The pause after this number of consecutive failures, in seconds.
pub fn retry_pause_s(failures: i64) -> i64 {
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(16);
    RETRY_S_MIN.saturating_mul(1 << doublings).min(RETRY_S_MAX)
}

/// Returns the full hash of the deployed commit, if it is known.
pub fn deployed_commit(deployment: &Deployment) -> Option<&str> {
    let is_full = |hash: &&str| [40, 64].contains(&hash.len());
    deployment.resolved_commit.as_deref().or_else(|| Some(deployment.commit.as_str()).filter(is_full))
}

/// Returns the statuses that a deployment wants: one for its environment, or one for each of its stages.
///
/// `stages` are those of its run, or empty as long as it has none; then `outline` names them. `waiting` names the stages
/// with a pending approval. A reset of an environment is not about its commit and has no status; a rollback has one for
/// its stage.
pub fn wanted_statuses(
    deployment: &Deployment,
    stages: &[StageRun],
    outline: &[String],
    waiting: &[String],
) -> Vec<WantedStatus> {
    let status = &deployment.status;
    let is_waiting = |name: &str| waiting.iter().any(|it| it == name);
    let of = |name: &str, (state, description)| WantedStatus { name: name.to_owned(), state, description };
    match &deployment.target {
        DeploymentTarget::Environment(target) => {
            let name = target.name.as_str();
            let is_reset = target.purpose == DeploymentPurpose::Reset;
            (!is_reset).then(|| of(name, deployment_status(status, is_waiting(name)))).into_iter().collect()
        }
        DeploymentTarget::Stages(target) => {
            let rolled_back = target.trigger.rollback_of().map(|(stage, _)| stage);
            let is_wanted = |name: &str| rolled_back.is_none_or(|stage| stage == name);
            if stages.is_empty() {
                let names = outline.iter().filter(|name| is_wanted(name));
                return names.map(|name| of(name, deployment_status(status, false))).collect();
            }
            let stages = stages.iter().filter(|stage| is_wanted(&stage.name));
            stages.map(|it| of(&it.name, stage_status(it, status, is_waiting(&it.name)))).collect()
        }
    }
}

fn deployment_status(status: &DeploymentState, is_waiting: bool) -> (CommitState, &'static str) {
    match status {
        DeploymentState::Succeeded => (CommitState::Success, "deployed"),
        DeploymentState::Failed(_) => (CommitState::Failure, "failed"),
        DeploymentState::Cancelled(_) => (CommitState::Error, "cancelled"),
        DeploymentState::Superseded { .. } => (CommitState::Error, "superseded by a newer deployment"),
        _ if is_waiting => (CommitState::Pending, "waiting for approval"),
        DeploymentState::Queued => (CommitState::Pending, "queued"),
        DeploymentState::Running => (CommitState::Pending, "deploying"),
        DeploymentState::Waiting => (CommitState::Pending, "waiting"),
        DeploymentState::Cancelling(_) => (CommitState::Pending, "cancelling"),
    }
}

fn stage_status(
    stage: &StageRun,
    deployment: &DeploymentState,
    is_waiting: bool,
) -> (CommitState, &'static str) {
    match stage.status {
        StageRunStatus::Succeeded => (CommitState::Success, "deployed"),
        StageRunStatus::Failed => (CommitState::Failure, "failed"),
        StageRunStatus::Cancelled => (CommitState::Error, "cancelled"),
        StageRunStatus::Skipped | StageRunStatus::Pending | StageRunStatus::Queued
            if matches!(deployment, DeploymentState::Failed(_)) =>
        {
            (CommitState::Error, "not deployed, because an earlier stage failed")
        }
        _ if deployment.is_final() => deployment_status(deployment, is_waiting),
        // The stage will not start, because an earlier one was cancelled or failed.
        StageRunStatus::Skipped => (CommitState::Error, "skipped"),
        _ if is_waiting => (CommitState::Pending, "waiting for approval"),
        StageRunStatus::Pending | StageRunStatus::Queued => (CommitState::Pending, "queued"),
        StageRunStatus::Running => (CommitState::Pending, "deploying"),
        StageRunStatus::Waiting => (CommitState::Pending, "waiting"),
        StageRunStatus::Cancelling => (CommitState::Pending, "cancelling"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * SECOND)
    }

    fn deployment_id(number: i64) -> DeploymentId {
        DeploymentId::from_parts(at(number), [0; 10])
    }

    fn apply(
        current: Option<CommitStatusRecord>,
        deployment: i64,
        state: CommitState,
        now: i64,
    ) -> Option<CommitStatusRecord> {
        let repository = RepositoryId::from_parts(at(1), [0; 10]);
        let wanted = WantedStatus { name: "qa-1".into(), state, description: "x" };
        let key = (repository, "4d6d0ebe", "berth/shop/qa-1");
        CommitStatusRecord::apply(current, key, deployment_id(deployment), &wanted, at(now))
    }

    #[test]
    fn status_of_the_newest_deployment_is_wanted() {
        let first = apply(None, 2, CommitState::Pending, 10).unwrap();
        assert_eq!((first.version, first.written_version, first.due_at), (1, 0, Some(at(10))));
        assert_eq!(apply(Some(first.clone()), 2, CommitState::Pending, 11), None, "it is the same");
        assert_eq!(apply(Some(first.clone()), 1, CommitState::Failure, 11), None, "it is older");
        let second = apply(Some(first), 3, CommitState::Pending, 12).unwrap();
        assert_eq!((second.version, second.deployment), (2, deployment_id(3)));
    }

    #[test]
    fn change_during_a_write_is_written_next() {
        let first = apply(None, 2, CommitState::Pending, 10).unwrap();
        let second = apply(Some(first), 2, CommitState::Success, 11).unwrap();
        let after = second.record_write(1, &WriteResult::Written, at(12));
        assert_eq!((after.written_version, after.due_at), (1, Some(at(11))), "the newer state is due");
        let done = after.record_write(2, &WriteResult::Written, at(13));
        assert_eq!((done.written_version, done.due_at), (2, None));
    }

    #[test]
    fn failed_write_is_retried_with_backoff_until_it_is_given_up() {
        let failed = |wait_s| WriteResult::Retry { error: "e".repeat(1_000), wait_s };
        let mut record = apply(None, 2, CommitState::Pending, 0).unwrap();
        for pause in [2, 4, 8, 16] {
            record = record.record_write(1, &failed(0), at(100));
            assert_eq!(record.due_at, Some(at(100 + pause)));
        }
        record = record.record_write(1, &failed(90), at(100));
        assert_eq!(record.due_at, Some(at(190)), "the forge's wait is longer");
        assert_eq!(record.error.as_ref().map(String::len), Some(ERROR_CHARS_MAX));
        assert_eq!(retry_pause_s(1_000), RETRY_S_MAX);
        let over = record.record_write(1, &failed(0), at(GIVE_UP_AFTER_S));
        assert!(over.due_at.is_none() && over.error.is_some());
        let again = apply(Some(over), 2, CommitState::Success, GIVE_UP_AFTER_S + 1).unwrap();
        assert!(again.due_at.is_some() && again.error.is_none(), "the next state is tried again");
    }
}
