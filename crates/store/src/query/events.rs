//! The audit history: newest first for people, oldest first for followers, exports and checks.

use berth_core::event::Event;
use berth_core::id::EventId;
use berth_core::time::Timestamp;

use super::{From, Slice};
use crate::chain::{Head, Sealed};
use crate::error::StoreError;
use crate::event_lists::Search;
use crate::sql::statements;
use crate::trail::{term, terms};
use crate::tx::Read;
use crate::value::{Row, Value, text, to_json};

/// Events that are read by their numbers in one statement.
const FETCHED_AT_ONCE: usize = 32;

statements! {
    Org Read BY_ID = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash
        FROM events WHERE org_id = $1 AND id = $2 AND sequence = $3";
    Org Read NEWEST = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash FROM events
        WHERE org_id = $1 AND sequence < $2 AND occurred_at >= $3 AND occurred_at < $4
        ORDER BY sequence DESC LIMIT $5 OFFSET $6";
    // As many as FETCHED_AT_ONCE; numbers that no event has find nothing.
    Org Read THESE = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash
        FROM events WHERE org_id = $1 AND sequence IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
          $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33)
        ORDER BY sequence DESC";
    Org Read AFTER = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash
        FROM events WHERE org_id = $1 AND sequence > $2 AND sequence <= $3 ORDER BY sequence LIMIT $4";
    Org Read LAST = "SELECT sequence FROM events WHERE org_id = $1 ORDER BY sequence DESC LIMIT 1";
    Org Read HEAD = "SELECT sequence, hash FROM event_heads WHERE org_id = $1";
    Org Read STANDS = "SELECT sequence, hash, indexed FROM event_heads WHERE org_id = $1";
    // Where the kept part begins.
    Org Read KEPT = "SELECT kept_after, kept_hash FROM event_heads WHERE org_id = $1";
    // Where the lists begin and end.
    Org Read LISTED = "SELECT kept_after, indexed FROM event_heads WHERE org_id = $1";
    // Those that are in no list yet.
    Org Read TAIL = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash
        FROM events WHERE org_id = $1 AND sequence > $2 AND sequence < $3 ORDER BY sequence DESC";
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
        let found = terms(&event.kind, &event.actor, &event.subjects);
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

    /// Whether it is worth reading: most of the last events are about something else, and an id stands in JSON as it is.
    fn may_match(&self, row: &Row) -> Result<bool, StoreError> {
        let [kind, actor, subjects] = [row.text(3)?, row.text(5)?, row.text(7)?];
        let has = |text: &str, id: &Option<String>| id.as_deref().is_none_or(|id| text.contains(id));
        Ok(self.kind.as_deref().is_none_or(|wanted| wanted == kind)
            && has(actor, &self.actor)
            && [&self.deployment, &self.environment, &self.pipeline].iter().all(|id| has(subjects, id)))
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
    let terms = filter.terms();
    let found = if terms.is_empty() {
        let [since, until] = filter.times();
        let params = [before.into(), since.into(), until.into(), (limit + 1).into(), offset.into()];
        db.rows(&NEWEST, &params)?.iter().map(read).collect::<Result<_, _>>()?
    } else {
        about(db, filter, terms, before, (limit + 1, offset))?
    };
    let total = if with_total && filter.is_empty() { Some(kept_count(db)?) } else { None };
    Ok(Slice::cut(found, limit, total))
}

/// First those of the last events that match, then those that the lists name.
fn about(
    db: &mut impl Read,
    filter: &Filter,
    terms: Vec<String>,
    before: i64,
    (limit, offset): (i64, i64),
) -> Result<Vec<Event>, StoreError> {
    let [limit, mut to_skip] = [limit, offset].map(|count| usize::try_from(count).unwrap_or(0));
    let (kept_after, indexed) = listed(db)?;
    let mut found = tail(db, filter, indexed, before)?;
    let skipped = to_skip.min(found.len());
    found.drain(..skipped);
    to_skip -= skipped;
    let mut search = Search::new(terms, before, kept_after, filter.times());
    // What is passed over has to be read only where its time decides whether it counts.
    if filter.since.is_none() && filter.until.is_none() {
        search.take(db, std::mem::take(&mut to_skip))?;
    }
    while found.len() < limit {
        let numbers = search.take(db, (to_skip + limit - found.len()).min(FETCHED_AT_ONCE))?;
        if numbers.is_empty() {
            break;
        }
        let fetched = these(db, &numbers)?.into_iter().filter(|event| filter.is_in_time(event));
        for event in fetched {
            if to_skip > 0 {
                to_skip -= 1;
            } else {
                found.push(event);
            }
        }
    }
    Ok(found)
}

/// Those of the last events that match, newest first.
fn tail(db: &mut impl Read, filter: &Filter, indexed: i64, before: i64) -> Result<Vec<Event>, StoreError> {
    let mut found = Vec::new();
    for row in db.rows(&TAIL, &[indexed.into(), before.into()])? {
        if !filter.may_match(&row)? {
            continue;
        }
        let event = read(&row)?;
        if filter.matches(&event) {
            found.push(event);
        }
    }
    Ok(found)
}

fn these(db: &mut impl Read, numbers: &[i64]) -> Result<Vec<Event>, StoreError> {
    let mut params: Vec<Value> = numbers.iter().map(|number| (*number).into()).collect();
    params.resize(FETCHED_AT_ONCE, 0.into());
    db.rows(&THESE, &params)?.iter().map(read).collect()
}

/// The events after the first number, up to the second, are in lists.
pub(super) fn listed(db: &mut impl Read) -> Result<(i64, i64), StoreError> {
    db.row(&LISTED, &[])?.map_or(Ok((0, 0)), |row| Ok((row.int(0)?, row.int(1)?)))
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

/// The head, and up to where everything is in lists.
pub(crate) fn stands(db: &mut impl Read) -> Result<(Head, i64), StoreError> {
    let Some(row) = db.row(&STANDS, &[])? else { return Ok((Head::start(), 0)) };
    Ok((Head { sequence: row.int(0)?, hash: row.text(1)?.to_owned() }, row.int(2)?))
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
