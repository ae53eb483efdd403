//! Live event stream (SSE). Delivers every event exactly once and in order, starting after the last event the client
//! has seen. The stream ends when the caller loses access.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use berth_api::problem::{Code, ProblemDetails};
use berth_core::access::permit;
use berth_core::event::{Event, summarize};
use berth_core::id::OrgId;
use berth_store::audit;
use berth_store::feed::{EventFollower, FeedItem};
use berth_store::tables::notification::{self, InboxState};
use berth_store::tables::{event, token};
use futures_util::Stream;
use serde_json::Value;
use tokio::time::Instant;

use super::events::{PipelineSlugs, is_visible, resolve_pipeline_id};
use super::{App, EventFilter};
use crate::auth::authorize::{
    AuthMethod, AuthorizedCaller, Principal, find_browser_login, load_member_access,
};
use crate::error::AppError;
use crate::limits::ACCESS_CHECK_EVERY;
use crate::streams::StreamSlot;

/// Number of events read per query while the stream catches up from the store.
const PAGE_EVENTS: i64 = 100;
pub(super) const KEEP_ALIVE_FRAME: &[u8] = b":\n\n";

impl App {
    /// `last` is the last event the client has seen. If it is `None`, the stream starts with new events. With
    /// `with_inbox`, the stream also tells when the caller's inbox changes.
    pub async fn follow_events(
        self: &Arc<Self>,
        who: AuthorizedCaller<permit::EventsRead>,
        mut filter: EventFilter,
        last: Option<i64>,
        with_inbox: bool,
    ) -> Result<impl Stream<Item = Bytes> + use<>, AppError> {
        if with_inbox {
            who.authorize_also::<permit::NotificationsOwn>()?;
        }
        let place = self.take_stream(&who)?;
        // Subscribe before reading the head, so that no event committed in between is missed.
        let follower = self.services.store.follow(who.org());
        let read = self.read(&who, move |db| {
            resolve_pipeline_id(db, &mut filter)?;
            Ok((event::retained_after(db)?.sequence, event::chain_head(db)?.sequence, filter))
        });
        let (start, head, filter) = read.await?;
        // Skip events that were removed by retention and continue with the first stored event.
        let at = last.unwrap_or(head).max(start);
        if at > head {
            let text = format!("must be the sequence number of an event, from 0 to {head}");
            return Err(AppError::invalid_parameter("Last-Event-ID", text));
        }
        let following = EventStreamState {
            right: StreamAccess::new(self.clone(), who),
            filter: Arc::new(filter),
            follower,
            at,
            behind: at < head,
            slugs: PipelineSlugs::default(),
            inbox: with_inbox.then(InboxWatch::new),
            // Send the position at once, so that a client that is disconnected before the first event can resume from
            // it.
            ready: VecDeque::from([Bytes::from(format!(": following\nid: {at}\n\n"))]),
            _slot: place,
        };
        Ok(futures_util::stream::unfold(following, EventStreamState::next))
    }

    pub(super) fn take_stream<P>(&self, who: &AuthorizedCaller<P>) -> Result<StreamSlot, AppError> {
        self.take_stream_of(who.principal())
    }

    /// Counts an open stream of the caller.
    pub(crate) fn take_stream_of(&self, who: &Principal) -> Result<StreamSlot, AppError> {
        self.streams.take(who.key_scope()).ok_or_else(|| {
            let most = self.config.streams_per_token_max;
            let text = format!("this token has {most} open streams, which is the maximum; close one first");
            ProblemDetails::new(Code::RateLimited, text).with_member("retryAfterSeconds", 1).into()
        })
    }
}

/// The caller's permission to keep a stream open. Checked every second, because tokens expire and roles change.
pub(super) struct StreamAccess<P = permit::EventsRead> {
    pub(super) app: Arc<App>,
    pub(super) who: AuthorizedCaller<P>,
    next_check: Instant,
    next_keep_alive: Instant,
}

impl<P> StreamAccess<P> {
    pub(super) fn new(app: Arc<App>, who: AuthorizedCaller<P>) -> Self {
        // Jitter: the first check comes early by a random amount, so that streams opened together do not check
        // together.
        let mut chance = [0; 1];
        let _ = aws_lc_rs::rand::fill(&mut chance);
        let remaining = 1.0 - f64::from(chance[0]) / 512.0;
        let (now, keep_alive) = (Instant::now(), app.config.stream_check_every);
        Self {
            next_check: now + keep_alive.min(ACCESS_CHECK_EVERY).mul_f64(remaining),
            next_keep_alive: now + keep_alive.mul_f64(remaining),
            app,
            who,
        }
    }

    pub(super) fn org(&self) -> OrgId {
        self.who.org()
    }

    /// When to call [`is_still_allowed`](Self::is_still_allowed) again.
    pub(super) fn next_check(&self) -> Instant {
        self.next_check
    }

    /// Whether the stream should send a keep-alive frame now. Returns `true` once per interval.
    pub(super) fn take_keep_alive(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next_keep_alive;
        if is_due {
            self.next_keep_alive = now + self.app.config.stream_check_every;
        }
        is_due
    }

    /// Whether the caller still has access; `true` without a check if the last one was recent. Returns `false` on a
    /// store error; the client can reconnect.
    pub(super) async fn is_still_allowed(&mut self) -> bool {
        if Instant::now() < self.next_check {
            return true;
        }
        let who = self.who.principal().clone();
        let access = self.app.read(&self.who, move |db| match who.via {
            AuthMethod::Token { id, .. } => Ok(token::find_access(db, id)?.map(|found| found.access)),
            AuthMethod::SignIn { id } => match find_browser_login(db, id)? {
                None => Ok(None),
                Some(_) => load_member_access(db, who.user),
            },
        });
        let access = access.await;
        self.next_check = Instant::now() + self.app.config.stream_check_every.min(ACCESS_CHECK_EVERY);
        // Any change ends the stream, even if the new access would suffice. The client's next request is authorized
        // again.
        matches!(access, Ok(Some(access)) if access == *self.who.access())
    }
}

