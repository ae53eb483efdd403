//! The search index of the audit log: maps each search term to the events that have it.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::event::{Actor, Event, EventSubject};

use crate::error::StoreError;
use crate::sql::value::SqlValue;
use crate::sql::{QueuedWrite, statements};
use crate::tx::{StoreRead, Tx};

/// Number of terms that one statement writes.
const WRITTEN_AT_ONCE: usize = 8;

/// Up to how many events of a term are counted. Terms with more events are all frequent.
const COUNTED_EVENTS_MAX: i64 = 2_000;

/// Kinds of subjects that events can be searched by.
const SUBJECTS: [&str; 3] = ["deployment", "environment", "pipeline"];

statements! {
    // Inserts [`WRITTEN_AT_ONCE`] terms. A shorter list is padded by repeating its last term.
    Org Upkeep PUT_TERMS = "INSERT INTO terms (org_id, term) VALUES
          ($1, $2), ($1, $3), ($1, $4), ($1, $5), ($1, $6), ($1, $7), ($1, $8), ($1, $9)
        ON CONFLICT (org_id, term) DO NOTHING";
    Org Upkeep PUT = "INSERT INTO event_terms (term_id, sequence)
        SELECT id, CAST($2 AS BIGINT) FROM terms
        WHERE org_id = $1 AND term IN ($3, $4, $5, $6, $7, $8, $9, $10)
        ON CONFLICT (term_id, sequence) DO NOTHING";
    Org Read TERM_ID = "SELECT id FROM terms WHERE org_id = $1 AND term = $2";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT e.sequence FROM terms t
        JOIN event_terms e ON e.term_id = t.id WHERE t.org_id = $1 AND t.id = $2 LIMIT $3) AS counted";
    Org Read BETWEEN = "SELECT e.sequence FROM terms t JOIN event_terms e ON e.term_id = t.id
        WHERE t.org_id = $1 AND t.term = $2 AND e.sequence > $3 AND e.sequence <= $4";
    Org Upkeep REMOVE = "DELETE FROM event_terms WHERE sequence <= $3 AND term_id =
        (SELECT id FROM terms WHERE org_id = $1 AND term = $2)";
    Org Upkeep REMOVE_UNUSED = "DELETE FROM terms WHERE org_id = $1 AND term = $2
        AND NOT EXISTS (SELECT 1 FROM event_terms e WHERE e.term_id = terms.id)";
}

/// A search term such as `kind:step_failed`, in the form in which it is stored.
pub(crate) fn term(kind: &str, value: &str) -> String {
    [kind, ":", value].concat()
}

pub(crate) fn terms_of(kind: &str, actor: &Actor, subjects: &[EventSubject]) -> BTreeSet<String> {
    let mut terms = BTreeSet::from([term("kind", kind)]);
    terms.extend(actor.id.map(|id| term("actor", &id.to_string())));
    let searched = subjects.iter().filter(|subject| SUBJECTS.contains(&subject.kind.as_str()));
    terms.extend(searched.map(|subject| term(&subject.kind, &subject.id)));
    terms
}

/// Adds an event to the index. Usually all of its terms are in the `terms` table already, so that one statement is
/// enough.
pub(crate) fn put(tx: &mut Tx<'_>, event: &Event) -> Result<(), StoreError> {
    let terms: Vec<String> = terms_of(&event.kind, &event.actor, &event.subjects).into_iter().collect();
    for terms in terms.chunks(WRITTEN_AT_ONCE) {
        let padded = (0..WRITTEN_AT_ONCE).map(|at| SqlValue::from(terms[at.min(terms.len() - 1)].as_str()));
        let mut params = vec![SqlValue::from(event.sequence)];
        params.extend(padded);
        let all = 0..params.len();
        let write = QueuedWrite::new(&PUT, params, terms.len() as u64);
        tx.queue(write.or_else(&PUT_TERMS, 1..all.end).or_else(&PUT, all))?;
    }
    Ok(())
}

/// The id of a term. `None` if the term is not stored, because no event has it.
pub(crate) fn id_of(db: &mut impl StoreRead, term: &str) -> Result<Option<i64>, StoreError> {
    db.fetch_optional(&TERM_ID, &[term.into()])
}

/// Sorts the ids of terms by their number of events, fewest first. Frequent terms stay in their order.
pub(crate) fn sort_by_rarity(db: &mut impl StoreRead, ids: &mut [i64]) -> Result<(), StoreError> {
    let mut counts = BTreeMap::new();
    for id in ids.iter() {
        counts.insert(*id, db.fetch_count(&COUNT, &[(*id).into(), COUNTED_EVENTS_MAX.into()])?);
    }
    ids.sort_by_key(|id| counts.get(id).copied());
    Ok(())
}

/// Removes the events up to number `through` from the index. `events` must be all of them that are still indexed.
pub(crate) fn remove(tx: &mut Tx<'_>, events: &[Event], through: i64) -> Result<(), StoreError> {
    let terms = events.iter().flat_map(|event| terms_of(&event.kind, &event.actor, &event.subjects));
    for term in terms.collect::<BTreeSet<_>>() {
        tx.execute(&REMOVE, &[term.as_str().into(), through.into()])?;
        tx.execute(&REMOVE_UNUSED, &[term.into()])?;
    }
    Ok(())
}

/// Checks that consecutive events are indexed under their terms, and returns a description of each difference.
pub(crate) fn check(
    db: &mut impl StoreRead,
    events: &[Event],
    after: i64,
) -> Result<Vec<String>, StoreError> {
    let Some(through) = events.last().map(|event| event.sequence) else { return Ok(Vec::new()) };
    let mut wanted: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    for event in events {
        for term in terms_of(&event.kind, &event.actor, &event.subjects) {
            wanted.entry(term).or_default().insert(event.sequence);
        }
    }
    let mut problems = Vec::new();
    for (term, wanted) in wanted {
        let params = [term.as_str().into(), after.into(), through.into()];
        let found: BTreeSet<i64> = db.fetch_all(&BETWEEN, &params)?.into_iter().collect();
        if let Some(lost) = wanted.difference(&found).next() {
            problems.push(format!("event {lost} is not indexed under {term}"));
        }
        if let Some(odd) = found.difference(&wanted).next() {
            problems.push(format!("event {odd} is indexed under {term}, which it does not have"));
        }
    }
    Ok(problems)
}
