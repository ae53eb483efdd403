//! Runs commands as Kubernetes Jobs, one for each attempt, and applies manifests.
//!
//! ```text
//! prepare   resolve the image · raise the fence · create a suspended Job and its Secrets
//! start     resume the Job · show events until the pod runs · copy its log
//! reap      delete the Job, its pods and Secrets; verify that they are gone
//! ```
//!
//! The workspace is on a volume that the runner and the pods mount, so a pod can be on any node. Everything that is
//! created has labels, so that leftovers of a crash can be found (see [`orphans`]). A pod gets the workspace, the output
//! file and its Secrets, and nothing else of the runner.

#[cfg(feature = "kubernetes")]
mod apply;
#[cfg(feature = "kubernetes")]
mod cluster;
#[cfg(feature = "kubernetes")]
mod executor;
#[cfg(feature = "kubernetes")]
mod fence;
#[cfg(feature = "kubernetes")]
mod follow;
#[cfg(feature = "kubernetes")]
mod image;
#[cfg(feature = "kubernetes")]
mod job;
#[cfg(feature = "kubernetes")]
mod labels;
#[cfg(feature = "kubernetes")]
mod log;
mod options;
#[cfg(feature = "kubernetes")]
mod orphans;
#[cfg(feature = "kubernetes")]
mod pod;
#[cfg(feature = "kubernetes")]
mod pod_state;
#[cfg(feature = "kubernetes")]
mod pod_template;

#[cfg(feature = "kubernetes")]
pub(crate) use apply::apply_manifests;
#[cfg(feature = "kubernetes")]
pub(crate) use cluster::KubernetesCluster;
#[cfg(feature = "kubernetes")]
pub(crate) use executor::{PodExecutor, refuse_unconfined_process};
pub use options::{KubernetesError, KubernetesOptions};
