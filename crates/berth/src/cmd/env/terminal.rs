//! Job control: gives the terminal to the command's process group, so that it can read and receives Ctrl-C, and takes
//! it back afterwards.

use std::fs::File;
use std::process::{Child, Command};

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The controlling terminal, even if standard input is redirected.
const TERMINAL: &str = "/dev/tty";

/// The controlling terminal; taken back on drop.
pub(super) struct ControllingTerminal {
    tty: File,
    ours: Pid,
    is_lent: bool,
}

impl ControllingTerminal {
    /// `None`: the process has no terminal.
    pub(super) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open(TERMINAL).ok()?;
        Some(Self { tty, ours: getpgrp(), is_lent: false })
    }

    /// Gives the terminal to the group if it is ours to give; returns whether the group has it now.
    pub(super) fn give_to(&mut self, group: Pid) -> bool {
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

impl Drop for ControllingTerminal {
    fn drop(&mut self) {
        if self.is_lent {
            tcsetpgrp(&self.tty, self.ours).ok();
        }
    }
}

/// Blocks SIGTTOU for this thread and its children, so that changing the terminal's foreground group, or writing with
/// `tostop`, does not stop this process and let the session expire.
pub(super) fn block_stop_signals() -> anyhow::Result<()> {
    stop_signals().thread_block().context("cannot block SIGTTOU")
}

/// Like [`Command::spawn`], with the signal unblocked in the child.
pub(super) fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    stop_signals().thread_unblock().context("cannot unblock SIGTTOU")?;
    let spawned = command.spawn();
    block_stop_signals()?;
    Ok(spawned?)
}

fn stop_signals() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTTOU);
    signals
}
