//! Registries that are due are looked at; a commit that is not known yet is built, once, and becomes a version.
//!
//! What is so stands in the store. A server that is killed in the middle of a build begins it again.

mod build;
mod builder;
mod log;
mod look;

pub use builder::{BuildAsked, BuildFailed, Builder, Built};
pub(crate) use log::BuildLog;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_core::id::{OrgId, RegistryId};
use berth_core::registry::{BuildStatus, RegistryStatus, Seen};
use berth_store::Context;
use berth_store::query::{Batch, registries};
use berth_store::records::{registry, registry_build};
use tokio::sync::Notify;

use crate::app::App;
use crate::error::AppError;
use crate::gate::Gate;
use crate::limits::REGISTRY_BUILDS_AT_ONCE;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looked up at once: one of each organization, of more organizations than are built for at once.
const DUE: Batch = Batch { total: 64, share: 1 };
/// Looks in one turn of the crank.
const TURN_MAX: usize = 1_000;
/// Interrupted builds taken up in one go.
const INTERRUPTED_MAX: i64 = 1_000;

/// What is known about registries in this process.
pub(crate) struct Registries {
    dir: PathBuf,
    /// Where this server builds.
    work: PathBuf,
    builder: Option<Arc<dyn Builder>>,
    /// One at a time for each organization: a registry that takes its time holds up those of no other one.
    under_way: Gate,
    asked: Notify,
}

impl Registries {
    pub(crate) fn new(data_dir: &Path, build_dir: &Path) -> Self {
        Self {
            dir: registries_dir(data_dir),
            work: build_dir.join("attempts"),
            builder: None,
            under_way: Gate::without_queue(REGISTRY_BUILDS_AT_ONCE),
            asked: Notify::default(),
        }
    }

    pub(crate) fn building_with(self, builder: Arc<dyn Builder>) -> Self {
        Self { builder: Some(builder), ..self }
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

pub(crate) fn registries_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("registries")
}

/// Lanes beside one another: a long build holds up its own alone.
pub(crate) async fn looks(app: Arc<App>) {
    let lanes = (0..REGISTRY_BUILDS_AT_ONCE.total).map(|_| lane(&app));
    let begun = async {
        while let Err(error) = resume(&app).await {
            tracing::warn!(?error, "interrupted builds could not be taken up; it is tried again in a second");
            if app.shutdown.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
                return;
            }
        }
    };
    begun.await;
    futures_util::future::join_all(lanes).await;
}

async fn lane(app: &App) {
    while !app.shutdown.is_cancelled() {
        match next(app).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(?error, "a registry could not be looked at; it is tried again in a second");
            }
        }
        let nudged = tokio::time::timeout(LOOK_EVERY, app.registries.asked.notified());
        app.shutdown.run_until_cancelled(nudged).await;
    }
}

/// Everything that is due.
pub(crate) async fn all(app: &App) -> Result<(), AppError> {
    resume(app).await?;
    for _ in 0..TURN_MAX {
        if !next(app).await? {
            break;
        }
    }
    Ok(())
}

/// Builds that nobody works on any more are begun again.
async fn resume(app: &App) -> Result<(), AppError> {
    let found =
        app.store.read(None, |db| Ok::<_, AppError>(registries::interrupted(db, INTERRUPTED_MAX)?)).await?;
    for (org, id) in found.into_iter().filter(|(org, _)| !app.registries.under_way.has(org)) {
        let done = app.store.transact(Context::system(Some(org)), move |tx| {
            let now = tx.now();
            for mut build in registries::under_way(tx, id, INTERRUPTED_MAX)? {
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
async fn next(app: &App) -> Result<bool, AppError> {
    let Some(builder) = app.registries.builder.clone() else { return Ok(false) };
    let due = app.store.read(None, |db| {
        let now = db.now();
        Ok::<_, AppError>(registries::due(db, now, DUE)?)
    });
    let mut due = due.await?.into_iter();
    let free = due.find_map(|(org, id)| Some((app.registries.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    let found = app.store.read(Some(org), move |db| Ok::<_, AppError>(registry::by_id(db, id)?)).await?;
    match found {
        Some(found) => look::look(app, org, found, builder).await,
        None => Ok(true),
    }
}
