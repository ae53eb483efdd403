//! Sandboxes: which isolation steps get, and how processes are started in it.

mod bubblewrap;
mod landlock;
mod user;
mod visible;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use berth_api::runner::{Isolation, Network};

use berth_core::runner::EXPOSED_MAX;

use crate::process::tree::mark;
use crate::settings::{Sandbox, StartError};

pub use user::{StepUser, UserError};
pub use visible::HideError;
use visible::Visible;

#[derive(Debug, Clone)]
enum Level {
    Process,
    Landlock,
    Bubblewrap(PathBuf),
}

/// The isolation of steps and builds on this machine, detected once at start.
#[derive(Debug, Clone)]
pub struct Confinement {
    level: Level,
    visible: Visible,
    /// `None`: the user of this process.
    user: Option<StepUser>,
}

/// The sandbox for the processes of one attempt or build.
pub(crate) struct Cage<'a> {
    pub(crate) confinement: &'a Confinement,
    /// Mounted as `/tmp`.
    pub(crate) tmp: &'a Path,
    /// Writable paths.
    pub(crate) own: Vec<&'a Path>,
    /// Read-only paths.
    pub(crate) read: Vec<&'a Path>,
    pub(crate) network: Network,
    /// Value of `BERTH_ATTEMPT_ID`, by which processes are found.
    pub(crate) id: &'a str,
}

impl Confinement {
    /// Detects the sandbox. No step or build can read `hidden` paths, even in a visible directory; all of them can
    /// read `exposed` paths.
    pub fn choose(sandbox: Sandbox, hidden: &[PathBuf], exposed: &[PathBuf]) -> Result<Self, StartError> {
        Self::choose_as(None, sandbox, hidden, exposed)
    }

    /// Like [`choose`](Self::choose), for steps that run as `user`.
    pub fn choose_as(
        user: Option<StepUser>,
        sandbox: Sandbox,
        hidden: &[PathBuf],
        exposed: &[PathBuf],
    ) -> Result<Self, StartError> {
        if exposed.len() > EXPOSED_MAX {
            return Err(StartError::TooManyExposed);
        }
        // Without a sandbox a step sees everything.
        let visible =
            if sandbox == Sandbox::Off { Visible::default() } else { Visible::find(hidden, exposed)? };
        let refused = |why| StartError::Sandbox(sandbox, why);
        let bubblewrap = || bubblewrap::probe(&visible, user.as_ref()).map(Level::Bubblewrap);
        let level = match sandbox {
            Sandbox::Off => Level::Process,
            Sandbox::Landlock => landlock::probe().map(|()| Level::Landlock).map_err(refused)?,
            Sandbox::Bubblewrap | Sandbox::Auto => bubblewrap().map_err(refused)?,
            Sandbox::Local => bubblewrap().or_else(|no_bubblewrap| {
                tracing::warn!(reason = no_bubblewrap, "bubblewrap unavailable; using Landlock");
                let both = |no_landlock| refused(format!("{no_bubblewrap}; {no_landlock}"));
                landlock::probe().map(|()| Level::Landlock).map_err(both)
            })?,
        };
        Ok(Self { level, visible, user })
    }

    pub fn isolation(&self) -> Isolation {
        match self.level {
            Level::Process => Isolation::Process,
            Level::Landlock => Isolation::Landlock,
            Level::Bubblewrap(_) => Isolation::Bubblewrap,
        }
    }

    /// Paths that the operator exposes.
    pub fn exposed(&self) -> Vec<String> {
        self.visible.chosen.iter().map(|path| path.display().to_string()).collect()
    }

    /// Returns an error for the step's author if the network mode is not available here.
    pub(crate) fn check_network(&self, network: Network) -> Result<(), String> {
        match (network, &self.level) {
            (Network::Host, _) | (Network::None, Level::Bubblewrap(_)) => Ok(()),
            (Network::None, Level::Process | Level::Landlock) => Err(format!(
                "`network: none` needs the sandbox bubblewrap, and this runner has {}; nothing of the step ran",
                self.word()
            )),
        }
    }

    fn word(&self) -> &'static str {
        match self.level {
            Level::Process => "none",
            Level::Landlock => "landlock",
            Level::Bubblewrap(_) => "bubblewrap",
        }
    }

    /// Whether steps run as a different user than this process.
    pub fn has_user(&self) -> bool {
        self.user.is_some()
    }

    pub(crate) fn user(&self) -> Option<&StepUser> {
        self.user.as_ref()
    }

    /// Changes the owner of `path` to the step user, if there is one.
    pub(crate) fn give(&self, path: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.give(path))
    }

    /// Lets the step user read `path`.
    pub(crate) fn show(&self, path: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.show(path))
    }

    /// Lets the step user traverse a directory.
    pub fn admit(&self, dir: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.admit(dir))
    }

    /// Checks that the step user can enter a directory.
    pub fn check_enters(&self, dir: &Path) -> Result<(), UserError> {
        self.user.as_ref().map_or(Ok(()), |user| user.check_enters(dir))
    }

    /// Hides one more directory.
    pub(crate) fn hiding(mut self, dir: &Path) -> Result<Self, StartError> {
        self.visible.hide(dir)?;
        Ok(self)
    }
}

impl Cage<'_> {
    pub(crate) fn isolation(&self) -> Isolation {
        self.confinement.isolation()
    }

    /// Returns a command that runs `program` in the sandbox; arguments added to it go to the program.
    pub(crate) fn command(&self, program: &str) -> Command {
        match &self.confinement.level {
            Level::Process | Level::Landlock => Command::new(program),
            Level::Bubblewrap(bwrap) => {
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
            user.run(command);
        }
        match self.confinement.level {
            Level::Process | Level::Bubblewrap(_) => command.spawn(),
            Level::Landlock => landlock::spawn(self, command),
        }
    }

    /// A non-canonical path could make a different directory accessible than the one it names.
    fn check_paths(&self) -> io::Result<()> {
        let all = self.own.iter().chain(&self.read).chain([&self.tmp]);
        for path in all {
            if path.canonicalize()? != *path {
                return Err(io::Error::other(format!("{} is not a canonical path", path.display())));
            }
        }
        Ok(())
    }

    /// The environment entry that identifies its processes.
    pub(crate) fn mark(&self) -> Vec<u8> {
        mark(self.id)
    }

    /// Whether the main process is the sandbox's wrapper: killing it would kill the step without a chance to clean
    /// up.
    pub(crate) fn main_is_wrapper(&self) -> bool {
        matches!(self.confinement.level, Level::Bubblewrap(_))
    }
}
