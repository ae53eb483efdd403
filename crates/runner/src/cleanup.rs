//! Removes the directories of ended attempts on a background thread, so that the next step does not have to wait for
//! the removal.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;

use crate::attempt::dirs::{AttemptDirs, remove_attempt};

/// Maximum number of directories in the queue. When it is full, the calling thread removes its directory itself.
const WAITING_MAX: usize = 64;

pub(crate) struct CleanupQueue {
    /// `None` once the runner is shutting down.
    queue: Mutex<Option<SyncSender<PathBuf>>>,
}

impl CleanupQueue {
    pub(crate) fn new() -> (Self, Receiver<PathBuf>) {
        let (queue, waiting) = sync_channel(WAITING_MAX);
        (Self { queue: Mutex::new(Some(queue)) }, waiting)
    }

    /// Removes the attempt's secrets before it returns, and everything else in the background.
    pub(crate) fn remove(&self, dirs: &AttemptDirs) {
        dirs.remove_secrets();
        let queue = self.queue.lock().clone();
        if queue.is_none_or(|queue| queue.try_send(dirs.dir.clone()).is_err()) {
            remove_attempt(&dirs.dir);
        }
    }

    /// Closes the queue. [`run`] returns once all queued directories have been removed.
    pub(crate) fn close(&self) {
        self.queue.lock().take();
    }
}

/// Removes queued directories until the queue is closed.
pub(crate) fn run(waiting: &Receiver<PathBuf>) {
    waiting.iter().for_each(|dir| remove_attempt(&dir));
}
