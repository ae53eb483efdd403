//! What stored answers are found by: digests, in no order that a tree could be written in from one end.
//!
//! Where many write to a database of our own, each of their keys would be a page to write. So the one connection that writes
//! keeps the newest in memory and puts them in later, in the order in which they lie, some with each commit: a broom that goes
//! round. A start puts in those that were left, and so does the first commit after one that failed.

use std::collections::BTreeMap;
use std::ops::Bound;

use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::{Conn, statements};
use crate::trail::BUSY_JOBS;
use crate::tx::Tx;
use crate::value::Value;

/// Keys in memory while many write. One more, and the broom moves on: it takes as many as a commit can bring.
const KEPT_MAX: usize = 16_384;

/// Keys that one commit puts in, at most.
const SWEPT_MAX: usize = 256;

/// The mark in the database may lag so far behind while few write.
const MARKED_EVERY_S: i64 = 60;

statements! {
    Instance Upkeep PUT = "INSERT INTO answer_keys (digest, created_at) VALUES ($1, $2)
        ON CONFLICT (digest) DO UPDATE SET created_at = excluded.created_at";
    Instance Upkeep PUT_REST = "INSERT INTO answer_keys (digest, created_at)
        SELECT digest, created_at FROM answers
        WHERE created_at >= (SELECT answers_keyed_to FROM instance WHERE id = 'berth') ORDER BY digest, created_at
        ON CONFLICT (digest) DO UPDATE SET created_at = excluded.created_at
        WHERE answer_keys.created_at <> excluded.created_at";
    Instance Upkeep MARK = "UPDATE instance SET answers_keyed_to = $1 WHERE id = 'berth'";
    Instance Upkeep LOWER_MARK = "UPDATE instance SET answers_keyed_to = $1 WHERE id = 'berth' AND answers_keyed_to > $1";
}

/// Of a caller, what they asked for, and the key of the request.
pub(crate) type Digest = [u8; 32];

/// The keys that are not in the table yet, and when each answer was given.
#[derive(Debug)]
pub struct Unkeyed {
    keys: BTreeMap<Digest, Timestamp>,
    /// What stood in the places of those that the running job has added, in case it is undone.
    undo: Vec<(Digest, Option<Timestamp>)>,
    /// The broom has come to this one.
    swept: Digest,
    /// The newest answer when its round began, and of all.
    round: Timestamp,
    newest: Timestamp,
    /// Every answer before this time has its key in the table, as the database says it.
    marked: Timestamp,
    kept_max: usize,
}

impl Unkeyed {
    /// All answers before `now` have their keys in the table, and every one from here on is younger.
    pub(crate) fn since(now: Timestamp) -> Self {
        Self::keeping(KEPT_MAX, now)
    }

    fn keeping(kept_max: usize, now: Timestamp) -> Self {
        let (keys, undo, swept) = (BTreeMap::new(), Vec::new(), Digest::default());
        Self { keys, undo, swept, round: now, newest: now, marked: now, kept_max }
    }

    fn add(&mut self, digest: Digest, at: Timestamp) {
        self.undo.push((digest, self.keys.insert(digest, at)));
        self.newest = at;
    }

    pub(crate) fn given_at(&self, digest: &Digest) -> Option<Timestamp> {
        self.keys.get(digest).copied()
    }

    pub(crate) fn begin_job(&mut self) {
        self.undo.clear();
    }

    pub(crate) fn undo_job(&mut self) {
        for (digest, before) in self.undo.drain(..).rev() {
            match before {
                Some(at) => self.keys.insert(digest, at),
                None => self.keys.remove(&digest),
            };
        }
    }

    /// The keys that come next in the order of the table. And the mark that holds with these, if it is worth writing.
    fn sweep(&mut self) -> (Vec<(Digest, Timestamp)>, Option<Timestamp>) {
        let mut next = self.take(SWEPT_MAX);
        let mut mark = None;
        if next.len() < SWEPT_MAX {
            // Whatever there was when the round began lay ahead of the broom.
            mark = Some(std::mem::replace(&mut self.round, self.newest));
            self.swept = Digest::default();
            let rest = self.take(SWEPT_MAX - next.len());
            next.extend(rest);
        }
        if self.keys.is_empty() {
            mark = Some(self.newest).filter(|newest| *newest > self.marked.plus_seconds(MARKED_EVERY_S));
        }
        let mark = mark.filter(|mark| *mark > self.marked);
        self.marked = mark.unwrap_or(self.marked);
        (next, mark)
    }

