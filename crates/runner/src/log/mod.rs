//! The log of one attempt. Output is masked, split into chunks and sent to the server with its offset.
//!
//! The attempt's thread writes the log and a separate thread sends it, so that a slow server cannot delay a stop. The
//! sender thread is started when the first chunk is due; if a step ends earlier, its log is sent at the end. While the
//! server is unavailable, bytes are buffered in memory and, on a remote runner, on disk, up to a limit. Bytes that are
//! lost or refused are counted, and a "gap line" in the log says how many. A finished step waits for its log to be
//! sent, but only for a limited time.

mod pending;
mod sent;
mod state;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptOrder, AttemptRef, LinkError, RunnerLink};
use berth_core::mask::SecretMasker;
use parking_lot::{Condvar, Mutex, MutexGuard};

use pending::PendingLog;
use sent::{SENT_BYTES_MAX, SentTail};
use state::{LogState, SenderState, gap_line};

use crate::backoff::Backoff;
use crate::settings::RunnerOptions;
use crate::stop_signal::{StopReason, StopSignal};

/// How long to wait for more bytes before sending an incomplete chunk after a pause, so that a burst of lines is one chunk.
const FIRST_DELAY: Duration = Duration::from_millis(3);
/// Minimum time between two incomplete chunks.
const SEND_INTERVAL: Duration = Duration::from_millis(20);
/// How long to wait until a server has the bytes that were sent to another server and are no longer kept here.
const GAP_PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two checks whether a server has these bytes.
const GAP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between two attempts to send the gap line to a server that refuses the log.
const OFFER_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) struct AttemptLog {
    sent: Arc<LogChannel>,
    sender: Mutex<Option<JoinHandle<()>>>,
}

/// Returns true once the runner has to exit, so that further retries are pointless.
pub(crate) type GiveUpCheck = Arc<dyn Fn() -> bool + Send + Sync>;

struct LogChannel {
    link: Arc<dyn RunnerLink>,
    attempt: AttemptRef,
    control: Arc<StopSignal>,
    give_up: GiveUpCheck,
    bytes_max: u64,
    patience: Duration,
    state: Mutex<LogState>,
    changed: Condvar,
}

impl AttemptLog {
    /// `start` is the length of the log that earlier calls of the same attempt have written.
    pub(crate) fn new(
        link: Arc<dyn RunnerLink>,
        attempt: AttemptRef,
        control: Arc<StopSignal>,
        masker: &SecretMasker,
        settings: &RunnerOptions,
        give_up: GiveUpCheck,
        start: u64,
    ) -> Self {
        let state = LogState {
            stream: masker.stream(),
            aside: masker.stream(),
            pending: PendingLog::new(settings.work_dir.clone(), settings.step_log_spill_bytes_max),
            oldest: None,
            last_sent: None,
            offset: start,
            accepted: start,
            lost: 0,
            // A log exceeds the limit only if it was truncated: the line that reports the truncation does not count.
            is_truncated: start > settings.step_log_bytes_max,
            is_away: false,
            refused: None,
            is_over: false,
            closed: None,
            taken: None,
            ends_line: true,
            sent_ends_line: true,
            // The embedded runner does not outlive its server.
            sent: SentTail::new(if settings.step_log_spill_bytes_max > 0 { SENT_BYTES_MAX } else { 0 }),
            sender: SenderState::Busy,
        };
        let sent = LogChannel {
            link,
            attempt,
            control,
            give_up,
            bytes_max: settings.step_log_bytes_max,
            patience: settings.step_log_patience,
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Self { sent: Arc::new(sent), sender: Mutex::new(None) }
    }

    /// Writes output of the step.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let mut state = self.sent.state.lock();
        if state.is_truncated || state.is_over {
            return;
        }
        let mut masked = Vec::with_capacity(bytes.len());
        state.stream.push(bytes, &mut masked);
        state.accept(&masked, self.sent.bytes_max);
        if state.is_truncated {
            state.stream.flush(&mut Vec::new());
        }
        drop(state);
        self.tick();
    }

    /// Writes a line from another source, such as a custom step's log file, without splitting a line of the output.
    pub(crate) fn write_aside(&self, line: &[u8]) {
        let mut state = self.sent.state.lock();
        if state.is_truncated || state.is_over {
            return;
        }
        let mut masked = Vec::with_capacity(line.len() + 1);
        if !state.ends_line {
            masked.push(b'\n');
        }
        state.aside.push(line, &mut masked);
        state.accept(&masked, self.sent.bytes_max);
        drop(state);
        self.tick();
    }

