//! Sandboxes: detects which isolation is available for steps, and starts processes in it.

mod bubblewrap;
mod landlock;
mod user;
mod visible;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use berth_api::runner::{Isolation, Network};

use berth_core::runner::EXPOSED_MAX;

use crate::process::tree::attempt_id_entry;
use crate::settings::{RunnerStartError, SandboxMode};

pub use user::{StepUserAccount, StepUserError};
pub use visible::HiddenPathError;
use visible::VisiblePaths;

#[derive(Debug, Clone)]
enum IsolationLevel {
    Process,
    Landlock,
    Bubblewrap(PathBuf),
}

/// The isolation of steps and builds on this machine, detected once at startup.
#[derive(Debug, Clone)]
pub struct Confinement {
    level: IsolationLevel,
    visible: VisiblePaths,
    /// The user that steps run as. `None` means the user of this process.
    user: Option<StepUserAccount>,
}

/// The sandbox for the processes of one attempt or build.
pub(crate) struct StepSandbox<'a> {
    pub(crate) confinement: &'a Confinement,
    /// Directory that is mounted as `/tmp`.
    pub(crate) tmp: &'a Path,
    /// Paths that the processes can write to.
    pub(crate) writable: Vec<&'a Path>,
    /// Paths that the processes can only read.
    pub(crate) readable: Vec<&'a Path>,
    pub(crate) network: Network,
    /// Value of `BERTH_ATTEMPT_ID`, which is used to find the processes.
    pub(crate) id: &'a str,
}

impl Confinement {
    /// Detects which sandbox is available. No step or build can read the `hidden` paths, even if they are in a visible
    /// directory. All steps and builds can read the `exposed` paths.
    pub fn choose(
        sandbox: SandboxMode,
        hidden: &[PathBuf],
        exposed: &[PathBuf],
    ) -> Result<Self, RunnerStartError> {
        Self::choose_as(None, sandbox, hidden, exposed)
    }

    /// Like [`choose`](Self::choose), for steps that run as `user`.
    pub fn choose_as(
        user: Option<StepUserAccount>,
        sandbox: SandboxMode,
        hidden: &[PathBuf],
        exposed: &[PathBuf],
    ) -> Result<Self, RunnerStartError> {
        if exposed.len() > EXPOSED_MAX {
            return Err(RunnerStartError::TooManyExposed);
        }
        // Without a sandbox, a step can see the whole file system.
        let visible = if sandbox == SandboxMode::Off {
            VisiblePaths::default()
        } else {
            VisiblePaths::find(hidden, exposed)?
        };
        let refused = |why| RunnerStartError::Sandbox(sandbox, why);
        let bubblewrap = || bubblewrap::probe(&visible, user.as_ref()).map(IsolationLevel::Bubblewrap);
        let level = match sandbox {
            SandboxMode::Off => IsolationLevel::Process,
            SandboxMode::Landlock => landlock::probe().map(|()| IsolationLevel::Landlock).map_err(refused)?,
            SandboxMode::Bubblewrap | SandboxMode::Auto => bubblewrap().map_err(refused)?,
            SandboxMode::Local => bubblewrap().or_else(|no_bubblewrap| {
                tracing::warn!(reason = no_bubblewrap, "bubblewrap unavailable; using Landlock");
                let both = |no_landlock| refused(format!("{no_bubblewrap}; {no_landlock}"));
                landlock::probe().map(|()| IsolationLevel::Landlock).map_err(both)
            })?,
        };
        Ok(Self { level, visible, user })
    }

    /// Returns the isolation level, which is reported to the server.
    pub fn isolation(&self) -> Isolation {
        match self.level {
            IsolationLevel::Process => Isolation::Process,
            IsolationLevel::Landlock => Isolation::Landlock,
            IsolationLevel::Bubblewrap(_) => Isolation::Bubblewrap,
        }
    }

    /// Returns the paths that the operator has exposed to steps.
    pub fn exposed_paths(&self) -> Vec<String> {
        self.visible.chosen.iter().map(|path| path.display().to_string()).collect()
    }

