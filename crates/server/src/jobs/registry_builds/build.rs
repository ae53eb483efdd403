//! Builds one commit of a step registry in a fresh checkout, stores the result under its digest, and records it as a
//! version.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_core::event::EventKind;
use berth_core::id::{OrgId, RegistryId};
use berth_core::registry::{
    BuildStatus, Registry, RegistryBuild, RegistryStatus, RegistrySyncState, RegistryVersion, short_hash,
};
use berth_core::repository::RemoteUrl;
use berth_core::time::Timestamp;
use berth_engine::artifacts::{ArtifactError, ArtifactStore, StoredArtifact};
use berth_engine::events::registry_event;
use berth_engine::git::{CheckoutRemote, CommitHash, GitCredential, GitError, GitMirror, RepositoryAccess};
use berth_store::tables::{registry, registry_build};
use berth_store::{StoreError, Tx, TxContext};
use tokio_util::sync::CancellationToken;

use super::RegistryJob;
use super::builder::{BuildError, BuildOutput, BuildRequest, RegistryBuilder};
use super::log::BuildLog;
use super::poll::{due_at, reload_unchanged};
use crate::error::AppError;
use crate::limits::BUILDS_KEPT_MAX;

/// Maximum number of characters stored of a build error. The build log has the full error.
const ERROR_CHARS_MAX: usize = 2_000;

/// The commit that a ref points to, with the branch and tags by which definitions may refer to it.
pub(super) struct RegistryCommit {
    pub(super) sha: CommitHash,
    pub(super) branch: Option<String>,
    pub(super) tags: Vec<String>,
}

impl RegistryCommit {
    /// Stores the branch and tags. The version must already exist.
    pub(super) fn put_refs(&self, tx: &mut Tx<'_>, registry: RegistryId) -> Result<(), StoreError> {
        for tag in &self.tags {
            registry_build::put_tag(tx, registry, tag, self.sha.as_str())?;
        }
        match &self.branch {
            Some(branch) => registry_build::put_branch(tx, registry, branch, self.sha.as_str()),
            None => Ok(()),
        }
    }
}

/// Builds a commit. Returns `false` if the server is stopping, in which case the next start repeats the build.
pub(super) async fn build(
    registries: &RegistryJob,
    org: OrgId,
    before: Registry,
    commit: RegistryCommit,
    builder: Arc<dyn RegistryBuilder>,
) -> Result<bool, AppError> {
    let Some(begun) = begin(registries, org, &before, &commit).await? else { return Ok(true) };
    tracing::info!(registry = %before.name, commit = %commit.sha, number = begun.number, "registry build started");
    let work = BuildTask {
        mirror: registries.services.git.registry_mirror(org, before.id),
        url: before.url.clone(),
        credential: registries.services.git_credential(org, before.credential.clone()).await?,
        access: registries.config.git_access(),
        artifacts: registries.services.artifacts.with_size_limit(registries.config.registry_bytes_max),
        time_max: registries.config.registry_build_max,
        bytes_max: registries.config.registry_bytes_max,
        log: registries.log(org, before.id, begun.number),
        dir: registries.work(),
        org,
        commit: commit.sha.clone(),
        shutdown: registries.services.shutdown.clone(),
    };
    let alone = registries.services.check_isolation().await?;
    let done = tokio::task::spawn_blocking(move || {
        alone.map_err(BuildError::Machine)?;
        work.run_build(builder.as_ref())
    })
    .await;
    let done = done.unwrap_or_else(|_| Err(BuildError::Failed("internal error during the build".into())));
    if matches!(done, Err(BuildError::Stopped)) {
        return Ok(false);
    }
    delete_old_log(registries, org, before.id, begun.number);
    end(registries, org, before, commit, begun, done).await?;
    Ok(true)
}

