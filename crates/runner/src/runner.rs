//! Start, shared state and shutdown of the runner.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptRef, Isolation, RunnerLink};
use parking_lot::{Condvar, Mutex};

use crate::attempt::dirs::attempts_dir;
use crate::cleanup::{self, CleanupQueue};
use crate::container::ContainerEngine;
use crate::dispatch;
use crate::heartbeat::{self, HeartbeatState};
#[cfg(feature = "kubernetes")]
use crate::kubernetes::KubernetesCluster;
use crate::kubernetes::KubernetesError;
use crate::leftovers::kill_leftovers;
use crate::log::GiveUpCheck;
use crate::process::tree::become_subreaper;
use crate::registry::RegistryCache;
use crate::settings::{RunnerOptions, RunnerStartError};
use crate::sources::SourceCache;
use crate::stop_signal::{StopReason, StopSignal};

/// How long reports are retried during shutdown, after the last step has ended.
const LAST_REPORTS_TIME: Duration = Duration::from_secs(2);
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(50);

/// A runner. It executes steps until it is stopped.
pub struct StepRunner {
    shared: Arc<RunnerShared>,
    dispatcher: JoinHandle<()>,
    pulse: JoinHandle<()>,
    cleanup: JoinHandle<()>,
    _lock: File,
}

pub(crate) struct RunnerShared {
    pub(crate) settings: RunnerOptions,
    pub(crate) link: Arc<dyn RunnerLink>,
    pub(crate) pulse: HeartbeatState,
    pub(crate) cleanup: CleanupQueue,
    pub(crate) registries: RegistryCache,
    pub(crate) sources: SourceCache,
    pub(crate) containers: Option<ContainerEngine>,
    #[cfg(feature = "kubernetes")]
    pub(crate) kubernetes: Option<KubernetesCluster>,
    state: Arc<Mutex<RunnerSharedState>>,
    changed: Condvar,
}

struct RunnerSharedState {
    running: HashMap<String, ActiveAttempt>,
    changed_at: Instant,
    /// Number of slots with a running step thread.
    taken_slots: usize,
    /// Set while the runner starts no new steps.
    is_draining: bool,
    /// The time at which all retries are given up. Set on shutdown.
    shutdown_deadline: Option<Instant>,
}

struct ActiveAttempt {
    attempt: AttemptRef,
    control: Arc<StopSignal>,
}

impl StepRunner {
    /// Kills leftovers of an earlier process, then starts asking for work.
    pub fn start(mut settings: RunnerOptions, link: Arc<dyn RunnerLink>) -> Result<Self, RunnerStartError> {
        let lock = prepare_work_dir(&mut settings)?;
        become_subreaper();
        let left = kill_leftovers(&settings.work_dir)
            .map_err(|source| RunnerStartError::WorkDir { path: settings.work_dir.clone(), source })?;
        // Removes leftovers too, so that no container of an earlier process is left when work is requested.
        let containers = settings.containers.as_ref();
        let containers = containers.map(|it| ContainerEngine::connect(it, &settings.work_dir)).transpose()?;
        #[cfg(feature = "kubernetes")]
        let kubernetes = connect_cluster(&settings)?;
        #[cfg(not(feature = "kubernetes"))]
        if settings.kubernetes.is_some() {
            return Err(KubernetesError::NotBuilt.into());
        }
        if left.processes > 0 || left.attempts > 0 {
            tracing::info!(left.processes, left.attempts, "cleaned up after an earlier process");
        }
        let state = RunnerSharedState {
            running: HashMap::new(),
            changed_at: Instant::now(),
            taken_slots: 0,
            is_draining: false,
            shutdown_deadline: None,
        };
        let (cleanup, waiting) = CleanupQueue::new();
        let shared = Arc::new(RunnerShared {
            registries: RegistryCache::new(&settings.work_dir, &settings.confinement),
            sources: SourceCache::new(&settings.work_dir, &settings.confinement),
            containers,
            #[cfg(feature = "kubernetes")]
            kubernetes,
            settings,
            link,
            pulse: HeartbeatState::default(),
            cleanup,
            state: Arc::new(Mutex::new(state)),
            changed: Condvar::new(),
        });
        let cleanup = spawn_thread("runner-cleanup", move || cleanup::run(&waiting))?;
        let beating = shared.clone();
        let pulse = spawn_thread("runner-pulse", move || heartbeat::run(&beating))
            .inspect_err(|_| shared.cleanup.close())?;
        let working = shared.clone();
        let dispatcher = match spawn_thread("runner", move || dispatch::run(&working)) {
            Ok(dispatcher) => dispatcher,
            Err(error) => {
                shared.begin_shutdown();
                shared.cleanup.close();
                return Err(error);
            }
        };
        Ok(Self { shared, dispatcher, pulse, cleanup, _lock: lock })
    }

    /// Returns the isolation level that steps run with.
    pub fn isolation(&self) -> Isolation {
        self.shared.settings.confinement.isolation()
    }

    /// Stops taking new steps. Running steps continue.
    pub fn drain(&self) {
        self.shared.state.lock().is_draining = true;
        self.shared.changed.notify_all();
    }

    /// Whether all steps have ended after [`drain`](Self::drain).
    pub fn is_drained(&self) -> bool {
        self.dispatcher.is_finished()
    }

