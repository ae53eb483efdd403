//! Consistency checks for `berth admin verify`. They check indexes and counters, one page at a time.

use crate::audit::terms;
use crate::error::StoreError;
use crate::sql::statements;
use crate::tables::{PAGE_ROWS, event};
use crate::tx::StoreRead;

statements! {
    Org Read ENVIRONMENTS = "SELECT e.id, e.sessions, (SELECT CAST(COUNT(*) AS BIGINT) FROM sessions s
          WHERE s.org_id = $1 AND s.environment_id = e.id AND s.number BETWEEN 1 AND e.sessions)
        FROM environments e WHERE e.org_id = $1 AND e.id > $2 ORDER BY e.id LIMIT $3";
}

/// The result of checking one page.
#[derive(Debug, Default)]
pub struct PageCheck<K> {
    /// The key to pass as `after` for the next page. `None` after the last page.
    pub last: Option<K>,
    /// A description of each problem, for the operator.
    pub problems: Vec<String>,
}

/// Checks one page of events, starting after this sequence number. Each event must be found by its id and be indexed
/// under all of its search terms, and under no other term of the page.
pub fn check_events(db: &mut impl StoreRead, after: i64) -> Result<PageCheck<i64>, StoreError> {
    let after = after.max(event::retained_after(db)?.sequence);
    let page = event::list_after(db, after, i64::MAX, PAGE_ROWS)?;
    let misnumbered = page.iter().filter(|event| event.id.number() != event.sequence);
    let mut problems: Vec<_> =
        misnumbered.map(|event| format!("event {} is not found by its id", event.sequence)).collect();
    problems.extend(terms::check(db, &page, after)?);
    Ok(PageCheck { last: page.last().map(|event| event.sequence), problems })
}

/// Checks one page of environments, starting after this id: their session counters must match the stored sessions.
pub fn check_environments(db: &mut impl StoreRead, after: &str) -> Result<PageCheck<String>, StoreError> {
    let mut page = PageCheck::default();
    let rows: Vec<(String, i64, i64)> = db.fetch_all(&ENVIRONMENTS, &[after.into(), PAGE_ROWS.into()])?;
    for (id, wanted, found) in rows {
        if wanted != found {
            page.problems.push(format!("{id} has {found} of {wanted} sessions"));
        }
        page.last = Some(id);
    }
    Ok(page)
}
