//! Polls step registries that are due and builds each new commit once.
//!
//! All state is in the database. If the server is killed during a build, the next start runs it again.

mod build;
mod builder;
mod log;
mod poll;

pub use builder::{BuildError, BuildOutput, BuildRequest, RegistryBuilder};
pub(crate) use log::BuildLog;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use berth_core::id::{OrgId, RegistryId};
use berth_core::registry::{BuildStatus, RegistryStatus, RegistrySyncState};
use berth_engine::admission::AdmissionControl;
use berth_engine::limits::REGISTRY_BUILDS_AT_ONCE;
use berth_store::TxContext;
use berth_store::pagination::FairBatch;
use berth_store::tables::{registry, registry_build};
use tokio::sync::Notify;

use crate::config::{AppConfig, registries_dir};
use crate::error::AppError;
use crate::worker::{BackgroundJob, TurnResult, wait_for_wakeup};
use berth_engine::Services;

/// Due registries read per query: one for each of up to 64 organizations, more than can build at once.
const DUE: FairBatch = FairBatch { total: 64, share: 1 };
/// Maximum number of interrupted builds that are resumed at startup.
const INTERRUPTED_MAX: i64 = 1_000;

/// Background job that polls step registries and builds their commits.
pub(crate) struct RegistryJob {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    dir: PathBuf,
    /// Directory in which builds run.
    work: PathBuf,
    /// The build backend. Without one, registries stay pending.
    builder: OnceLock<Arc<dyn RegistryBuilder>>,
    /// Limits each organization to one registry at a time, so that a slow registry does not delay other organizations.
    under_way: AdmissionControl,
    wakeup: Notify,
}

impl RegistryJob {
    pub(crate) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        Self {
            dir: registries_dir(&config.data_dir),
            work: config.build_dir().join("attempts"),
            builder: OnceLock::new(),
            under_way: AdmissionControl::without_queue(REGISTRY_BUILDS_AT_ONCE),
            wakeup: Notify::default(),
            services,
            config,
        }
    }

    /// Sets the build backend. Later calls have no effect.
    pub(crate) fn build_with(&self, builder: Arc<dyn RegistryBuilder>) {
        let _ = self.builder.set(builder);
    }

    /// Wakes the job, because a sync was requested.
    pub(crate) fn wake(&self) {
        self.wakeup.notify_one();
    }

    pub(crate) fn log(&self, org: OrgId, registry: RegistryId, number: i64) -> BuildLog {
        BuildLog::at_path(self.logs(org, registry).join(format!("{number}.log")))
    }

    fn logs(&self, org: OrgId, registry: RegistryId) -> PathBuf {
        self.dir.join("logs").join(org.to_string()).join(registry.to_string())
    }

    /// Returns the directory in which each build has its own subdirectory. Leftovers are removed at startup.
    fn work(&self) -> PathBuf {
        self.work.clone()
    }

    /// Deletes the build logs of a deleted registry.
    pub(crate) async fn delete_logs(&self, org: OrgId, registry: RegistryId) {
        let logs = self.logs(org, registry);
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(logs)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, %registry, "cannot remove build logs");
        }
    }
}

impl BackgroundJob for RegistryJob {
    const NAME: &'static str = "build registries";
    const LANES: usize = REGISTRY_BUILDS_AT_ONCE.total;

    async fn resume(&self) -> Result<(), AppError> {
        resume(self).await
    }

    async fn turn(&self) -> Result<TurnResult, AppError> {
        Ok(if run_next(self).await? { TurnResult::Again } else { TurnResult::Idle })
    }

    async fn wait(&self) {
        wait_for_wakeup(&self.wakeup).await;
    }
}

/// Marks interrupted builds as such, and schedules their registries again.
async fn resume(registries: &RegistryJob) -> Result<(), AppError> {
    let found = registries
        .services
        .store
        .read(None, |db| Ok::<_, AppError>(registry::list_interrupted(db, INTERRUPTED_MAX)?))
        .await?;
    for (org, id) in found.into_iter().filter(|(org, _)| !registries.under_way.has_operation(org)) {
        let done = registries.services.store.transact(TxContext::system(Some(org)), move |tx| {
            let now = tx.now();
            for mut build in registry_build::list_unfinished(tx, id, INTERRUPTED_MAX)? {
                (build.status, build.finished_at) = (BuildStatus::Interrupted, Some(now));
                build.error = Some("the server stopped during the build; it will be built again".into());
                registry_build::put(tx, &build)?;
            }
            let Some(found) = registry::by_id(tx, id)? else { return Ok(()) };
            let seen = RegistrySyncState { status: RegistryStatus::Pending, due_at: Some(now), ..found.seen };
            Ok::<_, AppError>(registry::put_poll_result(tx, id, &seen)?)
        });
        done.await?;
    }
    Ok(())
}

/// Polls the registry that has been due the longest, from an organization that has no poll or build in progress.
/// Returns `false` if there is none.
async fn run_next(registries: &RegistryJob) -> Result<bool, AppError> {
    let Some(builder) = registries.builder.get().cloned() else { return Ok(false) };
    let due = registries.services.store.read(None, |db| {
        let now = db.now();
        Ok::<_, AppError>(registry::list_due(db, now, DUE)?)
    });
    let mut due = due.await?.into_iter();
    let free = due.find_map(|(org, id)| Some((registries.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    let found = registries
        .services
        .store
        .read(Some(org), move |db| Ok::<_, AppError>(registry::by_id(db, id)?))
        .await?;
    match found {
        Some(found) => poll::poll_registry(registries, org, found, builder).await,
        None => Ok(true),
    }
}
