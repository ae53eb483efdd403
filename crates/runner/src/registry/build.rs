//! Builds a registry from source and requests its metadata.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::runner::Network;
use berth_core::registry::StepMetadata;
use berth_definition::custom_step::parse_metadata;
use serde_json::json;

use super::local::{Local, Scratch, call_for};
use super::{BuildRequest, Built, CallFailed, CallRequest, Called, METADATA_TIMEOUT, Manifest, size};
use crate::attempt::exit;
use crate::process::tree::become_subreaper;
use crate::process::{self, Beside, Halt, Host};
use crate::sandbox::Cage;

/// How often the size of a build is checked.
const SIZE_EVERY: Duration = Duration::from_secs(2);
/// Limit for files outside of the registry, such as caches, as a multiple of the registry's limit.
const SCRATCH_FACTOR: u64 = 2;

#[derive(Debug, thiserror::Error)]
pub enum BuildFailed {
    /// The registry is faulty; the text is for its author.
    #[error("{0}")]
    Registry(String),
    /// The caller cancelled the build.
    #[error("the build was stopped")]
    Stopped,
    /// The machine failed; the same build may succeed later.
    #[error("{0}")]
    Machine(String),
}

/// Builds the registry in `request.source`, sandboxed and without secrets. Output goes to `log` as it arrives, up
/// to [`BUILD_LOG_BYTES_MAX`](super::BUILD_LOG_BYTES_MAX).
pub fn build(request: &BuildRequest<'_>, log: &mut dyn FnMut(&[u8])) -> Result<Built, BuildFailed> {
    let host = Local::new(request.is_stopping, log);
    let by = Instant::now() + request.timeout;
    let machine = |error: &dyn std::fmt::Display| BuildFailed::Machine(format!("cannot build here: {error}"));
    let manifest = Manifest::read(&request.source).map_err(BuildFailed::Registry)?;
    become_subreaper();
    let source = request.source.canonicalize().map_err(|error| machine(&error))?;
    std::fs::create_dir_all(&request.scratch).map_err(|error| machine(&error))?;
    let dir = request.scratch.canonicalize().map_err(|error| machine(&error))?;
    let scratch = Scratch::new(&dir).map_err(|error| machine(&error))?;
    for given in [&dir, &source] {
        request.confinement.give(given).map_err(|error| machine(&error))?;
    }
    let writable = request.writable.iter().map(PathBuf::as_path);
    let cage = Cage {
        confinement: request.confinement,
        tmp: &scratch.tmp,
        own: [dir.as_path(), source.as_path()].into_iter().chain(writable).collect(),
        read: Vec::new(),
        // The build downloads its dependencies.
        network: Network::Host,
        id: &scratch.id,
    };
    for text in &manifest.build {
        let command_line = text.trim().lines().next().unwrap_or_default();
        host.line(&format!("[berth] {command_line}"));
        let mut command = cage.command("/bin/sh");
        command.args(["-e", "-c", text]).current_dir(&source);
        scratch.prepare(&mut command, &source);
        // Keep npm quiet and non-interactive.
        command.env("CI", "true").env("npm_config_update_notifier", "false");
        command.env("npm_config_audit", "false").env("npm_config_fund", "false");
        command.envs(&request.env);
        let mut growth =
            Growth { source: &source, scratch: &dir, bytes_max: request.bytes_max, looked: Instant::now() };
        let ended = process::run(&host, &cage, command, by, &mut growth).map_err(|error| machine(&error))?;
        match ended.halt {
            Some(Halt::Told(_)) => return Err(BuildFailed::Stopped),
            Some(Halt::TimedOut) => {
                return Err(BuildFailed::Registry(timed_out(request.timeout, command_line)));
            }
            Some(Halt::Enough) => return Err(BuildFailed::Registry(too_large(request.bytes_max))),
            None => {}
        }
        if let Some(berth_api::runner::Outcome::Failed { detail, .. }) = exit::failure(ended.status, false) {
            return Err(BuildFailed::Registry(format!(
                "`{command_line}` {detail}; its output is in the log of the build"
            )));
        }
    }
    let unreadable = |error| BuildFailed::Registry(format!("what was built cannot be read: {error}"));
    let bytes = size::of(&source, request.bytes_max).map_err(unreadable)?;
    if bytes > request.bytes_max {
        return Err(BuildFailed::Registry(too_large(request.bytes_max)));
    }
    let steps = ask(request, &host, &manifest, &source, &dir, by)?;
    Ok(Built { start: manifest.start, input: manifest.input, steps })
}

/// Calls the registry for its metadata; as in every call, its directory is read-only.
fn ask(
    request: &BuildRequest<'_>,
    host: &Local<'_>,
    manifest: &Manifest,
    source: &Path,
    scratch: &Path,
    by: Instant,
) -> Result<Vec<StepMetadata>, BuildFailed> {
    host.line("[berth] asks for its steps");
    let timeout = METADATA_TIMEOUT.min(by.saturating_duration_since(Instant::now()));
    let called = call_for(
        &CallRequest {
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
        Ok(Called::Answered { answer, .. }) => parse_metadata(&answer).map_err(BuildFailed::Registry),
        Ok(Called::Unanswered(problem)) => {
            Err(BuildFailed::Registry(format!("the call for its metadata failed: {problem}")))
        }
        Ok(Called::TimedOut) => Err(BuildFailed::Registry(timed_out(timeout, "the call for its metadata"))),
        Ok(Called::Stopped) => Err(BuildFailed::Stopped),
        Err(CallFailed::TooLong(problem) | CallFailed::Machine(problem)) => {
            Err(BuildFailed::Machine(problem))
        }
    }
}

fn timed_out(limit: Duration, what: &str) -> String {
    format!("the build took longer than {} s: `{what}` was stopped", limit.as_secs())
}

fn too_large(bytes_max: u64) -> String {
    format!("the built registry is larger than {bytes_max} bytes; leave out what its steps do not need")
}

/// Stops a build that fills the disk.
struct Growth<'a> {
    source: &'a Path,
    scratch: &'a Path,
    bytes_max: u64,
    looked: Instant,
}

impl Beside for Growth<'_> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn tick(&self) -> Duration {
        SIZE_EVERY
    }

    fn look(&mut self, _: &dyn Host) -> bool {
        if self.looked.elapsed() < SIZE_EVERY {
            return false;
        }
        let is_over = |dir: &Path, limit: u64| size::of(dir, limit).is_ok_and(|bytes| bytes > limit);
        let is_large = is_over(self.source, self.bytes_max)
            || is_over(self.scratch, self.bytes_max.saturating_mul(SCRATCH_FACTOR));
        self.looked = Instant::now();
        is_large
    }
}
