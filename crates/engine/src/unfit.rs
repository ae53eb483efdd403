//! Unfit: deployments that are ready and that a runner cannot have, remembered so that they are not tried again
//! and again. Forgotten as soon as they change.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_core::id::DeploymentId;
use berth_store::query::runs::Ready;

/// What else may have changed, such as a pipeline that was resumed, is seen then.
const REMEMBERED: Duration = Duration::from_secs(1);
/// None of its steps is for such a runner, whatever else changes.
const REMEMBERED_FOR_OTHERS: Duration = Duration::from_secs(600);
const UNFIT_MAX: usize = 65_536;

struct Known {
    version: i64,
    until: Instant,
}

#[derive(Default)]
pub(super) struct Unfit {
    /// By what the runner can do; with the version they had.
    known: Mutex<HashMap<(DeploymentId, u64), Known>>,
}

impl Unfit {
    pub(super) fn is_known(&self, it: &Ready, labels: &[String]) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&(it.deployment, kind(labels)))
            .is_some_and(|known| known.version == it.version && Instant::now() < known.until)
    }

    pub(super) fn note(&self, it: &Ready, labels: &[String], is_for_others: bool) {
        let remembered = if is_for_others { REMEMBERED_FOR_OTHERS } else { REMEMBERED };
        let new = Known { version: it.version, until: Instant::now() + remembered };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= UNFIT_MAX {
            known.clear();
        }
        known.insert((it.deployment, kind(labels)), new);
    }
}

/// Runners with the same labels can have the same steps.
pub(super) fn kind(labels: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.hash(&mut hasher);
    hasher.finish()
}
