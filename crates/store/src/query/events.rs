//! The audit history, newest first.

use berth_core::event::Event;
use berth_core::id::EventId;
use berth_core::time::Timestamp;

use super::{From, Slice};
use crate::error::StoreError;
use crate::sql::statements;
use crate::trail::term;
use crate::tx::Read;
use crate::value::{Row, Value, text};

statements! {
    Org Read BY_ID = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data
        FROM events WHERE org_id = $1 AND id = $2";
    Org Read NEWEST = "SELECT org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data FROM events
        WHERE org_id = $1 AND sequence < $2 AND occurred_at >= $3 AND occurred_at < $4
        ORDER BY sequence DESC LIMIT $5 OFFSET $6";
    // The first term leads; the others are looked up for each row it gives.
    Org Read NEWEST_ABOUT = "SELECT e.org_id, e.sequence, e.id, e.kind, e.occurred_at, e.actor, e.request_id, e.subjects, e.data
        FROM event_index i JOIN events e ON e.org_id = i.org_id AND e.sequence = i.sequence
        WHERE i.org_id = $1 AND i.sequence < $2 AND e.occurred_at >= $3 AND e.occurred_at < $4 AND i.term = $7
          AND (CAST($8 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM event_index x
            WHERE x.org_id = i.org_id AND x.term = $8 AND x.sequence = i.sequence))
          AND (CAST($9 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM event_index x
            WHERE x.org_id = i.org_id AND x.term = $9 AND x.sequence = i.sequence))
          AND (CAST($10 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM event_index x
            WHERE x.org_id = i.org_id AND x.term = $10 AND x.sequence = i.sequence))
          AND (CAST($11 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM event_index x
            WHERE x.org_id = i.org_id AND x.term = $11 AND x.sequence = i.sequence))
        ORDER BY i.sequence DESC LIMIT $5 OFFSET $6";
    Org Read HEAD = "SELECT sequence FROM event_heads WHERE org_id = $1";
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
    })
}

pub fn by_id(db: &mut impl Read, id: EventId) -> Result<Option<Event>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

/// The total is told when it is asked for and known without counting: events are never removed.
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
    let mut params: Vec<Value> = vec![
        before.into(),
        filter.since.map_or(i64::MIN, Timestamp::as_micros).into(),
        filter.until.map_or(i64::MAX, Timestamp::as_micros).into(),
        (limit + 1).into(),
        offset.into(),
    ];
    let terms = filter.terms();
    let rows = if terms.is_empty() {
        db.rows(&NEWEST, &params)?
    } else {
        let mut terms = terms.into_iter();
        params.extend((0..5).map(|_| Value::from(terms.next())));
        db.rows(&NEWEST_ABOUT, &params)?
    };
    let total = if with_total && filter.is_empty() {
        Some(db.row(&HEAD, &[])?.map_or(Ok(0), |row| row.int(0))?)
    } else {
        None
    };
    Ok(Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, total))
}
