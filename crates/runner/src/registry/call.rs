//! Makes a single call to a registry.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use berth_core::registry::{InputMode, REGISTRY_ARG_BYTES_MAX};

use super::call_files::CallFiles;
use crate::attempt::environment::PATH;
use crate::executor::{CommandExit, ExecutionHost};
use crate::process;
use crate::sandbox::StepSandbox;

pub(super) struct RegistryCall<'a> {
    pub(super) host: &'a dyn ExecutionHost,
    pub(super) sandbox: &'a StepSandbox<'a>,
    /// Directory that contains the built registry.
    pub(super) registry: &'a Path,
    pub(super) start: &'a str,
    pub(super) task: TaskInput,
    /// Directory in which the files of the call are created.
    pub(super) parent: &'a Path,
    pub(super) by: Instant,
    pub(super) answer_bytes_max: usize,
}

/// How the task is passed to the registry's process.
pub(super) enum TaskInput {
    Argument(String),
    File(PathBuf),
}

pub(super) struct CallResult {
    /// `None` if the process wrote no answer file; `Err` if the file is not a regular, readable file.
    pub(super) answer: Result<Option<Vec<u8>>, String>,
    pub(super) ended: CommandExit,
}

/// Checks that the task is short enough to be passed. The error text is shown to users.
pub(super) fn check_length(input: InputMode, task: &str) -> Result<(), String> {
    // The kernel's limit includes the terminating NUL.
    if input == InputMode::Argument && task.len() >= REGISTRY_ARG_BYTES_MAX {
        return Err(format!(
            "what the step is called with has {} bytes, but one argument of a program can have {}; \
             hand large things over as files, or let the registry declare `input: file` in its berth-registry.yaml",
            task.len(),
            REGISTRY_ARG_BYTES_MAX - 1
        ));
    }
    Ok(())
}

impl RegistryCall<'_> {
    /// Makes the call. `prepare` sets the environment of the process. If this returns an error, the host was told if a
    /// process had been started.
    pub(super) fn run(self, prepare: impl FnOnce(&mut Command)) -> io::Result<CallResult> {
        let Self { host, sandbox, registry, start, task, parent, by, answer_bytes_max } = self;
        let mut exchange = CallFiles::new(parent, answer_bytes_max)?;
        sandbox.confinement.give_to_step_user(&parent.join(&exchange.id))?;
        let mut command = sandbox.command("/bin/sh");
        command.arg("-c").arg(format!("{start} \"$@\"")).arg("sh");
        match &task {
            TaskInput::Argument(text) => command.arg("--input").arg(text),
            TaskInput::File(path) => command.arg("--input-file").arg(path),
        };
        command.arg("--output").arg(&exchange.answer_path);
        command.arg("--log-dir").arg(&exchange.log_dir).args(["--execution-id", &exchange.id]);
        command.current_dir(registry);
        prepare(&mut command);
        command.env("PATH", path_with_tools(registry));
        let ended = process::run(host, sandbox, command, by, &mut exchange)?;
        Ok(CallResult { answer: exchange.finish(host), ended })
    }
}

/// Returns a PATH that starts with the registry's `node_modules/.bin`, as npm does.
fn path_with_tools(registry: &Path) -> OsString {
    let tools = registry.join("node_modules/.bin");
    let mut path = OsString::new();
    if tools.is_dir() && !tools.as_os_str().as_encoded_bytes().contains(&b':') {
        path.push(tools);
        path.push(":");
    }
    path.push(PATH);
    path
}