/// Marks the registry as building.
async fn begin(
    registries: &RegistryJob,
    org: OrgId,
    before: &Registry,
    commit: &RegistryCommit,
) -> Result<Option<RegistryBuild>, AppError> {
    let (before, sha) = (before.clone(), commit.sha.to_string());
    registries
        .services
        .store
        .transact(TxContext::system(Some(org)), move |tx| {
            let Some(now) = reload_unchanged(tx, &before)? else { return Ok(None) };
            let build = RegistryBuild {
                registry: now.id,
                number: registry_build::next_number(tx, now.id)?,
                status: BuildStatus::Building,
                commit: sha.clone(),
                started_at: tx.now(),
                finished_at: None,
                error: None,
            };
            registry_build::put(tx, &build)?;
            registry_build::delete_through(tx, now.id, build.number - BUILDS_KEPT_MAX)?;
            let seen = RegistrySyncState {
                status: RegistryStatus::Building,
                commit: Some(sha),
                synced_at: Some(tx.now()),
                ..now.seen
            };
            registry::put_poll_result(tx, now.id, &seen)?;
            Ok(Some(build))
        })
        .await
}

/// Deletes the log of the one build that a new build pushed out of the list. The logs of earlier builds are already
/// deleted.
fn delete_old_log(registries: &RegistryJob, org: OrgId, registry: RegistryId, number: i64) {
    if number > BUILDS_KEPT_MAX {
        registries.log(org, registry, number - BUILDS_KEPT_MAX).remove();
    }
}

/// The work that the build thread does.
struct BuildTask {
    mirror: GitMirror,
    url: RemoteUrl,
    /// The error text is shown to users.
    credential: Result<Option<GitCredential>, String>,
    access: RepositoryAccess,
    artifacts: ArtifactStore,
    time_max: Duration,
    bytes_max: u64,
    log: BuildLog,
    dir: std::path::PathBuf,
    org: OrgId,
    commit: CommitHash,
    shutdown: CancellationToken,
}

impl BuildTask {
    fn run_build(&self, builder: &dyn RegistryBuilder) -> Result<(BuildOutput, String), BuildError> {
        let machine = |error: std::io::Error| {
            BuildError::Machine(format!("the server cannot create a build directory: {error}"))
        };
        let mut log = self.log.create().map_err(machine)?;
        std::fs::create_dir_all(&self.dir).map_err(machine)?;
        let place = tempfile::Builder::new().prefix("build-").tempdir_in(&self.dir).map_err(machine)?;
        let place = place.keep();
        let (source, scratch) = (place.join("source"), place.join("scratch"));
        std::fs::create_dir(&source).and_then(|()| std::fs::create_dir(&scratch)).map_err(machine)?;
        log.write_line(&format!("[berth] building commit {}", self.commit));
        let done = self.run_in_checkout(&source, &scratch, builder, &mut |bytes| log.append(bytes));
        match &done {
            Ok((built, digest)) => {
                let keys: Vec<&str> = built.steps.iter().map(|step| step.key.as_str()).collect();
                log.write_line(&format!("[berth] steps: {}; stored as {digest}", keys.join(", ")));
            }
            Err(BuildError::Failed(error) | BuildError::Machine(error)) => {
                log.write_line(&format!("[berth] failed: {error}"));
            }
            Err(BuildError::Stopped) => log.write_line("[berth] the server stopped; it will be built again"),
        }
        builder.clear(&place);
        done
    }

