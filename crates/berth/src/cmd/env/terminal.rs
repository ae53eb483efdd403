//! Job control. Makes the command's process group the foreground group of the terminal, so that it can read input and
//! receives Ctrl-C. Takes the terminal back afterwards.

use std::fs::File;
use std::process::{Child, Command};

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp, kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// Refers to the controlling terminal even if standard input is redirected.
const TERMINAL: &str = "/dev/tty";

/// Process group of the command.
#[derive(Clone, Copy)]
pub(super) struct CommandGroup(pub(super) Pid);

impl CommandGroup {
    // Errors are ignored, because all processes of the group may have ended already.
    pub(super) fn send(self, signal: rustix::process::Signal) {
        kill_process_group(self.0, signal).ok();
    }
}

/// The controlling terminal. On drop, this process becomes the foreground group again.
pub(super) struct ControllingTerminal {
    tty: File,
    ours: Pid,
    is_lent: bool,
}

impl ControllingTerminal {
    /// Returns `None` if the process has no controlling terminal.
    pub(super) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open(TERMINAL).ok()?;
        Some(Self { tty, ours: getpgrp(), is_lent: false })
    }

    /// Makes `group` the foreground group if this process is in the foreground; returns whether `group` is in the
    /// foreground now.
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

/// Blocks SIGTTOU for this thread and its children. Otherwise changing the foreground group, or writing to a terminal
/// with `tostop`, could stop this process, and the session would expire.
pub(super) fn block_stop_signals() -> anyhow::Result<()> {
    stop_signals().thread_block().context("cannot block SIGTTOU")
}

/// Like [`Command::spawn`], but unblocks SIGTTOU in the child.
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
