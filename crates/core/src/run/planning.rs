//! Stand-in until planning is merged.

use super::plan::{Plan, When};
use super::state::Run;

impl Plan {
    pub fn decide_when(&self, _run: &Run, stage: usize, index: usize) -> Result<bool, String> {
        match &self.stages[stage].steps[index].when {
            When::Always => Ok(true),
            When::Never => Ok(false),
            When::If(_) => Err("conditions are not evaluated yet".into()),
        }
    }
}
