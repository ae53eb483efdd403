//! Server-sent events, with one `data` line per message.
//!
//! The server sends a heartbeat every 15 seconds. If nothing arrives for [`IDLE_TIMEOUT`], the connection is considered
//! broken (for example because the machine was asleep): the read fails and the caller reconnects.

use std::io::{BufRead as _, BufReader, ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Maximum length of a line.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Three heartbeat intervals.
const IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// Maximum number of lines read ahead of the consumer.
const BUFFERED_LINES_MAX: usize = 64;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SseMessage {
    pub(crate) id: Option<String>,
    /// Empty for a message without an event name.
    pub(crate) kind: String,
    pub(crate) data: String,
}

pub(crate) struct SseStream {
    lines: Receiver<std::io::Result<String>>,
    idle_timeout: Duration,
}

impl SseStream {
    /// Reads on a separate thread, because a blocking read has no timeout. The thread ends when the connection is
    /// closed.
    pub(super) fn new(body: impl Read + Send + 'static) -> std::io::Result<Self> {
        Self::with_idle_timeout(body, IDLE_TIMEOUT)
    }

    fn with_idle_timeout(body: impl Read + Send + 'static, silence_max: Duration) -> std::io::Result<Self> {
        let (send, lines) = sync_channel(BUFFERED_LINES_MAX);
        std::thread::Builder::new().name("stream".into()).spawn(move || read_lines(body, &send))?;
        Ok(Self { lines, idle_timeout: silence_max })
    }

    fn read_line(&mut self) -> std::io::Result<Option<String>> {
        match self.lines.recv_timeout(self.idle_timeout) {
            Ok(line) => line.map(Some),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(ErrorKind::TimedOut.into()),
        }
    }
}

fn read_lines(body: impl Read, send: &SyncSender<std::io::Result<String>>) {
    let mut lines = BufReader::new(body);
    loop {
        let mut line = String::new();
        let read = (&mut lines).take(LINE_BYTES_MAX).read_line(&mut line);
        let told = match read {
            Ok(0) => return,
            Ok(_) => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => Err(error),
        };
        let is_over = told.is_err();
        if send.send(told).is_err() || is_over {
            return;
        }
    }
}

impl Iterator for SseStream {
    type Item = std::io::Result<SseMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut message = SseMessage::default();
        let mut is_begun = false;
        loop {
            let line = match self.read_line().transpose()? {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            if line.is_empty() {
                if std::mem::take(&mut is_begun) {
                    return Some(Ok(message));
                }
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "id" => message.id = Some(value.to_owned()),
                "event" => message.kind = value.to_owned(),
                "data" => message.data.push_str(value),
                // A comment, or a field that only newer servers send.
                _ => continue,
            }
            is_begun = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn stream_splits_messages_and_skips_comments() {
        let body: &[u8] = b": hello\n\nid: 7\nevent: lines\ndata: {\"text\":\"a\"}\n\n: still here\n\ndata: x\r\n\r\nid: 9\n";
        let read: Vec<_> = SseStream::new(body).unwrap().map(Result::unwrap).collect();
        let message = |id: Option<&str>, kind: &str, data: &str| SseMessage {
            id: id.map(str::to_owned),
            kind: kind.into(),
            data: data.into(),
        };
        assert_eq!(read, [message(Some("7"), "lines", "{\"text\":\"a\"}"), message(None, "", "x")]);
    }

    #[test]
    fn stream_without_heartbeats_times_out() {
        let (mut speak, hear) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut messages = SseStream::with_idle_timeout(hear, Duration::from_millis(100)).unwrap();
        speak.write_all(b": hello\n\ndata: a\n\n").unwrap();
        assert_eq!(messages.next().unwrap().unwrap().data, "a");
        assert_eq!(messages.next().unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
