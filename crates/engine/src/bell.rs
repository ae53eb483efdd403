//! A bell for threads that wait for work: whoever heard it rings looks again.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

pub(super) struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
    /// The same for those who wait without a thread.
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

    /// How often it has rung: taken before a look, so that what happens during it is not missed.
    pub(super) fn rings(&self) -> u64 {
        *self.rings.lock()
    }

    /// When it has rung more often than `heard`.
    pub(super) async fn rung(&self, heard: u64) {
        // A missing sender is an ending program.
        let _ = self.told.subscribe().wait_for(|rings| *rings > heard).await;
    }

    /// Waits until it has rung more often than `heard`, or until `deadline`. False: time is over.
    pub(super) fn wait(&self, heard: u64, deadline: Instant) -> bool {
        let mut rings = self.rings.lock();
        self.rung.wait_while_until(&mut rings, |rings| *rings <= heard, deadline);
        *rings > heard
    }
}
