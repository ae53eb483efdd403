//! Removes what attempts leave and makes directories for the next ones, on a thread of its own: no step waits for that.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use crate::attempt::place::{Made, Place, make_ready, remove_attempt, remove_ready};
use crate::settings::Settings;

/// Directories that may wait to be removed. When there are more, whoever brings one removes it.
const WAITING_MAX: usize = 64;
/// Places made ahead.
const READY_MAX: usize = 2;
/// What steps and the server do comes first.
const NICENESS: i32 = 10;

pub(crate) struct Tidy {
    /// Nothing once the runner ends.
    queue: Mutex<Option<SyncSender<Chore>>>,
    ready: Mutex<Vec<Made>>,
}

pub(crate) enum Chore {
    /// And make one for the next: while a step runs there is more time than between two.
    Remove(PathBuf),
    Make,
}

impl Tidy {
    pub(crate) fn new() -> (Self, Receiver<Chore>) {
        let (queue, chores) = sync_channel(WAITING_MAX);
        (Self { queue: Mutex::new(Some(queue)), ready: Mutex::default() }, chores)
    }

    /// A fresh place, made ahead if there is one.
    pub(crate) fn place(&self, settings: &Settings) -> std::io::Result<Place> {
        let made = self.ready().pop();
        match made.and_then(|made| Place::take(settings, made).ok()) {
            Some(place) => Ok(place),
            None => {
                self.ask(Chore::Make);
                Place::create(settings)
            }
        }
    }

    /// Secrets are gone when this returns, all of it soon after.
    pub(crate) fn remove(&self, place: &Place) {
        if place.has_secrets() || !self.ask(Chore::Remove(place.dir.clone())) {
            place.remove();
            self.ask(Chore::Make);
        }
    }

    /// The thread ends when it has removed what waits.
    pub(crate) fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Until the end, and then until nothing is left of it.
    pub(crate) fn run(&self, chores: &Receiver<Chore>, work_dir: &Path) {
        // On Linux it is the thread's own.
        if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
            tracing::debug!("directories are made and removed as if that were urgent: {error}");
        }
        while let Ok(chore) = chores.recv() {
            match chore {
                Chore::Remove(dir) => {
                    self.make(work_dir);
                    remove_attempt(&dir);
                }
                // Without one, the next attempt makes its own, and tells if it cannot.
                Chore::Make => self.make(work_dir),
            }
        }
        self.ready().clear();
        remove_ready(work_dir);
    }

    fn make(&self, work_dir: &Path) {
        if self.ready().len() < READY_MAX
            && let Ok(made) = make_ready(work_dir)
        {
            self.ready().push(made);
        }
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, Vec<Made>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False: too much waits already, or nobody is there any more.
    fn ask(&self, chore: Chore) -> bool {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        queue.is_some_and(|queue| queue.try_send(chore).is_ok())
    }
}
