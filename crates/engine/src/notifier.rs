//! Wakes threads and tasks that wait for work.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

pub(super) struct WorkNotifier {
    count: Mutex<u64>,
    condvar: Condvar,
    /// The same counter, for async tasks.
    sender: watch::Sender<u64>,
}

impl Default for WorkNotifier {
    fn default() -> Self {
        Self { count: Mutex::default(), condvar: Condvar::new(), sender: watch::Sender::new(0) }
    }
}

impl WorkNotifier {
    pub(super) fn notify(&self) {
        let mut rings = self.count.lock();
        *rings += 1;
        self.sender.send_replace(*rings);
        drop(rings);
        self.condvar.notify_all();
    }

    /// Returns the number of notifications so far. Callers read it before they query the database, so that they do not
    /// miss a notification that arrives during the query.
    pub(super) fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Waits until there have been more than `heard` notifications.
    pub(super) async fn wait_async(&self, heard: u64) {
        // The channel is closed only at shutdown.
        let _ = self.sender.subscribe().wait_for(|rings| *rings > heard).await;
    }

    /// Waits until there have been more than `heard` notifications, or until `deadline`. Returns false on timeout.
    pub(super) fn wait(&self, heard: u64, deadline: Instant) -> bool {
        let mut rings = self.count.lock();
        self.condvar.wait_while_until(&mut rings, |rings| *rings <= heard, deadline);
        *rings > heard
    }
}
