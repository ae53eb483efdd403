//! How far a step is kept apart from the machine, and how its processes are started accordingly.

mod bubblewrap;
mod landlock;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use berth_api::runner::Isolation;

use crate::process::tree::mark;
use crate::settings::{Sandbox, StartError};

/// What works here, found out once at start.
pub(crate) enum Level {
    Process,
    Landlock,
    Bubblewrap(PathBuf),
}

/// The level, for the processes of one attempt or one build.
pub(crate) struct Cage<'a> {
    pub(crate) level: &'a Level,
    /// Cannot be read, but for what the two lists below name.
    pub(crate) hidden: Vec<&'a Path>,
    /// Stands in place of `/tmp`.
    pub(crate) tmp: &'a Path,
    /// What may be changed.
    pub(crate) own: Vec<&'a Path>,
    /// What may only be read.
    pub(crate) read: Vec<&'a Path>,
    /// What `BERTH_ATTEMPT_ID` says to its processes, by which they are found.
    pub(crate) id: &'a str,
}

pub(crate) fn choose(sandbox: Sandbox) -> Result<Level, StartError> {
    let refused = |sandbox| move |why| StartError::Sandbox(sandbox, why);
    match sandbox {
        Sandbox::Off => Ok(Level::Process),
        Sandbox::Bubblewrap => bubblewrap::probe().map_err(refused(Sandbox::Bubblewrap)),
        Sandbox::Landlock => landlock::probe().map_err(refused(Sandbox::Landlock)),
        Sandbox::Auto => {
            let level = bubblewrap::probe().or_else(|why_not| {
                tracing::info!("no bubblewrap here: {why_not}");
                landlock::probe()
            });
            Ok(level.unwrap_or_else(|why_not| {
                tracing::warn!("steps run without a sandbox: {why_not}");
                Level::Process
            }))
        }
    }
}

/// How far steps would be kept apart on this machine.
pub fn isolation_here(sandbox: Sandbox) -> Result<Isolation, StartError> {
    choose(sandbox).map(|level| level.isolation())
}

impl Level {
    pub(crate) fn isolation(&self) -> Isolation {
        match self {
            Level::Process => Isolation::Process,
            Level::Landlock => Isolation::Landlock,
            Level::Bubblewrap(_) => Isolation::Bubblewrap,
        }
    }
}

impl Cage<'_> {
    pub(crate) fn isolation(&self) -> Isolation {
        self.level.isolation()
    }

    /// A command that runs `program`; arguments added to it are the program's.
    pub(crate) fn command(&self, program: &str) -> Command {
        match self.level {
            Level::Process | Level::Landlock => Command::new(program),
            Level::Bubblewrap(bwrap) => {
                let mut command = Command::new(bwrap);
                command.args(bubblewrap::arguments(self)).arg("--").arg(program);
                command
            }
        }
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        match self.level {
            Level::Process | Level::Bubblewrap(_) => command.spawn(),
            Level::Landlock => landlock::spawn(self, command),
        }
    }

    /// The mark of its processes.
    pub(crate) fn mark(&self) -> Vec<u8> {
        mark(self.id)
    }

    /// The main process only watches over the step: ending it would end the step without a chance to clean up.
    pub(crate) fn main_is_wrapper(&self) -> bool {
        matches!(self.level, Level::Bubblewrap(_))
    }
}
