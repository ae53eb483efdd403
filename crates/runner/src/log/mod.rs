//! The log of one attempt: masked, split into chunks and sent by offset.
//!
//! The attempt's thread writes; a sender thread sends, so that a slow server cannot delay a stop. The sender
//! thread starts when the first chunk is due; a step that ends earlier sends its log at the end. While the server
//! is unavailable, bytes are buffered up to a limit, on a remote runner also on disk. Bytes that are lost or
//! refused are counted, and a gap line in the log says how many. A finished step waits for its log for a limited
//! time.

mod pending;
mod state;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptRef, Link, LinkError, Order};
use berth_core::mask::Masker;
use parking_lot::{Condvar, Mutex, MutexGuard};

use pending::Pending;
use state::{Sender, State, gap};

use crate::backoff::Backoff;
use crate::control::{Control, Why};
use crate::settings::Settings;

/// How long bytes may wait for more before they are sent.
const HOLD: Duration = Duration::from_millis(50);
/// How often the gap line is offered to a server that refuses the log.
const OFFER_EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Log {
    sent: Arc<Sent>,
    sender: Mutex<Option<JoinHandle<()>>>,
}

/// Returns true once the runner has to end and retries are pointless.
pub(crate) type GiveUp = Arc<dyn Fn() -> bool + Send + Sync>;

struct Sent {
    link: Arc<dyn Link>,
    attempt: AttemptRef,
    control: Arc<Control>,
    give_up: GiveUp,
    bytes_max: u64,
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

impl Log {
    /// `start` is the length of the log so far, from earlier calls of the same attempt.
    pub(crate) fn new(
        link: Arc<dyn Link>,
        attempt: AttemptRef,
        control: Arc<Control>,
        masker: &Masker,
        settings: &Settings,
        give_up: GiveUp,
        start: u64,
    ) -> Self {
        let state = State {
            stream: masker.stream(),
            aside: masker.stream(),
            pending: Pending::new(settings.work_dir.clone(), settings.step_log_spill_bytes_max),
            oldest: None,
            offset: start,
            accepted: start,
            lost: 0,
            // Only the truncation line makes a log longer than the limit.
            is_truncated: start > settings.step_log_bytes_max,
            is_away: false,
            refused: None,
            is_over: false,
            closed: None,
            taken: None,
            ends_line: true,
            sent_ends_line: true,
            sender: Sender::Busy,
        };
        let sent = Sent {
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

    /// Writes a line from another source, such as a step's log file, between lines of the output.
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

    /// Ends the current line, so that the step's next call starts on a new one.
    pub(crate) fn end_line(&self) {
        let mut state = self.sent.state.lock();
        state.flush(self.sent.bytes_max);
        if !state.ends_line && state.refused.is_none() && !state.is_over {
            state.put(b"\n");
        }
    }

    /// Writes a line of the runner. It is masked like the step's output, because it may quote it.
    pub(crate) fn line(&self, text: &str) {
        let mut state = self.sent.state.lock();
        state.flush(self.sent.bytes_max);
        let mut masked = Vec::new();
        let begin = if state.ends_line { "" } else { "\n" };
        state.stream.push(format!("{begin}{text}\n").as_bytes(), &mut masked);
        state.stream.flush(&mut masked);
        // The runner's own lines are kept beyond the limit: they say how the step ended.
        if state.refused.is_some() {
            state.lost += masked.len() as u64;
        } else if !state.is_over {
            state.tell_lost();
            state.put(&masked);
        }
        drop(state);
        self.tick();
    }

    /// Returns false if the writer should wait because the server is slow.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.sent.state.lock();
        state.is_away || state.refused.is_some() || state.is_over || state.pending.has_room()
    }

    /// When the next chunk is due, while there is no sender thread.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let is_attended = self.sender.lock().is_some();
        let oldest = if is_attended { None } else { self.sent.state.lock().oldest };
        oldest.map(|oldest| HOLD.saturating_sub(oldest.elapsed()))
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
            // If the thread cannot start, the bytes are sent when the step ends, or counted as lost.
            *sender = std::thread::Builder::new().name("step-log".into()).spawn(move || sent.run()).ok();
        }
    }