    /// Ends the current line, so that the step's next call starts on a new line.
    pub(crate) fn end_line(&self) {
        let mut state = self.sent.state.lock();
        state.flush(self.sent.bytes_max);
        if !state.ends_line && state.refused.is_none() && !state.is_over {
            state.push_bytes(b"\n");
        }
    }

    /// Writes a line of the runner itself. The line is masked like the step's output, because it may quote that output.
    pub(crate) fn write_line(&self, text: &str) {
        let mut state = self.sent.state.lock();
        state.flush(self.sent.bytes_max);
        let mut masked = Vec::new();
        let begin = if state.ends_line { "" } else { "\n" };
        state.stream.push(format!("{begin}{text}\n").as_bytes(), &mut masked);
        state.stream.flush(&mut masked);
        // Lines of the runner are written even beyond the size limit, because they say how the step ended.
        if state.refused.is_some() {
            state.lost += masked.len() as u64;
        } else if !state.is_over {
            state.push_gap_line();
            state.push_bytes(&masked);
        }
        drop(state);
        self.tick();
    }

    /// Returns false if the writer should wait because the server is slow.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.sent.state.lock();
        state.is_away || state.refused.is_some() || state.is_over || state.pending.has_room()
    }

    /// Returns the time until the next chunk is due, while there is no sender thread.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let is_attended = self.sender.lock().is_some();
        if is_attended { None } else { self.sent.state.lock().due_in() }
    }

    /// Starts or wakes the sender thread if a chunk is due.
    pub(crate) fn tick(&self) {
        let mut sender = self.sender.lock();
        let state = self.sent.state.lock();
        let (is_due, is_awaited) = (state.is_due(), state.is_awaited());
        drop(state);
        if sender.is_some() {
            if is_awaited {
                self.sent.changed.notify_all();
            }
            return;
        }
        if is_due {
            let sent = self.sent.clone();
            // If the thread cannot be started, the bytes are sent when the step ends, or counted as lost.
            *sender = std::thread::Builder::new().name("step-log".into()).spawn(move || sent.run()).ok();
        }
    }

    /// Sends the rest of the log after the step has ended. Returns the length of the log.
    pub(crate) fn finish(&self) -> u64 {
        let mut state = self.sent.state.lock();
        state.flush(self.sent.bytes_max);
        if state.refused.is_none() {
            state.push_gap_line();
        }
        state.closed = Some(Instant::now());
        drop(state);
        self.sent.changed.notify_all();
        let sender = self.sender.lock().take();
        if let Some(sender) = sender {
            sender.join().ok();
        }
        let mut state = self.sent.state.lock();
        while !state.pending.is_empty() {
            state = self.sent.send_one(state);
        }
        if state.lost > 0 && !state.is_over {
            state = self.sent.offer_gap_line(state);
        }
        if state.lost > 0 {
            tracing::warn!(step = %self.sent.attempt.step_id, lost = state.lost, "end of log lost");
        }
        state.offset
    }
}

impl LogChannel {
    /// The sender thread: sends chunks as they become due, until the log is closed. [`finish`](AttemptLog::finish)
    /// sends the rest.
    fn run(&self) {
        let mut state = self.state.lock();
        while state.closed.is_none() && !state.is_over {
            if state.refused.is_some_and(|since| since.elapsed() >= OFFER_INTERVAL) && state.lost > 0 {
                state = self.offer_gap_line(state);
                continue;
            }
            if state.is_due() {
                state = self.send_one(state);
                continue;
            }
            let wait = state.due_in().unwrap_or(Duration::from_secs(1));
            state.sender = if state.oldest.is_some() {
                SenderState::WaitingForDue
            } else {
                SenderState::WaitingForBytes
            };
            self.changed.wait_for(&mut state, wait);
            state.sender = SenderState::Busy;
        }
    }

    /// Whether the step has ended and the server has not accepted any of its log for too long.
    fn is_out_of_patience(&self) -> bool {
        let state = self.state.lock();
        let since = state.closed.map(|closed| state.taken.map_or(closed, |taken| taken.max(closed)));
        since.is_some_and(|since| since.elapsed() >= self.patience)
    }