struct EventStreamState {
    right: StreamAccess,
    filter: Arc<EventFilter>,
    follower: EventFollower,
    /// Sequence number of the last event that was sent or filtered out.
    at: i64,
    /// Whether the store may have events after `at` that the feed did not deliver.
    behind: bool,
    /// Pipeline slugs for event summaries.
    slugs: PipelineSlugs,
    ready: VecDeque<Bytes>,
    inbox: Option<InboxWatch>,
    _slot: StreamSlot,
}

/// What a stream last told about the caller's inbox.
struct InboxWatch {
    state: Option<InboxState>,
    next_check: Instant,
}

impl InboxWatch {
    fn new() -> Self {
        Self { state: None, next_check: Instant::now() }
    }
}

impl EventStreamState {
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
                // The feed drops events when it is full, and the dropped event may be the latest one, so check the
                // store.
                self.behind = true;
                return Some((Bytes::from_static(KEEP_ALIVE_FRAME), self));
            }
            if let Some(part) = self.ready.pop_front() {
                return Some((part, self));
            }
            if let Some(part) = self.check_inbox().await.ok()? {
                return Some((part, self));
            }
            if self.behind {
                self.catch_up().await.ok()?;
                continue;
            }
            if let Some(part) = self.listen().await? {
                return Some((part, self));
            }
        }
    }

    /// Returns a message if the caller's inbox has changed. It has no id, so a client resumes after the last event.
    async fn check_inbox(&mut self) -> Result<Option<Bytes>, AppError> {
        let now = Instant::now();
        let Some(watch) = self.inbox.as_mut().filter(|watch| now >= watch.next_check) else {
            return Ok(None);
        };
        watch.next_check = now + ACCESS_CHECK_EVERY;
        let user = self.right.who.principal().user;
        let read =
            self.right.app.read(&self.right.who, move |db| Ok(notification::load_inbox_state(db, user)?));
        let state = read.await?;
        let Some(watch) = self.inbox.as_mut().filter(|watch| watch.state != Some(state)) else {
            return Ok(None);
        };
        watch.state = Some(state);
        let frame = format!("event: inbox\ndata: {{\"unread\":{}}}\n\n", state.unread);
        Ok(Some(Bytes::from(frame)))
    }

    /// When the stream has something to check again.
    fn next_check(&self) -> Instant {
        let access = self.right.next_check();
        self.inbox.as_ref().map_or(access, |watch| watch.next_check.min(access))
    }

    /// Waits for the next event. `None` ends the stream; `Some(None)` means there is nothing to send yet.
    async fn listen(&mut self) -> Option<Option<Bytes>> {
        tokio::select! {
            biased;
            () = self.right.app.services.shutdown.cancelled() => None,
            () = tokio::time::sleep_until(self.next_check()) => Some(None),
            heard = self.follower.next() => match heard {
                FeedItem::End => None,
                FeedItem::Missed => {
                    self.behind = true;
                    Some(None)
                }
                FeedItem::Event(told) => {
                    let event = &told.event;
                    if event.sequence > self.at + 1 {
                        self.behind = true;
                    } else if event.sequence == self.at + 1 {
                        if !self.filter.matches(event) {
                            self.at = event.sequence;
                        } else if let Some(pipeline) = self.slugs.get_cached(event) {
                            self.at = event.sequence;
                            if !is_visible(self.right.who.access(), event, pipeline) {
                                return Some(None);
                            }
                            return Some(Some(frame(event, &told.line, pipeline)));
                        } else {
                            // The pipeline slug for the summary is not cached, so read the event and the slug from the
                            // store.
                            self.behind = true;
                        }
                    }
                    Some(None)
                }
            },
        }
    }

    async fn catch_up(&mut self) -> Result<(), AppError> {
        let (at, filter) = (self.at, self.filter.clone());
        let access = self.right.who.access().clone();
        let mut slugs = std::mem::take(&mut self.slugs);
        let page = self.right.app.read(&self.right.who, move |db| {
            let page = event::list_after(db, at, i64::MAX, PAGE_EVENTS)?;
            let mut frames = VecDeque::new();
            for event in page.iter().filter(|event| filter.matches(event)) {
                let pipeline = slugs.load(db, event)?;
                if is_visible(&access, event, pipeline) {
                    frames.push_back(frame(event, &audit::canonical_line(event)?, pipeline));
                }
            }
            Ok((frames, slugs, page.last().map(|event| event.sequence), page.len()))
        });
        let (frames, slugs, last, count) = page.await?;
        self.slugs = slugs;
        self.ready = frames;
        self.at = last.unwrap_or(at);
        self.behind = i64::try_from(count).is_ok_and(|count| count == PAGE_EVENTS);
        Ok(())
    }
}

/// Formats an SSE message. `line` is the canonical JSON of the event; the summary is appended as the last member.
fn frame(event: &Event, line: &str, pipeline: Option<&str>) -> Bytes {
    let members = line.strip_suffix('}').unwrap_or(line);
    let summary = Value::from(summarize(event, pipeline));
    let (id, kind) = (event.sequence, &event.kind);
    Bytes::from(format!("id: {id}\nevent: {kind}\ndata: {members},\"summary\":{summary}}}\n\n"))
}
