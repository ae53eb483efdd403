//! Live log stream (SSE). Sends every byte exactly once and in order, starting at the offset the client requests. The
//! stream ends when the log ends or the caller loses access.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use berth_api::log::{LogEnd, LogGap, LogText};
use berth_core::access::permit;
use berth_engine::logs::{LOG_LINE_SHOWN_BYTES_MAX, LogProgress, LogWatch, whole_chars};
use futures_util::Stream;
use memchr::memrchr;
use serde::Serialize;
use tokio::time::Instant;

use super::follow::{KEEP_ALIVE_FRAME, StreamAccess};
use super::logs::{LogLocation, log_read_error, offset_beyond_error};
use super::{App, LogSelector};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::streams::StreamSlot;

/// Delay after which an incomplete line is sent, because it may be a prompt or a progress bar.
const UNFINISHED_LINE_WAIT: Duration = Duration::from_millis(100);

impl App {
    /// Streams the log from byte `offset` until it ends.
    pub async fn follow_log(
        self: &Arc<Self>,
        who: AuthorizedCaller<permit::DeploymentsRead>,
        asked: LogSelector,
        offset: u64,
    ) -> Result<impl Stream<Item = Bytes> + use<>, AppError> {
        let place = self.take_stream(&who)?;
        let found = self.find_log(&who, asked.clone()).await?;
        let logs = self.services.logs.clone();
        let watched = self.services.log_reads.run(who.org(), move || logs.watch(&found.key)).await?;
        let mut watch = watched.map_err(log_read_error)?;
        let LogProgress { length, ended, .. } = watch.progress();
        // While the log is still being written, allow an offset beyond its end: the client may have received bytes that
        // the server then lost in a crash. The runner sends those bytes again.
        if offset > length && (ended || found.has_ended) {
            return Err(offset_beyond_error(length));
        }
        let mut following = LogStreamState {
            right: StreamAccess::new(self.clone(), who),
            // Pin the attempt number, so that a retry of the step does not switch the stream to another log.
            asked: LogSelector { attempt: found.has_begun.then_some(found.key.attempt), ..asked },
            found,
            watch: Some(watch),
            at: offset,
            unfinished: None,
            phase: LogStreamPhase::Nothing,
            _slot: place,
        };
        // If the attempt ended after `find_log` without any output, there is no log that could signal the end, so check
        // once more.
        if !ended && !following.found.has_ended {
            following.refresh_location().await;
        }
        Ok(futures_util::stream::unfold(following, LogStreamState::next))
    }
}

struct LogStreamState {
    right: StreamAccess<permit::DeploymentsRead>,
    asked: LogSelector,
    found: LogLocation,
    /// `None` while a blocking thread is using the watch.
    watch: Option<LogWatch>,
    /// Offset of the next byte to send.
    at: u64,
    /// When the line at `at` was first seen to be incomplete.
    unfinished: Option<Instant>,
    phase: LogStreamPhase,
    _slot: StreamSlot,
}

#[derive(PartialEq, PartialOrd)]
enum LogStreamPhase {
    Nothing,
    Began,
    Gap,
    End,
}

enum LogStreamStep {
    Send(Bytes),
    /// Wait until the log grows, or until this time if one is given.
    Wait(Option<Instant>),
    End,
}

