//! State of an attempt's log: which bytes are queued, sent and lost.

use std::time::{Duration, Instant};

use berth_core::mask::MaskStream;

use super::pending::PendingLog;
use super::sent::SentTail;
use super::{FIRST_DELAY, SEND_INTERVAL};
use crate::settings::LOG_CHUNK_BYTES_MAX;

pub(super) struct LogState {
    pub(super) stream: MaskStream,
    /// Masks lines from other sources. It is separate from `stream`, because such a line could otherwise split a secret
    /// in the output and prevent it from being masked.
    pub(super) aside: MaskStream,
    /// Masked bytes that have not been sent. `offset` is the offset of the first one in the log.
    pub(super) pending: PendingLog,
    pub(super) oldest: Option<Instant>,
    /// When the last chunk was taken to be sent.
    pub(super) last_sent: Option<Instant>,
    pub(super) offset: u64,
    /// Number of bytes of output accepted so far, not counting lines of the runner.
    pub(super) accepted: u64,
    pub(super) lost: u64,
    pub(super) is_truncated: bool,
    pub(super) is_away: bool,
    /// When the server refused the log. From then on all bytes are lost, until the server accepts a gap line.
    pub(super) refused: Option<Instant>,
    /// The server no longer wants the log.
    pub(super) is_over: bool,
    /// When the step ended.
    pub(super) closed: Option<Instant>,
    /// When the server last accepted a chunk.
    pub(super) taken: Option<Instant>,
    pub(super) ends_line: bool,
    /// Whether the bytes that were sent end with a newline. `ends_line` also covers the queued bytes.
    pub(super) sent_ends_line: bool,
    /// The last bytes before `offset`.
    pub(super) sent: SentTail,
    pub(super) sender: SenderState,
}

/// What the sender thread is doing, so that it is only woken when needed.
#[derive(Clone, Copy)]
pub(super) enum SenderState {
    Busy,
    WaitingForDue,
    WaitingForBytes,
}

impl LogState {
    pub(super) fn accept(&mut self, masked: &[u8], bytes_max: u64) {
        if masked.is_empty() || self.is_truncated || self.is_over {
            return;
        }
        let room = usize::try_from(bytes_max.saturating_sub(self.accepted)).unwrap_or(usize::MAX);
        let taken = &masked[..masked.len().min(room)];
        // Once bytes were lost, drop everything until the server is back, so that the log has one gap instead of many.
        let is_full = self.is_away && (self.lost > 0 || !self.pending.fits(taken.len()));
        if is_full || self.refused.is_some() {
            self.lost += taken.len() as u64;
        } else {
            self.push_gap_line();
            self.push_bytes(taken);
        }
        self.accepted += taken.len() as u64;
        if taken.len() < masked.len() {
            self.is_truncated = true;
            if self.refused.is_none() {
                self.push_gap_line();
                self.push_line(&format!("[berth] log truncated: it is longer than {bytes_max} bytes"));
            }
        }
    }

    /// Adds the bytes that the maskers held back because they could be the start of a secret.
    pub(super) fn flush(&mut self, bytes_max: u64) {
        let mut masked = Vec::new();
        self.stream.flush(&mut masked);
        self.aside.flush(&mut masked);
        self.accept(&masked, bytes_max);
    }

    /// Queues the gap line if bytes were lost. If the line cannot be queued, the count is kept for a later gap line.
    pub(super) fn push_gap_line(&mut self) {
        if self.lost > 0 && self.pending.push(self.as_line(&gap_line(self.lost)).as_bytes()) {
            self.lost = 0;
            self.note_pushed(b'\n');
        }
    }

    /// Removes the next chunk to send from the queue.
    pub(super) fn take_chunk(&mut self) -> Vec<u8> {
        let chunk = self.pending.take(LOG_CHUNK_BYTES_MAX);
        self.lost += self.pending.take_lost();
        self.oldest = (!self.pending.is_empty()).then(Instant::now);
        self.last_sent = Some(Instant::now());
        chunk
    }

    /// Continues at `length`, up to which the server has the log, instead of sending `chunk`. Returns false if the bytes
    /// in between are no longer kept.
    pub(super) fn rewind(&mut self, length: u64, chunk: &[u8]) -> bool {
        let Some(again) = self.offset.checked_sub(length).and_then(|count| self.sent.take_last(count)) else {
            return false;
        };
        self.continue_at(length, &again, chunk);
        true
    }

