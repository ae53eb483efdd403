//! Allocates the slots of a runner that works for all organizations. Each organization may only use a share of the
//! slots, so that its long-running steps leave slots for other organizations.

use std::collections::HashMap;

use berth_core::id::OrgId;
use berth_store::tables::{attempt, organization};

use crate::error::EngineError;
use crate::grant::WorkRequest;
use crate::lost_attempts::LIVE_MAX;
use crate::services::Services;

pub(crate) struct RunnerSlots {
    taken: HashMap<OrgId, usize>,
    share: usize,
}

impl RunnerSlots {
    /// Loads how many slots each organization uses on the runner. If the runner belongs to a single organization, its
    /// slots are not divided.
    pub(crate) fn load(services: &Services, asking: &WorkRequest<'_>) -> Result<Self, EngineError> {
        let (runner, free) = (asking.runner.to_owned(), asking.nonces.len());
        if asking.org.is_some() {
            return Ok(Self { taken: HashMap::new(), share: usize::MAX });
        }
        services.store.read_blocking(None, move |db| {
            let mut taken: HashMap<OrgId, usize> = HashMap::new();
            let live = attempt::list_live_of_runner(db, &runner, LIVE_MAX)?;
            for attempt in &live {
                *taken.entry(attempt.org).or_default() += 1;
            }
            let organizations = organization::list_ids(db, None)?.len();
            Ok(Self { taken, share: share(live.len() + free, organizations) })
        })
    }

    /// Returns the number of additional slots that the organization may use.
    pub(crate) fn free(&self, org: OrgId) -> usize {
        self.share.saturating_sub(self.taken.get(&org).copied().unwrap_or(0))
    }

    pub(crate) fn take(&mut self, org: OrgId, count: usize) {
        *self.taken.entry(org).or_default() += count;
    }
}

/// Returns the number of slots that one organization may use: about three quarters, and always at least one less than
/// all. If there is only one organization or one slot, returns all slots.
fn share(places: usize, organizations: usize) -> usize {
    if organizations < 2 || places < 2 { places } else { places - (places / 4).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn organization_share_leaves_slots_for_others() {
        for (places, organizations, expected) in
            [(16, 1, 16), (16, 2, 12), (16, 100, 12), (4, 2, 3), (3, 2, 2), (2, 2, 1), (1, 2, 1), (0, 2, 0)]
        {
            assert_eq!(
                share(places, organizations),
                expected,
                "{places} places, {organizations} organizations"
            );
        }
    }
}
