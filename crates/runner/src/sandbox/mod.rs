//! How far a step is kept apart from the machine, and how its processes are started accordingly.

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

/// How steps and builds are kept apart from this machine: found out once at start, and never weaker afterwards.
#[derive(Debug, Clone)]
pub struct Confinement {
    level: Level,
    visible: Visible,
    /// None: the same as this process.
    user: Option<StepUser>,
}

/// The confinement, for the processes of one attempt or one build.
pub(crate) struct Cage<'a> {
    pub(crate) confinement: &'a Confinement,
    /// Stands in place of `/tmp`.
    pub(crate) tmp: &'a Path,
    /// What may be changed.
    pub(crate) own: Vec<&'a Path>,
    /// What may only be read.
    pub(crate) read: Vec<&'a Path>,
    pub(crate) network: Network,
    /// What `BERTH_ATTEMPT_ID` says to its processes, by which they are found.
    pub(crate) id: &'a str,
}

impl Confinement {
    /// `hidden`: directories and files that no step or build may read even where they lie in a visible directory.
    /// `exposed`: those that every step and build may read.
    pub fn choose(sandbox: Sandbox, hidden: &[PathBuf], exposed: &[PathBuf]) -> Result<Self, StartError> {
        Self::choose_as(None, sandbox, hidden, exposed)
    }

    /// The same; what runs in it runs as `user`.
    pub fn choose_as(
        user: Option<StepUser>,
        sandbox: Sandbox,
        hidden: &[PathBuf],
        exposed: &[PathBuf],
    ) -> Result<Self, StartError> {
        if exposed.len() > EXPOSED_MAX {
            return Err(StartError::TooManyExposed);
        }
        // A step that is not kept apart sees everything.
        let visible =
            if sandbox == Sandbox::Off { Visible::default() } else { Visible::find(hidden, exposed)? };
        let refused = |why| StartError::Sandbox(sandbox, why);
        let bubblewrap = || bubblewrap::probe(&visible, user.as_ref()).map(Level::Bubblewrap);
        let level = match sandbox {
            Sandbox::Off => Level::Process,
            Sandbox::Landlock => landlock::probe().map(|()| Level::Landlock).map_err(refused)?,
            Sandbox::Bubblewrap | Sandbox::Auto => bubblewrap().map_err(refused)?,
            Sandbox::Local => bubblewrap().or_else(|no_bubblewrap| {
                tracing::warn!("steps are kept apart by Landlock only: {no_bubblewrap}");
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

    /// Why a step cannot have this network here; in words for its author.
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

    /// Whether steps run as another user than this process.
    pub fn has_user(&self) -> bool {
        self.user.is_some()
    }

    pub(crate) fn user(&self) -> Option<&StepUser> {
        self.user.as_ref()
    }

    /// Gives what is at `path` to the user that steps run as, where that is another one.
    pub(crate) fn give(&self, path: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.give(path))
    }

    /// Lets that user read what is at `path`.
    pub(crate) fn show(&self, path: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.show(path))
    }

    /// Lets that user pass through a directory.
    pub fn admit(&self, dir: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.admit(dir))
    }

    /// Whether that user can enter a directory.
    pub fn check_enters(&self, dir: &Path) -> Result<(), UserError> {
        self.user.as_ref().map_or(Ok(()), |user| user.check_enters(dir))
    }

    /// The same, with one more directory that cannot be read.
    pub(crate) fn hiding(mut self, dir: &Path) -> Result<Self, StartError> {
        self.visible.hide(dir)?;
        Ok(self)
    }
}

impl Cage<'_> {
    pub(crate) fn isolation(&self) -> Isolation {
        self.confinement.isolation()
    }

    /// A command that runs `program`; arguments added to it are the program's.
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
        match &self.confinement.level {
            Level::Process => command.spawn(),
            Level::Landlock => landlock::spawn(self, command),
            Level::Bubblewrap(bwrap) => command.spawn().map_err(|error| match error.kind() {
                kind @ (io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                    let program = bwrap.display();
                    let detail = format!("cannot run {program}: {error}; install bubblewrap again");
                    io::Error::new(kind, detail)
                }
                _ => error,
            }),
        }
    }

    /// A path that leads elsewhere would open something else than it names.
    fn check_paths(&self) -> io::Result<()> {
        let all = self.own.iter().chain(&self.read).chain([&self.tmp]);
        for path in all {
            if path.canonicalize()? != *path {
                return Err(io::Error::other(format!("{} is not a canonical path", path.display())));
            }
        }
        Ok(())
    }

    /// The mark of its processes.
    pub(crate) fn mark(&self) -> Vec<u8> {
        mark(self.id)
    }

    /// The main process only watches over the step: ending it would end the step without a chance to clean up.
    pub(crate) fn main_is_wrapper(&self) -> bool {
        matches!(self.confinement.level, Level::Bubblewrap(_))
    }
}
