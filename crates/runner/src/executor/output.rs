//! The pipe from an async client to the thread that watches a command.

use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::unix::pipe;

use crate::async_calls::AsyncRuntime;

/// Interval between two checks whether output is still read.
const DISCARD_INTERVAL: Duration = Duration::from_millis(100);

/// Writes the output of a command that runs elsewhere.
pub(crate) struct OutputPipe {
    pipe: pipe::Sender,
    /// Set when the output is not read any more. It is then discarded.
    is_discarding: Arc<AtomicBool>,
}

impl OutputPipe {
    pub(crate) fn new(
        runtime: &AsyncRuntime,
        output: PipeWriter,
        is_discarding: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let _context = runtime.enter();
        Ok(Self { pipe: pipe::Sender::from_owned_fd(OwnedFd::from(output))?, is_discarding })
    }

    /// Fails when the reader has closed the pipe.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let writable = tokio::time::timeout(DISCARD_INTERVAL, self.pipe.writable()).await;
            if writable.is_err() && self.is_discarding.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.pipe.try_write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
