//! The terminal belongs to one process group at a time: the command gets it, so that it may read and hear Ctrl-C together
//! with all that it starts, and gives it back.

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::process::{Pid, Signal, getpgrp, kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// Taken back when it goes.
pub(super) struct Terminal {
    ours: Pid,
}

impl Terminal {
    /// `None`: there is none, or it is not ours to give.
    pub(super) fn hand_to(group: Pid) -> Option<Self> {
        let ours = getpgrp();
        if tcgetpgrp(std::io::stdin()).ok()? != ours {
            return None;
        }
        tcsetpgrp(std::io::stdin(), group).ok()?;
        // It may have wanted to read before it could, and was stopped for that.
        kill_process_group(group, Signal::CONT).ok();
        Some(Self { ours })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Whoever takes a terminal from the background is stopped, unless they will not hear of it.
        let mut quiet = SigSet::empty();
        quiet.add(Blocked::SIGTTOU);
        if quiet.thread_block().is_ok() {
            tcsetpgrp(std::io::stdin(), self.ours).ok();
            quiet.thread_unblock().ok();
        }
    }
}