    /// Checks that a network mode is available on this machine. The error text is shown to the step's author.
    pub(crate) fn check_network(&self, network: Network) -> Result<(), String> {
        match (network, &self.level) {
            (Network::Host, _) | (Network::None, IsolationLevel::Bubblewrap(_)) => Ok(()),
            (Network::None, IsolationLevel::Process | IsolationLevel::Landlock) => Err(format!(
                "`network: none` needs the sandbox bubblewrap, and this runner has {}; nothing of the step ran",
                self.level_name()
            )),
            (Network::Bridge, _) => Err("`network: bridge` is only for steps in containers".to_owned()),
        }
    }

    fn level_name(&self) -> &'static str {
        match self.level {
            IsolationLevel::Process => "none",
            IsolationLevel::Landlock => "landlock",
            IsolationLevel::Bubblewrap(_) => "bubblewrap",
        }
    }

    /// Whether steps cannot read or write the private files of this process.
    pub(crate) fn hides_files(&self) -> bool {
        !matches!(self.level, IsolationLevel::Process) || self.has_user()
    }

    /// Whether steps run as a different user than this process.
    pub fn has_user(&self) -> bool {
        self.user.is_some()
    }

    pub(crate) fn user(&self) -> Option<&StepUserAccount> {
        self.user.as_ref()
    }

    /// Makes the step user, if there is one, the owner of everything at `path`.
    pub(crate) fn give_to_step_user(&self, path: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.take_ownership(path))
    }

    /// Lets the step user read `path`.
    pub(crate) fn allow_read(&self, path: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.allow_read(path))
    }

    /// Lets the step user traverse a directory.
    pub fn allow_traverse(&self, dir: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.allow_traverse(dir))
    }

    /// Checks that the step user can enter a directory.
    pub fn check_can_enter(&self, dir: &Path) -> Result<(), StepUserError> {
        self.user.as_ref().map_or(Ok(()), |user| user.check_can_enter(dir))
    }

    /// Hides another directory from all steps and builds.
    pub(crate) fn with_hidden(mut self, dir: &Path) -> Result<Self, RunnerStartError> {
        self.visible.hide(dir)?;
        Ok(self)
    }
}

impl StepSandbox<'_> {
    pub(crate) fn isolation(&self) -> Isolation {
        self.confinement.isolation()
    }

    /// Returns a command that runs `program` in the sandbox. Arguments that are added to the command are passed to the
    /// program.
    pub(crate) fn command(&self, program: &str) -> Command {
        match &self.confinement.level {
            IsolationLevel::Process | IsolationLevel::Landlock => Command::new(program),
            IsolationLevel::Bubblewrap(bwrap) => {
                let mut command = Command::new(bwrap);
                command.args(bubblewrap::arguments(self)).arg("--").arg(program);
                command
            }
        }
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.confinement.check_network(self.network).map_err(io::Error::other)?;
        self.check_paths()?;
        if let Some(user) = &self.confinement.user {
            user.run_as(command);
        }
        match &self.confinement.level {
            IsolationLevel::Process => command.spawn(),
            IsolationLevel::Landlock => landlock::spawn(self, command),
            IsolationLevel::Bubblewrap(bwrap) => command.spawn().map_err(|error| match error.kind() {
                kind @ (io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                    let program = bwrap.display();
                    let detail = format!("cannot run {program}: {error}; install bubblewrap again");
                    io::Error::new(kind, detail)
                }
                _ => error,
            }),
        }
    }

    /// Checks that all paths are canonical. Otherwise a path could make a different directory accessible than the one
    /// that it names.
    fn check_paths(&self) -> io::Result<()> {
        let all = self.writable.iter().chain(&self.readable).chain([&self.tmp]);
        for path in all {
            if path.canonicalize()? != *path {
                return Err(io::Error::other(format!("{} is not a canonical path", path.display())));
            }
        }
        Ok(())
    }

    /// Returns the environment entry that identifies the processes of this sandbox.
    pub(crate) fn attempt_id_entry(&self) -> Vec<u8> {
        attempt_id_entry(self.id)
    }

    /// Whether the main process is the wrapper of the sandbox. Killing the wrapper would kill the step without giving
    /// it a chance to clean up.
    pub(crate) fn main_is_wrapper(&self) -> bool {
        matches!(self.confinement.level, IsolationLevel::Bubblewrap(_))
    }
}
