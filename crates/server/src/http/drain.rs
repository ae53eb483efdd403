//! Reads what a handler left of a request body.
//!
//! A connection with unread bytes has to be closed, which resets it: a proxy that has just sent the body then loses the
//! response, and tells its client 502.

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

/// The body of a request while its handler may read it.
pub(super) struct UnreadBody {
    body: Option<Arc<Mutex<Body>>>,
    /// The client sends its body only when it is told to.
    waits_for_continue: bool,
}

/// Keeps a handle to the body, if there is one.
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
    /// Reads the rest, within limits. Returns whether the connection can be kept.
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
