//! Checking a chain, event by event: the first thing that is wrong, and where.

use berth_core::event::{Event, EventKind};
use serde_json::Value;

use super::{Head, NO_HASH, hash};
use crate::error::StoreError;

/// One event as the check sees it: what it claims, and the hash its content really has.
#[derive(Debug, Clone)]
pub struct Sealed {
    pub organization: String,
    pub sequence: i64,
    pub previous_hash: String,
    pub hash: String,
    pub computed: String,
    /// It says that events up to this one go because they are old.
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
    /// The content does not have the hash it carries.
    Edited,
    /// An event in the middle is gone.
    Missing,
    /// An event stands where it does not belong: inserted, doubled, swapped, or put in the place of another.
    Unexpected,
    /// Events at the end are gone.
    Truncated,
    /// The chain is whole, but it is not the one the head was taken from.
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
    /// The place in the chain, counted from 1.
    pub sequence: i64,
    pub reason: Reason,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Events that are as they were recorded: all before the first problem.
    pub checked: i64,
    /// The number of the first event that is kept: those before it were removed because they were old.
    pub first: i64,
    /// Where the chain ends, as its keeper says.
    pub head: Head,
    /// The head that was given is from before what is kept: it was not compared with anything.
    pub head_is_too_old: bool,
    pub problem: Option<Problem>,
}

pub struct Verifier {
    kept: Option<Head>,
    organization: Option<String>,
    /// What the first event that is kept follows.
    start: Head,
    /// Up to here events were removed, as the history itself says.
    announced: i64,
    at: Head,
    checked: i64,
    problem: Option<Problem>,
}

impl Verifier {
    /// `kept`: a head that was written down elsewhere, at any time before.
    pub fn new(kept: Option<Head>) -> Self {
        let (start, at) = (Head::start(), Head::start());
        Self { kept, organization: None, start, announced: 0, at, checked: 0, problem: None }
    }

    /// What comes next follows this: everything up to here was removed because it was old.
    pub fn skip_to(&mut self, start: Head) {
        self.at = start.clone();
        self.start = start;
    }

    /// All of it is this organization's.
    pub fn expect_organization(&mut self, organization: String) {
        self.organization = Some(organization);
    }

    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// The last event that was found good.
    pub fn at(&self) -> &Head {
        &self.at
    }

    pub fn organization(&self) -> Option<&str> {
        self.organization.as_deref()
    }

    pub fn event(&mut self, found: &Sealed) {
        if let Some(problem) = &mut self.problem {
            // What seemed to be gone stands further down.
            if problem.reason == Reason::Missing && found.sequence == problem.sequence {
                problem.reason = Reason::Unexpected;
                problem.detail =
                    format!("event {} stands further down: the order was changed", found.sequence);
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

    /// Something that cannot be an event stands in the place of the next one.
    pub fn unreadable(&mut self, why: &str) {
        self.stop(self.at.sequence + 1, Reason::Edited, format!("what stands here cannot be read: {why}"));
    }

    pub fn unexpected(&mut self, what: &str) {
        self.stop(self.at.sequence + 1, Reason::Unexpected, what.to_owned());
    }

    /// `head`: where the chain should end. `None`: it was lost, and with it whatever came last.
    pub fn finish(mut self, head: Option<&Head>) -> Verdict {
        let (last, next) = (self.at.sequence, self.at.sequence + 1);
        match head {
            None => self.stop(next, Reason::Truncated, "there is no head after this: the end is gone".into()),
            Some(head) if head.sequence > last => {
                let text =
                    format!("the head says there are {} events, but they end with {last}", head.sequence);
                self.stop(next, Reason::Truncated, text);
            }
            Some(head) if head.sequence < last => {
                let text = format!("the head says there are {} events, but there are more", head.sequence);
                self.stop(head.sequence + 1, Reason::Unexpected, text);
            }
            Some(head) if head.hash != self.at.hash => {
                let text = "the head has another hash than the last event".to_owned();
                self.stop(last, Reason::HeadDiffers, text);
            }
            Some(_) => {}
        }
        if self.start.sequence > self.announced {
            let gone = self.start.sequence;
            let text = format!("the events up to {gone} are gone, and none says that they were removed");
            self.stop(gone, Reason::Missing, text);
        }
        let mut head_is_too_old = false;
        if let Some(kept) = self.kept.take() {
            if kept.sequence < self.start.sequence {
                head_is_too_old = true;
            } else if kept.sequence > last {
                let text = format!("there was an event {}, but they end with {last}", kept.sequence);
                self.stop(next, Reason::Truncated, text);
            } else if kept.sequence == 0 && kept.hash != NO_HASH {
                self.stop(0, Reason::HeadDiffers, "a chain begins with 64 zeros".into());
            } else if kept.sequence == self.start.sequence && kept.hash != self.start.hash {
                let text = "the kept head has another hash than what the first event here follows";
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
            let text = format!("the event here (numbered {number}) does not have the hash it carries");
            return Some((Reason::Edited, text));
        }
        if number > place {
            return Some((Reason::Missing, format!("the event is gone: the next one is {number}")));
        }
        if number < place {
            return Some((Reason::Unexpected, format!("event {number} stands behind event {before}")));
        }
        if self.organization.as_ref().is_some_and(|known| *known != found.organization) {
            return Some((Reason::Unexpected, "the event is another organization's".into()));
        }
        if found.previous_hash != self.at.hash {
            let text = format!("the event does not follow event {before}: one of the two was replaced");
            return Some((Reason::Unexpected, text));
        }
        let kept = self.kept.as_ref().filter(|kept| kept.sequence == number && kept.hash != found.hash);
        kept.map(|_| {
            (Reason::HeadDiffers, "the kept head has another hash: history was written anew".to_owned())
        })
    }

    fn stop(&mut self, sequence: i64, reason: Reason, detail: String) {
        self.problem.get_or_insert(Problem { sequence, reason, detail });
    }
}