    /// Sends the rest of the log after the step has ended and returns the log's length.
    pub(crate) fn finish(&self) -> u64 {
        let mut state = self.sent.state.lock();
        state.flush(self.sent.bytes_max);
        if state.refused.is_none() {
            state.tell_lost();
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
            state = self.sent.offer(state);
        }
        if state.lost > 0 {
            tracing::warn!(step = %self.sent.attempt.step_id, lost = state.lost, "end of log lost");
        }
        state.offset
    }
}

impl Sent {
    /// Sender thread: sends due chunks until the log is closed. [`finish`](AttemptLog::finish) sends the rest.
    fn run(&self) {
        let mut state = self.state.lock();
        while state.closed.is_none() && !state.is_over {
            if state.refused.is_some_and(|since| since.elapsed() >= OFFER_EVERY) && state.lost > 0 {
                state = self.offer(state);
                continue;
            }
            if state.is_due() {
                state = self.send_one(state);
                continue;
            }
            let wait =
                state.oldest.map_or(Duration::from_secs(1), |oldest| HOLD.saturating_sub(oldest.elapsed()));
            state.sender = if state.oldest.is_some() { Sender::UntilDue } else { Sender::UntilBytes };
            self.changed.wait_for(&mut state, wait);
            state.sender = Sender::Busy;
        }
    }

    /// Whether the step has ended and the server has taken nothing of its log for too long.
    fn is_tried_enough(&self) -> bool {
        let state = self.state.lock();
        let since = state.closed.map(|closed| state.taken.map_or(closed, |taken| taken.max(closed)));
        since.is_some_and(|since| since.elapsed() >= self.patience)
    }

    fn obey(&self, order: Order) {
        match order {
            Order::Continue => {}
            Order::Cancel => self.control.stop(Why::Cancelled { reason: None }, None),
            Order::Stale => self.control.stop(Why::Stale, None),
        }
    }

    /// Offers the gap line once. If the server takes it, sending resumes.
    fn offer<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let lost = std::mem::take(&mut state.lost);
        let begin = if state.sent_ends_line { "" } else { "\n" };
        let (line, offset) = (format!("{begin}{}\n", gap(lost)), state.offset);
        state.refused = Some(Instant::now());
        drop(state);
        let answer = self.link.append_log(&self.attempt, offset, line.as_bytes());
        if let Ok(order) = answer {
            self.obey(order);
        }
        let mut state = self.state.lock();
        match answer {
            Ok(Order::Stale) => state.is_over = true,
            Ok(Order::Continue | Order::Cancel) => {
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

    /// Waits before a retry; returns early if no retry is needed.
    fn pause(&self, length: Duration) {
        let until = Instant::now() + length;
        while Instant::now() < until
            && !self.control.is_stale()
            && !(self.give_up)()
            && !self.is_tried_enough()
        {
            std::thread::sleep(HOLD.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Sends one chunk, with retries until it is delivered, refused or no longer wanted.
    fn send_one<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let (chunk, offset) = (state.take_chunk(), state.offset);
        if chunk.is_empty() {
            return state;
        }
        drop(state);
        let mut backoff = Backoff::new();
        let end = loop {
            match self.link.append_log(&self.attempt, offset, &chunk) {
                Ok(order) => {
                    self.obey(order);
                    break if order == Order::Stale { End::Unwanted } else { End::There };
                }
                Err(LinkError::Refused(text)) => {
                    tracing::warn!(step = %self.attempt.step_id, reason = text, "log chunk refused");
                    break End::Refused;
                }
                Err(LinkError::Unavailable(text)) => {
                    self.state.lock().is_away = true;
                    if self.control.is_stale() || (self.give_up)() {
                        break End::Unwanted;
                    }
                    if self.is_tried_enough() {
                        tracing::warn!(step = %self.attempt.step_id, error = text, "log delivery given up");
                        break End::Refused;
                    }
                    self.pause(backoff.next());
                }
            }
        };
        let mut state = self.state.lock();
        match end {
            End::There => {
                state.is_away = false;
                state.taken = Some(Instant::now());
                state.offset = offset + chunk.len() as u64;
                state.sent_ends_line = chunk.last().is_none_or(|last| *last == b'\n');
            }
            End::Refused => state.refuse(&chunk),
            End::Unwanted => {
                state.is_over = true;
                state.pending.clear();
            }
        }
        state
    }
}

/// How sending a chunk ended.
enum End {
    There,
    Refused,
    Unwanted,
}
