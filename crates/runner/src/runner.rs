//! Start, shared state and shutdown of the runner.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptRef, Isolation, Link};
use parking_lot::{Condvar, Mutex};

use crate::attempt::place::attempts_dir;
use crate::cleanup::{self, Cleanup};
use crate::control::{Control, Why};
use crate::dispatch;
use crate::left_over::kill_left_over;
use crate::log::GiveUp;
use crate::process::tree::become_subreaper;
use crate::pulse::{self, Pulse};
use crate::registry::Cache;
use crate::settings::{Settings, StartError};

/// How long reports are retried on shutdown, after the last step has ended.
const LAST_REPORTS: Duration = Duration::from_secs(2);
const PAUSE_AT_THE_END: Duration = Duration::from_millis(50);

/// Executes steps until it is stopped.
pub struct Runner {
    shared: Arc<Shared>,
    dispatcher: JoinHandle<()>,
    pulse: JoinHandle<()>,
    cleanup: JoinHandle<()>,
    _lock: File,
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) link: Arc<dyn Link>,
    pub(crate) pulse: Pulse,
    pub(crate) cleanup: Cleanup,
    pub(crate) registries: Cache,
    state: Arc<Mutex<State>>,
    changed: Condvar,
}

struct State {
    running: HashMap<String, Running>,
    changed_at: Instant,
    /// Slots with a running thread.
    taken: usize,
    /// No new steps are started.
    drains: bool,
    /// Set on shutdown: when to give up all retries.
    ends_by: Option<Instant>,
}

struct Running {
    attempt: AttemptRef,
    control: Arc<Control>,
}

impl Runner {
    /// Kills leftovers of an earlier process, then starts to ask for work.
    pub fn start(mut settings: Settings, link: Arc<dyn Link>) -> Result<Self, StartError> {
        let lock = prepare(&mut settings)?;
        become_subreaper();
        let left = kill_left_over(&settings.work_dir)
            .map_err(|source| StartError::WorkDir { path: settings.work_dir.clone(), source })?;
        if left.processes > 0 || left.attempts > 0 {
            tracing::info!(left.processes, left.attempts, "cleaned up after an earlier process");
        }
        let state = State {
            running: HashMap::new(),
            changed_at: Instant::now(),
            taken: 0,
            drains: false,
            ends_by: None,
        };
        let (cleanup, waiting) = Cleanup::new();
        let shared = Arc::new(Shared {
            registries: Cache::new(&settings.work_dir, &settings.confinement),
            settings,
            link,
            pulse: Pulse::default(),
            cleanup,
            state: Arc::new(Mutex::new(state)),
            changed: Condvar::new(),
        });
        let cleanup = thread("runner-cleanup", move || cleanup::run(&waiting))?;
        let beating = shared.clone();
        let pulse =
            thread("runner-pulse", move || pulse::run(&beating)).inspect_err(|_| shared.cleanup.end())?;
        let working = shared.clone();
        let dispatcher = match thread("runner", move || dispatch::run(&working)) {
            Ok(dispatcher) => dispatcher,
            Err(error) => {
                shared.end();
                shared.cleanup.end();
                return Err(error);
            }
        };
        Ok(Self { shared, dispatcher, pulse, cleanup, _lock: lock })
    }

    /// The isolation level of steps.
    pub fn isolation(&self) -> Isolation {
        self.shared.settings.confinement.isolation()
    }

    /// Stops taking new steps; running ones continue.
    pub fn drain(&self) {
        self.shared.state.lock().drains = true;
        self.shared.changed.notify_all();
    }

    /// Whether all steps have ended after [`drain`](Self::drain).
    pub fn is_drained(&self) -> bool {
        self.dispatcher.is_finished()
    }

    /// Stops every step, waits for the grace period, and reports them as interrupted.
    pub fn stop(self) {
        self.shared.end();
        let join = |thread: JoinHandle<()>| {
            if thread.join().is_err() {
                tracing::error!("runner thread panicked");
            }
        };
        join(self.dispatcher);
        join(self.pulse);
        self.shared.cleanup.end();
        join(self.cleanup);
    }
}

