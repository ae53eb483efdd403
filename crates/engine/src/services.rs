//! Handles that are shared by the engine, the background jobs and the API's use cases.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_api::runner::Isolation;
use berth_core::runner::RunnerTimeouts;
use berth_store::Store;
use berth_store::tables::organization;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::admission::AdmissionControl;
use crate::artifacts::ArtifactStore;
use crate::egress::{self, AllowedDestination, EgressClient, EgressPolicy};
use crate::engine::EngineState;
use crate::error::EngineError;
use crate::forge_app::AppTokenCache;
use crate::git::{MirrorStore, RepositoryAccess};
use crate::git_credentials::GitCredentials;
use crate::limits::{LOG_READS_AT_ONCE, LOG_READS_WAITING_MAX, TRANSFERS_AT_ONCE, TRANSFERS_WAITING_MAX};
use crate::logs::LogStore;
use crate::object_storage::{ObjectStorage, ObjectTier};
use crate::vault::SecretVault;
use crate::wire;

/// Configuration of [`Services`].
#[derive(Debug, Clone)]
pub struct ServicesConfig {
    /// Directory that contains logs, artifacts and repository mirrors.
    pub data_dir: PathBuf,
    /// Directory that no other server uses. For a single server, the same as `data_dir`.
    pub own_dir: PathBuf,
    /// URL at which users and other services reach the server; the issuer of ID tokens.
    pub public_url: Option<String>,
    /// Isolation level of the steps and builds that run on this server. `None` if it runs neither.
    pub isolation: Option<Isolation>,
    /// Whether these steps may use the server's credentials for a Kubernetes cluster, or the network of its nodes.
    pub lends_cluster_access: bool,
    pub runner_times: RunnerTimeouts,
    /// Timeout of a git process.
    pub git_max: Duration,
    /// The repositories and submodules that git may access.
    pub git_access: RepositoryAccess,
    /// Hosts and networks outside the public internet that the server may send requests to.
    pub egress_allow: Vec<AllowedDestination>,
    /// Timeout of an outgoing request.
    pub egress_max: Duration,
    /// Object storage for logs and artifacts. `None`: they are in `data_dir`.
    pub storage: Option<Arc<ObjectStorage>>,
}

pub struct Services {
    pub store: Arc<Store>,
    pub vault: Arc<SecretVault>,
    pub logs: LogStore,
    /// Limits concurrent log reads that search a log or split it into lines.
    pub log_reads: AdmissionControl,
    pub artifacts: ArtifactStore,
    /// Object storage, if logs and artifacts are there.
    pub objects: Option<Arc<ObjectTier>>,
    /// Limits concurrent packing and unpacking of sources and artifacts for remote runners.
    pub transfers: AdmissionControl,
    pub git: MirrorStore,
    pub(crate) git_credentials: GitCredentials,
    pub(crate) app_tokens: Arc<AppTokenCache>,
    /// Wakes the job that syncs repositories.
    pub sync_wanted: Notify,
    /// Wakes the job that acts on pull requests.
    pub pull_requests_wanted: Notify,
    /// The HTTP client for all of the server's outgoing requests.
    pub egress: EgressClient,
    pub engine: EngineState,
    pub config: ServicesConfig,
    /// Cancelled when the server shuts down.
    pub shutdown: CancellationToken,
}

impl Services {
    pub fn new(
        mut store: Store,
        vault: SecretVault,
        config: ServicesConfig,
        shutdown: CancellationToken,
    ) -> Self {
        store.set_runner_lost_after(i64::try_from(config.runner_times.lost.as_secs()).unwrap_or(i64::MAX));
        let store = Arc::new(store);
        let objects = config.storage.clone().map(|storage| {
            Arc::new(ObjectTier::new(storage, config.own_dir.join(OBJECT_CACHE), store.clone()))
        });
        let (logs, artifacts) = open_files(&config, objects.as_ref(), store.is_shared());
        let policy = EgressPolicy { allowed: config.egress_allow.clone() };
        Self {
            logs,
            artifacts,
            objects,
            store,
            vault: Arc::new(vault),
            log_reads: AdmissionControl::new(LOG_READS_AT_ONCE, LOG_READS_WAITING_MAX),
            transfers: AdmissionControl::new(TRANSFERS_AT_ONCE, TRANSFERS_WAITING_MAX),
            git: MirrorStore::new(&config.data_dir, &config.own_dir, config.git_max),
            git_credentials: GitCredentials::default(),
            app_tokens: Arc::default(),
            sync_wanted: Notify::new(),
            pull_requests_wanted: Notify::new(),
            egress: EgressClient::new(policy, egress::system_lookup(), config.egress_max),
            engine: EngineState::new(),
            config,
            shutdown,
        }
    }

