//! Containers and services of a step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::grammar::{EnvVarName, Label, SecretName, ServiceName};
use super::seconds::DurationSeconds;
use crate::name::InvalidName;
use crate::step::NetworkAccess;

/// The label of runners that can execute container steps.
pub const CONTAINER_LABEL: &str = "container";
/// The label of runners that also allow containers in the network of the machine.
pub const HOST_NETWORK_LABEL: &str = "container-host-network";
/// The label of runners that execute container steps in a Kubernetes cluster.
pub const KUBERNETES_LABEL: &str = "kubernetes";
/// The labels of what a runner offers beyond its own machine's containers: a runner has them only if it offers it, and an
/// admin has allowed it.
pub const PRIVILEGED_LABELS: [&str; 2] = [HOST_NETWORK_LABEL, KUBERNETES_LABEL];
/// The smallest memory limit. Runtimes cannot start a process with less.
pub const CONTAINER_MEMORY_BYTES_MIN: u64 = 8 * 1024 * 1024;
/// The largest memory limit: 64 TiB.
pub const CONTAINER_MEMORY_BYTES_MAX: u64 = 64 << 40;
/// The smallest and the largest CPU limit, in thousandths of a CPU.
pub const CONTAINER_MILLI_CPUS_MIN: u32 = 10;
pub const CONTAINER_MILLI_CPUS_MAX: u32 = 1_024_000;
/// Maximum number of services of one step.
pub const SERVICES_MAX: usize = 10;
/// How long a service may take to accept connections if the definition does not say.
pub const SERVICE_READY_S: u64 = 60;
/// Maximum of `ready.within`, in seconds.
pub const SERVICE_READY_S_MAX: u64 = 60 * 60;

/// The container that a step runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerOptions {
    /// May contain expressions. See [`super::image::ImageReference`].
    pub image: String,
    /// A name, or numbers as in `1000:1000`. `None` means the image's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `None` means `bridge`, or `none` if that is the organization's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkAccess>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryLimit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuLimit>,
    #[serde(default)]
    pub pull: ImagePullPolicy,
    /// The secret that the registry of the image asks for, as `USER:PASSWORD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<SecretName>,
}

/// A memory limit, written like `512MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemoryLimit(u64);

const MEMORY_UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

impl MemoryLimit {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let bytes = MEMORY_UNITS
            .iter()
            .find_map(|(unit, size)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*size));
        let range = CONTAINER_MEMORY_BYTES_MIN..=CONTAINER_MEMORY_BYTES_MAX;
        bytes
            .filter(|bytes| range.contains(bytes))
            .map(Self)
            .ok_or(InvalidName("is not a memory limit; write it like 512MiB or 2GiB, from 8MiB to 65536GiB"))
    }

    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl TryFrom<String> for MemoryLimit {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::parse(&text)
    }
}

impl From<MemoryLimit> for String {
    fn from(limit: MemoryLimit) -> String {
        format!("{}KiB", limit.0 >> 10)
    }
}

/// A CPU limit, written as a number of CPUs: `2`, `0.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct CpuLimit {
    milli: u32,
}

impl CpuLimit {
    pub const fn as_milli(self) -> u32 {
        self.milli
    }
}

impl TryFrom<f64> for CpuLimit {
    type Error = InvalidName;
    fn try_from(cpus: f64) -> Result<Self, InvalidName> {
        let milli = cpus * 1000.0;
        if !(f64::from(CONTAINER_MILLI_CPUS_MIN)..=f64::from(CONTAINER_MILLI_CPUS_MAX)).contains(&milli) {
            return Err(InvalidName("must be a number of CPUs from 0.01 to 1024"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in the range of u32")]
        Ok(Self { milli: milli.round() as u32 })
    }
}

impl From<CpuLimit> for f64 {
    fn from(limit: CpuLimit) -> f64 {
        f64::from(limit.milli) / 1000.0
    }
}

/// When to pull an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImagePullPolicy {
    #[default]
    IfMissing,
    Always,
    Never,
}

impl ImagePullPolicy {
    pub const ALL: [(&'static str, Self); 3] =
        [("if_missing", Self::IfMissing), ("always", Self::Always), ("never", Self::Never)];
}

/// A container that runs next to a step, such as a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceDefinition {
    /// May contain expressions.
    pub image: String,
    /// Values may contain expressions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvVarName, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<ServiceReadiness>,
}

/// When a service counts as ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReadiness {
    /// The port that must accept connections.
    pub tcp: u16,
    pub within: DurationSeconds,
}

/// Services by the name under which the step reaches them.
pub type StepServices = BTreeMap<ServiceName, ServiceDefinition>;

/// The labels that a runner needs for a step in a container, in addition to `runs_on`.
pub fn container_labels(uses_host_network: bool) -> Vec<Label> {
    let names = [Some(CONTAINER_LABEL), uses_host_network.then_some(HOST_NETWORK_LABEL)];
    names.into_iter().flatten().filter_map(|name| Label::parse(name).ok()).collect()
}

/// The labels that a runner needs to lend its Kubernetes credentials to a step.
pub fn kubernetes_labels() -> Vec<Label> {
    Label::parse(KUBERNETES_LABEL).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_labels_are_valid_labels() {
        let labels = container_labels(true);
        let names: Vec<&str> = labels.iter().map(Label::as_str).collect();
        assert_eq!(names, [CONTAINER_LABEL, HOST_NETWORK_LABEL]);
        assert_eq!(kubernetes_labels().len(), 1);
    }
}
