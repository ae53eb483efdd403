//! Functions that run other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The result of a task. The error is a message for the user.
pub(crate) type TaskResult = Result<(), String>;

/// Returns the repository's root directory.
pub(crate) fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let own = own.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    own.parent().map(PathBuf::from).unwrap_or(own)
}

/// Returns a command for the cargo that runs this task, in the caller's directory, so that a relative CARGO_TARGET_DIR
/// stays valid.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

pub(crate) fn cargo_has(subcommand: &str) -> bool {
    let mut asked = cargo([subcommand, "--version"]);
    asked.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

pub(crate) fn run(command: &mut Command) -> TaskResult {
    let shown = command_line(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` failed: {status}")),
        Err(error) => Err(format!("cannot run `{shown}`: {error}")),
    }
}

/// Empties the directory and returns it.
pub(crate) fn empty_dir(dir: &Path) -> Result<PathBuf, String> {
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    Ok(dir.to_owned())
}

/// Runs a program and shows its output only if it fails.
pub(crate) fn run_silently(command: &mut Command) -> TaskResult {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{}\n{command:?} failed: {}", String::from_utf8_lossy(&said).trim_end(), output.status))
}

/// Returns the output of a command, or `None` if it cannot be run or fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns whether this program may install packages on this machine, which requires root and apt.
pub(crate) fn may_install() -> bool {
    let is_root = output(Command::new("id").arg("-u")).is_some_and(|id| id == "0");
    is_root && output(Command::new("apt-get").arg("--version")).is_some()
}

pub(crate) fn apt_install(packages: &[&str]) -> TaskResult {
    // Print to stderr, because the stdout of some tasks is their result.
    eprintln!("    installing {} with apt-get", packages.join(", "));
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        run(command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(std::io::stderr()))
    };
    apt(&["update", "-qq"])?;
    apt(&[&["install", "-y", "-qq", "--no-install-recommends"], packages].concat())
}

pub(crate) fn no_arguments(args: &[String]) -> TaskResult {
    match args.first() {
        None => Ok(()),
        Some(arg) => Err(format!("unexpected argument \"{arg}\"")),
    }
}

fn command_line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}
