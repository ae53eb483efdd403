//! A pod that was started: its output, its exit, and how it is stopped.

use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::EventfdFlags;

use super::cluster::KubernetesCluster;
use super::follow::PodFollower;
use super::labels::attempt_selector;
use super::log::PodLog;
use super::orphans::{self, KILL_GRACE_S, PodDeletion};
use super::pod_state::StartFailure;
use crate::attempt::RunningAttempt;
use crate::attempt::dirs::AttemptDirs;
use crate::executor::{CommandEnd, ExecutionHost, OutputPipe, RunningCommand};

/// How long output may take to arrive after the container has exited.
const OUTPUT_TIME_MAX: Duration = Duration::from_secs(10);
/// Interval between two deletions of a pod that has not ended yet.
const KILL_INTERVAL: Duration = Duration::from_secs(5);
/// How long the Job must be gone without a pod, until none is expected any more.
const NO_POD_TIME: Duration = Duration::from_secs(2);
const SIGKILL: i32 = 9;

pub(super) struct RunningPod<'a> {
    attempt: &'a RunningAttempt<'a>,
    cluster: &'a KubernetesCluster,
    id: String,
    /// Whether a command of the step had run before this one.
    had_run: bool,
    exited: Arc<PodExit>,
}

/// How the container exited, and an eventfd that becomes readable then.
struct PodExit {
    event: OwnedFd,
    end: Mutex<Option<PodEnd>>,
    is_stopping: AtomicBool,
    discards_output: Arc<AtomicBool>,
}

enum PodEnd {
    Exited(CommandEnd),
    /// The container was never started, and never will be.
    NotStarted(StartFailure),
    /// Says why the exit status is unknown.
    Unknown(String),
}

impl<'a> RunningPod<'a> {
    pub(super) fn follow(
        attempt: &'a RunningAttempt<'a>,
        cluster: &'a KubernetesCluster,
        dirs: &AttemptDirs,
        job: &str,
        had_run: bool,
        output: PipeWriter,
    ) -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let exited = Arc::new(PodExit {
            event,
            end: Mutex::new(None),
            is_stopping: AtomicBool::new(false),
            discards_output: Arc::default(),
        });
        let output = OutputPipe::new(&cluster.runtime, output, exited.discards_output.clone())?;
        let watch = PodWatch {
            follower: PodFollower::new(cluster, &dirs.id, job),
            output: Arc::new(output),
            pods: cluster.streamed_pods(),
            deletion: deletion(cluster, &dirs.id, KILL_GRACE_S),
            start_by: Instant::now() + cluster.options.start_time_max,
            exited: exited.clone(),
        };
        cluster.runtime.spawn(watch.run());
        Ok(Self { attempt, cluster, id: dirs.id.clone(), had_run, exited })
    }

    fn delete(&self, grace_s: u32) {
        self.exited.is_stopping.store(true, Ordering::Release);
        let deletion = deletion(self.cluster, &self.id, grace_s);
        self.cluster.runtime.spawn(async move { orphans::stop_attempt(&deletion).await });
    }
}

fn deletion(cluster: &KubernetesCluster, id: &str, grace_s: u32) -> PodDeletion {
    PodDeletion { jobs: cluster.jobs(), pods: cluster.pods(), selector: attempt_selector(id), grace_s }
}

