//! A container that was started: its output, its exit, and how it is stopped.

use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecOptions};
use bollard::query_parameters::{
    AttachContainerOptions, InspectContainerOptions, KillContainerOptions, StartContainerOptions,
    WaitContainerOptions,
};
use futures_util::{Stream, StreamExt as _};
use parking_lot::Mutex;
use rustix::event::EventfdFlags;

use super::engine::ContainerEngine;
use crate::attempt::RunningAttempt;
use crate::executor::{CommandEnd, ExecutionHost, OutputPipe, RunningCommand};

/// How long output may take to arrive after the container has exited.
const OUTPUT_TIME_MAX: Duration = Duration::from_secs(5);
/// Pause before a request is repeated because the engine did not respond.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// How long to wait for the exit before the state of the container is checked.
const WAIT_TIME_MAX: Duration = Duration::from_secs(5);
/// Interval between two SIGKILLs to a container that has not exited yet.
const KILL_INTERVAL: Duration = Duration::from_secs(2);
/// Written to the output if part of it may be missing.
const GAP: &[u8] = b"\n[berth] the connection to the container engine was lost; output may be missing here\n";

type OutputStream = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

pub(super) struct RunningContainer<'a> {
    attempt: &'a RunningAttempt<'a>,
    engine: &'a ContainerEngine,
    id: String,
    exited: Arc<ContainerExit>,
}

/// How the container exited, and an eventfd that becomes readable then.
struct ContainerExit {
    event: OwnedFd,
    /// The error says why the exit status is unknown.
    end: Mutex<Option<Result<CommandEnd, String>>>,
    /// Set when the output is not read any more. It is then discarded, because an engine that cannot deliver output
    /// does not notice that the container has exited.
    discards_output: Arc<AtomicBool>,
}

impl<'a> RunningContainer<'a> {
    pub(super) fn start(
        attempt: &'a RunningAttempt<'a>,
        engine: &'a ContainerEngine,
        id: &str,
        host: &dyn ExecutionHost,
        output: PipeWriter,
    ) -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (docker, runtime) = (&engine.docker, &engine.runtime);
        let attached = runtime.block_on(attach(docker, id)).map_err(io::Error::other)?;
        let started = runtime.block_on(docker.start_container(id, None::<StartContainerOptions>));
        match &started {
            // The engine says that it could not start the container, for example because the image has no shell.
            Err(Error::DockerResponseServerError { message, .. }) => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message.clone()));
            }
            _ => host.after_start(),
        }
        started.map_err(io::Error::other)?;
        let exited =
            Arc::new(ContainerExit { event, end: Mutex::new(None), discards_output: Arc::default() });
        let writer = OutputPipe::new(runtime, output, exited.discards_output.clone())?;
        runtime.spawn(copy_output(docker.clone(), id.to_owned(), attached, writer));
        runtime.spawn(wait_for_exit(docker.clone(), id.to_owned(), exited.clone()));
        Ok(Self { attempt, engine, id: id.to_owned(), exited })
    }

    fn send_kill(&self) {
        let (docker, id) = (self.engine.docker.clone(), self.id.clone());
        self.engine.runtime.spawn(async move { kill(&docker, &id, "SIGKILL").await });
    }
}

impl RunningCommand for RunningContainer<'_> {
    fn exit_descriptor(&self) -> BorrowedFd<'_> {
        self.exited.event.as_fd()
    }

    /// The shell is process 1 of the container. It ignores SIGTERM, or runs its trap when its current command has ended.
    /// So it gets the signal first, and then all other processes do.
    fn terminate(&mut self) {
        let (docker, id) = (self.engine.docker.clone(), self.id.clone());
        self.engine.runtime.spawn(async move {
            kill(&docker, &id, "SIGTERM").await;
            let command = ["/bin/sh", "-c", "kill -TERM -1"].map(str::to_owned).to_vec();
            let options = CreateExecOptions { cmd: Some(command), ..Default::default() };
            let done = async {
                let created = docker.create_exec(&id, options).await?;
                let options = StartExecOptions { detach: true, ..Default::default() };
                docker.start_exec(&created.id, Some(options)).await
            };
            if let Err(error) = done.await {
                tracing::debug!(%error, "sending SIGTERM inside a container failed");
            }
        });
    }

    fn is_gone(&mut self) -> bool {
        self.exited.end.lock().is_some()
    }

    fn kill(&mut self) {
        if !self.is_gone() {
            self.send_kill();
        }
    }

    fn settle_time(&self) -> Duration {
        OUTPUT_TIME_MAX
    }

    /// No process outlives process 1 of a container.
    fn wait(&mut self) -> io::Result<CommandEnd> {
        self.exited.discards_output.store(true, Ordering::Relaxed);
        let (mut killed, mut is_told) = (Instant::now(), false);
        loop {
            if let Some(end) = self.exited.end.lock().take() {
                return end.map_err(io::Error::other);
            }
            if self.attempt.shared.is_past_deadline() {
                return Err(io::Error::other("the container engine does not respond"));
            }
            if killed.elapsed() >= KILL_INTERVAL {
                killed = Instant::now();
                if !std::mem::replace(&mut is_told, true) {
                    self.attempt
                        .log
                        .write_line("[berth] waiting for the container engine to stop the container");
                }
                self.send_kill();
            }
            std::thread::sleep(Duration::from_millis(10));
            self.attempt.log.tick();
        }
    }
}

