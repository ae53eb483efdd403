//! The audit history: newest first for people, oldest first for followers, exports and checks.

use berth_core::event::Event;
use berth_core::id::EventId;
use berth_core::time::Timestamp;

use super::{From, Slice};
use crate::chain::{Head, Sealed};
use crate::error::StoreError;
use crate::event_terms::{self, term, terms_of};
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Row, Value, text, to_json};

statements! {
    Org Read BY_ID = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash
        FROM events WHERE org_id = $1 AND id = $2 AND sequence = $3";
    Org Read NEWEST = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash FROM events
        WHERE org_id = $1 AND sequence < $2 AND occurred_at >= $3 AND occurred_at < $4
        ORDER BY sequence DESC LIMIT $5 OFFSET $6";
    // The first term leads, and the events that have it are looked up in the index of the others.
    Org Read ABOUT = "SELECT e.org_id, e.sequence, e.id, e.kind, e.occurred_at, e.actor, e.request_id, e.subjects, e.data,
          e.previous_hash, e.hash
        FROM event_terms a JOIN events e ON e.org_id = $1 AND e.sequence = a.sequence
        WHERE a.term_id = $2 AND a.sequence < $3 AND e.occurred_at >= $4 AND e.occurred_at < $5
          AND (CAST($6 AS BIGINT) IS NULL OR EXISTS
            (SELECT 1 FROM event_terms b WHERE b.term_id = $6 AND b.sequence = a.sequence))
          AND (CAST($7 AS BIGINT) IS NULL OR EXISTS
            (SELECT 1 FROM event_terms c WHERE c.term_id = $7 AND c.sequence = a.sequence))
          AND (CAST($8 AS BIGINT) IS NULL OR EXISTS
            (SELECT 1 FROM event_terms d WHERE d.term_id = $8 AND d.sequence = a.sequence))
          AND (CAST($9 AS BIGINT) IS NULL OR EXISTS
            (SELECT 1 FROM event_terms f WHERE f.term_id = $9 AND f.sequence = a.sequence))
        ORDER BY a.sequence DESC LIMIT $10 OFFSET $11";
    Org Read AFTER = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash
        FROM events WHERE org_id = $1 AND sequence > $2 AND sequence <= $3 ORDER BY sequence LIMIT $4";
    Org Read LAST = "SELECT sequence FROM events WHERE org_id = $1 ORDER BY sequence DESC LIMIT 1";
    Org Read HEAD = "SELECT sequence, hash FROM event_heads WHERE org_id = $1";
    // Where the kept part begins.
    Org Read KEPT = "SELECT kept_after, kept_hash FROM event_heads WHERE org_id = $1";
}

/// All that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub kind: Option<String>,
    pub actor: Option<String>,
    pub pipeline: Option<String>,
    pub deployment: Option<String>,
    pub environment: Option<String>,
    /// From this time on.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
}

impl Filter {
    /// The rarest terms first: the first one leads the search.
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

    /// Whether the list with this filter would show the event.
    pub fn matches(&self, event: &Event) -> bool {
        let found = terms_of(&event.kind, &event.actor, &event.subjects);
        self.terms().iter().all(|wanted| found.contains(wanted)) && self.is_in_time(event)
    }

    fn is_in_time(&self, event: &Event) -> bool {
        self.since.is_none_or(|since| event.occurred_at >= since)
            && self.until.is_none_or(|until| event.occurred_at < until)
    }

    /// From the first one on, before the second.
    fn times(&self) -> [i64; 2] {
        [self.since.map_or(i64::MIN, Timestamp::as_micros), self.until.map_or(i64::MAX, Timestamp::as_micros)]
    }

    /// The ids of its terms, then nulls. `None`: no event has all of them.
    fn term_ids(&self, db: &mut impl Read) -> Result<Option<[Value; 5]>, StoreError> {
        let mut ids = [const { Value::Null }; 5];
        for (slot, term) in ids.iter_mut().zip(self.terms()) {
            let Some(id) = event_terms::id_of(db, &term)? else { return Ok(None) };
            *slot = id.into();
        }
        Ok(Some(ids))
    }

    fn is_empty(&self) -> bool {
        self.terms().is_empty() && self.since.is_none() && self.until.is_none()
    }
}

fn read(row: &Row) -> Result<Event, StoreError> {
    Ok(Event {
        org: row.parse(0)?,
        sequence: row.int(1)?,
        id: row.parse(2)?,
        kind: row.text(3)?.to_owned(),
        occurred_at: row.time(4)?,
        actor: row.json(5)?,
        request_id: row.maybe(6, Row::text)?.map(str::to_owned),
        subjects: row.json(7)?,
        data: row.json(8)?,
        previous_hash: row.text(9)?.to_owned(),
        hash: row.text(10)?.to_owned(),
    })
}

