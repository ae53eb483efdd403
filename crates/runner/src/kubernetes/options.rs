//! Configuration of a runner that executes container steps in a Kubernetes cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use berth_core::pipeline::container::{container_labels, kubernetes_labels};

const DNS_LABEL_BYTES_MAX: usize = 63;
const DNS_NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Configuration of Kubernetes on a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesOptions {
    /// The namespace of Jobs.
    pub namespace: String,
    /// The credentials. `None` means those of the runner's own pod.
    pub kubeconfig: Option<PathBuf>,
    /// The claim of the volume that the runner shares with the pods. It must be mountable on all nodes.
    pub volume_claim: String,
    /// Where the volume is mounted for the runner. The work directory must be on it.
    pub volume_path: PathBuf,
    /// The service account of pods. `None` means the namespace's default.
    pub service_account: Option<String>,
    /// Whether pods get the token of their service account.
    pub mounts_token: bool,
    /// Labels that nodes must have.
    pub node_selector: BTreeMap<String, String>,
    /// Secrets with registry credentials, in the namespace of Jobs.
    pub pull_secrets: Vec<String>,
    /// Whether steps may use the network of the node.
    pub allows_host_network: bool,
    /// Whether `kubernetes_apply` steps may use the runner's credentials.
    pub allows_apply: bool,
    /// How long a pod may take to start, including the pull of its image.
    pub start_time_max: Duration,
    /// The runner's own pod. If it is in the namespace of Jobs, they are deleted with it.
    pub pod_name: Option<String>,
}

/// Why a runner cannot use Kubernetes.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    #[error("this build has no Kubernetes support; build Berth with the feature `kubernetes`")]
    NotBuilt,
    #[error(
        "a runner executes containers either with a container engine or with Kubernetes; remove [runner.containers] or [runner.kubernetes]"
    )]
    TwoExecutors,
    #[error("the Kubernetes setting `{setting}` is not valid: {detail}")]
    Setting { setting: &'static str, detail: String },
    #[error("cannot use the Kubernetes namespace {namespace}: {detail}")]
    Cluster { namespace: String, detail: String },
}

impl KubernetesOptions {
    /// The labels by which steps find this runner.
    pub fn labels(&self) -> Vec<String> {
        let common = container_labels(self.allows_host_network);
        common.iter().chain(&kubernetes_labels()).map(ToString::to_string).collect()
    }

    /// Checks names before they become parts of request paths.
    pub fn check(&self) -> Result<(), KubernetesError> {
        let refuse = |setting, detail: &str| {
            Err(KubernetesError::Setting {
                setting,
                detail: format!("{detail}; see docs/kubernetes-runners.md"),
            })
        };
        if !is_dns_label(&self.namespace) {
            return refuse("namespace", &format!("{:?} is not the name of a namespace", self.namespace));
        }
        if !is_dns_name(&self.volume_claim) {
            return refuse("volume_claim", &format!("{:?} is not the name of a claim", self.volume_claim));
        }
        if !self.volume_path.is_absolute() {
            return refuse("volume_path", "it must be an absolute path");
        }
        if let Some(account) = self.service_account.as_ref().filter(|name| !is_dns_name(name)) {
            return refuse("service_account", &format!("{account:?} is not the name of a service account"));
        }
        if let Some(secret) = self.pull_secrets.iter().find(|name| !is_dns_name(name)) {
            return refuse("pull_secrets", &format!("{secret:?} is not the name of a secret"));
        }
        for (key, value) in &self.node_selector {
            if !is_label_key(key) || !is_label_value(value) {
                return refuse("node_selector", &format!("{:?} is not a label", format!("{key}={value}")));
            }
        }
        if self.pod_name.as_ref().is_some_and(|name| !is_dns_name(name)) {
            return refuse("pod_name", "it is not the name of a pod");
        }
        if self.start_time_max.is_zero() {
            return refuse("start_seconds_max", "it must be at least 1");
        }
        Ok(())
    }
}

/// A name as in RFC 1123: lower-case letters, digits and `-`.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= DNS_LABEL_BYTES_MAX
        && bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
        && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
}

pub(crate) fn is_dns_name(text: &str) -> bool {
    text.len() <= DNS_NAME_BYTES_MAX && text.split('.').all(is_dns_label)
}

pub(crate) fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= LABEL_BYTES_MAX
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_dns_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_change_a_request_path_are_refused() {
        for bad in ["", "-a", "a-", "A", "a/b", "..", "a b", "a%2f", "a?x=1", &"a".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad:?}");
        }
        assert!(
            is_dns_label("ci-1") && is_dns_name("a.b-c.d") && !is_dns_name("a..b") && !is_dns_name("a/b")
        );
        assert!(
            is_label_value("")
                && is_label_value("a_B.c-1")
                && !is_label_value("a,b")
                && !is_label_value("a=")
        );
        assert!(
            is_label_key("topology.kubernetes.io/zone") && is_label_key("disk") && !is_label_key("a/b/c")
        );
    }
}
