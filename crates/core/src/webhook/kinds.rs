//! The event kinds that a webhook subscribes to.

use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::wording::hint;

pub const KINDS_PER_WEBHOOK_MAX: usize = 100;

const ALL: &str = "*";

/// All event kinds.
pub fn all_event_kinds() -> impl Iterator<Item = &'static str> {
    EventKind::ALL.iter().map(|kind| kind.as_str())
}

pub fn is_event_kind(kind: &str) -> bool {
    all_event_kinds().any(|known| known == kind)
}

/// Matches all event kinds or only the listed ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventKindFilter(Vec<String>);

/// An event kind that is not accepted, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidKind {
    pub index: Option<usize>,
    pub why: String,
}

impl EventKindFilter {
    pub fn parse(sent: &[String]) -> Result<Self, InvalidKind> {
        if sent.is_empty() || sent.len() > KINDS_PER_WEBHOOK_MAX {
            let why =
                format!("must be 1 to {KINDS_PER_WEBHOOK_MAX} kinds of events, or [\"*\"] for all of them");
            return Err(InvalidKind { index: None, why });
        }
        let mut kinds: Vec<String> = Vec::with_capacity(sent.len());
        for (index, kind) in sent.iter().enumerate() {
            if kind != ALL && !is_event_kind(kind) {
                let (hint, _) = hint(kind, all_event_kinds());
                let why = format!("is not a kind of event{hint}");
                return Err(InvalidKind { index: Some(index), why });
            }
            if !kinds.contains(kind) {
                kinds.push(kind.clone());
            }
        }
        Ok(Self(kinds))
    }

    /// Matches all event kinds.
    pub fn all() -> Self {
        Self(vec![ALL.to_owned()])
    }

    pub fn contains(&self, kind: &str) -> bool {
        self.0.iter().any(|wanted| wanted == ALL || wanted == kind)
    }

    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sent: &[&str]) -> Result<Vec<String>, String> {
        let sent: Vec<String> = sent.iter().map(ToString::to_string).collect();
        EventKindFilter::parse(&sent).map(|kinds| kinds.0).map_err(|error| error.why)
    }

    #[test]
    fn kind_filter_accepts_known_kinds_or_wildcard() {
        assert_eq!(check(&["*"]), Ok(vec!["*".to_owned()]));
        assert_eq!(check(&["step_failed", "step_failed"]), Ok(vec!["step_failed".to_owned()]));
        assert_eq!(check(&["approval_requested", "analysis_failed"]).map(|kinds| kinds.len()), Ok(2));
        assert_eq!(
            check(&["deployment_fialed"]),
            Err("is not a kind of event; did you mean `deployment_failed`?".to_owned())
        );
        assert!(check(&[]).is_err_and(|why| why.contains("1 to 100")));
        assert!(check(&["step_failed"; 101]).is_err());
        assert!(check(&["step_failed"; 100]).is_ok());
    }

    #[test]
    fn all_event_kinds_are_distinct() {
        let mut all: Vec<_> = all_event_kinds().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn kind_filter_wildcard_matches_future_kinds() {
        let all = EventKindFilter(vec![ALL.into()]);
        assert!(all.contains("something_new"));
        assert!(!EventKindFilter(vec!["step_failed".into()]).contains("something_new"));
    }
}