    /// Stops all steps, waits for the grace period, and reports the steps as interrupted.
    pub fn stop(self) {
        self.shared.begin_shutdown();
        let join = |thread: JoinHandle<()>| {
            if thread.join().is_err() {
                tracing::error!("runner thread panicked");
            }
        };
        join(self.dispatcher);
        join(self.pulse);
        self.shared.cleanup.close();
        join(self.cleanup);
    }
}

impl RunnerShared {
    fn begin_shutdown(&self) {
        let kill_by = Instant::now() + self.settings.shutdown_grace;
        let mut state = self.state.lock();
        state.shutdown_deadline = Some(kill_by + LAST_REPORTS_TIME);
        for running in state.running.values() {
            running.control.stop(StopReason::Shutdown, Some(kill_by));
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state.lock().is_draining
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.state.lock().shutdown_deadline.is_some()
    }

    /// Whether the shutdown deadline has passed, so that retries are pointless.
    pub(crate) fn is_past_deadline(&self) -> bool {
        self.state.lock().shutdown_deadline.is_some_and(|by| Instant::now() >= by)
    }

    pub(crate) fn give_up_check(&self) -> GiveUpCheck {
        let state = self.state.clone();
        Arc::new(move || {
            let state = state.lock();
            state.shutdown_deadline.is_some_and(|by| Instant::now() >= by)
        })
    }

    /// Registers a running attempt. Returns false if the attempt is already running.
    pub(crate) fn register_attempt(&self, attempt: &AttemptRef, control: &Arc<StopSignal>) -> bool {
        let mut state = self.state.lock();
        if state.running.contains_key(&attempt.nonce) {
            return false;
        }
        let running = ActiveAttempt { attempt: attempt.clone(), control: control.clone() };
        state.running.insert(attempt.nonce.clone(), running);
        state.changed_at = Instant::now();
        if state.shutdown_deadline.is_some() {
            control.stop(StopReason::Shutdown, None);
        }
        drop(state);
        self.changed.notify_all();
        true
    }

    pub(crate) fn unregister_attempt(&self, attempt: &AttemptRef) {
        let mut state = self.state.lock();
        state.running.remove(&attempt.nonce);
        state.changed_at = Instant::now();
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn stop_attempt(&self, nonce: &str, why: StopReason) {
        if let Some(running) = self.state.lock().running.get(nonce) {
            running.control.stop(why, None);
        }
    }

    /// Waits until attempts are running. Returns them, and how long the set of running attempts has been unchanged.
    /// Returns `None` when the runner has shut down.
    pub(crate) fn wait_for_attempts(&self) -> Option<(Vec<AttemptRef>, Duration)> {
        let mut state = self.state.lock();
        while state.running.is_empty() {
            if state.shutdown_deadline.is_some() {
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

    /// Waits for a free slot and returns the number of free slots. Returns `None` if the runner is draining or shutting
    /// down.
    pub(crate) fn wait_for_free_slot(&self) -> Option<usize> {
        let goes_on = |state: &RunnerSharedState| state.shutdown_deadline.is_none() && !state.is_draining;
        let is_full =
            |state: &mut RunnerSharedState| state.taken_slots >= self.settings.slots && goes_on(state);
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, is_full);
        goes_on(&state).then(|| self.settings.slots - state.taken_slots)
    }

    pub(crate) fn take_slot(&self) {
        self.state.lock().taken_slots += 1;
    }

    pub(crate) fn free_slot(&self) {
        self.state.lock().taken_slots -= 1;
        self.changed.notify_all();
    }

    /// Waits before a retry: for `limit`, or only briefly during shutdown.
    pub(crate) fn pause(&self, limit: Duration) {
        let goes_on = |state: &mut RunnerSharedState| state.shutdown_deadline.is_none();
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, goes_on, limit);
        let is_ending = state.shutdown_deadline.is_some();
        drop(state);
        if is_ending {
            std::thread::sleep(limit.min(SHUTDOWN_PAUSE));
        }
    }
}

#[cfg(feature = "kubernetes")]
fn connect_cluster(settings: &RunnerOptions) -> Result<Option<KubernetesCluster>, RunnerStartError> {
    let Some(options) = &settings.kubernetes else { return Ok(None) };
    if settings.containers.is_some() {
        return Err(KubernetesError::TwoExecutors.into());
    }
    Ok(Some(KubernetesCluster::connect(options, settings)?))
}

fn spawn_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, RunnerStartError> {
    std::thread::Builder::new().name(name.into()).spawn(run).map_err(RunnerStartError::Thread)
}

/// Makes the work directory private, locks it, and stores its canonical path in the settings.
fn prepare_work_dir(settings: &mut RunnerOptions) -> Result<File, RunnerStartError> {
    let path = settings.work_dir.clone();
    let failed = |source| RunnerStartError::WorkDir { path: path.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
    settings.work_dir = path.canonicalize().map_err(failed)?;
    make_private(&settings.work_dir).map_err(failed)?;
    settings.confinement = settings.confinement.clone().with_hidden(&settings.work_dir)?;
    settings.confinement.allow_traverse(&settings.work_dir).map_err(failed)?;
    let lock = settings.work_dir.join("lock");
    let lock =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(RunnerStartError::InUse(settings.work_dir.clone())),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let attempts = attempts_dir(&settings.work_dir);
    DirBuilder::new().recursive(true).mode(0o700).create(&attempts).map_err(failed)?;
    settings.confinement.allow_traverse(&attempts).map_err(failed)?;
    settings.confinement.check_can_enter(&attempts)?;
    Ok(lock)
}

fn make_private(dir: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
}
