//! Plans and runs at hand. A plan never changes once made, nor does a deployment leave its environment, so a copy in memory
//! is as good as the row. A run is as good as long as it has the version of its row, which is looked up every time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_core::id::{DeploymentId, EnvironmentId};
use berth_core::run::{Plan, Run};
use berth_store::Read;
use berth_store::records::{plan, run};

use crate::error::EngineError;

/// Beyond it all are forgotten and read again.
const KNOWN_MAX: usize = 128;

#[derive(Clone, Default)]
pub struct Plans {
    plans: Arc<Mutex<HashMap<DeploymentId, Arc<Plan>>>>,
    runs: Arc<Mutex<HashMap<DeploymentId, Run>>>,
    environments: Arc<Mutex<HashMap<DeploymentId, EnvironmentId>>>,
}

impl Plans {
    pub fn get(&self, db: &mut impl Read, id: DeploymentId) -> Result<Arc<Plan>, EngineError> {
        if let Some(known) = held(&self.plans).get(&id) {
            return Ok(known.clone());
        }
        let found =
            plan::by_id(db, id)?.ok_or_else(|| EngineError::bug(format!("{id} has a run but no plan")))?;
        let found = Arc::new(found);
        keep(&mut held(&self.plans), id, found.clone());
        Ok(found)
    }

    pub(super) fn run(&self, db: &mut impl Read, id: DeploymentId) -> Result<Option<Run>, EngineError> {
        let known = held(&self.runs).get(&id).cloned();
        match known {
            Some(known) if run::version(db, id)? == Some(known.version) => Ok(Some(known)),
            _ => Ok(run::by_id(db, id)?),
        }
    }

    /// Where a deployment was seen before.
    pub(super) fn environment_of(&self, id: DeploymentId) -> Option<EnvironmentId> {
        held(&self.environments).get(&id).copied()
    }

    pub(super) fn seen_in(&self, environment: EnvironmentId, id: DeploymentId) {
        keep(&mut held(&self.environments), id, environment);
    }

    /// Only what was committed: what is undone has a version that somebody else will have too.
    pub(super) fn committed(&self, run: Run) {
        let mut runs = held(&self.runs);
        if run.status().is_final() {
            runs.remove(&run.deployment);
        } else if runs.get(&run.deployment).is_none_or(|known| known.version < run.version) {
            keep(&mut runs, run.deployment, run);
        }
    }
}

fn held<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep<T>(known: &mut HashMap<DeploymentId, T>, id: DeploymentId, found: T) {
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(id, found);
}