/// Sends a signal to process 1. Its failure is not reported, because the container may have exited.
async fn kill(docker: &Docker, id: &str, signal: &str) {
    let options = KillContainerOptions { signal: signal.to_owned() };
    if let Err(error) = docker.kill_container(id, Some(options)).await {
        tracing::debug!(%error, signal, "signalling a container failed");
    }
}

async fn attach(docker: &Docker, id: &str) -> Result<OutputStream, Error> {
    let options = AttachContainerOptions { stream: true, stdout: true, stderr: true, ..Default::default() };
    Ok(docker.attach_container(id, Some(options)).await?.output)
}

/// Copies the output of a container until the container exits. Attaches again if the engine closes the connection
/// earlier.
async fn copy_output(docker: Docker, id: String, mut output: OutputStream, writer: OutputPipe) {
    loop {
        while let Some(Ok(piece)) = output.next().await {
            // The reader closes the pipe when the step has ended.
            if writer.write_all(piece.as_ref()).await.is_err() {
                return;
            }
        }
        if !is_running(&docker, &id).await || writer.write_all(GAP).await.is_err() {
            return;
        }
        match attach(&docker, &id).await {
            Ok(again) => output = again,
            Err(_) => return,
        }
    }
}

/// Whether a container is running. Waits until the engine responds.
async fn is_running(docker: &Docker, id: &str) -> bool {
    loop {
        match docker.inspect_container(id, None::<InspectContainerOptions>).await {
            Ok(found) => return found.state.and_then(|state| state.running).unwrap_or(false),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => return false,
            Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    }
}

async fn wait_for_exit(docker: Docker, id: String, exited: Arc<ContainerExit>) {
    let end = find_exit(&docker, &id).await;
    *exited.end.lock() = Some(end);
    // The eventfd is never read, so it stays readable.
    rustix::io::write(&exited.event, &1_u64.to_ne_bytes()).ok();
}

/// Waits until the container has exited. If the engine fails in the meantime, waits until it responds again.
async fn find_exit(docker: &Docker, id: &str) -> Result<CommandEnd, String> {
    loop {
        let options = WaitContainerOptions { condition: "not-running".to_owned() };
        let mut answers = docker.wait_container(id, Some(options));
        // An engine that was restarted may leave the request without a response.
        let waited = tokio::time::timeout(WAIT_TIME_MAX, answers.next()).await.ok().flatten();
        let found = docker.inspect_container(id, None::<InspectContainerOptions>).await;
        match found.map(|found| found.state.unwrap_or_default()) {
            Ok(state) if state.running == Some(false) => {
                let code = match waited {
                    Some(Ok(answer)) if answer.status_code >= 0 => Some(answer.status_code),
                    Some(Err(Error::DockerContainerWaitError { code, .. })) => Some(code),
                    _ => state.exit_code,
                };
                let code =
                    code.and_then(|code| i32::try_from(code).ok()).filter(|code| (0..=255).contains(code));
                let code = code.ok_or("the container engine does not know the exit code")?;
                let is_out_of_memory = state.oom_killed.unwrap_or(false);
                return Ok(CommandEnd { status: ExitStatus::from_raw(code << 8), is_out_of_memory });
            }
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                return Err("the container was removed while it was running".to_owned());
            }
            Ok(_) | Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    }
}
