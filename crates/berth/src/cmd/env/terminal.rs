//! The terminal belongs to one process group at a time: the command gets it, so that it may read and hear Ctrl-C together
//! with all that it starts, and gives it back.

use std::fs::File;
use std::process::{Child, Command};

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// Whatever standard input is.
const TERMINAL: &str = "/dev/tty";

/// Taken back when it goes.
pub(super) struct Terminal {
    tty: File,
    ours: Pid,
    is_lent: bool,
}

impl Terminal {
    /// `None`: there is none.
    pub(super) fn find() -> Option<Self> {
        let tty = File::options().read(true).write(true).open(TERMINAL).ok()?;
        Some(Self { tty, ours: getpgrp(), is_lent: false })
    }

    /// Says whether the group has it now. What is not ours is not ours to give.
    pub(super) fn hand_to(&mut self, group: Pid) -> bool {
        match tcgetpgrp(&self.tty) {
            Ok(has) if has == self.ours => {
                let is_lent = tcsetpgrp(&self.tty, group).is_ok();
                self.is_lent |= is_lent;
                is_lent
            }
            Ok(has) => has == group,
            Err(_) => false,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.is_lent {
            tcsetpgrp(&self.tty, self.ours).ok();
        }
    }
}

/// Whoever takes a terminal from the background, or writes to one that wants no such writers, is stopped, unless they
/// will not hear of it. And whoever is stopped loses what they hold. For this thread and those that it starts.
pub(super) fn hear_no_stop() -> anyhow::Result<()> {
    stop().thread_block().context("cannot hold a signal back")
}

/// As [`Command::spawn`]; the command hears everything.
pub(super) fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    stop().thread_unblock().context("cannot let a signal through")?;
    let spawned = command.spawn();
    hear_no_stop()?;
    Ok(spawned?)
}

fn stop() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTTOU);
    signals
}
