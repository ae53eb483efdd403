//! Caches plans, runs, and the environment that each deployment belongs to. Plans are immutable and a deployment never
//! changes its environment, so neither is ever invalidated. A cached run is only used if its version equals the version
//! in the database, which is checked on every read.

use std::sync::Arc;

use berth_core::deployment::run::{Plan, Run};
use berth_core::id::{DeploymentId, EnvironmentId};
use berth_store::StoreRead;
use berth_store::tables::{plan, run};
use quick_cache::sync::Cache;

use crate::error::EngineError;

/// Maximum number of entries per cache.
const KNOWN_MAX: usize = 128;

#[derive(Clone)]
pub struct RunCache {
    plans: Arc<Cache<DeploymentId, Arc<Plan>>>,
    runs: Arc<Cache<DeploymentId, Run>>,
    environments: Arc<Cache<DeploymentId, EnvironmentId>>,
}

impl Default for RunCache {
    fn default() -> Self {
        Self {
            plans: Arc::new(Cache::new(KNOWN_MAX)),
            runs: Arc::new(Cache::new(KNOWN_MAX)),
            environments: Arc::new(Cache::new(KNOWN_MAX)),
        }
    }
}

impl RunCache {
    pub fn plan(&self, db: &mut impl StoreRead, id: DeploymentId) -> Result<Arc<Plan>, EngineError> {
        if let Some(known) = self.plans.get(&id) {
            return Ok(known);
        }
        let found =
            plan::by_id(db, id)?.ok_or_else(|| EngineError::bug(format!("{id} has a run but no plan")))?;
        let found = Arc::new(found);
        self.plans.insert(id, found.clone());
        Ok(found)
    }

    pub(super) fn run(&self, db: &mut impl StoreRead, id: DeploymentId) -> Result<Option<Run>, EngineError> {
        match self.runs.get(&id) {
            Some(known) if run::load_version(db, id)? == Some(known.version) => Ok(Some(known)),
            _ => Ok(run::by_id(db, id)?),
        }
    }

    /// Returns the environment of a deployment, if it is cached.
    pub(super) fn environment_of(&self, id: DeploymentId) -> Option<EnvironmentId> {
        self.environments.get(&id)
    }

    pub(super) fn cache_environment(&self, environment: EnvironmentId, id: DeploymentId) {
        self.environments.insert(id, environment);
    }

    /// Caches a committed run. An uncommitted run must not be cached: if its transaction is rolled back, the next
    /// change gets the same version number.
    pub(super) fn cache_run(&self, run: Run) {
        if run.status().is_final() {
            self.runs.remove(&run.deployment);
        } else {
            self.runs.insert(run.deployment, run);
        }
    }
}
