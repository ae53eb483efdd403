//! Events of the audit log. Users see them newest first; followers, exports and verification read them oldest first.

use std::ops::Range;

use berth_core::event::{Event, EventSubject};
use berth_core::id::EventId;
use berth_core::time::Timestamp;

use crate::audit::terms::{self, term, terms_of};
use crate::audit::{AuditHead, SealedEvent};
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::{SqlRow, SqlValue, text, to_json};
use crate::sql::{TableRow as _, from_row, json_columns, sql, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org Event in events {
    key: [],
    insert: [sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash],
    read: [org: org_id],
});
json_columns!(Vec<EventSubject>);
from_row!(AuditHead { sequence, hash });

/// By how much the times of events may be out of order, in seconds. The clocks of servers and databases differ, and can be
/// set back.
const CLOCK_SKEW_S_MAX: i64 = 600;

/// Positions of the columns that verification reads as raw values.
const SEQUENCE: usize = 0;
const ACTOR: usize = 4;
const SUBJECTS: usize = 6;
const DATA: usize = 7;

statements! {
    Org Upkeep APPEND => Event::TABLE.insert("");
    Org Read BY_ID => Event::TABLE.select("WHERE org_id = $1 AND id = $2 AND sequence = $3");
    Org Read NEWEST => Event::TABLE.select("WHERE org_id = $1 AND occurred_at >= $2 AND occurred_at < $3
        AND sequence >= $4 AND sequence < $5 ORDER BY sequence DESC LIMIT $6 OFFSET $7");
    // The first term selects the events; the other terms are checked with one index lookup each.
    Org Read ABOUT => sql("SELECT ").columns(&Event::TABLE, "e").then("
        FROM event_terms a JOIN events e ON e.org_id = $1 AND e.sequence = a.sequence
        WHERE a.term_id = $2 AND e.occurred_at >= $3 AND e.occurred_at < $4
          AND (CAST($5 AS BIGINT) IS NULL OR EXISTS
            (SELECT 1 FROM event_terms b WHERE b.term_id = $5 AND b.sequence = a.sequence))
          AND (CAST($6 AS BIGINT) IS NULL OR EXISTS
            (SELECT 1 FROM event_terms c WHERE c.term_id = $6 AND c.sequence = a.sequence))
          AND (CAST($7 AS BIGINT) IS NULL OR EXISTS
            (SELECT 1 FROM event_terms d WHERE d.term_id = $7 AND d.sequence = a.sequence))
          AND (CAST($8 AS BIGINT) IS NULL OR EXISTS
            (SELECT 1 FROM event_terms f WHERE f.term_id = $8 AND f.sequence = a.sequence))
          AND a.sequence >= $9 AND a.sequence < $10
        ORDER BY a.sequence DESC LIMIT $11 OFFSET $12");
    Org Read TIME = "SELECT occurred_at FROM events WHERE org_id = $1 AND sequence = $2";
    Org Read AFTER => Event::TABLE.select(
        "WHERE org_id = $1 AND sequence > $2 AND sequence <= $3 ORDER BY sequence LIMIT $4");
    Org Read LAST = "SELECT sequence FROM events WHERE org_id = $1 ORDER BY sequence DESC LIMIT 1";
    Org Read HEAD = "SELECT sequence, hash FROM event_heads WHERE org_id = $1";
    // Number and hash of the last event that retention removed.
    Org Read KEPT = "SELECT kept_after, kept_hash FROM event_heads WHERE org_id = $1";
}

/// An event matches if it meets all conditions that are set.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    pub kind: Option<String>,
    pub actor: Option<String>,
    pub pipeline: Option<String>,
    pub deployment: Option<String>,
    pub environment: Option<String>,
    /// Inclusive.
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
}

impl EventFilter {
    /// The search terms of the filter, usually rarest first.
    fn terms(&self) -> Vec<String> {
        let given = [
            ("deployment", &self.deployment),
            ("environment", &self.environment),
            ("pipeline", &self.pipeline),
            ("actor", &self.actor),
            ("kind", &self.kind),
        ];
        given.iter().filter_map(|(kind, value)| value.as_ref().map(|value| term(kind, value))).collect()
    }

    /// Whether a list with this filter contains the event.
    pub fn matches(&self, event: &Event) -> bool {
        let found = terms_of(&event.kind, &event.actor, &event.subjects);
        self.terms().iter().all(|wanted| found.contains(wanted))
            && self.since.is_none_or(|since| event.occurred_at >= since)
            && self.until.is_none_or(|until| event.occurred_at < until)
    }

    /// The ids of the filter's terms, rarest first, because the first one drives the query. Padded with NULL. `None` if
    /// some term has no events, in which case nothing can match.
    fn term_ids(&self, db: &mut impl StoreRead) -> Result<Option<[SqlValue; 5]>, StoreError> {
        let mut ids = Vec::new();
        for term in self.terms() {
            let Some(id) = terms::id_of(db, &term)? else { return Ok(None) };
            ids.push(id);
        }
        if ids.len() > 1 {
            terms::sort_by_rarity(db, &mut ids)?;
        }
        let mut params = [const { SqlValue::Null }; 5];
        for (param, id) in params.iter_mut().zip(ids) {
            *param = id.into();
        }
        Ok(Some(params))
    }

    fn is_empty(&self) -> bool {
        self.terms().is_empty() && self.since.is_none() && self.until.is_none()
    }
}

pub fn by_id(db: &mut impl StoreRead, id: EventId) -> Result<Option<Event>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id), id.number().into()])
}

