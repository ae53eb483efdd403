//! Checks that what is kept is found again: events by their ids and terms, and the sessions of environments. Page by page,
//! for `admin verify`.

use super::events;
use crate::error::StoreError;
use crate::event_terms;
use crate::sql::statements;
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

/// The events after this number: each is found by its id and its terms.
pub fn events(db: &mut impl Read, after: i64) -> Result<Looked<i64>, StoreError> {
    let after = after.max(events::kept_after(db)?.sequence);
    let page = events::after(db, after, i64::MAX, PAGE_ROWS)?;
    let numbered = page.iter().filter(|event| event.id.number() != event.sequence);
    let mut problems: Vec<_> =
        numbered.map(|event| format!("event {} is not found by its id", event.sequence)).collect();
    problems.extend(event_terms::check(db, &page, after)?);
    Ok(Looked { last: page.last().map(|event| event.sequence), problems })
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
