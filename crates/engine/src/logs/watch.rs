//! Follows a log while it grows.

use std::sync::Arc;

use tokio::sync::watch;

use super::LogError;
use super::open_log::{LogContent, LogProgress, OpenLog};
use super::reader::LogReader;
use super::sealed_log::read_plain;

/// Follows a log. The log stays in the table until this is dropped.
pub struct LogWatch {
    pub(super) log: Arc<OpenLog>,
    pub(super) seen: watch::Receiver<LogProgress>,
    /// Reader of the sealed file, once the log is sealed.
    pub(super) packed: Option<LogReader>,
}

impl LogWatch {
    /// The current progress of the log.
    pub fn progress(&mut self) -> LogProgress {
        *self.seen.borrow_and_update()
    }

    /// Waits until the log has changed since the last call of [`LogWatch::progress`].
    pub async fn wait_for_change(&mut self) {
        // The sender is never dropped in the meantime, because `self.log` owns it.
        let _ = self.seen.changed().await;
    }

    /// Picks up what another server has appended.
    pub fn catch_up(&self) -> Result<(), LogError> {
        self.log.catch_up()
    }

    /// Reads up to `max` bytes. Returns none at the end of the log.
    pub fn read(&mut self, from: u64, max: usize) -> Result<Vec<u8>, LogError> {
        if self.packed.is_none() {
            if let Some((file, length)) = self.log.plain_file()? {
                let count = length.saturating_sub(from).min(max as u64);
                let mut bytes = Vec::new();
                read_plain(&file, from, &mut bytes, usize::try_from(count).unwrap_or(0))?;
                return Ok(bytes);
            }
            match self.log.readable()? {
                LogContent::Packed(pack) => self.packed = Some(LogReader::from_sealed(*pack)),
                LogContent::Plain { .. } => return Ok(Vec::new()),
            }
        }
        self.packed.as_mut().map_or(Ok(Vec::new()), |log| log.read_bytes(from, max))
    }

    /// Returns the number of lines. Only valid for a log that has ended.
    pub fn line_count(&self) -> Result<u64, LogError> {
        Ok(match self.log.readable()? {
            LogContent::Packed(pack) => pack.sealed.lines,
            LogContent::Plain { index, .. } => index.line_count(),
        })
    }
}
