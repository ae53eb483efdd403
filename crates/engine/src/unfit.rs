//! Unfit: deployments that are ready and that a runner cannot have, remembered so that they are not tried again
//! and again. Forgotten as soon as they change.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use berth_core::id::DeploymentId;
use berth_store::query::runs::Ready;
use quick_cache::sync::Cache;

/// What else may have changed, such as a pipeline that was resumed, is seen then.
const REMEMBERED: Duration = Duration::from_secs(1);
/// None of its steps is for such a runner, whatever else changes.
const REMEMBERED_FOR_OTHERS: Duration = Duration::from_secs(600);
const UNFIT_MAX: usize = 65_536;

#[derive(Clone, Copy)]
struct Known {
    version: i64,
    until: Instant,
}

/// By the labels of the runner; with the version they had.
pub(super) struct Unfit(Cache<(DeploymentId, u64), Known>);

impl Default for Unfit {
    fn default() -> Self {
        Self(Cache::new(UNFIT_MAX))
    }
}

impl Unfit {
    pub(super) fn is_known(&self, it: &Ready, labels: &[String]) -> bool {
        let known = self.0.get(&(it.deployment, kind(labels)));
        known.is_some_and(|known| known.version == it.version && Instant::now() < known.until)
    }

    pub(super) fn note(&self, it: &Ready, labels: &[String], is_for_others: bool) {
        let remembered = if is_for_others { REMEMBERED_FOR_OTHERS } else { REMEMBERED };
        let new = Known { version: it.version, until: Instant::now() + remembered };
        self.0.insert((it.deployment, kind(labels)), new);
    }
}

/// Runners with the same labels can have the same steps.
pub(super) fn kind(labels: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.hash(&mut hasher);
    hasher.finish()
}