    fn take(&mut self, count: usize) -> Vec<(Digest, Timestamp)> {
        let ahead = (Bound::Excluded(self.swept), Bound::Unbounded);
        let next: Vec<_> = self.keys.range(ahead).take(count).map(|(key, at)| (*key, *at)).collect();
        for (digest, _) in &next {
            self.keys.remove(digest);
            self.swept = *digest;
        }
        next
    }
}

pub(crate) fn add(tx: &mut Tx<'_>, digest: Digest, at: Timestamp) -> Result<(), StoreError> {
    let Some(unkeyed) = tx.unkeyed() else {
        return tx.execute(&PUT, &[digest.as_slice().into(), at.into()]).map(drop);
    };
    unkeyed.add(digest, at);
    Ok(())
}

/// Puts some of the keys in, near the end of a transaction of so many jobs.
pub(crate) fn write(conn: &mut dyn Conn, unkeyed: &mut Unkeyed, jobs: usize) -> Result<(), StoreError> {
    let kept_max = if jobs < BUSY_JOBS { 0 } else { unkeyed.kept_max };
    if unkeyed.keys.len() <= kept_max {
        return Ok(());
    }
    let (next, mark) = unkeyed.sweep();
    for (digest, at) in next {
        conn.execute(&PUT, &[&Value::from(digest.as_slice()), &at.into()])?;
    }
    mark.map_or(Ok(()), |mark| write_mark(conn, mark))
}

/// Puts in what was left, for when nobody has it in memory. `now`: the store's time, which only rises from here on; it may be
/// before that of the newest answer, where a clock was set back.
pub(crate) fn write_rest(conn: &mut dyn Conn, now: Timestamp) -> Result<(), StoreError> {
    let put = conn.execute(&PUT_REST, &[])?;
    // A start with nothing to do leaves the database as it is.
    let mark = if put > 0 { &MARK } else { &LOWER_MARK };
    conn.execute(mark, &[&now.into()]).map(drop)
}

/// Every answer before this time has its key.
pub(crate) fn write_mark(conn: &mut dyn Conn, mark: Timestamp) -> Result<(), StoreError> {
    conn.execute(&MARK, &[&mark.into()]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Small steps of a large broom: whatever is added and swept, a crash loses no key.
        #[test]
        fn what_is_not_in_the_table_is_in_memory_and_no_older_than_the_mark(
            steps in proptest::collection::vec((0usize..600, 0usize..4), 1..20)
        ) {
            let mut unkeyed = Unkeyed::keeping(0, Timestamp::from_micros(0));
            let (mut table, mut added, mut marked, mut now) = (BTreeSet::new(), Vec::new(), 0, 1_000_i64);
            for (adds, sweeps) in steps {
                for number in 0..adds {
                    now += 20_000_000;
                    let mut digest = Digest::default();
                    digest[..8].copy_from_slice(&now.wrapping_mul(0x1e37_79b9_7f4a_7c15).to_be_bytes());
                    unkeyed.begin_job();
                    unkeyed.add(digest, Timestamp::from_micros(now));
                    if number % 5 == 4 {
                        unkeyed.undo_job();
                    } else {
                        added.push((digest, now));
                    }
                }
                for _ in 0..sweeps {
                    let before = unkeyed.keys.len();
                    let (next, mark) = unkeyed.sweep();
                    prop_assert_eq!(next.len(), before.min(SWEPT_MAX));
                    table.extend(next.into_iter().map(|(digest, _)| digest));
                    marked = mark.map_or(marked, Timestamp::as_micros);
                }
                for (digest, at) in &added {
                    prop_assert!(table.contains(digest) != unkeyed.keys.contains_key(digest));
                    prop_assert!(table.contains(digest) || *at >= marked, "{at} is before the mark");
                }
                prop_assert_eq!(table.len() + unkeyed.keys.len(), added.len());
            }
            // Once all are in, a start has little to do.
            while !unkeyed.keys.is_empty() {
                marked = unkeyed.sweep().1.map_or(marked, Timestamp::as_micros);
            }
            let newest = added.last().map_or(0, |(_, at)| *at);
            prop_assert!(newest - marked <= MARKED_EVERY_S * 1_000_000);
        }
    }
}
