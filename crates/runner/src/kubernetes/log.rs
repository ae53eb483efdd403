//! Copies the log of a pod.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::LogParams;

use super::cluster::describe;
use super::pod_state::CONTAINER;
use crate::executor::OutputPipe;

/// Pause before the log is requested again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// A longer line is copied in parts.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Length of a timestamp, in bytes.
const TIMESTAMP_BYTES_MAX: usize = 40;

pub(super) struct PodLog {
    pub(super) pods: Api<Pod>,
    pub(super) pod: String,
    pub(super) output: Arc<OutputPipe>,
    /// Set when the container has ended.
    pub(super) has_ended: Arc<AtomicBool>,
    /// Time of the last line that was copied. After a lost connection, the log continues behind it.
    pub(super) last: Option<Timestamp>,
}

impl PodLog {
    /// Copies the log until the container has ended and all of its log was read, or the reader has closed the pipe.
    pub(super) async fn copy(mut self) {
        loop {
            let had_ended = self.has_ended.load(Ordering::Acquire);
            let wanted = LogParams {
                container: Some(CONTAINER.to_owned()),
                follow: true,
                timestamps: true,
                // Whole seconds, because the client would round to the next one and leave out lines.
                since_time: self.last.and_then(|last| Timestamp::from_second(last.as_second()).ok()),
                ..Default::default()
            };
            let is_complete = match self.pods.log_stream(&self.pod, &wanted).await {
                Ok(stream) => match self.copy_stream(Box::pin(stream)).await {
                    Ok(is_complete) => is_complete,
                    Err(_) => return,
                },
                Err(error) => {
                    tracing::debug!(error = describe(&error), "reading the log of a pod failed");
                    false
                }
            };
            if had_ended && is_complete {
                return;
            }
            if !self.has_ended.load(Ordering::Acquire) {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }

    /// Returns whether the log has ended, rather than the connection. Fails if the reader has closed the pipe.
    async fn copy_stream(&mut self, mut stream: impl AsyncBufRead + Unpin) -> std::io::Result<bool> {
        let mut line = Vec::new();
        let mut is_continued = false;
        loop {
            let Ok(found) = stream.fill_buf().await else { return Ok(false) };
            let newline = found.iter().position(|byte| *byte == b'\n');
            let (length, is_end) = (newline.map_or(found.len(), |at| at + 1), found.is_empty());
            line.extend_from_slice(&found[..length]);
            stream.consume_unpin(length);
            if newline.is_some() || is_end || line.len() > LINE_BYTES_MAX {
                self.write_line(&line, is_continued).await?;
                is_continued = newline.is_none();
                line.clear();
            }
            if is_end {
                return Ok(true);
            }
        }
    }

    async fn write_line(&mut self, line: &[u8], is_continued: bool) -> std::io::Result<()> {
        if is_continued {
            return self.output.write_all(line).await;
        }
        let (time, text) = split_timestamp(line);
        if time.is_some() && time <= self.last {
            return Ok(());
        }
        self.last = time.or(self.last);
        self.output.write_all(text).await
    }
}

/// Splits a line into the timestamp that the node has added, and the text.
fn split_timestamp(line: &[u8]) -> (Option<Timestamp>, &[u8]) {
    let space = line.iter().take(TIMESTAMP_BYTES_MAX).position(|byte| *byte == b' ');
    let Some(space) = space else { return (None, line) };
    let time = std::str::from_utf8(&line[..space]).ok().and_then(|text| text.parse().ok());
    if time.is_some() { (time, &line[space + 1..]) } else { (None, line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_removed_from_lines() {
        let (time, text) = split_timestamp(b"2026-11-19T01:02:03.000000004Z hello world\n");
        assert!(time.is_some());
        assert_eq!(text, b"hello world\n");
        for line in [&b"hello world\n"[..], b"", b"x", b"\xff\xfe binary", b"2026-11-19 no time\n"] {
            assert_eq!(split_timestamp(line).1, line);
        }
    }
}
