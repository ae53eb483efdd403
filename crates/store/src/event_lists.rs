//! What events are found by: for each term, lists of their numbers.
//!
//! A row holds many numbers: the highest, and the steps down from it to the others. The rows of a term follow each other, so
//! that a number is in the first row that ends at or after it, or in none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use berth_core::id::OrgId;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::{Conn, Statement, statements};
use crate::tx::{READ_S_MAX, Read, Tx, took_too_long};
use crate::value::{Row, Value, text};

/// Numbers in one row: it has to stay short beside a page.
const NUMBERS_MAX: usize = 200;

/// Rows in one statement: each is a way to the database and back, and whoever commits next waits for all.
const WRITTEN_AT_ONCE: usize = 8;

/// Rows that are read at first, and at most at once. Most searches end after the first few.
const READ_FIRST: i64 = 4;
const READ_MAX: i64 = 128;

statements! {
    Instance Upkeep INSERT = "INSERT INTO event_lists (org_id, term, last, steps, earliest, latest)
        VALUES ($1, $2, $3, $4, $5, $6)";
    // As many as WRITTEN_AT_ONCE.
    Instance Upkeep INSERT_MANY = "INSERT INTO event_lists (org_id, term, last, steps, earliest, latest) VALUES
          ($1, $2, $3, $4, $5, $6), ($1, $7, $8, $9, $10, $11),
          ($1, $12, $13, $14, $15, $16), ($1, $17, $18, $19, $20, $21),
          ($1, $22, $23, $24, $25, $26), ($1, $27, $28, $29, $30, $31),
          ($1, $32, $33, $34, $35, $36), ($1, $37, $38, $39, $40, $41)";
    // The row that a number would be in, and those before it.
    Org Read DOWN_FROM = "SELECT last, steps FROM
          (SELECT last, steps FROM event_lists WHERE org_id = $1 AND term = $2 AND last >= $3
            ORDER BY last LIMIT 1) AS upper
        UNION ALL SELECT last, steps FROM
          (SELECT last, steps FROM event_lists WHERE org_id = $1 AND term = $2 AND last < $3
            AND latest >= $4 AND earliest < $5 ORDER BY last DESC LIMIT $6) AS lower";
    Org Read UP_FROM = "SELECT last, steps, earliest, latest FROM event_lists
        WHERE org_id = $1 AND term = $2 AND last > $3 ORDER BY last LIMIT 1";
    Org Upkeep REMOVE = "DELETE FROM event_lists WHERE org_id = $1 AND term = $2 AND last <= $3";
}

/// An event that is in no list yet.
#[derive(Debug)]
pub(crate) struct Unlisted {
    pub(crate) sequence: i64,
    pub(crate) at: Timestamp,
    pub(crate) terms: Vec<String>,
}

/// The numbers of one term, from the lowest on, and their times.
type Found = Vec<(i64, Timestamp)>;

/// Writes the lists of events that follow each other, in the order in which the lists lie.
pub(crate) fn write(conn: &mut dyn Conn, org: OrgId, events: &[Unlisted]) -> Result<(), StoreError> {
    let mut lists: BTreeMap<&str, Found> = BTreeMap::new();
    for event in events {
        for term in &event.terms {
            let list = lists.entry(term).or_default();
            if list.last().is_none_or(|(last, _)| *last != event.sequence) {
                list.push((event.sequence, event.at));
            }
        }
    }
    let rows: Vec<[Value; 5]> = lists
        .iter()
        .flat_map(|(term, list)| list.chunks(NUMBERS_MAX).filter_map(|numbers| packed(term, numbers)))
        .collect();
    let org = text(org);
    let (many, rest) = rows.as_chunks::<WRITTEN_AT_ONCE>();
    let mut insert = |statement: &Statement, rows: &[[Value; 5]]| {
        let params: Vec<&Value> = std::iter::once(&org).chain(rows.iter().flatten()).collect();
        conn.execute(statement, &params).map(drop)
    };
    many.iter().try_for_each(|rows| insert(&INSERT_MANY, rows))?;
    rest.iter().try_for_each(|row| insert(&INSERT, std::slice::from_ref(row)))
}

fn packed(term: &str, numbers: &[(i64, Timestamp)]) -> Option<[Value; 5]> {
    let last = numbers.last()?.0;
    let earliest = numbers.iter().map(|(_, at)| *at).min()?;
    let latest = numbers.iter().map(|(_, at)| *at).max()?;
    let mut steps = String::new();
    for pair in numbers.windows(2).rev() {
        let space = if steps.is_empty() { "" } else { " " };
        // Writing into memory does not fail.
        let _ = write!(steps, "{space}{}", pair[1].0 - pair[0].0);
    }
    Some([term.into(), last.into(), steps.into(), earliest.into(), latest.into()])
}