pub(crate) fn insert(tx: &mut Tx<'_>, event: &Event) -> Result<(), StoreError> {
    tx.put(&APPEND, event)
}

/// Lists events, newest first. The total is returned only without a filter, where it is known without counting.
pub fn list(
    db: &mut impl StoreRead,
    filter: &EventFilter,
    from: &PageStart,
    limit: i64,
    with_total: bool,
) -> Result<ListPage<Event>, StoreError> {
    let since = filter.since.map_or(i64::MIN, Timestamp::as_micros).into();
    let until = filter.until.map_or(i64::MAX, Timestamp::as_micros).into();
    let range = find_range(db, filter)?;
    let (first, start) = (range.start.into(), from.by_number_before(range.end));
    let page = match filter.term_ids(db)? {
        None => ListPage::from_rows(Vec::new(), limit, None),
        Some([SqlValue::Null, ..]) => fetch_page(db, &NEWEST, &[since, until, first], start, limit)?,
        Some([a, b, c, d, e]) => fetch_page(db, &ABOUT, &[a, since, until, b, c, d, e, first], start, limit)?,
    };
    let total = if with_total && filter.is_empty() { Some(retained_count(db)?) } else { None };
    Ok(page.with_total(total))
}

/// The numbers of the events among which all that the filter's times allow are found, so that other events are not read.
fn find_range(db: &mut impl StoreRead, filter: &EventFilter) -> Result<Range<i64>, StoreError> {
    let start = match filter.since {
        Some(since) => find_first_at(db, since.plus_seconds(-CLOCK_SKEW_S_MAX))?,
        None => None,
    };
    let end = match filter.until {
        Some(until) => find_first_at(db, until.plus_seconds(CLOCK_SKEW_S_MAX))?,
        None => None,
    };
    Ok(start.unwrap_or(0)..end.unwrap_or(i64::MAX))
}

/// Finds the number of an event at or after this time whose predecessor happened before it, by binary search. `None` if
/// an event is missing, because something other than Berth has removed it.
fn find_first_at(db: &mut impl StoreRead, at: Timestamp) -> Result<Option<i64>, StoreError> {
    let (mut low, mut high) = (retained_after(db)?.sequence + 1, chain_head(db)?.sequence + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let time: Option<Timestamp> = db.fetch_optional(&TIME, &[middle.into()])?;
        match time {
            None => return Ok(None),
            Some(time) if time < at => low = middle + 1,
            Some(_) => high = middle,
        }
    }
    Ok(Some(low))
}

/// Number and hash of the last event, as stored when the event was appended.
pub fn chain_head(db: &mut impl StoreRead) -> Result<AuditHead, StoreError> {
    Ok(db.fetch_optional(&HEAD, &[])?.unwrap_or_else(AuditHead::start))
}

/// Number and hash of the last event that retention removed, or the start of the chain if none was removed.
pub fn retained_after(db: &mut impl StoreRead) -> Result<AuditHead, StoreError> {
    Ok(db.fetch_optional(&KEPT, &[])?.unwrap_or_else(AuditHead::start))
}

fn retained_count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    Ok(chain_head(db)?.sequence - retained_after(db)?.sequence)
}

/// Events with numbers above `sequence` and up to `upto`, oldest first.
pub fn list_after(
    db: &mut impl StoreRead,
    sequence: i64,
    upto: i64,
    limit: i64,
) -> Result<Vec<Event>, StoreError> {
    db.fetch_all(&AFTER, &[sequence.into(), upto.into(), limit.into()])
}

/// A stored event, as needed for verifying the hash chain.
#[derive(Debug)]
pub enum ChainLink {
    Sealed(SealedEvent),
    /// A row that cannot be read as an event, so something other than Berth wrote it.
    Unreadable {
        sequence: i64,
        why: String,
    },
}

impl ChainLink {
    pub fn sequence(&self) -> i64 {
        match self {
            ChainLink::Sealed(sealed) => sealed.sequence,
            ChainLink::Unreadable { sequence, .. } => *sequence,
        }
    }
}

/// Like [`list_after`], but returns rows that were tampered with instead of failing.
pub fn list_chain_links(
    db: &mut impl StoreRead,
    sequence: i64,
    upto: i64,
    limit: i64,
) -> Result<Vec<ChainLink>, StoreError> {
    let rows = db.rows(&AFTER, &[sequence.into(), upto.into(), limit.into()])?;
    rows.into_iter().map(|row| Ok(read_chain_link(row.int(SEQUENCE)?, row))).collect()
}

fn read_chain_link(sequence: i64, row: SqlRow) -> ChainLink {
    let unreadable = |why: String| ChainLink::Unreadable { sequence, why };
    let stored = [ACTOR, SUBJECTS, DATA].map(|column| row.text(column).map(str::to_owned).ok());
    let event: Event = match row.read() {
        Ok(event) => event,
        Err(error) => return unreadable(error.to_string()),
    };
    if event.occurred_at != event.occurred_at.whole_millis() {
        return unreadable("its time is not in whole milliseconds".into());
    }
    let written = [to_json(&event.actor), to_json(&event.subjects), to_json(&event.data)].map(Result::ok);
    if stored != written {
        return unreadable("its JSON is not as it was written".into());
    }
    SealedEvent::from_event(&event).map_or_else(|error| unreadable(error.to_string()), ChainLink::Sealed)
}

/// The highest sequence number of a stored event. `None` if the column contains something other than a number.
pub fn last_sequence(db: &mut impl StoreRead) -> Result<Option<i64>, StoreError> {
    Ok(db.row(&LAST, &[])?.map_or(Some(0), |row| row.int(0).ok()))
}
