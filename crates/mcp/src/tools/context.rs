//! What a call works with: the API, cancellation, and progress notifications.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::failure::ToolFailure;
use crate::rest::{RestApi, RestRequest, RestResponse};

/// How long one request waits for a change, in seconds. A progress notification follows at least this often.
const POLL_S: u64 = 15;

/// Maximum length of a request's path, which contains arguments.
const PATH_BYTES_MAX: usize = 4 * 1024;

/// One call of a tool, or one read of a resource.
pub(crate) struct ToolContext<A> {
    api: A,
    cancelled: CancellationToken,
    peer: Peer<RoleServer>,
    /// Set if the client wants progress notifications.
    progress_token: Option<ProgressToken>,
    started: Instant,
}

impl<A: RestApi> ToolContext<A> {
    pub(crate) fn new(api: A, context: RequestContext<RoleServer>) -> Self {
        let progress_token = context.meta.get_progress_token();
        Self { api, cancelled: context.ct, peer: context.peer, progress_token, started: Instant::now() }
    }

    /// Sends a request. A refusal is a failure.
    pub(crate) async fn send(&self, request: RestRequest) -> Result<RestResponse, ToolFailure> {
        if request.path.len() > PATH_BYTES_MAX {
            let text = format!(
                "an argument is too long; names, ids and searches together may have {PATH_BYTES_MAX} bytes"
            );
            return Err(ToolFailure::InvalidArguments(text));
        }
        let sent = tokio::select! {
            () = self.cancelled.cancelled() => return Err(ToolFailure::Cancelled),
            sent = self.api.send(request) => sent,
        };
        let response = sent.map_err(ToolFailure::Unreachable)?;
        if response.status >= 400 { Err(ToolFailure::Refused(response.body)) } else { Ok(response) }
    }

    pub(crate) async fn get(&self, path: impl Into<String>) -> Result<RestResponse, ToolFailure> {
        self.send(RestRequest::get(path)).await
    }

    /// Reads a record repeatedly until `is_done`, for at most `limit`, and reports each change. Returns what it last
    /// read.
    pub(crate) async fn wait_for(
        &self,
        path: &str,
        limit: Duration,
        is_done: impl Fn(&RestResponse) -> bool,
        describe: impl Fn(&RestResponse) -> String,
    ) -> Result<RestResponse, ToolFailure> {
        let deadline = Instant::now() + limit;
        let mut seen = self.get(path).await?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).as_secs();
            if is_done(&seen) || left == 0 {
                return Ok(seen);
            }
            self.report_progress(describe(&seen)).await;
            let mut request = RestRequest::get(format!("{path}?wait={}", left.min(POLL_S)));
            request.if_none_match.clone_from(&seen.etag);
            let response = self.send(request).await?;
            // 304: nothing has changed.
            if response.status == 200 {
                seen = response;
            }
        }
    }

    /// Sends a progress notification, if the client wants them. The progress is the number of seconds since the call,
    /// because it has to rise with every notification.
    pub(crate) async fn report_progress(&self, message: String) {
        let Some(token) = self.progress_token.clone() else { return };
        let seconds = self.started.elapsed().as_secs_f64();
        let progress = ProgressNotificationParam::new(token, seconds).with_message(message);
        // The client may have disconnected; the call then ends by cancellation.
        let _ = self.peer.notify_progress(progress).await;
    }

    /// Pauses; fails if the call is cancelled in the meantime.
    pub(crate) async fn pause(&self, time: Duration) -> Result<(), ToolFailure> {
        tokio::select! {
            () = self.cancelled.cancelled() => Err(ToolFailure::Cancelled),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}
