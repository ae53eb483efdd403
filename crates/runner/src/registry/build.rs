//! Builds a registry from source and calls it for its metadata.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::runner::Network;
use berth_core::registry::StepMetadata;
use berth_definition::custom_step::parse_metadata;
use serde_json::json;

use super::dir_size::dir_size;
use super::local::{LocalHost, ScratchDirs, call_with_host};
use super::{
    BuiltRegistry, METADATA_TIMEOUT, RegistryBuildRequest, RegistryCallError, RegistryCallOutcome,
    RegistryCallRequest, RegistryManifest,
};
use crate::attempt::exit;
use crate::executor::{CommandMonitor, ExecutionHost, HaltReason};
use crate::process;
use crate::process::tree::become_subreaper;
use crate::sandbox::StepSandbox;

/// Interval between two checks of a build's size.
const SIZE_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Size limit for files that a build writes outside of the registry, such as caches, as a multiple of the registry's
/// size limit.
const SCRATCH_FACTOR: u64 = 2;

/// Why a build failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryBuildError {
    /// The registry is faulty. The text is shown to its author.
    #[error("{0}")]
    Registry(String),
    /// The caller cancelled the build.
    #[error("the build was stopped")]
    Stopped,
    /// Something failed on this machine. The same build may succeed later.
    #[error("{0}")]
    Machine(String),
}

/// Builds the registry in `request.source`, in a sandbox and without secrets. Output is passed to `log` as it arrives,
/// up to [`BUILD_LOG_BYTES_MAX`](super::BUILD_LOG_BYTES_MAX).
pub fn build(
    request: &RegistryBuildRequest<'_>,
    log: &mut dyn FnMut(&[u8]),
) -> Result<BuiltRegistry, RegistryBuildError> {
    let host = LocalHost::new(request.is_stopping, log);
    let by = Instant::now() + request.timeout;
    let machine =
        |error: &dyn std::fmt::Display| RegistryBuildError::Machine(format!("cannot build here: {error}"));
    let manifest = RegistryManifest::read(&request.source).map_err(RegistryBuildError::Registry)?;
    become_subreaper();
    let source = request.source.canonicalize().map_err(|error| machine(&error))?;
    std::fs::create_dir_all(&request.scratch).map_err(|error| machine(&error))?;
    let dir = request.scratch.canonicalize().map_err(|error| machine(&error))?;
    let scratch = ScratchDirs::new(&dir).map_err(|error| machine(&error))?;
    for given in [&dir, &source] {
        request.confinement.give_to_step_user(given).map_err(|error| machine(&error))?;
    }
    let writable = request.writable.iter().map(PathBuf::as_path);
    let sandbox = StepSandbox {
        confinement: request.confinement,
        tmp: &scratch.tmp,
        writable: [dir.as_path(), source.as_path()].into_iter().chain(writable).collect(),
        readable: Vec::new(),
        // The build needs the network to download its dependencies.
        network: Network::Host,
        id: &scratch.id,
    };
    for text in &manifest.build {
        let command_line = text.trim().lines().next().unwrap_or_default();
        host.write_line(&format!("[berth] {command_line}"));
        let mut command = sandbox.command("/bin/sh");
        command.args(["-e", "-c", text]).current_dir(&source);
        scratch.prepare(&mut command, &source);
        // Keep npm quiet and non-interactive.
        command.env("CI", "true").env("npm_config_update_notifier", "false");
        command.env("npm_config_audit", "false").env("npm_config_fund", "false");
        command.envs(&request.env);
        let mut growth = SizeMonitor {
            source: &source,
            scratch: &dir,
            bytes_max: request.bytes_max,
            looked: Instant::now(),
        };
        let ended =
            process::run(&host, &sandbox, command, by, &mut growth).map_err(|error| machine(&error))?;
        match ended.halt {
            Some(HaltReason::Stopped(_)) => return Err(RegistryBuildError::Stopped),
            Some(HaltReason::TimedOut) => {
                return Err(RegistryBuildError::Registry(timeout_message(request.timeout, command_line)));
            }
            Some(HaltReason::MonitorDone) => {
                return Err(RegistryBuildError::Registry(size_message(request.bytes_max)));
            }
            None => {}
        }
        if let Some(berth_api::runner::StepRunOutcome::Failed { detail, .. }) =
            exit::failure_outcome(ended.status, exit::MemoryState::Unlimited)
        {
            return Err(RegistryBuildError::Registry(format!(
                "`{command_line}` {detail}; its output is in the log of the build"
            )));
        }
    }
    let unreadable = |error| RegistryBuildError::Registry(format!("what was built cannot be read: {error}"));
    let bytes = dir_size(&source, request.bytes_max).map_err(unreadable)?;
    if bytes > request.bytes_max {
        return Err(RegistryBuildError::Registry(size_message(request.bytes_max)));
    }
    let steps = request_metadata(request, &host, &manifest, &source, &dir, by)?;
    Ok(BuiltRegistry { start: manifest.start, input: manifest.input, steps })
}

