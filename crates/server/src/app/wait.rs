//! Long polls: an answer that may wait until there is something new.

use std::time::Duration;

use berth_store::feed::{Follower, Heard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::App;
use crate::auth::authorize::Authorized;
use crate::error::AppError;
use crate::streams::Place;

/// The feed may drop what it cannot carry: look again this often in any case.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Where much happens, not every event is worth a look of its own.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A caller who looks, and looks again whenever something has happened in their organization.
pub struct Waiting {
    deadline: Instant,
    /// None: the caller does not wait.
    listening: Option<(Follower, Place)>,
    shutdown: CancellationToken,
}

impl App {
    /// Listening begins here, before the first look: nothing happens in between unheard.
    pub fn wait<P>(&self, who: &Authorized<P>, wait: Duration) -> Result<Waiting, AppError> {
        let listening = match wait.is_zero() {
            true => None,
            false => Some((self.services.store.follow(who.org()), self.take_stream(who)?)),
        };
        Ok(Waiting { deadline: Instant::now() + wait, listening, shutdown: self.services.shutdown.clone() })
    }
}

impl Waiting {
    /// Whether to look again: not once it `is_done`, and not when the time is over.
    pub async fn look_again(&mut self, is_done: bool) -> bool {
        let now = Instant::now();
        let Some((follower, _)) = &mut self.listening else { return false };
        if is_done || now >= self.deadline {
            return false;
        }
        tokio::select! {
            () = self.shutdown.cancelled() => return false,
            () = tokio::time::sleep_until(self.deadline.min(now + LOOK_EVERY)) => {}
            heard = follower.next() => if matches!(heard, Heard::End) {
                return false;
            },
        }
        tokio::time::sleep_until(now + LOOK_PAUSE).await;
        // All that was told meanwhile is seen with this one look.
        follower.skip();
        true
    }
}
