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
const UNFIT_MAX: usize = 65_536;

#[derive(Default)]
pub(super) struct Unfit {
    /// By what the runner can do; with the version they had.
    known: Mutex<HashMap<(DeploymentId, u64), (i64, Instant)>>,
}

impl Unfit {
    pub(super) fn is_known(&self, it: &Ready, labels: &[String]) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&(it.deployment, kind(labels)))
            .is_some_and(|(version, since)| *version == it.version && since.elapsed() < REMEMBERED)
    }

    pub(super) fn note(&self, it: &Ready, labels: &[String]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= UNFIT_MAX {
            known.clear();
        }
        known.insert((it.deployment, kind(labels)), (it.version, Instant::now()));
    }
}

/// Runners with the same labels can have the same steps.
fn kind(labels: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.hash(&mut hasher);
    hasher.finish()
}
