//! Reads the rest of a request body that the handler did not consume.
//!
//! Otherwise the server would close the connection with unread bytes, which resets it. A proxy that has just sent the
//! body would then lose the response and return a 502.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http::header::{self, HeaderMap};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::limits::{DRAIN_BYTES_MAX, DRAIN_MAX};

/// A handle to the request body, shared with the handler.
pub(super) struct UnreadBody {
    body: Option<Arc<Mutex<Body>>>,
    /// Whether the client sends the body only after a `100 Continue`.
    waits_for_continue: bool,
}

/// Wraps the request body, so that the rest of it can be read after the handler has finished.
pub(super) fn watch_body(request: Request<Body>) -> (Request<Body>, UnreadBody) {
    let waits_for_continue = expects_continue(request.headers());
    if hyper::body::Body::is_end_stream(request.body()) {
        return (request, UnreadBody { body: None, waits_for_continue });
    }
    let (parts, body) = request.into_parts();
    let body = Arc::new(Mutex::new(body));
    let request = Request::from_parts(parts, Body::new(SharedBody(body.clone())));
    (request, UnreadBody { body: Some(body), waits_for_continue })
}

impl UnreadBody {
    /// Reads the rest of the body, up to `DRAIN_BYTES_MAX` and `DRAIN_MAX`. Returns whether the connection can be kept
    /// alive.
    pub(super) async fn drain(self, answered: StatusCode) -> bool {
        let Some(body) = self.body else { return true };
        let mut body = std::mem::take(&mut *body.lock());
        if hyper::body::Body::is_end_stream(&body) {
            return true;
        }
        if self.waits_for_continue || answered == StatusCode::REQUEST_TIMEOUT {
            return false;
        }
        let rest = async {
            let mut read = 0;
            while let Some(frame) = body.frame().await {
                read += frame.ok()?.data_ref().map_or(0, Bytes::len);
                if read > DRAIN_BYTES_MAX {
                    return None;
                }
            }
            Some(())
        };
        matches!(tokio::time::timeout(DRAIN_MAX, rest).await, Ok(Some(())))
    }
}

fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

struct SharedBody(Arc<Mutex<Body>>);

impl hyper::body::Body for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut body = self.0.lock();
        Pin::new(&mut *body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}