    /// Continues at `length` with a line that says that the bytes in between were lost.
    pub(super) fn skip_gap(&mut self, length: u64, chunk: &[u8]) {
        let lost = self.offset.saturating_sub(length);
        self.continue_at(length, format!("\n{}\n", gap_line(lost)).as_bytes(), chunk);
    }

    fn continue_at(&mut self, length: u64, before: &[u8], chunk: &[u8]) {
        self.pending.push_front(chunk);
        self.pending.push_front(before);
        self.offset = length;
        self.oldest.get_or_insert_with(Instant::now);
    }

    /// Handles a chunk that the server refused: counts the chunk and everything queued as lost.
    pub(super) fn refuse(&mut self, chunk: &[u8]) {
        self.lost += chunk.len() as u64 + self.pending.len();
        self.pending.clear();
        self.oldest = None;
        self.refused = Some(Instant::now());
    }

    fn as_line(&self, text: &str) -> String {
        let begin = if self.ends_line { "" } else { "\n" };
        format!("{begin}{text}\n")
    }

    pub(super) fn push_line(&mut self, text: &str) {
        self.push_bytes(self.as_line(text).as_bytes());
    }

    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        // Only spill to disk while the server is unavailable. If the server is just slow, the writer waits instead.
        let count = bytes.len();
        let goes_behind = self.is_away && !self.pending.fits_memory(count) && self.pending.fits(count);
        let is_kept = if goes_behind { self.pending.spill(bytes) } else { self.pending.push(bytes) };
        match is_kept {
            true => self.note_pushed(*last),
            false => self.lost += bytes.len() as u64,
        }
    }

    fn note_pushed(&mut self, last: u8) {
        self.ends_line = last == b'\n';
        self.oldest.get_or_insert_with(Instant::now);
    }

    pub(super) fn is_due(&self) -> bool {
        let is_old = self.due_in().is_some_and(|left| left.is_zero());
        !self.pending.is_empty() && (is_old || self.pending.len() >= LOG_CHUNK_BYTES_MAX as u64)
    }

    /// Returns the time until the pending bytes are sent, unless they fill a chunk before. After a pause, that is almost at
    /// once; of a steady stream, one chunk per interval.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let gathered = self.oldest? + FIRST_DELAY;
        let due = self.last_sent.map_or(gathered, |sent| gathered.max(sent + SEND_INTERVAL));
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Whether the condition that the sender thread is waiting for now holds.
    pub(super) fn is_awaited(&self) -> bool {
        match self.sender {
            SenderState::Busy => false,
            SenderState::WaitingForDue => self.is_due(),
            SenderState::WaitingForBytes => !self.pending.is_empty(),
        }
    }
}

pub(super) fn gap_line(lost: u64) -> String {
    format!("[berth] log gap: {lost} bytes lost")
}

#[cfg(test)]
mod tests {
    use berth_core::mask::SecretMasker;

    use super::*;

    fn unavailable_state(dir: &std::path::Path) -> LogState {
        let masker = SecretMasker::new(&[] as &[&str]);
        LogState {
            stream: masker.stream(),
            aside: masker.stream(),
            pending: PendingLog::new(dir.to_owned(), u64::MAX),
            oldest: None,
            last_sent: None,
            offset: 0,
            accepted: 0,
            lost: 0,
            is_truncated: false,
            is_away: true,
            refused: None,
            is_over: false,
            closed: None,
            taken: None,
            ends_line: true,
            sent_ends_line: true,
            sent: SentTail::new(0),
            sender: SenderState::Busy,
        }
    }

    #[test]
    fn gap_line_follows_spilled_bytes_after_disk_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = unavailable_state(dir.path());
        assert!(state.pending.spill(b"kept\n"));
        let repair_disk = state.pending.break_disk();
        // These bytes do not fit in memory, so they would have to go to the spill file.
        state.accept(b"lost 6", u64::MAX);
        state.push_gap_line();
        state.push_bytes(b"a line\n");
        assert_eq!(state.lost, 13);
        repair_disk(&mut state.pending);
        state.is_away = false;
        state.accept(b"and 5", u64::MAX);
        assert_eq!(state.take_chunk(), b"kept\n");
        state.accept(b"last\n", u64::MAX);
        let text = String::from_utf8(state.take_chunk()).unwrap();
        assert_eq!(text, "[berth] log gap: 18 bytes lost\nlast\n");
    }
}
