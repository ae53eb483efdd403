//! Verifies a hash chain event by event, up to the first problem.

use berth_core::event::{Event, EventKind};
use serde_json::Value;

use super::hash_chain::{AuditHead, NO_HASH, hash_event};
use crate::error::StoreError;

/// The parts of an event that verification uses. `hash` is the stored hash, and `computed` is the hash of the content.
#[derive(Debug, Clone)]
pub struct SealedEvent {
    pub organization: String,
    pub sequence: i64,
    pub previous_hash: String,
    pub hash: String,
    pub computed: String,
    /// If the event announces a removal by retention, the number of the last event to be removed.
    pub removes_through: Option<i64>,
}

impl SealedEvent {
    pub fn from_event(event: &Event) -> Result<Self, StoreError> {
        Ok(Self {
            organization: event.org.to_string(),
            sequence: event.sequence,
            previous_hash: event.previous_hash.clone(),
            hash: event.hash.clone(),
            computed: hash_event(event)?,
            removes_through: removes_through(&event.kind, &event.data),
        })
    }
}

pub(super) fn removes_through(kind: &str, data: &Value) -> Option<i64> {
    data.get("through").filter(|_| kind == EventKind::EventsRemoved.as_str())?.as_i64()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFault {
    /// The content does not match the hash.
    Edited,
    /// An event in the middle is missing.
    Missing,
    /// An event is out of place: inserted, duplicated, swapped or replaced.
    Unexpected,
    /// Events at the end are missing.
    Truncated,
    /// The chain itself is consistent, but it does not contain the head that the user gave.
    HeadDiffers,
}

impl AuditFault {
    pub const fn as_str(self) -> &'static str {
        match self {
            AuditFault::Edited => "edited",
            AuditFault::Missing => "missing",
            AuditFault::Unexpected => "unexpected",
            AuditFault::Truncated => "truncated",
            AuditFault::HeadDiffers => "head_differs",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditProblem {
    /// Position of the problem in the chain, starting at 1.
    pub sequence: i64,
    pub reason: AuditFault,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditVerdict {
    /// Number of events that were verified before the first problem.
    pub checked: i64,
    /// Number of the first stored event. Retention has removed all earlier events.
    pub first: i64,
    /// The head of the chain, as stored.
    pub head: AuditHead,
    /// The head that the user gave is older than the first stored event, so it could not be compared.
    pub head_is_too_old: bool,
    pub problem: Option<AuditProblem>,
}

pub struct ChainVerifier {
    kept: Option<AuditHead>,
    organization: Option<String>,
    /// Number and hash of the event just before the first stored one.
    start: AuditHead,
    /// Number of the last event whose removal was announced.
    announced: i64,
    at: AuditHead,
    checked: i64,
    problem: Option<AuditProblem>,
}

impl ChainVerifier {
    /// `kept` is an earlier head of the same chain, which was stored outside of Berth.
    pub fn new(kept: Option<AuditHead>) -> Self {
        let (start, at) = (AuditHead::start(), AuditHead::start());
        Self { kept, organization: None, start, announced: 0, at, checked: 0, problem: None }
    }

    /// Continues after `start`, because retention has removed all events up to it.
    pub fn skip_to(&mut self, start: AuditHead) {
        self.at = start.clone();
        self.start = start;
    }

    /// Reports a problem if any event belongs to another organization.
    pub fn expect_organization(&mut self, organization: String) {
        self.organization = Some(organization);
    }

    pub fn problem(&self) -> Option<&AuditProblem> {
        self.problem.as_ref()
    }

    /// Number and hash of the last verified event.
    pub fn last_verified(&self) -> &AuditHead {
        &self.at
    }

    pub fn organization(&self) -> Option<&str> {
        self.organization.as_deref()
    }

    pub fn verify_event(&mut self, found: &SealedEvent) {
        if let Some(problem) = &mut self.problem {
            // The event that seemed to be missing comes later, so events were reordered.
            if problem.reason == AuditFault::Missing && found.sequence == problem.sequence {
                problem.reason = AuditFault::Unexpected;
                problem.detail = format!("event {} comes later: the order was changed", found.sequence);
            }
            return;
        }
        let place = self.at.sequence + 1;
        match self.find_fault(found, place) {
            Some((reason, detail)) => self.report(place, reason, detail),
            None => {
                self.organization.get_or_insert_with(|| found.organization.clone());
                self.at = AuditHead { sequence: found.sequence, hash: found.hash.clone() };
                self.announced = self.announced.max(found.removes_through.unwrap_or(0));
                self.checked += 1;
            }
        }
    }

    /// Reports that the next entry cannot be read as an event.
    pub fn report_unreadable(&mut self, why: &str) {
        self.report(self.at.sequence + 1, AuditFault::Edited, format!("the entry is unreadable: {why}"));
    }

    pub fn report_unexpected(&mut self, what: &str) {
        self.report(self.at.sequence + 1, AuditFault::Unexpected, what.to_owned());
    }

    /// Completes the verification. `head` is the last event that the chain should have; if the chain ends earlier, it
    /// was truncated.
    pub fn finish(mut self, head: Option<&AuditHead>) -> AuditVerdict {
        let (last, next) = (self.at.sequence, self.at.sequence + 1);
        match head {
            None => {
                self.report(next, AuditFault::Truncated, "the head is missing: the end was truncated".into());
            }
            Some(head) if head.sequence > last => {
                let text = format!("the head is event {}, but the last event is {last}", head.sequence);
                self.report(next, AuditFault::Truncated, text);
            }
            Some(head) if head.sequence < last => {
                let text = format!("the head is event {}, but there are more events", head.sequence);
                self.report(head.sequence + 1, AuditFault::Unexpected, text);
            }
            Some(head) if head.hash != self.at.hash => {
                let text = "the hash of the head is not that of the last event".to_owned();
                self.report(last, AuditFault::HeadDiffers, text);
            }
            Some(_) => {}
        }
        if self.start.sequence > self.announced {
            let gone = self.start.sequence;
            let text = format!("the events up to {gone} are missing, and no event announces their removal");
            self.report(gone, AuditFault::Missing, text);
        }
        let mut head_is_too_old = false;
        if let Some(kept) = self.kept.take() {
            if kept.sequence < self.start.sequence {
                head_is_too_old = true;
            } else if kept.sequence > last {
                let text = format!("the given head is event {}, but the last event is {last}", kept.sequence);
                self.report(next, AuditFault::Truncated, text);
            } else if kept.sequence == 0 && kept.hash != NO_HASH {
                self.report(0, AuditFault::HeadDiffers, "an empty chain has a hash of zeros".into());
            } else if kept.sequence == self.start.sequence && kept.hash != self.start.hash {
                let text = "the hash of the given head is not that of the event before the first stored one";
                self.report(kept.sequence, AuditFault::HeadDiffers, text.into());
            }
        }
        let head = head.cloned().unwrap_or(self.at);
        let first = self.start.sequence + 1;
        AuditVerdict { checked: self.checked, first, head, head_is_too_old, problem: self.problem }
    }

    fn find_fault(&self, found: &SealedEvent, place: i64) -> Option<(AuditFault, String)> {
        let (number, before) = (found.sequence, place - 1);
        if found.computed != found.hash {
            let text = format!("the content of the event (number {number}) does not match its hash");
            return Some((AuditFault::Edited, text));
        }
        if number > place {
            return Some((AuditFault::Missing, format!("the event is missing: the next one is {number}")));
        }
        if number < place {
            return Some((AuditFault::Unexpected, format!("event {number} comes after event {before}")));
        }
        if self.organization.as_ref().is_some_and(|known| *known != found.organization) {
            return Some((AuditFault::Unexpected, "the event belongs to another organization".into()));
        }
        if found.previous_hash != self.at.hash {
            let text = format!("the event does not follow event {before}: one of the two was replaced");
            return Some((AuditFault::Unexpected, text));
        }
        let kept = self.kept.as_ref().filter(|kept| kept.sequence == number && kept.hash != found.hash);
        kept.map(|_| {
            (AuditFault::HeadDiffers, "the given head has another hash: the log was rewritten".to_owned())
        })
    }

    fn report(&mut self, sequence: i64, reason: AuditFault, detail: String) {
        self.problem.get_or_insert(AuditProblem { sequence, reason, detail });
    }
}
