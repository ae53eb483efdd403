//! Plans at hand: they never change once made, so a copy in memory is as good as the row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_core::id::DeploymentId;
use berth_core::run::Plan;
use berth_store::Read;
use berth_store::records::plan;

use crate::error::AppError;

/// Beyond it all are forgotten and read again.
const PLANS_MAX: usize = 128;

#[derive(Clone, Default)]
pub(crate) struct Plans {
    known: Arc<Mutex<HashMap<DeploymentId, Arc<Plan>>>>,
}

impl Plans {
    pub(crate) fn get(&self, db: &mut impl Read, id: DeploymentId) -> Result<Arc<Plan>, AppError> {
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Ok(known.clone());
        }
        let found =
            plan::by_id(db, id)?.ok_or_else(|| AppError::bug(format!("{id} has a run but no plan")))?;
        let found = Arc::new(found);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PLANS_MAX {
            known.clear();
        }
        known.insert(id, found.clone());
        Ok(found)
    }
}
