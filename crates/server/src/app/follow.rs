//! Following the history live: every event once and in order, from where the caller left off, while they may.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use berth_api::problem::{Code, Problem};
use berth_core::access::permit;
use berth_core::event::{Event, summarize};
use berth_core::id::OrgId;
use berth_store::feed::{Follower, Heard};
use berth_store::tables::{event, member, sign_in, token};
use berth_store::{StoreError, audit};
use futures_util::Stream;
use serde_json::Value;
use tokio::time::Instant;

use super::events::{PipelineSlugs, named_by_id};
use super::{App, EventFilter};
use crate::auth::authorize::{Authorized, Via};
use crate::error::AppError;
use crate::streams::Place;

/// Events read at once by a follower that is behind.
const PAGE_EVENTS: i64 = 100;
pub(super) const SIGN_OF_LIFE: &[u8] = b":\n\n";

impl App {
    /// `last`: the last event the caller has seen; without it the stream begins with what happens from now on.
    pub async fn follow_events(
        self: &Arc<Self>,
        who: Authorized<permit::EventsRead>,
        mut filter: EventFilter,
        last: Option<i64>,
    ) -> Result<impl Stream<Item = Bytes> + use<>, AppError> {
        let place = self.take_stream(&who)?;
        // Listening begins before the head is read: what is committed in between is heard of, or below the head.
        let follower = self.services.store.follow(who.org());
        let read = self.read(&who, move |db| {
            named_by_id(db, &mut filter)?;
            Ok((event::kept_after(db)?.sequence, event::head(db)?.sequence, filter))
        });
        let (start, head, filter) = read.await?;
        // What was removed because it was old is not waited for: the first that is kept comes next.
        let at = last.unwrap_or(head).max(start);
        if at > head {
            let text = format!("must be the sequence number of an event, from 0 to {head}");
            return Err(AppError::invalid_parameter("Last-Event-ID", text));
        }
        let following = Following {
            right: Right::new(self.clone(), who),
            filter: Arc::new(filter),
            follower,
            at,
            behind: at < head,
            slugs: PipelineSlugs::default(),
            // With this a client that loses the stream before its first event still knows where it was.
            ready: VecDeque::from([Bytes::from(format!(": following\nid: {at}\n\n"))]),
            _place: place,
        };
        Ok(futures_util::stream::unfold(following, Following::next))
    }

    pub(super) fn take_stream<P>(&self, who: &Authorized<P>) -> Result<Place, AppError> {
        self.streams.take(who.principal().key_scope()).ok_or_else(|| {
            let most = self.config.streams_per_token_max;
            let text = format!("this token has {most} open streams, which is the maximum; close one first");
            Problem::new(Code::RateLimited, text).with("retryAfterSeconds", 1).into()
        })
    }
}

/// The right to a stream, which may end while it runs.
pub(super) struct Right<P = permit::EventsRead> {
    pub(super) app: Arc<App>,
    pub(super) who: Authorized<P>,
    pub(super) next_check: Instant,
}

impl<P> Right<P> {
    pub(super) fn new(app: Arc<App>, who: Authorized<P>) -> Self {
        let every = app.config.stream_check_every;
        // The first check comes early by chance: a thousand streams opened at once do not check at once.
        let mut chance = [0; 1];
        let _ = aws_lc_rs::rand::fill(&mut chance);
        let early = every.mul_f64(f64::from(chance[0]) / 512.0);
        Self { next_check: Instant::now() + every.saturating_sub(early), app, who }
    }

    pub(super) fn org(&self) -> OrgId {
        self.who.org()
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.next_check
    }

    /// Whether the caller still has it. A doubt is a no: they may come back and ask.
    pub(super) async fn holds(&mut self) -> bool {
        let (who, org) = (self.who.principal().clone(), self.org());
        let role = self.app.read(&self.who, move |db| {
            let now = db.now();
            let is_valid = match who.via {
                Via::Token { id, .. } => token::by_id(db, id)?.is_some_and(|token| {
                    token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > now)
                }),
                Via::SignIn { id } => sign_in::by_id(db, id, now)?.is_some(),
            };
            Ok(member::role_in(db, who.user, org)?.filter(|_| is_valid))
        });
        let role = role.await;
        self.next_check = Instant::now() + self.app.config.stream_check_every;
        // Another role is another right, even if this one would still do: the next request finds out.
        matches!(role, Ok(Some(role)) if role == self.who.role())
    }
}

struct Following {
    right: Right,
    filter: Arc<EventFilter>,
    follower: Follower,
    /// The last event that was sent or did not match.
    at: i64,
    /// There may be events after `at` that are only in the store.
    behind: bool,
    /// For the summaries.
    slugs: PipelineSlugs,
    ready: VecDeque<Bytes>,
    _place: Place,
}

impl Following {
    /// The next part of the stream; `None` ends it.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if self.right.app.services.shutdown.is_cancelled() {
                return None;
            }
            if self.right.is_due() {
                if !self.right.holds().await {
                    return None;
                }
                // The feed drops what it cannot carry: look whether it was the last event.
                self.behind = true;
                return Some((Bytes::from_static(SIGN_OF_LIFE), self));
            }
            if let Some(part) = self.ready.pop_front() {
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

    /// Waits for something to happen. `None`: the end; `Some(None)`: nothing to send.
    async fn listen(&mut self) -> Option<Option<Bytes>> {
        tokio::select! {
            biased;
            () = self.right.app.services.shutdown.cancelled() => None,
            () = tokio::time::sleep_until(self.right.next_check) => Some(None),
            heard = self.follower.next() => match heard {
                Heard::End => None,
                Heard::Missed => {
                    self.behind = true;
                    Some(None)
                }
                Heard::Event(told) => {
                    let event = &told.event;
                    if event.sequence > self.at + 1 {
                        self.behind = true;
                    } else if event.sequence == self.at + 1 {
                        if !self.filter.matches(event) {
                            self.at = event.sequence;
                        } else if let Some(pipeline) = self.slugs.cached(event) {
                            self.at = event.sequence;
                            return Some(Some(frame(event, &told.line, pipeline)));
                        } else {
                            // The summary needs the pipeline's slug: read both from the store.
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
        let mut slugs = std::mem::take(&mut self.slugs);
        let page = self.right.app.read(&self.right.who, move |db| {
            let page = event::after(db, at, i64::MAX, PAGE_EVENTS)?;
            let matching = page.iter().filter(|event| filter.matches(event));
            let frames = matching.map(|event| Ok(frame(event, &audit::line(event)?, slugs.load(db, event)?)));
            let frames = frames.collect::<Result<VecDeque<_>, StoreError>>()?;
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

/// `line` is the event's canonical JSON; the summary becomes its last member.
fn frame(event: &Event, line: &str, pipeline: Option<&str>) -> Bytes {
    let members = line.strip_suffix('}').unwrap_or(line);
    let summary = Value::from(summarize(event, pipeline));
    let (id, kind) = (event.sequence, &event.kind);
    Bytes::from(format!("id: {id}\nevent: {kind}\ndata: {members},\"summary\":{summary}}}\n\n"))
}
