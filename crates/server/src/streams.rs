//! Limits the number of open streaming responses per caller.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use berth_engine::admission::AdmissionControl;
use berth_engine::limits::{HISTORY_CHECKS_AT_ONCE, HISTORY_CHECKS_WAITING_MAX};

pub(crate) struct StreamLimits {
    max: usize,
    open: Arc<Mutex<HashMap<String, usize>>>,
    /// Limits concurrent verifications of a complete audit log, which are CPU-bound.
    pub(crate) checks: AdmissionControl,
}

impl StreamLimits {
    pub(crate) fn new(max: usize) -> Self {
        let checks = AdmissionControl::new(HISTORY_CHECKS_AT_ONCE, HISTORY_CHECKS_WAITING_MAX);
        Self { max, open: Arc::default(), checks }
    }

    /// Counts a new stream. `None` if the caller has reached the limit.
    pub(crate) fn take(&self, caller: String) -> Option<StreamSlot> {
        let mut open = self.open.lock();
        let count = open.entry(caller.clone()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(StreamSlot { caller, open: self.open.clone() })
    }
}

/// One open stream; dropping it frees the slot.
pub(crate) struct StreamSlot {
    caller: String,
    open: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_above_limit_per_caller_are_refused() {
        let streams = StreamLimits::new(2);
        let take = |caller: &str| streams.take(caller.to_owned());
        let (one, two) = (take("a"), take("a"));
        assert!(one.is_some() && two.is_some() && take("a").is_none());
        assert!(take("b").is_some());
        drop(one);
        assert!(take("a").is_some());
        drop(two);
        assert!(streams.open.lock().is_empty());
    }
}
