//! Connection to a Kubernetes cluster.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;

use berth_api::runner::{FailureCause, StepRunOutcome};
use http::Response;
use http_body_util::{LengthLimitError, Limited};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;
use kube::client::{ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Error};
use parking_lot::Mutex;
use tower::util::MapResponseLayer;

use super::options::{KubernetesError, KubernetesOptions};
use super::{labels, orphans};
use crate::async_calls::AsyncRuntime;
use crate::attempt::{RunningAttempt, failed_outcome};
use crate::settings::RunnerOptions;

/// How long the cluster may take to respond when the runner starts.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Timeout between two reads of a response. A watch ends earlier.
pub(super) const READ_TIME_MAX: Duration = Duration::from_secs(300);
/// Longest response that is collected in memory. An object has at most 1.5 MiB, a list may be longer.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest message of a cluster in an outcome or a log line.
const MESSAGE_CHARS_MAX: usize = 4000;
/// Number of images whose digests are remembered.
const DIGESTS_MAX: usize = 1000;

/// The cluster in which a runner executes container steps.
pub(crate) struct KubernetesCluster {
    pub(super) client: Client,
    /// For watches and logs, which have no longest response.
    stream_client: Client,
    pub(crate) runtime: AsyncRuntime,
    pub(crate) options: KubernetesOptions,
    /// Path of the work directory on the volume.
    pub(super) volume_dir: String,
    pub(super) work_dir_label: String,
    /// The runner's own pod, if Jobs can be deleted with it.
    pub(super) owner: Option<OwnerReference>,
    /// Digests of images by deployment and image, so that not every attempt starts a pod to find them.
    pub(super) digests: Mutex<HashMap<(String, String), String>>,
}

impl KubernetesCluster {
    /// Connects to the cluster and removes Jobs that an earlier process of this runner has left.
    pub(crate) fn connect(
        options: &KubernetesOptions,
        settings: &RunnerOptions,
    ) -> Result<Self, KubernetesError> {
        options.check()?;
        let failed =
            |detail: String| KubernetesError::Cluster { namespace: options.namespace.clone(), detail };
        let volume_dir = find_volume_dir(options, &settings.work_dir)?;
        let runtime = AsyncRuntime::start("kubernetes").map_err(|error| failed(error.to_string()))?;
        let clients = runtime.block_on(connect_clients(options.kubeconfig.as_deref()));
        let (client, stream_client) = clients.map_err(&failed)?;
        let mut cluster = Self {
            client,
            stream_client,
            runtime,
            options: options.clone(),
            work_dir_label: labels::work_dir_label(&options.volume_claim, Path::new(&volume_dir)),
            volume_dir,
            owner: None,
            digests: Mutex::default(),
        };
        let found = async { tokio::time::timeout(CONNECT_TIME_MAX, cluster.find_owner()).await };
        cluster.owner = match cluster.runtime.block_on(found) {
            Ok(owner) => owner.map_err(|error| failed(describe(&error)))?,
            Err(_) => return Err(failed("it does not respond".into())),
        };
        let removed = orphans::remove_orphans(&cluster).map_err(|error| failed(error.to_string()))?;
        if removed > 0 {
            tracing::info!(removed, "removed Jobs of an earlier process");
        }
        Ok(cluster)
    }

    pub(super) fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), &self.options.namespace)
    }

    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.options.namespace)
    }

    /// Pods whose log is read, or that are watched.
    pub(super) fn streamed_pods(&self) -> Api<Pod> {
        Api::namespaced(self.stream_client.clone(), &self.options.namespace)
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.options.namespace)
    }

    pub(super) fn events(&self) -> Api<Event> {
        Api::namespaced(self.client.clone(), &self.options.namespace)
    }

    pub(super) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.options.namespace)
    }

    /// Makes a request on the attempt's thread. See [`AsyncRuntime::call`].
    pub(super) fn call<T>(
        &self,
        attempt: &RunningAttempt<'_>,
        call: impl Future<Output = T>,
    ) -> Result<T, StepRunOutcome> {
        self.runtime.call(attempt, call)
    }

    /// Checks that Jobs can be listed, and returns the runner's own pod if it is in their namespace.
    async fn find_owner(&self) -> Result<Option<OwnerReference>, Error> {
        self.jobs().list_metadata(&ListParams::default().limit(1)).await?;
        let Some(name) = &self.options.pod_name else { return Ok(None) };
        let Some(pod) = self.pods().get_metadata_opt(name).await? else { return Ok(None) };
        Ok(pod.metadata.uid.map(|uid| owner_reference("v1", "Pod", name, uid)))
    }

    /// Remembers the digest of an image for later attempts of a deployment.
    pub(super) fn keep_digest(&self, deployment: &str, image: &str, digest: &str) {
        let mut digests = self.digests.lock();
        if digests.len() >= DIGESTS_MAX {
            digests.clear();
        }
        digests.insert((deployment.to_owned(), image.to_owned()), digest.to_owned());
    }

    /// Removes the Job, the pods and the Secrets of an attempt. Retries until nothing is left, or until the runner has to
    /// exit. An attempt is only reported as stopped after this.
    pub(super) fn remove_all_of(&self, attempt: &RunningAttempt<'_>, id: &str) -> io::Result<()> {
        let mut backoff = crate::backoff::Backoff::new();
        let mut is_told = false;
        loop {
            let Err(error) = orphans::remove_attempt(self, id) else { return Ok(()) };
            if !is_told {
                is_told = true;
                attempt.log.write_line(&format!("[berth] cannot remove the pod, trying again: {error}"));
                tracing::warn!(%error, "removing a pod failed; retrying");
            }
            if attempt.shared.is_past_deadline() {
                return Err(error);
            }
            std::thread::sleep(backoff.next());
            attempt.log.tick();
        }
    }
}

