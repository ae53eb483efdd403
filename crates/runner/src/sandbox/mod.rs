//! How far a step is kept apart from the machine, and how its processes are started accordingly.

mod bubblewrap;
mod landlock;

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};

use berth_api::runner::Isolation;

use crate::attempt::place::Place;
use crate::settings::{Sandbox, Settings, StartError};

/// What works here, found out once at start.
pub(crate) enum Level {
    Process,
    Landlock,
    Bubblewrap(PathBuf),
}

/// The level, for one attempt.
pub(crate) struct Cage<'a> {
    pub(crate) level: &'a Level,
    pub(crate) settings: &'a Settings,
    pub(crate) place: &'a Place,
}

pub(crate) fn choose(settings: &Settings) -> Result<Level, StartError> {
    let refused = |sandbox| move |why| StartError::Sandbox(sandbox, why);
    match settings.sandbox {
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
                command.args(bubblewrap::arguments(self.settings, self.place)).arg("--").arg(program);
                command
            }
        }
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        match self.level {
            Level::Process | Level::Bubblewrap(_) => command.spawn(),
            Level::Landlock => landlock::spawn(self.settings, self.place, command),
        }
    }

    /// The main process only watches over the step: ending it would end the step without a chance to clean up.
    pub(crate) fn main_is_wrapper(&self) -> bool {
        matches!(self.level, Level::Bubblewrap(_))
    }
}
