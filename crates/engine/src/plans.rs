//! Caches of plans and runs. A plan never changes once made, nor does a deployment leave its environment, so these are never
//! invalidated. A cached run is valid while it has the version of its row, which is read every time.

use std::sync::Arc;

use berth_core::id::{DeploymentId, EnvironmentId};
use berth_core::run::{Plan, Run};
use berth_store::Read;
use berth_store::records::run;
use berth_store::tables::plan;
use quick_cache::sync::Cache;

use crate::error::EngineError;

/// Entries of each cache.
const KNOWN_MAX: usize = 128;

#[derive(Clone)]
pub struct Plans {
    plans: Arc<Cache<DeploymentId, Arc<Plan>>>,
    runs: Arc<Cache<DeploymentId, Run>>,
    environments: Arc<Cache<DeploymentId, EnvironmentId>>,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            plans: Arc::new(Cache::new(KNOWN_MAX)),
            runs: Arc::new(Cache::new(KNOWN_MAX)),
            environments: Arc::new(Cache::new(KNOWN_MAX)),
        }
    }
}

impl Plans {
    pub fn get(&self, db: &mut impl Read, id: DeploymentId) -> Result<Arc<Plan>, EngineError> {
        if let Some(known) = self.plans.get(&id) {
            return Ok(known);
        }
        let found =
            plan::by_id(db, id)?.ok_or_else(|| EngineError::bug(format!("{id} has a run but no plan")))?;
        let found = Arc::new(found);
        self.plans.insert(id, found.clone());
        Ok(found)
    }

    pub(super) fn run(&self, db: &mut impl Read, id: DeploymentId) -> Result<Option<Run>, EngineError> {
        match self.runs.get(&id) {
            Some(known) if run::version(db, id)? == Some(known.version) => Ok(Some(known)),
            _ => Ok(run::by_id(db, id)?),
        }
    }

    /// Where a deployment was seen before.
    pub(super) fn environment_of(&self, id: DeploymentId) -> Option<EnvironmentId> {
        self.environments.get(&id)
    }

    pub(super) fn seen_in(&self, environment: EnvironmentId, id: DeploymentId) {
        self.environments.insert(id, environment);
    }

    /// Only committed runs are cached: the version of a rolled-back one is used again by the next change.
    pub(super) fn committed(&self, run: Run) {
        if run.status().is_final() {
            self.runs.remove(&run.deployment);
        } else {
            self.runs.insert(run.deployment, run);
        }
    }
}
