//! Long polling: the response waits until something changes, or until the caller loses access.

use std::sync::Arc;
use std::time::Duration;

use berth_store::feed::{EventFollower, FeedItem};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::App;
use super::follow::StreamAccess;
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::streams::StreamSlot;

/// How often a long poll checks for a change if no event arrives. The feed may have dropped an event.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Minimum time between two checks, so that a busy organization does not cause one check per event.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// State of a long poll. The handler checks for a change after each event in the organization.
pub struct LongPoll<P> {
    deadline: Instant,
    /// `None` if the client did not ask to wait.
    listening: Option<Listening<P>>,
    shutdown: CancellationToken,
}

struct Listening<P> {
    follower: EventFollower,
    right: StreamAccess<P>,
    _slot: StreamSlot,
}

impl App {
    /// Starts a long poll. Subscribes to events before the first check, so that no event in between is missed.
    pub fn begin_long_poll<P: Clone>(
        self: &Arc<Self>,
        who: &AuthorizedCaller<P>,
        wait: Duration,
    ) -> Result<LongPoll<P>, AppError> {
        let listening = match wait.is_zero() {
            true => None,
            false => Some(Listening {
                follower: self.services.store.follow(who.org()),
                right: StreamAccess::new(self.clone(), who.clone()),
                _slot: self.take_stream(who)?,
            }),
        };
        Ok(LongPoll { deadline: Instant::now() + wait, listening, shutdown: self.services.shutdown.clone() })
    }
}

impl<P> LongPoll<P> {
    /// Waits until the handler should check again. Returns `false` if it should not: `is_done` is true, the deadline
    /// has passed, the caller has lost access, or the server is shutting down. The handler then responds with what it
    /// last read, when the caller still had access.
    pub async fn wait_for_change(&mut self, is_done: bool) -> bool {
        let now = Instant::now();
        let Some(Listening { follower, right, .. }) = &mut self.listening else { return false };
        if is_done || now >= self.deadline {
            return false;
        }
        tokio::select! {
            () = self.shutdown.cancelled() => return false,
            () = tokio::time::sleep_until(self.deadline.min(now + LOOK_EVERY)) => {}
            heard = follower.next() => if matches!(heard, FeedItem::End) {
                return false;
            },
        }
        tokio::time::sleep_until(now + LOOK_PAUSE).await;
        // One check covers all events received so far.
        follower.skip();
        right.is_still_allowed().await
    }
}
