//! Registries that are due are looked at; a commit that is not known yet is built, once, and becomes a version.
//!
//! What is so stands in the store. A server that is killed in the middle of a build begins it again.

mod build;
mod builder;
mod log;
mod look;

pub use builder::{BuildAsked, BuildFailed, Builder, Built};
pub(crate) use log::BuildLog;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use berth_core::id::{OrgId, RegistryId};
use berth_core::registry::{BuildStatus, RegistryStatus, Seen};
use berth_engine::admission::Admission;
use berth_engine::limits::REGISTRY_BUILDS_AT_ONCE;
use berth_store::Context;
use berth_store::pagination::Batch;
use berth_store::tables::{registry, registry_build};
use tokio::sync::Notify;

use crate::config::{Config, registries_dir};
use crate::error::AppError;
use crate::worker::{Job, Turn, woken};
use berth_engine::Services;

/// Looked up at once: one of each organization, of more organizations than are built for at once.
const DUE: Batch = Batch { total: 64, share: 1 };
/// Interrupted builds taken up in one go.
const INTERRUPTED_MAX: i64 = 1_000;

/// Follows registries and has their commits built.
pub(crate) struct Registries {
    services: Arc<Services>,
    config: Arc<Config>,
    dir: PathBuf,
    /// Where this server builds.
    work: PathBuf,
    /// Without it registries wait.
    builder: OnceLock<Arc<dyn Builder>>,
    /// One at a time for each organization: a registry that takes its time holds up those of no other one.
    under_way: Admission,
    asked: Notify,
}

impl Registries {
    pub(crate) fn new(services: Arc<Services>, config: Arc<Config>) -> Self {
        Self {
            dir: registries_dir(&config.data_dir),
            work: config.build_dir().join("attempts"),
            builder: OnceLock::new(),
            under_way: Admission::without_queue(REGISTRY_BUILDS_AT_ONCE),
            asked: Notify::default(),
            services,
            config,
        }
    }

    /// Sets what builds registries. Only the first one counts.
    pub(crate) fn build_with(&self, builder: Arc<dyn Builder>) {
        let _ = self.builder.set(builder);
    }

    /// Somebody wants a look now.
    pub(crate) fn nudge(&self) {
        self.asked.notify_one();
    }

    pub(crate) fn log(&self, org: OrgId, registry: RegistryId, number: i64) -> BuildLog {
        BuildLog::at(self.logs(org, registry).join(format!("{number}.log")))
    }

    fn logs(&self, org: OrgId, registry: RegistryId) -> PathBuf {
        self.dir.join("logs").join(org.to_string()).join(registry.to_string())
    }

    /// Where builds happen; each has a directory of its own there. What is left there is nobody's at the next start.
    fn work(&self) -> PathBuf {
        self.work.clone()
    }

    /// The registry is gone, and what its builds printed with it.
    pub(crate) async fn forget(&self, org: OrgId, registry: RegistryId) {
        let logs = self.logs(org, registry);
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(logs)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, %registry, "logs of builds could not be removed");
        }
    }
}

impl Job for Registries {
    const NAME: &'static str = "build registries";
    const LANES: usize = REGISTRY_BUILDS_AT_ONCE.total;

    async fn resume(&self) -> Result<(), AppError> {
        resume(self).await
    }

    async fn turn(&self) -> Result<Turn, AppError> {
        Ok(if next(self).await? { Turn::Again } else { Turn::Idle })
    }

    async fn wait(&self) {
        woken(&self.asked).await;
    }
}

/// Marks interrupted builds, and schedules their registries again.
async fn resume(registries: &Registries) -> Result<(), AppError> {
    let found = registries
        .services
        .store
        .read(None, |db| Ok::<_, AppError>(registry::interrupted(db, INTERRUPTED_MAX)?))
        .await?;
    for (org, id) in found.into_iter().filter(|(org, _)| !registries.under_way.has(org)) {
        let done = registries.services.store.transact(Context::system(Some(org)), move |tx| {
            let now = tx.now();
            for mut build in registry_build::under_way(tx, id, INTERRUPTED_MAX)? {
                (build.status, build.finished_at) = (BuildStatus::Interrupted, Some(now));
                build.error = Some("the server stopped meanwhile; another build follows".into());
                registry_build::put(tx, &build)?;
            }
            let Some(found) = registry::by_id(tx, id)? else { return Ok(()) };
            let seen = Seen { status: RegistryStatus::Pending, due_at: Some(now), ..found.seen };
            Ok::<_, AppError>(registry::saw(tx, id, &seen)?)
        });
        done.await?;
    }
    Ok(())
}

/// Looks at the registry that has been due for longest, of an organization of which none is under way. `false`: there
/// is none.
async fn next(registries: &Registries) -> Result<bool, AppError> {
    let Some(builder) = registries.builder.get().cloned() else { return Ok(false) };
    let due = registries.services.store.read(None, |db| {
        let now = db.now();
        Ok::<_, AppError>(registry::due(db, now, DUE)?)
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
        Some(found) => look::look(registries, org, found, builder).await,
        None => Ok(true),
    }
}
