//! A shell that has started and waits: nothing of its text has run before it is let go.
//!
//! To start a shell takes longer than most of what is written down before a step may begin. So it starts meanwhile, and
//! reads a line of its standard input first. Should that never come, because this process was killed, it reads the end
//! instead and ends too.

use std::io::{PipeWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Instant;

use super::{Ended, Host, Nothing, Started};
use crate::sandbox::Cage;

/// On one line with the beginning of the text, so that the shell counts the lines of the text alone.
const GATE: &str = "read -r _ && exec </dev/null || exit 125; ";
/// How it ends when nothing comes.
const GAVE_UP: i32 = 125;
/// The kernel takes no longer argument, the byte at its end included.
const ARGUMENT_BYTES_MAX: usize = 128 * 1024;
pub const SCRIPT_BYTES_MAX: usize = ARGUMENT_BYTES_MAX - GATE.len() - 1;

pub(crate) struct Held {
    // Closed first: who is not let go ends by itself.
    gate: PipeWriter,
    started: Started,
}

impl Held {
    /// `command` is the shell, in its directory and with its environment.
    pub(crate) fn start(
        cage: &Cage<'_>,
        mut command: Command,
        text: &str,
        memory_bytes_max: Option<u64>,
    ) -> std::io::Result<Self> {
        let (reader, gate) = std::io::pipe()?;
        command.args(["-e", "-c", &format!("{GATE}{text}")]).stdin(reader);
        Ok(Self { gate, started: Started::new(cage, command, memory_bytes_max)? })
    }

    /// Lets it go and sees it to its end, `by` at the latest.
    pub(crate) fn run(mut self, host: &dyn Host, cage: &Cage<'_>, by: Instant) -> std::io::Result<Ended> {
        host.begins()?;
        // One that could not read its text has ended too, and its status tells.
        if let Some(status) = self.started.child.try_wait()?
            && (status.signal().is_some() || status.code() == Some(GAVE_UP))
        {
            return Err(std::io::Error::other("it was ended before it was let go"));
        }
        let Self { mut gate, started } = self;
        host.begun();
        gate.write_all(b"\n").ok();
        drop(gate);
        started.watch(host, cage, by, &mut Nothing)
    }
}
