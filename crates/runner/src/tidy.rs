//! Removes what attempts leave, on a thread of its own: the next step does not wait for that.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};

use crate::attempt::place::{Place, remove_attempt};

/// Directories that may wait. When there are more, whoever brings one removes it.
const WAITING_MAX: usize = 64;

pub(crate) struct Tidy {
    /// Nothing once the runner ends.
    queue: Mutex<Option<SyncSender<PathBuf>>>,
}

impl Tidy {
    pub(crate) fn new() -> (Self, Receiver<PathBuf>) {
        let (queue, to_remove) = sync_channel(WAITING_MAX);
        (Self { queue: Mutex::new(Some(queue)) }, to_remove)
    }

    /// Secrets are gone when this returns, all of it soon after.
    pub(crate) fn remove(&self, place: &Place) {
        if place.has_secrets() {
            return place.remove();
        }
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let refused = match queue {
            Some(queue) => queue.try_send(place.dir.clone()).err(),
            None => Some(TrySendError::Disconnected(place.dir.clone())),
        };
        if refused.is_some() {
            place.remove();
        }
    }

    /// The thread ends when it has removed what waits.
    pub(crate) fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

pub(crate) fn run(to_remove: &Receiver<PathBuf>) {
    while let Ok(dir) = to_remove.recv() {
        remove_attempt(&dir);
    }
}