/// Calls the registry for its metadata. As in every call, the registry's directory is read-only.
fn request_metadata(
    request: &RegistryBuildRequest<'_>,
    host: &LocalHost<'_>,
    manifest: &RegistryManifest,
    source: &Path,
    scratch: &Path,
    by: Instant,
) -> Result<Vec<StepMetadata>, RegistryBuildError> {
    host.write_line("[berth] asks for its steps");
    let timeout = METADATA_TIMEOUT.min(by.saturating_duration_since(Instant::now()));
    let called = call_with_host(
        &RegistryCallRequest {
            registry: source,
            start: &manifest.start,
            input: manifest.input,
            task: &json!({ "job": "SYNTHESIZE-METADATA" }),
            scratch,
            workspace: scratch,
            timeout,
            is_stopping: request.is_stopping,
            confinement: request.confinement,
            env: &request.env,
        },
        host,
    );
    match called {
        Ok(RegistryCallOutcome::Answered { answer, .. }) => {
            parse_metadata(&answer).map_err(RegistryBuildError::Registry)
        }
        Ok(RegistryCallOutcome::Unanswered(problem)) => {
            Err(RegistryBuildError::Registry(format!("the call for its metadata failed: {problem}")))
        }
        Ok(RegistryCallOutcome::TimedOut) => {
            Err(RegistryBuildError::Registry(timeout_message(timeout, "the call for its metadata")))
        }
        Ok(RegistryCallOutcome::Stopped) => Err(RegistryBuildError::Stopped),
        Err(RegistryCallError::TooLong(problem) | RegistryCallError::Machine(problem)) => {
            Err(RegistryBuildError::Machine(problem))
        }
    }
}

fn timeout_message(limit: Duration, what: &str) -> String {
    format!("the build took longer than {} s: `{what}` was stopped", limit.as_secs())
}

fn size_message(bytes_max: u64) -> String {
    format!("the built registry is larger than {bytes_max} bytes; leave out what its steps do not need")
}

/// Stops a build that would fill the disk.
struct SizeMonitor<'a> {
    source: &'a Path,
    scratch: &'a Path,
    bytes_max: u64,
    looked: Instant,
}

impl CommandMonitor for SizeMonitor<'_> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn poll_interval(&self) -> Duration {
        SIZE_CHECK_INTERVAL
    }

    fn poll(&mut self, _: &dyn ExecutionHost) -> bool {
        if self.looked.elapsed() < SIZE_CHECK_INTERVAL {
            return false;
        }
        let is_over = |dir: &Path, limit: u64| dir_size(dir, limit).is_ok_and(|bytes| bytes > limit);
        let is_large = is_over(self.source, self.bytes_max)
            || is_over(self.scratch, self.bytes_max.saturating_mul(SCRATCH_FACTOR));
        self.looked = Instant::now();
        is_large
    }
}