pub fn by_id(db: &mut impl Read, id: EventId) -> Result<Option<Event>, StoreError> {
    db.row(&BY_ID, &[text(id), id.number().into()])?.as_ref().map(read).transpose()
}

/// The total is told when it is asked for and known without counting: events go from the oldest on.
pub fn list(
    db: &mut impl Read,
    filter: &Filter,
    from: &From,
    limit: i64,
    with_total: bool,
) -> Result<Slice<Event>, StoreError> {
    let (before, offset) = match from {
        From::Offset(offset) => (i64::MAX, *offset),
        From::After(sequence) => (sequence.parse().unwrap_or(0), 0),
    };
    let [since, until] = filter.times();
    let (before, since, until) = (before.into(), since.into(), until.into());
    let (limit_and_one, offset) = ((limit + 1).into(), offset.into());
    let rows = match filter.term_ids(db)? {
        None => Vec::new(),
        Some([Value::Null, ..]) => db.rows(&NEWEST, &[before, since, until, limit_and_one, offset])?,
        Some([a, b, c, d, e]) => {
            db.rows(&ABOUT, &[a, before, since, until, b, c, d, e, limit_and_one, offset])?
        }
    };
    let found = rows.iter().map(read).collect::<Result<_, _>>()?;
    let total = if with_total && filter.is_empty() { Some(kept_count(db)?) } else { None };
    Ok(Slice::cut(found, limit, total))
}

/// The last event's number and hash, as they were noted when it was recorded.
pub fn head(db: &mut impl Read) -> Result<Head, StoreError> {
    let Some(row) = db.row(&HEAD, &[])? else { return Ok(Head::start()) };
    Ok(Head { sequence: row.int(0)?, hash: row.text(1)?.to_owned() })
}

/// The last event that was removed because it was old, or what stands before the first one: the kept part follows it.
pub fn kept_after(db: &mut impl Read) -> Result<Head, StoreError> {
    let Some(row) = db.row(&KEPT, &[])? else { return Ok(Head::start()) };
    Ok(Head { sequence: row.int(0)?, hash: row.text(1)?.to_owned() })
}

fn kept_count(db: &mut impl Read) -> Result<i64, StoreError> {
    Ok(head(db)?.sequence - kept_after(db)?.sequence)
}

/// Events after one and up to another, oldest first.
pub fn after(db: &mut impl Read, sequence: i64, upto: i64, limit: i64) -> Result<Vec<Event>, StoreError> {
    db.rows(&AFTER, &[sequence.into(), upto.into(), limit.into()])?.iter().map(read).collect()
}

/// A stored row as the check of the chain sees it.
#[derive(Debug)]
pub enum Link {
    Sealed(Sealed),
    /// Nobody but this program writes rows, and it writes none that cannot be read.
    Unreadable {
        sequence: i64,
        why: String,
    },
}

impl Link {
    pub fn sequence(&self) -> i64 {
        match self {
            Link::Sealed(sealed) => sealed.sequence,
            Link::Unreadable { sequence, .. } => *sequence,
        }
    }
}

/// Like [`after`], but a row that is not as this program writes it is told, not an error.
pub fn links(db: &mut impl Read, sequence: i64, upto: i64, limit: i64) -> Result<Vec<Link>, StoreError> {
    let rows = db.rows(&AFTER, &[sequence.into(), upto.into(), limit.into()])?;
    rows.iter().map(|row| Ok(link(row.int(1)?, row))).collect()
}

fn link(sequence: i64, row: &Row) -> Link {
    let unreadable = |why: String| Link::Unreadable { sequence, why };
    let event = match read(row) {
        Ok(event) => event,
        Err(error) => return unreadable(error.to_string()),
    };
    if event.occurred_at != event.occurred_at.whole_millis() {
        return unreadable("its time is not in whole milliseconds".into());
    }
    let as_written = |column, again: Result<String, StoreError>| {
        again.is_ok_and(|again| row.text(column).is_ok_and(|text| text == again))
    };
    let same = as_written(5, to_json(&event.actor))
        && as_written(7, to_json(&event.subjects))
        && as_written(8, to_json(&event.data));
    if !same {
        return unreadable("its JSON is not as it was written".into());
    }
    Sealed::of(&event).map_or_else(|error| unreadable(error.to_string()), Link::Sealed)
}

/// The highest number of any stored event. `None` where it is not even a number.
pub fn last(db: &mut impl Read) -> Result<Option<i64>, StoreError> {
    Ok(db.row(&LAST, &[])?.map_or(Some(0), |row| row.int(0).ok()))
}
