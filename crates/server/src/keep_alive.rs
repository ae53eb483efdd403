//! Read deadlines of keep-alive connections.
//!
//! The header block of a request must be complete within [`HEADER_READ_MAX`] of its first byte. Between two requests,
//! the client or proxy may stay silent for the keep-alive time. hyper has a single timer for both, so with hyper alone,
//! a long keep-alive time would also allow slow headers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::HEADER_READ_MAX;

/// Counts the starts and ends of requests on one connection. The count is odd while a request is in progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestPhase(Arc<AtomicU64>);

impl RequestPhase {
    /// Starts a request. Called when the header block is complete. Dropping the guard ends the request.
    pub(crate) fn begin(&self) -> RequestGuard {
        self.0.fetch_add(1, Ordering::AcqRel);
        RequestGuard(self.0.clone())
    }
}

pub(crate) struct RequestGuard(Arc<AtomicU64>);

impl RequestGuard {
    /// Keeps the request in progress until the last byte of its response has been sent.
    pub(crate) fn end_with(self, body: Body) -> Body {
        Body::new(GuardedBody { body, _guard: self })
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

struct GuardedBody {
    body: Body,
    _guard: RequestGuard,
}

impl hyper::body::Body for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that reports EOF when the client is silent or slow for too long.
pub(crate) struct KeepAliveStream<S> {
    stream: S,
    keep_alive: Duration,
    phase: RequestPhase,
    /// The phase for which the deadline was set.
    seen: u64,
    /// Whether the first byte of a header block has arrived. Initially true, so that a new connection has the header
    /// timeout.
    in_header: bool,
    deadline: Pin<Box<Sleep>>,
}

impl<S> KeepAliveStream<S> {
    pub(crate) fn new(stream: S, keep_alive: Duration, phase: RequestPhase) -> Self {
        let deadline = Box::pin(sleep(HEADER_READ_MAX));
        Self { stream, keep_alive, phase, seen: 0, in_header: true, deadline }
    }

    fn wait_for_header(&mut self) {
        self.in_header = true;
        self.deadline.as_mut().reset(Instant::now() + HEADER_READ_MAX);
    }

    fn wait_for_request(&mut self) {
        self.in_header = false;
        self.deadline.as_mut().reset(Instant::now() + self.keep_alive);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for KeepAliveStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let phase = self.phase.0.load(Ordering::Acquire);
        let is_in_progress = phase % 2 == 1;
        if phase != self.seen && !is_in_progress {
            self.seen = phase;
            self.wait_for_request();
        }
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buffer) {
            if !is_in_progress && !self.in_header && buffer.filled().len() > before {
                self.wait_for_header();
            }
            return Poll::Ready(read);
        }
        if is_in_progress {
            return Poll::Pending;
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for KeepAliveStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
