//! Cache of ready deployments that could not be granted to runners with certain labels, so that the grant is not
//! retried continuously. An entry is only valid for one version of the deployment.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use berth_core::id::DeploymentId;
use berth_store::tables::schedule::ReadyDeployment;
use quick_cache::sync::Cache;

/// Lifetime of an entry. Some changes, such as resuming the pipeline, do not alter the deployment's version; they take
/// effect after at most this time.
const REMEMBERED: Duration = Duration::from_secs(1);
/// Lifetime of an entry if all ready steps require other labels. Only a new version of the deployment can change that.
const REMEMBERED_FOR_OTHERS: Duration = Duration::from_secs(600);
const UNFIT_MAX: usize = 65_536;

#[derive(Clone, Copy)]
struct UnfitEntry {
    version: i64,
    until: Instant,
}

/// Cache entries by deployment and hash of the labels.
pub(super) struct UnfitCache(Cache<(DeploymentId, u64), UnfitEntry>);

impl Default for UnfitCache {
    fn default() -> Self {
        Self(Cache::new(UNFIT_MAX))
    }
}

impl UnfitCache {
    pub(super) fn contains(&self, it: &ReadyDeployment, labels: &[String]) -> bool {
        let known = self.0.get(&(it.deployment, hash_labels(labels)));
        known.is_some_and(|known| known.version == it.version && Instant::now() < known.until)
    }

    pub(super) fn insert(&self, it: &ReadyDeployment, labels: &[String], is_for_others: bool) {
        let remembered = if is_for_others { REMEMBERED_FOR_OTHERS } else { REMEMBERED };
        let new = UnfitEntry { version: it.version, until: Instant::now() + remembered };
        self.0.insert((it.deployment, hash_labels(labels)), new);
    }
}

/// Returns a hash of the labels. Runners with the same labels can run the same steps.
pub(super) fn hash_labels(labels: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.hash(&mut hasher);
    hasher.finish()
}
