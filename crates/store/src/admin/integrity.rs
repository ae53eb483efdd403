//! Consistency checks of indexes and counters, page by page, for `berth admin verify`.

use crate::audit::terms;
use crate::error::StoreError;
use crate::sql::statements;
use crate::tables::{PAGE_ROWS, event};
use crate::tx::Read;

statements! {
    Org Read ENVIRONMENTS = "SELECT e.id, e.sessions, (SELECT CAST(COUNT(*) AS BIGINT) FROM sessions s
          WHERE s.org_id = $1 AND s.environment_id = e.id AND s.number BETWEEN 1 AND e.sessions)
        FROM environments e WHERE e.org_id = $1 AND e.id > $2 ORDER BY e.id LIMIT $3";
}

/// The result for one page.
#[derive(Debug, Default)]
pub struct Looked<K> {
    /// The key after which the next page starts. `None` after the last page.
    pub last: Option<K>,
    /// Descriptions for the operator.
    pub problems: Vec<String>,
}

/// Checks that the index finds the events after this number by their ids and terms.
pub fn events(db: &mut impl Read, after: i64) -> Result<Looked<i64>, StoreError> {
    let after = after.max(event::kept_after(db)?.sequence);
    let page = event::after(db, after, i64::MAX, PAGE_ROWS)?;
    let misnumbered = page.iter().filter(|event| event.id.number() != event.sequence);
    let mut problems: Vec<_> =
        misnumbered.map(|event| format!("event {} is not found by its id", event.sequence)).collect();
    problems.extend(terms::check(db, &page, after)?);
    Ok(Looked { last: page.last().map(|event| event.sequence), problems })
}

/// Checks the session counters of the environments after this id.
pub fn environments(db: &mut impl Read, after: &str) -> Result<Looked<String>, StoreError> {
    let mut page = Looked::default();
    let rows: Vec<(String, i64, i64)> = db.fetch_all(&ENVIRONMENTS, &[after.into(), PAGE_ROWS.into()])?;
    for (id, wanted, found) in rows {
        if wanted != found {
            page.problems.push(format!("{id} has {found} of {wanted} sessions"));
        }
        page.last = Some(id);
    }
    Ok(page)
}
