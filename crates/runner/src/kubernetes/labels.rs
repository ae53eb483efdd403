//! Labels of Jobs, pods and Secrets, by which they are found again.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest as _, Sha256};

use super::cluster::KubernetesCluster;
use super::options::is_label_value;
use crate::attempt::RunningAttempt;

/// Id of the attempt's directories.
pub(super) const ATTEMPT: &str = "berth.attempt";
/// The runner's work directory on the volume, which only one runner uses at a time.
pub(super) const WORK_DIR: &str = "berth.work-dir";
const FENCE: &str = "berth.fence";
const RUNNER: &str = "berth.runner";
const ENVIRONMENT: &str = "berth.environment";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "berth";
/// Number of hexadecimal digits that stand for a text that is not a label value.
const HASH_CHARS: usize = 40;

pub(super) fn labels_of(
    cluster: &KubernetesCluster,
    attempt: &RunningAttempt<'_>,
    id: &str,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (MANAGED_BY.to_owned(), MANAGER.to_owned()),
        (ATTEMPT.to_owned(), label_value(id)),
        (RUNNER.to_owned(), label_value(&attempt.settings().boot)),
        (WORK_DIR.to_owned(), cluster.work_dir_label.clone()),
    ]);
    if let Some(holder) = &attempt.assignment.holder {
        labels.insert(FENCE.to_owned(), holder.fence.to_string());
        labels.insert(ENVIRONMENT.to_owned(), label_value(&holder.environment_id));
    }
    labels
}

pub(super) fn metadata(
    name: &str,
    labels: BTreeMap<String, String>,
    owner: Option<&OwnerReference>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels),
        owner_references: owner.map(|owner| vec![owner.clone()]),
        ..Default::default()
    }
}

/// A selector for everything of one attempt.
pub(super) fn attempt_selector(id: &str) -> String {
    format!("{ATTEMPT}={}", label_value(id))
}

/// The label of a work directory: where it is on which volume.
pub(super) fn work_dir_label(claim: &str, path: &Path) -> String {
    hash(&format!("{claim}:{}", path.display()))
}

/// Returns the text, or a hash of it if it cannot be a label.
pub(super) fn label_value(text: &str) -> String {
    if text.is_empty() || !is_label_value(text) { hash(text) } else { text.to_owned() }
}

pub(super) fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let mut hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(HASH_CHARS);
    hex
}
