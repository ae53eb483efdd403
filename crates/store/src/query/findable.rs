//! Checks that what is kept is found again: events by their ids and terms, and the sessions of environments. Page by page,
//! for `admin verify`.

use std::collections::BTreeMap;

use berth_core::time::Timestamp;

use super::events;
use crate::error::StoreError;
use crate::event_lists;
use crate::sql::statements;
use crate::trail::terms;
use crate::tx::Read;

/// Rows of one page.
const PAGE_ROWS: i64 = 500;

statements! {
    Org Read ENVIRONMENTS = "SELECT e.id, e.sessions, (SELECT CAST(COUNT(*) AS BIGINT) FROM sessions s
          WHERE s.org_id = $1 AND s.environment_id = e.id AND s.number BETWEEN 1 AND e.sessions)
        FROM environments e WHERE e.org_id = $1 AND e.id > $2 ORDER BY e.id LIMIT $3";
}

/// A page that was looked at.
#[derive(Debug, Default)]
pub struct Looked<K> {
    /// What the next page follows. `None`: this was the last one.
    pub last: Option<K>,
    /// In words.
    pub problems: Vec<String>,
}

/// The events after this number. Those that are in no list yet are read one by one by whoever looks for some.
pub fn events(db: &mut impl Read, after: i64) -> Result<Looked<i64>, StoreError> {
    let (kept_after, indexed) = events::listed(db)?;
    let after = after.max(kept_after);
    let page = events::after(db, after, indexed, PAGE_ROWS)?;
    let Some(last) = page.last().map(|event| event.sequence) else { return Ok(Looked::default()) };
    let mut problems = Vec::new();
    let mut wanted: BTreeMap<String, Times> = BTreeMap::new();
    for event in &page {
        if event.id.number() != event.sequence {
            problems.push(format!("event {} is not found by its id", event.sequence));
        }
        for term in terms(&event.kind, &event.actor, &event.subjects) {
            wanted.entry(term).or_default().insert(event.sequence, event.occurred_at);
        }
    }
    for (term, wanted) in wanted {
        match event_lists::between(db, &term, after, last) {
            Ok(listed) => problems.extend(difference(&term, &wanted, &listed)),
            Err(StoreError::Bug(why)) => problems.push(format!("{term}: {why}")),
            Err(error) => return Err(error),
        }
    }
    Ok(Looked { last: Some(last), problems })
}

/// When events were recorded, by their numbers.
type Times = BTreeMap<i64, Timestamp>;

/// The first one, in words.
fn difference(term: &str, wanted: &Times, listed: &BTreeMap<i64, [Timestamp; 2]>) -> Option<String> {
    let is_found = |(number, at): &(&i64, &Timestamp)| {
        listed.get(number).is_some_and(|[earliest, latest]| (earliest..=latest).contains(at))
    };
    let lost = wanted.iter().find(|event| !is_found(event));
    let lost = lost.map(|(number, _)| format!("event {number} is not found by {term}"));
    let odd = || listed.keys().find(|number| !wanted.contains_key(number));
    lost.or_else(|| odd().map(|number| format!("event {number} is found by {term}, which it is not about")))
}

/// The environments after this id: each has as many sessions as it counts.
pub fn environments(db: &mut impl Read, after: &str) -> Result<Looked<String>, StoreError> {
    let mut page = Looked::default();
    for row in db.rows(&ENVIRONMENTS, &[after.into(), PAGE_ROWS.into()])? {
        let (id, wanted, found) = (row.text(0)?, row.int(1)?, row.int(2)?);
        if wanted != found {
            page.problems.push(format!("{id} has {found} of {wanted} sessions"));
        }
        page.last = Some(id.to_owned());
    }
    Ok(page)
}