impl LogStreamState {
    /// Returns the next chunk of the stream; `None` ends it.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if self.right.app.services.shutdown.is_cancelled() {
                return None;
            }
            if !self.right.is_still_allowed().await {
                return None;
            }
            if self.right.take_keep_alive() {
                self.refresh_location().await;
                return Some((Bytes::from_static(KEEP_ALIVE_FRAME), self));
            }
            match self.next_step().await.ok()? {
                LogStreamStep::Send(part) => return Some((part, self)),
                LogStreamStep::End => return None,
                LogStreamStep::Wait(until) => self.wait(until).await?,
            }
        }
    }

    /// Checks again whether the attempt has ended. After a crash, an attempt may end without its log being sealed.
    async fn refresh_location(&mut self) {
        let Ok(found) = self.right.app.find_log(&self.right.who, self.asked.clone()).await else { return };
        // The attempt may have ended on another server, whose last output was not fetched yet.
        let is_complete = self.found.has_ended
            || !found.has_ended
            || matches!(self.with_watch(|watch| watch.catch_up()).await, Ok(Ok(())));
        if is_complete {
            self.found = LogLocation { key: self.found.key, ..found };
        }
    }

    async fn next_step(&mut self) -> Result<LogStreamStep, AppError> {
        if self.phase == LogStreamPhase::Nothing {
            self.phase = LogStreamPhase::Began;
            // Send the position at once, so that a client that is disconnected before the first event can resume from
            // it.
            return Ok(LogStreamStep::Send(Bytes::from(format!(": following\nid: {}\n\n", self.at))));
        }
        if self.phase == LogStreamPhase::End {
            return Ok(LogStreamStep::End);
        }
        let news = self.watch.as_mut().map(LogWatch::progress).unwrap_or_default();
        if self.at < news.length {
            return self.read_text(news).await;
        }
        if let Some(offset) = news.damaged.filter(|_| self.phase < LogStreamPhase::Gap) {
            self.phase = LogStreamPhase::Gap;
            return Ok(LogStreamStep::Send(frame(self.at, "gap", &LogGap { offset })));
        }
        if !news.ended && !self.found.has_ended {
            return Ok(LogStreamStep::Wait(None));
        }
        self.phase = LogStreamPhase::End;
        let lines = self.with_watch(|watch| watch.line_count()).await?.map_err(log_read_error)?;
        Ok(LogStreamStep::Send(frame(self.at, "end", &LogEnd { bytes: news.length, lines })))
    }

    /// Sends all complete lines, or part of a line if the line is too long or stays incomplete.
    async fn read_text(&mut self, news: LogProgress) -> Result<LogStreamStep, AppError> {
        let at = self.at;
        let bytes = self
            .with_watch(move |watch| watch.read(at, LOG_LINE_SHOWN_BYTES_MAX))
            .await?
            .map_err(log_read_error)?;
        let is_last = at + bytes.len() as u64 == news.length && (news.ended || self.found.has_ended);
        let part = match memrchr(b'\n', &bytes) {
            _ if is_last => &bytes[..],
            Some(line_end) => &bytes[..=line_end],
            None if bytes.len() == LOG_LINE_SHOWN_BYTES_MAX => whole_chars(&bytes),
            None => {
                let until = *self.unfinished.get_or_insert_with(Instant::now) + UNFINISHED_LINE_WAIT;
                if Instant::now() < until {
                    return Ok(LogStreamStep::Wait(Some(until)));
                }
                whole_chars(&bytes)
            }
        };
        if part.is_empty() {
            return Ok(LogStreamStep::Wait(None));
        }
        self.unfinished = None;
        self.at += part.len() as u64;
        let text = String::from_utf8_lossy(part);
        Ok(LogStreamStep::Send(frame(self.at, "lines", &LogText { offset: at, text: &text })))
    }

    /// Runs `work` on a blocking thread, because it reads from disk.
    async fn with_watch<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LogWatch) -> T + Send + 'static,
    ) -> Result<T, AppError> {
        let Some(mut watch) = self.watch.take() else { return Err(AppError::bug("a log is read twice")) };
        let done = tokio::task::spawn_blocking(move || (work(&mut watch), watch));
        let (done, watch) = done.await.map_err(|_| AppError::bug("reading a log panicked"))?;
        self.watch = Some(watch);
        Ok(done)
    }

    /// Waits for new output, the next access check, or `until`. Returns `None` if the server is shutting down.
    async fn wait(&mut self, until: Option<Instant>) -> Option<()> {
        let until = until.map_or(self.right.next_check(), |until| until.min(self.right.next_check()));
        let watch = self.watch.as_mut()?;
        tokio::select! {
            biased;
            () = self.right.app.services.shutdown.cancelled() => None,
            () = tokio::time::sleep_until(until) => Some(()),
            () = watch.wait_for_change() => Some(()),
        }
    }
}

fn frame(id: u64, event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("id: {id}\nevent: {event}\ndata: {data}\n\n"))
}
