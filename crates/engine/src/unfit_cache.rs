//! Cache of ready deployments that could not be granted to runners with certain labels, so that they are not retried in
//! a loop. An entry is valid for one version of the deployment.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use berth_core::id::DeploymentId;
use berth_store::tables::schedule::ReadyDeployment;
use quick_cache::sync::Cache;

/// Time to live of an entry; bounds the delay after changes elsewhere, such as a resumed pipeline.
const REMEMBERED: Duration = Duration::from_secs(1);
/// Time to live if all ready steps require other labels, which does not depend on other changes.
const REMEMBERED_FOR_OTHERS: Duration = Duration::from_secs(600);
const UNFIT_MAX: usize = 65_536;

#[derive(Clone, Copy)]
struct UnfitEntry {
    version: i64,
    until: Instant,
}

/// Entries by deployment and label set.
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

/// A hash of the labels. Runners with the same labels can run the same steps.
pub(super) fn hash_labels(labels: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.hash(&mut hasher);
    hasher.finish()
}