/// The numbers of a row, from the highest on.
fn unpacked(row: &Row) -> Result<Vec<i64>, StoreError> {
    let mut numbers = vec![row.int(0)?];
    let mut at = numbers[0];
    for step in row.text(1)?.split_ascii_whitespace() {
        let next = step.parse::<i64>().ok().filter(|step| *step > 0).and_then(|step| at.checked_sub(step));
        let bug = || StoreError::Bug(format!("the list that ends with {} has no steps", numbers[0]));
        at = next.ok_or_else(bug)?;
        numbers.push(at);
    }
    Ok(numbers)
}

/// Forgets lists that end with this number or before. A row that goes on after it stays.
pub(crate) fn remove(tx: &mut Tx<'_>, term: &str, through: i64) -> Result<(), StoreError> {
    tx.execute(&REMOVE, &[term.into(), through.into()]).map(drop)
}

/// The numbers of a term after one and up to another, each with the times that its row says.
pub(crate) fn between(
    db: &mut impl Read,
    term: &str,
    after: i64,
    through: i64,
) -> Result<BTreeMap<i64, [Timestamp; 2]>, StoreError> {
    let (mut found, mut last) = (BTreeMap::new(), after);
    while last < through {
        let Some(row) = db.row(&UP_FROM, &[term.into(), last.into()])? else { break };
        let times = [row.time(2)?, row.time(3)?];
        let numbers = unpacked(&row)?.into_iter().filter(|number| (after + 1..=through).contains(number));
        found.extend(numbers.map(|number| (number, times)));
        last = row.int(0)?;
    }
    Ok(found)
}

/// Looks for events that have all of some terms, from the newest on.
pub(crate) struct Search {
    walks: Vec<Walk>,
    /// The next one is this or below.
    next: i64,
    /// None is this or below: those events are gone.
    end: i64,
    /// From then on nothing is read: many short questions are as long as a long one.
    until: Instant,
}

impl Search {
    /// For numbers below one and above another. The first term leads, best a rare one: its rows whose events were all
    /// recorded outside of `times` are passed over. Others may hold some that were.
    pub(crate) fn new(terms: Vec<String>, before: i64, end: i64, times: [i64; 2]) -> Self {
        let mut walks: Vec<Walk> = terms.into_iter().map(Walk::new).collect();
        if let Some(first) = walks.first_mut() {
            first.times = times;
        }
        let until = Instant::now() + Duration::from_secs(READ_S_MAX);
        Self { walks, next: before.saturating_sub(1), end, until }
    }

    pub(crate) fn next(&mut self, db: &mut impl Read) -> Result<Option<i64>, StoreError> {
        let mut agreed = 0;
        while agreed < self.walks.len() && self.next > self.end {
            if Instant::now() > self.until {
                return Err(took_too_long());
            }
            agreed = 0;
            for walk in &mut self.walks {
                match walk.down_to(db, self.next)? {
                    Some(number) if number == self.next => agreed += 1,
                    Some(number) => self.next = number,
                    None => {
                        self.next = self.end;
                        break;
                    }
                }
            }
        }
        let found = (self.next > self.end).then_some(self.next);
        self.next = self.next.saturating_sub(1);
        Ok(found)
    }

    /// So many, or all that are left.
    pub(crate) fn take(&mut self, db: &mut impl Read, count: usize) -> Result<Vec<i64>, StoreError> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            match self.next(db)? {
                Some(number) => numbers.push(number),
                None => break,
            }
        }
        Ok(numbers)
    }
}

/// The lists of one term, from the newest on.
struct Walk {
    term: Value,
    times: [i64; 2],
    /// Those that were read and not passed yet; the highest is the last one.
    numbers: Vec<i64>,
    /// Rows that are read next.
    rows: i64,
    /// So many answers came from what was read last.
    answers: i64,
}

impl Walk {
    fn new(term: String) -> Self {
        let times = [i64::MIN, i64::MAX];
        Self { term: term.into(), times, numbers: Vec::new(), rows: READ_FIRST, answers: 0 }
    }

    /// The highest number that is this or below.
    fn down_to(&mut self, db: &mut impl Read, number: i64) -> Result<Option<i64>, StoreError> {
        while self.numbers.last().is_some_and(|last| *last > number) {
            self.numbers.pop();
        }
        if self.numbers.is_empty() {
            // Who jumps far with every answer would read the rest for nothing.
            let is_steady = std::mem::take(&mut self.answers) >= self.rows;
            self.rows = if is_steady { (self.rows * 4).min(READ_MAX) } else { READ_FIRST };
            let [since, until] = self.times;
            let params = [self.term.clone(), number.into(), since.into(), until.into(), self.rows.into()];
            for row in db.rows(&DOWN_FROM, &params)? {
                self.numbers.extend(unpacked(&row)?.into_iter().filter(|it| *it <= number));
            }
            self.numbers.sort_unstable();
        }
        self.answers += 1;
        Ok(self.numbers.last().copied())
    }
}
