//! Verification of a hash chain, event by event, up to the first problem.

use berth_core::event::{Event, EventKind};
use serde_json::Value;

use super::hash_chain::{Head, NO_HASH, hash};
use crate::error::StoreError;

/// An event for verification: its stored hash, and the hash computed from its content.
#[derive(Debug, Clone)]
pub struct Sealed {
    pub organization: String,
    pub sequence: i64,
    pub previous_hash: String,
    pub hash: String,
    pub computed: String,
    /// Set for an event that announces the removal of events up to this one by retention.
    pub removes_through: Option<i64>,
}

impl Sealed {
    pub fn of(event: &Event) -> Result<Self, StoreError> {
        Ok(Self {
            organization: event.org.to_string(),
            sequence: event.sequence,
            previous_hash: event.previous_hash.clone(),
            hash: event.hash.clone(),
            computed: hash(event)?,
            removes_through: removes_through(&event.kind, &event.data),
        })
    }
}

pub(super) fn removes_through(kind: &str, data: &Value) -> Option<i64> {
    data.get("through").filter(|_| kind == EventKind::EventsRemoved.as_str())?.as_i64()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The content does not match the hash.
    Edited,
    /// An event in the middle is missing.
    Missing,
    /// An event is out of place: inserted, duplicated, swapped or replaced.
    Unexpected,
    /// Events at the end are missing.
    Truncated,
    /// The chain is consistent, but not the one that the given head is from.
    HeadDiffers,
}

impl Reason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Edited => "edited",
            Reason::Missing => "missing",
            Reason::Unexpected => "unexpected",
            Reason::Truncated => "truncated",
            Reason::HeadDiffers => "head_differs",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Position in the chain, from 1.
    pub sequence: i64,
    pub reason: Reason,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Events that were verified: all before the first problem.
    pub checked: i64,
    /// Number of the first stored event: retention has removed those before it.
    pub first: i64,
    /// The stored end of the chain.
    pub head: Head,
    /// The given head is older than the first stored event, so it was not compared.
    pub head_is_too_old: bool,
    pub problem: Option<Problem>,
}

pub struct Verifier {
    kept: Option<Head>,
    organization: Option<String>,
    /// The event before the first stored one.
    start: Head,
    /// Retention has announced the removal of events up to here.
    announced: i64,
    at: Head,
    checked: i64,
    problem: Option<Problem>,
}

impl Verifier {
    /// `kept` is a head that was stored elsewhere at any time before.
    pub fn new(kept: Option<Head>) -> Self {
        let (start, at) = (Head::start(), Head::start());
        Self { kept, organization: None, start, announced: 0, at, checked: 0, problem: None }
    }

    /// Continues after `start`: retention has removed everything up to there.
    pub fn skip_to(&mut self, start: Head) {
        self.at = start.clone();
        self.start = start;
    }

    /// Requires that all events belong to this organization.
    pub fn expect_organization(&mut self, organization: String) {
        self.organization = Some(organization);
    }

    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// The last verified event.
    pub fn at(&self) -> &Head {
        &self.at
    }

    pub fn organization(&self) -> Option<&str> {
        self.organization.as_deref()
    }

    pub fn event(&mut self, found: &Sealed) {
        if let Some(problem) = &mut self.problem {
            // The missing event comes later: the order was changed.
            if problem.reason == Reason::Missing && found.sequence == problem.sequence {
                problem.reason = Reason::Unexpected;
                problem.detail = format!("event {} comes later: the order was changed", found.sequence);
            }
            return;
        }
        let place = self.at.sequence + 1;
        match self.fault(found, place) {
            Some((reason, detail)) => self.stop(place, reason, detail),
            None => {
                self.organization.get_or_insert_with(|| found.organization.clone());
                self.at = Head { sequence: found.sequence, hash: found.hash.clone() };
                self.announced = self.announced.max(found.removes_through.unwrap_or(0));
                self.checked += 1;
            }
        }
    }

    /// Reports that the next entry is not an event.
    pub fn unreadable(&mut self, why: &str) {
        self.stop(self.at.sequence + 1, Reason::Edited, format!("the entry is unreadable: {why}"));
    }

    pub fn unexpected(&mut self, what: &str) {
        self.stop(self.at.sequence + 1, Reason::Unexpected, what.to_owned());
    }

    /// `head` is the expected end of the chain. `None` if it is missing: then the end was truncated.
    pub fn finish(mut self, head: Option<&Head>) -> Verdict {
        let (last, next) = (self.at.sequence, self.at.sequence + 1);
        match head {
            None => self.stop(next, Reason::Truncated, "the head is missing: the end was truncated".into()),
            Some(head) if head.sequence > last => {
                let text = format!("the head is event {}, but the last event is {last}", head.sequence);
                self.stop(next, Reason::Truncated, text);
            }
            Some(head) if head.sequence < last => {
                let text = format!("the head is event {}, but there are more events", head.sequence);
                self.stop(head.sequence + 1, Reason::Unexpected, text);
            }
            Some(head) if head.hash != self.at.hash => {
                let text = "the hash of the head is not that of the last event".to_owned();
                self.stop(last, Reason::HeadDiffers, text);
            }
            Some(_) => {}
        }
        if self.start.sequence > self.announced {
            let gone = self.start.sequence;
            let text = format!("the events up to {gone} are missing, and no event announces their removal");
            self.stop(gone, Reason::Missing, text);
        }
        let mut head_is_too_old = false;
        if let Some(kept) = self.kept.take() {
            if kept.sequence < self.start.sequence {
                head_is_too_old = true;
            } else if kept.sequence > last {
                let text = format!("the given head is event {}, but the last event is {last}", kept.sequence);
                self.stop(next, Reason::Truncated, text);
            } else if kept.sequence == 0 && kept.hash != NO_HASH {
                self.stop(0, Reason::HeadDiffers, "an empty chain has a hash of zeros".into());
            } else if kept.sequence == self.start.sequence && kept.hash != self.start.hash {
                let text = "the hash of the given head is not that of the event before the first stored one";
                self.stop(kept.sequence, Reason::HeadDiffers, text.into());
            }
        }
        let head = head.cloned().unwrap_or(self.at);
        let first = self.start.sequence + 1;
        Verdict { checked: self.checked, first, head, head_is_too_old, problem: self.problem }
    }

    fn fault(&self, found: &Sealed, place: i64) -> Option<(Reason, String)> {
        let (number, before) = (found.sequence, place - 1);
        if found.computed != found.hash {
            let text = format!("the content of the event (number {number}) does not match its hash");
            return Some((Reason::Edited, text));
        }
        if number > place {
            return Some((Reason::Missing, format!("the event is missing: the next one is {number}")));
        }
        if number < place {
            return Some((Reason::Unexpected, format!("event {number} comes after event {before}")));
        }
        if self.organization.as_ref().is_some_and(|known| *known != found.organization) {
            return Some((Reason::Unexpected, "the event belongs to another organization".into()));
        }
        if found.previous_hash != self.at.hash {
            let text = format!("the event does not follow event {before}: one of the two was replaced");
            return Some((Reason::Unexpected, text));
        }
        let kept = self.kept.as_ref().filter(|kept| kept.sequence == number && kept.hash != found.hash);
        kept.map(|_| {
            (Reason::HeadDiffers, "the given head has another hash: the log was rewritten".to_owned())
        })
    }

    fn stop(&mut self, sequence: i64, reason: Reason, detail: String) {
        self.problem.get_or_insert(Problem { sequence, reason, detail });
    }
}
