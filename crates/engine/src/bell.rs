//! Wakes threads and tasks that wait for work.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

pub(super) struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
    /// The same counter for async tasks.
    told: watch::Sender<u64>,
}

impl Default for Bell {
    fn default() -> Self {
        Self { rings: Mutex::default(), rung: Condvar::new(), told: watch::Sender::new(0) }
    }
}

impl Bell {
    pub(super) fn ring(&self) {
        let mut rings = self.rings.lock();
        *rings += 1;
        self.told.send_replace(*rings);
        drop(rings);
        self.rung.notify_all();
    }

    /// The number of notifications so far. Callers read it before they query, so that notifications during the query
    /// are not missed.
    pub(super) fn rings(&self) -> u64 {
        *self.rings.lock()
    }

    /// Waits until there are more than `heard` notifications.
    pub(super) async fn rung(&self, heard: u64) {
        // The channel is closed only at shutdown.
        let _ = self.told.subscribe().wait_for(|rings| *rings > heard).await;
    }

    /// Waits until there are more than `heard` notifications or until `deadline`. Returns false on timeout.
    pub(super) fn wait(&self, heard: u64, deadline: Instant) -> bool {
        let mut rings = self.rings.lock();
        self.rung.wait_while_until(&mut rings, |rings| *rings <= heard, deadline);
        *rings > heard
    }
}