impl RunningCommand for RunningPod<'_> {
    fn exit_descriptor(&self) -> BorrowedFd<'_> {
        self.exited.event.as_fd()
    }

    /// Deletes the pod. Its processes get SIGTERM, and SIGKILL at the end of the grace period.
    fn terminate(&mut self) {
        let grace = ExecutionHost::grace(self.attempt).as_secs();
        self.delete(u32::try_from(grace).unwrap_or(u32::MAX).max(KILL_GRACE_S));
    }

    fn is_gone(&mut self) -> bool {
        self.exited.end.lock().is_some()
    }

    fn kill(&mut self) {
        if !self.is_gone() {
            self.delete(KILL_GRACE_S);
        }
    }

    fn settle_time(&self) -> Duration {
        OUTPUT_TIME_MAX
    }

    fn wait(&mut self) -> io::Result<CommandEnd> {
        self.exited.discards_output.store(true, Ordering::Relaxed);
        let (mut killed, mut is_told) = (Instant::now(), false);
        loop {
            if let Some(end) = self.exited.end.lock().take() {
                return match end {
                    PodEnd::Exited(end) => Ok(end),
                    PodEnd::Unknown(detail) => Err(io::Error::other(detail)),
                    PodEnd::NotStarted(failure) => {
                        self.attempt.has_run.set(self.had_run);
                        let kind =
                            if failure.is_final { io::ErrorKind::InvalidInput } else { io::ErrorKind::Other };
                        match self.exited.is_stopping.load(Ordering::Acquire) {
                            true => Ok(killed_end()),
                            false => Err(io::Error::new(kind, failure.detail)),
                        }
                    }
                };
            }
            if self.attempt.shared.is_past_deadline() {
                return Err(io::Error::other("the cluster does not confirm that the pod has stopped"));
            }
            if killed.elapsed() >= KILL_INTERVAL {
                killed = Instant::now();
                if !std::mem::replace(&mut is_told, true) {
                    self.attempt.log.write_line("[berth] waiting for the cluster to stop the pod");
                }
                self.delete(KILL_GRACE_S);
            }
            std::thread::sleep(Duration::from_millis(10));
            self.attempt.log.tick();
        }
    }
}

fn killed_end() -> CommandEnd {
    CommandEnd { status: ExitStatus::from_raw(SIGKILL), is_out_of_memory: false }
}

/// Follows a pod until its container has exited.
struct PodWatch {
    follower: PodFollower,
    output: Arc<OutputPipe>,
    pods: kube::Api<k8s_openapi::api::core::v1::Pod>,
    deletion: PodDeletion,
    start_by: Instant,
    exited: Arc<PodExit>,
}

impl PodWatch {
    async fn run(mut self) {
        let has_ended = Arc::new(AtomicBool::new(false));
        let end = self.find_end(&has_ended).await;
        has_ended.store(true, Ordering::Release);
        *self.exited.end.lock() = Some(end);
        // The eventfd is never read, so it stays readable.
        rustix::io::write(&self.exited.event, &1_u64.to_ne_bytes()).ok();
    }

    async fn find_end(&mut self, has_ended: &Arc<AtomicBool>) -> PodEnd {
        let mut failure: Option<StartFailure> = None;
        let (mut is_copied, mut stopping_since) = (false, None);
        loop {
            for line in self.follower.wait_for_change().await {
                self.output.write_all(format!("{line}\n").as_bytes()).await.ok();
            }
            let state = &mut self.follower.state;
            if state.has_started
                && !is_copied
                && let Some(pod) = &state.pod
            {
                is_copied = true;
                let log = PodLog {
                    pods: self.pods.clone(),
                    pod: pod.clone(),
                    output: self.output.clone(),
                    has_ended: has_ended.clone(),
                    last: None,
                };
                tokio::spawn(log.copy());
            }
            match state.end.take() {
                Some(Ok(end)) => return PodEnd::Exited(end),
                Some(Err(detail)) => return PodEnd::Unknown(detail),
                None => {}
            }
            let is_stopping = self.exited.is_stopping.load(Ordering::Acquire);
            if state.is_lost || (state.is_gone && state.has_started) {
                return match is_stopping {
                    // Only the kubelet removes a pod whose container has started, once its processes are gone.
                    true => PodEnd::Exited(killed_end()),
                    false => PodEnd::Unknown("the pod was deleted while it was running".to_owned()),
                };
            }
            if failure.is_none() && !is_stopping {
                failure = state.find_failure(Instant::now() >= self.start_by);
                if failure.is_some() {
                    orphans::stop_attempt(&self.deletion).await;
                }
            }
            if state.is_gone {
                let failure = failure.or_else(|| state.find_failure(true));
                return failure.map_or(PodEnd::Exited(killed_end()), PodEnd::NotStarted);
            }
            if (is_stopping || failure.is_some()) && state.pod.is_none() {
                let since = *stopping_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= NO_POD_TIME {
                    // The controller could have created a pod that was not seen, so the step counts as started.
                    return match failure {
                        Some(failure) => PodEnd::Unknown(failure.detail),
                        None => PodEnd::Exited(killed_end()),
                    };
                }
            }
        }
    }
}