    fn run_in_checkout(
        &self,
        source: &Path,
        scratch: &Path,
        builder: &dyn RegistryBuilder,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<(BuildOutput, String), BuildError> {
        let credential = || self.credential.clone().map_err(GitError::Refused);
        let from = CheckoutRemote { url: &self.url, access: &self.access, credential: &credential };
        self.mirror.checkout_complete(from, &self.commit, source).map_err(|error| match error {
            GitError::Stopping => BuildError::Stopped,
            other => BuildError::Failed(other.to_string()),
        })?;
        let asked = BuildRequest {
            source,
            scratch,
            timeout: self.time_max,
            bytes_max: self.bytes_max,
            is_stopping: &|| self.shutdown.is_cancelled(),
        };
        let built = builder.build(&asked, log)?;
        let kept = self
            .artifacts
            .store_path(self.org, source, "")
            .map_err(|error| artifact_error(error, self.bytes_max))?;
        let StoredArtifact { digest, .. } = kept;
        Ok((built, digest))
    }
}

fn artifact_error(error: ArtifactError, bytes_max: u64) -> BuildError {
    match error {
        ArtifactError::TooLarge { path } => BuildError::Failed(format!(
            "the build output is larger than {bytes_max} bytes, with {path}; remove what its steps do not need"
        )),
        ArtifactError::Full | ArtifactError::Io(_) => {
            BuildError::Machine(format!("the build output cannot be stored: {error}"))
        }
        other => BuildError::Failed(format!("the build output cannot be stored: {other}")),
    }
}

/// Records a new version or the build error. On an error, the last good version stays current.
async fn end(
    registries: &RegistryJob,
    org: OrgId,
    before: Registry,
    commit: RegistryCommit,
    begun: RegistryBuild,
    done: Result<(BuildOutput, String), BuildError>,
) -> Result<(), AppError> {
    registries.services.store
        .transact(TxContext::system(Some(org)), move |tx| {
            let failure = done.as_ref().err().map(BuildFailure::from_error);
            let error = failure.as_ref().map(|failure| failure.why.clone());
            let status = if error.is_some() { BuildStatus::Failed } else { BuildStatus::Succeeded };
            let build = RegistryBuild { status, finished_at: Some(tx.now()), error: error.clone(), ..begun };
            registry_build::put(tx, &build)?;
            let Some(now) = registry::by_id(tx, before.id)? else { return Ok(()) };
            if let Ok((built, digest)) = done {
                let version = RegistryVersion {
                    registry: now.id,
                    commit: commit.sha.to_string(),
                    number: build.number,
                    digest,
                    start: built.start,
                    input: built.input,
                    steps: built.steps,
                    built_at: tx.now(),
                };
                registry_build::put_version(tx, &version)?;
                commit.put_refs(tx, now.id)?;
            }
            let kind = if error.is_some() { EventKind::RegistryBuildFailed } else { EventKind::RegistryBuilt };
            let event = registry_event(kind, &now).with("commit", commit.sha.as_str());
            tx.record(event.with("build", build.number).with_some("error", error))?;
            let seen = poll_result_after(&before, &now, &commit, failure, tx.now());
            registry::put_poll_result(tx, now.id, &seen)?;
            tracing::info!(registry = %now.name, commit = short_hash(commit.sha.as_str()), %status, "registry build finished");
            Ok(())
        })
        .await
}

struct BuildFailure {
    why: String,
    /// Whether a retry would fail in the same way.
    is_final: bool,
}

impl BuildFailure {
    fn from_error(failed: &BuildError) -> Self {
        let (why, is_final) = match failed {
            BuildError::Failed(why) => (why.as_str(), true),
            BuildError::Machine(why) => (why.as_str(), false),
            BuildError::Stopped => ("the server stopped", false),
        };
        Self { why: why.chars().take(ERROR_CHARS_MAX).collect(), is_final }
    }
}

fn poll_result_after(
    before: &Registry,
    now: &Registry,
    commit: &RegistryCommit,
    failure: Option<BuildFailure>,
    time: Timestamp,
) -> RegistrySyncState {
    // The registry's ref was changed during the build, so the new version is valid but not current.
    if now.reference != before.reference {
        return RegistrySyncState { status: RegistryStatus::Pending, ..now.seen.clone() };
    }
    let sha = Some(commit.sha.to_string());
    let Some(BuildFailure { why, is_final }) = failure else {
        return RegistrySyncState {
            status: RegistryStatus::Ready,
            current: sha.clone(),
            commit: sha,
            failed_commit: None,
            error: None,
            failures: 0,
            due_at: due_at(before, now, 0, time),
            ..now.seen.clone()
        };
    };
    let failures = if is_final { 0 } else { now.seen.failures + 1 };
    // If a sync was requested during the build, build the commit again.
    let is_asked = now.seen.due_at != before.seen.due_at;
    RegistrySyncState {
        status: RegistryStatus::Failed,
        failed_commit: sha.clone().filter(|_| is_final && !is_asked),
        commit: sha,
        error: Some(why),
        failures,
        due_at: due_at(before, now, failures, time),
        ..now.seen.clone()
    }
}
