//! Tracks the deployments that are being started. Each start is a task, and the number of concurrent starts is limited
//! in total and per organization.

use std::collections::HashSet;
use std::sync::Arc;

use berth_core::id::{DeploymentId, OrgId};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::admission::AdmissionControl;
use crate::error::EngineError;
use crate::limits::{BEGUN_AT_ONCE, BEGUN_WAITING_MAX};
use crate::services::Services;

/// Starts in progress in this process. If the git host of an organization hangs, this only blocks the organization's
/// own share.
pub(super) struct StartsInProgress {
    gate: AdmissionControl,
    under_way: Mutex<HashSet<DeploymentId>>,
}

impl Default for StartsInProgress {
    fn default() -> Self {
        Self { gate: AdmissionControl::new(BEGUN_AT_ONCE, BEGUN_WAITING_MAX), under_way: Mutex::default() }
    }
}

/// Marks a deployment as being started, until it is dropped.
struct StartGuard {
    services: Arc<Services>,
    id: DeploymentId,
}

impl StartGuard {
    /// Returns `None` if another task is already starting the deployment.
    fn new(services: &Arc<Services>, id: DeploymentId) -> Option<Self> {
        let is_new = services.engine.starts.under_way.lock().insert(id);
        is_new.then(|| Self { services: services.clone(), id })
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        self.services.engine.starts.under_way.lock().remove(&self.id);
    }
}

/// Starts a deployment in a task of its own. Does nothing if a task for this deployment is already running.
pub(super) fn spawn_start<F>(
    services: &Arc<Services>,
    org: OrgId,
    id: DeploymentId,
    begun: F,
) -> Option<JoinHandle<()>>
where
    F: Future<Output = Result<(), EngineError>> + Send + 'static,
{
    let beginning = StartGuard::new(services, id)?;
    Some(tokio::spawn(async move {
        let services = &beginning.services;
        let begun = async {
            let _pass = services.engine.starts.gate.enter(org).await?;
            begun.await
        };
        if let Some(Err(error)) = services.shutdown.run_until_cancelled(begun).await {
            tracing::error!(?error, deployment = %id, "starting a deployment failed");
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_core::time::Timestamp;
    use berth_store::Store;

    use super::*;
    use berth_core::runner::RunnerTimeouts;
    use tokio_util::sync::CancellationToken;

    use crate::services::ServicesConfig;
    use crate::vault::{SecretVault, WhenMissing};

    #[tokio::test]
    async fn stuck_starts_do_not_delay_another_organization() {
        let dir = tempfile::tempdir().unwrap();
        let (file, key) = (dir.path().join("berth.db"), dir.path().join("root.key"));
        let opened = tokio::task::spawn_blocking(move || {
            let store = Store::open_sqlite(&file).unwrap();
            let vault = SecretVault::open(&store, &key, WhenMissing::Create).unwrap();
            (store, vault)
        });
        let (store, vault) = opened.await.unwrap();
        let config = ServicesConfig {
            data_dir: dir.path().to_owned(),
            own_dir: dir.path().to_owned(),
            public_url: None,
            isolation: None,
            lends_cluster_access: false,
            runner_times: RunnerTimeouts::default(),
            git_max: Duration::from_secs(1),
            git_access: crate::git::RepositoryAccess { is_local: true, roots: Vec::new(), hosts: Vec::new() },
            egress_allow: Vec::new(),
            egress_max: Duration::from_secs(1),
            storage: None,
        };
        let services = Arc::new(Services::new(store, vault, config, CancellationToken::new()));
        let org = |byte| OrgId::from_parts(Timestamp::from_micros(1), [byte; 10]);
        let id = |number: i64| DeploymentId::from_parts(Timestamp::from_micros(number * 1_000), [0; 10]);

        let stuck = (0..2 * i64::try_from(BEGUN_AT_ONCE.total).unwrap())
            .map(|number| spawn_start(&services, org(1), id(number), std::future::pending()).unwrap());
        let stuck: Vec<_> = stuck.collect();
        assert!(spawn_start(&services, org(1), id(0), async { Ok(()) }).is_none(), "it is being begun");
        for number in 1_000..1_100 {
            spawn_start(&services, org(2), id(number), async { Ok(()) }).unwrap().await.unwrap();
        }
        assert!(stuck.iter().all(|task| !task.is_finished()));

        services.shutdown.cancel();
        futures_util::future::join_all(stuck).await;
        assert!(services.engine.starts.under_way.lock().is_empty());
    }
}