    fn apply_order(&self, order: AttemptOrder) {
        match order {
            AttemptOrder::Continue => {}
            AttemptOrder::Cancel => self.control.stop(StopReason::Cancelled { reason: None }, None),
            AttemptOrder::Stale => self.control.stop(StopReason::Stale, None),
        }
    }

    /// Tries once to send the gap line to a server that refused the log. If the server accepts it, sending resumes.
    fn offer_gap_line<'a>(&'a self, mut state: MutexGuard<'a, LogState>) -> MutexGuard<'a, LogState> {
        let lost = std::mem::take(&mut state.lost);
        let begin = if state.sent_ends_line { "" } else { "\n" };
        let (line, offset) = (format!("{begin}{}\n", gap_line(lost)), state.offset);
        state.refused = Some(Instant::now());
        drop(state);
        let answer = self.link.append_log(&self.attempt, offset, line.as_bytes());
        if let Ok(order) = answer {
            self.apply_order(order);
        }
        let mut state = self.state.lock();
        match answer {
            Ok(AttemptOrder::Stale) => state.is_over = true,
            Ok(AttemptOrder::Continue | AttemptOrder::Cancel) => {
                state.refused = None;
                state.is_away = false;
                state.offset = offset + line.len() as u64;
                state.sent_ends_line = true;
                state.ends_line = true;
            }
            Err(_) => state.lost += lost,
        }
        state
    }

    /// Waits before a retry. Returns early if no retry is needed any more.
    fn pause(&self, length: Duration) {
        let until = Instant::now() + length;
        while Instant::now() < until
            && !self.control.is_stale()
            && !(self.give_up)()
            && !self.is_out_of_patience()
        {
            std::thread::sleep(GAP_POLL_INTERVAL.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Sends one chunk. Retries until the chunk is delivered, refused or no longer wanted.
    fn send_one<'a>(&'a self, mut state: MutexGuard<'a, LogState>) -> MutexGuard<'a, LogState> {
        let (chunk, offset) = (state.take_chunk(), state.offset);
        if chunk.is_empty() {
            return state;
        }
        drop(state);
        let mut backoff = Backoff::new();
        let mut gap_since = None;
        let end = loop {
            match self.link.append_log(&self.attempt, offset, &chunk) {
                Ok(order) => {
                    self.apply_order(order);
                    break if order == AttemptOrder::Stale {
                        SendResult::Abandoned
                    } else {
                        SendResult::Delivered
                    };
                }
                Err(LinkError::LogGap { length }) => {
                    let mut state = self.state.lock();
                    if state.rewind(length, &chunk) {
                        return state;
                    }
                    drop(state);
                    let since = *gap_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= GAP_PATIENCE || self.is_out_of_patience() {
                        tracing::warn!(step = %self.attempt.step_id, length, offset, "part of a log lost");
                        break SendResult::Gap { length };
                    }
                    if self.control.is_stale() || (self.give_up)() {
                        break SendResult::Abandoned;
                    }
                    self.pause(backoff.next());
                }
                Err(LinkError::Refused(text)) => {
                    tracing::warn!(step = %self.attempt.step_id, reason = text, "log chunk refused");
                    break SendResult::Refused;
                }
                Err(LinkError::Unavailable(text)) => {
                    self.state.lock().is_away = true;
                    if self.control.is_stale() || (self.give_up)() {
                        break SendResult::Abandoned;
                    }
                    if self.is_out_of_patience() {
                        tracing::warn!(step = %self.attempt.step_id, error = text, "log delivery given up");
                        break SendResult::Refused;
                    }
                    self.pause(backoff.next());
                }
            }
        };
        let mut state = self.state.lock();
        match end {
            SendResult::Delivered => {
                state.is_away = false;
                state.taken = Some(Instant::now());
                state.offset = offset + chunk.len() as u64;
                state.sent_ends_line = chunk.last().is_none_or(|last| *last == b'\n');
                state.sent.push(&chunk);
            }
            SendResult::Gap { length } => state.skip_gap(length, &chunk),
            SendResult::Refused => state.refuse(&chunk),
            SendResult::Abandoned => {
                state.is_over = true;
                state.pending.clear();
            }
        }
        state
    }
}

/// How sending a chunk ended.
enum SendResult {
    Delivered,
    /// The server has the log up to `length` only, and the bytes after that are lost.
    Gap {
        length: u64,
    },
    Refused,
    Abandoned,
}
