//! The Kubernetes cluster of a runner.

use std::path::PathBuf;
use std::time::Duration;

use berth_runner::KubernetesOptions;
use serde::Deserialize;

/// How long a pod may take to start, in seconds.
const START_SECONDS_MAX: u64 = 600;
/// Set in every pod.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";
/// The name of the pod, unless the pod sets another host name.
const HOST_NAME: &str = "HOSTNAME";

// Section `[runner.kubernetes]`, and the options of `berth runner` with the same names. A doc comment would become the help of `berth runner`.
#[derive(Debug, Clone, Deserialize, clap::Args)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KubernetesSettings {
    /// Namespace in which steps with a container run as Kubernetes Jobs
    #[arg(long = "kubernetes-namespace", value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Kubeconfig file [default: the credentials of the runner's own pod]
    #[arg(long = "kubernetes-kubeconfig", value_name = "PATH", requires = "namespace")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Claim of the volume that the runner and the pods share
    #[arg(long = "kubernetes-volume-claim", value_name = "NAME", requires = "namespace")]
    pub(crate) volume_claim: Option<String>,
    /// Directory where that volume is mounted; the work directory must be in it
    #[arg(long = "kubernetes-volume-path", value_name = "DIR", requires = "namespace")]
    pub(crate) volume_path: Option<PathBuf>,
    /// Service account of the pods
    #[arg(long = "kubernetes-service-account", value_name = "NAME", requires = "namespace")]
    pub(crate) service_account: Option<String>,
    /// Give the pods the token of their service account
    #[arg(long = "kubernetes-mount-token", requires = "namespace")]
    pub(crate) mount_token: bool,
    /// Label that nodes must have; can be repeated
    #[arg(long = "kubernetes-node-selector", value_name = "KEY=VALUE", requires = "namespace")]
    pub(crate) node_selector: Vec<String>,
    /// Secret with registry credentials; can be repeated
    #[arg(long = "kubernetes-pull-secret", value_name = "NAME", requires = "namespace")]
    pub(crate) pull_secrets: Vec<String>,
    /// Allow steps to use the network of the node
    #[arg(long = "kubernetes-host-network", requires = "namespace")]
    pub(crate) host_network: bool,
    /// Allow kubernetes_apply steps to use the runner's credentials
    #[arg(long = "kubernetes-apply", requires = "namespace")]
    pub(crate) apply: bool,
    /// How long a pod may take to start, including the pull of its image
    #[arg(long = "kubernetes-start-seconds-max", value_name = "SECONDS", requires = "namespace", default_value_t = START_SECONDS_MAX)]
    pub(crate) start_seconds_max: u64,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            namespace: None,
            kubeconfig: None,
            volume_claim: None,
            volume_path: None,
            service_account: None,
            mount_token: false,
            node_selector: Vec::new(),
            pull_secrets: Vec::new(),
            host_network: false,
            apply: false,
            start_seconds_max: START_SECONDS_MAX,
        }
    }
}

impl KubernetesSettings {
    /// Whether steps may use the runner's credentials, the token of a service account, or the network of a node.
    pub(crate) fn lends_access(&self) -> bool {
        self.options().is_some_and(|it| it.allows_apply || it.mounts_token || it.allows_host_network)
    }

    /// Returns `None` if the runner uses no Kubernetes.
    pub(crate) fn options(&self) -> Option<KubernetesOptions> {
        let namespace = self.namespace.clone().filter(|name| !name.is_empty())?;
        let pairs = self.node_selector.iter().map(|text| text.split_once('=').unwrap_or((text.as_str(), "")));
        let is_in_cluster = self.kubeconfig.is_none() && std::env::var_os(IN_CLUSTER).is_some();
        Some(KubernetesOptions {
            namespace,
            kubeconfig: self.kubeconfig.clone(),
            volume_claim: self.volume_claim.clone().unwrap_or_default(),
            volume_path: self.volume_path.clone().unwrap_or_default(),
            service_account: self.service_account.clone(),
            mounts_token: self.mount_token,
            node_selector: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            pull_secrets: self.pull_secrets.clone(),
            allows_host_network: self.host_network,
            allows_apply: self.apply,
            start_time_max: Duration::from_secs(self.start_seconds_max),
            pod_name: std::env::var(HOST_NAME).ok().filter(|_| is_in_cluster),
        })
    }

    /// The labels of a runner with this cluster.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.options().map(|it| it.labels()).unwrap_or_default()
    }
}
