//! The runner of this process: its name, its places, what it executes, and what it has seen of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::attempt::Attempt;
use super::execute::execute;
use super::reap::Watches;
use crate::app::App;
use crate::credential::random_base62;
use crate::limits::DEPLOYMENTS_AT_ONCE;

const BOOT_CHARS: usize = 16;
/// What ends is reported by then; below `SHUTDOWN_MAX`.
const FINISH_MAX: Duration = Duration::from_secs(7);

pub(crate) struct Runner {
    /// New at every start: attempts under another name belong to another process, or to one that is gone.
    boot: String,
    places: Arc<Semaphore>,
    /// By nonce.
    attempts: Mutex<HashMap<String, Arc<Attempt>>>,
    watches: Mutex<Watches>,
    nudge: watch::Sender<()>,
    tasks: TaskTracker,
}

/// A place among the deployments that this process executes at once.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Runner {
    pub(crate) fn new() -> Self {
        Self {
            boot: format!("boot_{}", random_base62(BOOT_CHARS)),
            places: Arc::new(Semaphore::new(DEPLOYMENTS_AT_ONCE)),
            attempts: Mutex::default(),
            watches: Mutex::default(),
            nudge: watch::Sender::new(()),
            tasks: TaskTracker::new(),
        }
    }

    /// Any number of nudges before the next look are one.
    pub(crate) fn nudge(&self) {
        self.nudge.send_replace(());
    }

    pub(super) fn nudges(&self) -> watch::Receiver<()> {
        self.nudge.subscribe()
    }

    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    pub(super) fn place(&self) -> Option<Place> {
        self.places.clone().try_acquire_owned().ok().map(|permit| Place { _permit: permit })
    }

    pub(super) fn has_place(&self) -> bool {
        self.places.available_permits() > 0
    }

    pub(super) fn attempts(&self) -> MutexGuard<'_, HashMap<String, Arc<Attempt>>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything it executes has ended; the caller has made sure that nothing new begins.
    pub(super) async fn finish(&self) {
        self.tasks.close();
        if tokio::time::timeout(FINISH_MAX, self.tasks.wait()).await.is_err() {
            let left = self.attempts().len();
            tracing::error!(left, "some deployments could not be reported; they are lost at the next start");
        }
    }
}

/// Executes a granted attempt on a task of its own.
pub(super) fn begin(app: &Arc<App>, attempt: Attempt, place: Place) {
    let attempt = Arc::new(attempt);
    app.runner.attempts().insert(attempt.nonce.clone(), attempt.clone());
    let held = Held { app: app.clone(), attempt, place: Some(place) };
    app.runner.tasks.spawn(async move { execute(&held.app, &held.attempt).await });
}

/// Gone with its task, however that ends: an attempt nobody executes gives no sign of life.
struct Held {
    app: Arc<App>,
    attempt: Arc<Attempt>,
    place: Option<Place>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.app.runner.attempts().remove(&self.attempt.nonce);
        drop(self.place.take());
        self.app.nudge();
    }
}