async fn connect_clients(kubeconfig: Option<&Path>) -> Result<(Client, Client), String> {
    let config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path).map_err(|error| error.to_string())?;
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            config.map_err(|error| error.to_string())?
        }
        None => {
            Config::incluster().map_err(|error| format!("{error}; outside of a cluster, set `kubeconfig`"))?
        }
    };
    let stream_client = Client::try_from(with_timeouts(config.clone())).map_err(|error| error.to_string())?;
    Ok((new_client(config)?, stream_client))
}

/// Returns a client whose requests fail if the response is too long. The library collects responses of any length.
pub(super) fn new_client(config: Config) -> Result<Client, String> {
    let builder = ClientBuilder::try_from(with_timeouts(config)).map_err(|error: Error| error.to_string())?;
    Ok(builder.with_layer(&MapResponseLayer::new(limit_body)).build())
}

fn limit_body(response: Response<Box<DynBody>>) -> Response<Limited<Box<DynBody>>> {
    response.map(|body| Limited::new(body, RESPONSE_BYTES_MAX))
}

fn with_timeouts(mut config: Config) -> Config {
    config.connect_timeout = Some(CONNECT_TIME_MAX);
    config.read_timeout = Some(READ_TIME_MAX);
    config
}

/// Returns the path of the work directory on the volume.
fn find_volume_dir(options: &KubernetesOptions, work_dir: &Path) -> Result<String, KubernetesError> {
    let refuse = |detail: String| KubernetesError::Setting { setting: "volume_path", detail };
    let root = options
        .volume_path
        .canonicalize()
        .map_err(|error| refuse(format!("cannot read {}: {error}", options.volume_path.display())))?;
    let dir = work_dir.strip_prefix(&root).map_err(|_| {
        let (dir, root) = (work_dir.display(), root.display());
        refuse(format!("the work directory {dir} is not on the volume at {root}; move it with `work_dir`"))
    })?;
    dir.to_str()
        .map(str::to_owned)
        .ok_or_else(|| refuse("the path of the work directory is not UTF-8".into()))
}

pub(super) fn owner_reference(api_version: &str, kind: &str, name: &str, uid: String) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid,
        controller: None,
        block_owner_deletion: None,
    }
}

/// Describes an error in one line, without the debug output of the library.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        Error::Api(status) => format!("the API server responded {}", status.code),
        error if is_too_long(error) => {
            let max = RESPONSE_BYTES_MAX / (1024 * 1024);
            format!("the response of the API server is longer than {max} MiB")
        }
        Error::Service(source) => format!("the API server cannot be reached: {source}"),
        other => other.to_string(),
    }
}

/// Shortens a message of the cluster, which can be as long as a response.
pub(super) fn shorten(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(MESSAGE_CHARS_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

fn is_too_long(error: &Error) -> bool {
    matches!(error, Error::Service(source) if source.is::<LengthLimitError>())
}

/// The status code of a response.
pub(super) fn status_code(error: &Error) -> Option<u16> {
    match error {
        Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether the API server refused a request because of what the step asks for.
pub(super) fn is_refused(error: &Error) -> bool {
    matches!(status_code(error), Some(400 | 413 | 422))
}

pub(super) fn never_started(what: &str, error: &Error) -> StepRunOutcome {
    let detail = format!("cannot {what}: {}", shorten(describe(error)));
    match is_refused(error) || is_too_long(error) {
        true => failed_outcome(FailureCause::Invalid, detail),
        false => StepRunOutcome::never_started(detail),
    }
}