impl Shared {
    fn end(&self) {
        let kill_by = Instant::now() + self.settings.shutdown_grace;
        let mut state = self.state.lock();
        state.ends_by = Some(kill_by + LAST_REPORTS);
        for running in state.running.values() {
            running.control.stop(Why::Shutdown, Some(kill_by));
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state.lock().drains
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.state.lock().ends_by.is_some()
    }

    /// Whether retries are pointless because the shutdown deadline has passed.
    pub(crate) fn has_to_end(&self) -> bool {
        self.state.lock().ends_by.is_some_and(|by| Instant::now() >= by)
    }

    pub(crate) fn give_up(&self) -> GiveUp {
        let state = self.state.clone();
        Arc::new(move || {
            let state = state.lock();
            state.ends_by.is_some_and(|by| Instant::now() >= by)
        })
    }

    /// Returns false if the attempt is already running.
    pub(crate) fn begin(&self, attempt: &AttemptRef, control: &Arc<Control>) -> bool {
        let mut state = self.state.lock();
        if state.running.contains_key(&attempt.nonce) {
            return false;
        }
        let running = Running { attempt: attempt.clone(), control: control.clone() };
        state.running.insert(attempt.nonce.clone(), running);
        state.changed_at = Instant::now();
        if state.ends_by.is_some() {
            control.stop(Why::Shutdown, None);
        }
        drop(state);
        self.changed.notify_all();
        true
    }

    pub(crate) fn finish(&self, attempt: &AttemptRef) {
        let mut state = self.state.lock();
        state.running.remove(&attempt.nonce);
        state.changed_at = Instant::now();
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn stop_attempt(&self, nonce: &str, why: Why) {
        if let Some(running) = self.state.lock().running.get(nonce) {
            running.control.stop(why, None);
        }
    }

    /// Returns the running attempts and how long the set has been unchanged; `None` when the runner has shut down.
    pub(crate) fn wait_for_attempts(&self) -> Option<(Vec<AttemptRef>, Duration)> {
        let mut state = self.state.lock();
        while state.running.is_empty() {
            if state.ends_by.is_some() {
                return None;
            }
            self.changed.wait(&mut state);
        }
        let attempts = state.running.values().map(|running| running.attempt.clone()).collect();
        Some((attempts, state.changed_at.elapsed()))
    }

    pub(crate) fn wait_for_change(&self, limit: Duration) {
        self.changed.wait_for(&mut self.state.lock(), limit);
    }

    /// Waits for a free slot and returns how many there are; `None` on drain or shutdown.
    pub(crate) fn wait_for_place(&self) -> Option<usize> {
        let goes_on = |state: &State| state.ends_by.is_none() && !state.drains;
        let is_full = |state: &mut State| state.taken >= self.settings.places && goes_on(state);
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, is_full);
        goes_on(&state).then(|| self.settings.places - state.taken)
    }

    pub(crate) fn take_place(&self) {
        self.state.lock().taken += 1;
    }

    pub(crate) fn free_place(&self) {
        self.state.lock().taken -= 1;
        self.changed.notify_all();
    }

    /// Waits before a retry: `limit`, or a short pause on shutdown.
    pub(crate) fn pause(&self, limit: Duration) {
        let goes_on = |state: &mut State| state.ends_by.is_none();
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, goes_on, limit);
        let is_ending = state.ends_by.is_some();
        drop(state);
        if is_ending {
            std::thread::sleep(limit.min(PAUSE_AT_THE_END));
        }
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new().name(name.into()).spawn(run).map_err(StartError::Thread)
}

/// Makes the work directory private, locks it and stores its canonical path.
fn prepare(settings: &mut Settings) -> Result<File, StartError> {
    let path = settings.work_dir.clone();
    let failed = |source| StartError::WorkDir { path: path.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
    settings.work_dir = path.canonicalize().map_err(failed)?;
    make_private(&settings.work_dir).map_err(failed)?;
    settings.confinement = settings.confinement.clone().hiding(&settings.work_dir)?;
    settings.confinement.admit(&settings.work_dir).map_err(failed)?;
    let lock = settings.work_dir.join("lock");
    let lock =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StartError::InUse(settings.work_dir.clone())),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let attempts = attempts_dir(&settings.work_dir);
    DirBuilder::new().recursive(true).mode(0o700).create(&attempts).map_err(failed)?;
    settings.confinement.admit(&attempts).map_err(failed)?;
    settings.confinement.check_enters(&attempts)?;
    Ok(lock)
}

fn make_private(dir: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
}