    /// Wakes the engine. Called after a commit that may start or cancel a deployment; without the call, the engine
    /// would only notice at its next poll, up to a second later.
    pub fn wake_engine(&self) {
        self.engine.wake();
    }

    /// Checks whether this server's isolation allows it to run steps and builds for the current number of
    /// organizations. The inner error says why not.
    pub async fn check_isolation(&self) -> Result<Result<(), String>, EngineError> {
        if !self.may_be_joined() {
            return Ok(Ok(()));
        }
        let all = self.store.read(None, |db| Ok::<_, EngineError>(organization::list_ids(db, None)?.len()));
        Ok(check_organizations(self.config.isolation, self.config.lends_cluster_access, all.await?))
    }

    /// Blocking variant of [`Services::check_isolation`].
    pub(crate) fn check_isolation_blocking(&self) -> Result<Result<(), String>, EngineError> {
        if !self.may_be_joined() {
            return Ok(Ok(()));
        }
        let all = self
            .store
            .read_blocking(None, |db| Ok::<_, EngineError>(organization::list_ids(db, None)?.len()));
        Ok(check_organizations(self.config.isolation, self.config.lends_cluster_access, all?))
    }

    /// Whether another server could add an organization for which this server's isolation is too weak.
    fn may_be_joined(&self) -> bool {
        let is_weak =
            self.config.isolation != Some(Isolation::Bubblewrap) || self.config.lends_cluster_access;
        self.store.is_shared() && is_weak
    }
}

/// Directory of local copies of objects, below the directory that no other server uses.
pub const OBJECT_CACHE: &str = "object-cache";
/// Directories of logs that are not complete in object storage, and of artifacts being packed.
pub const LOG_BUFFER: &str = "log-buffer";
pub const ARTIFACT_BUFFER: &str = "artifact-buffer";

fn open_files(
    config: &ServicesConfig,
    objects: Option<&Arc<ObjectTier>>,
    is_shared: bool,
) -> (LogStore, ArtifactStore) {
    if let Some(objects) = objects {
        return (
            LogStore::with_objects(config.own_dir.join(LOG_BUFFER), objects.clone()),
            ArtifactStore::with_objects(config.own_dir.join(ARTIFACT_BUFFER), objects.clone()),
        );
    }
    let dir = config.data_dir.join("logs");
    let logs = if is_shared { LogStore::new_shared(dir) } else { LogStore::new(dir) };
    (logs, ArtifactStore::new(config.data_dir.join("artifacts")))
}

/// Checks the isolation level against the number of organizations. Only bubblewrap isolates organizations from each
/// other; with weaker isolation, or with access to a cluster that all steps share, a machine may only run the work of one
/// organization. The error text says what to do.
pub fn check_organizations(
    isolation: Option<Isolation>,
    lends_cluster_access: bool,
    organizations: usize,
) -> Result<(), String> {
    if lends_cluster_access && organizations > 1 {
        return Err(format!(
            "there are {organizations} organizations, and the server's own runner would lend its access to the Kubernetes cluster to all of them: remove `apply`, `mount_token` and `host_network` from [runner.kubernetes], and give each organization its own runners"
        ));
    }
    match isolation {
        Some(level @ (Isolation::Process | Isolation::Landlock)) if organizations > 1 => Err(format!(
            "there are {organizations} organizations, and the sandbox level {} does not isolate them from each other: install bubblewrap, or omit --sandbox so that no steps run on this machine, and give each organization its own runners",
            wire::isolation(level)
        )),
        Some(_) | None => Ok(()),
    }
}
