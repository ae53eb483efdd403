//! What stored answers are found by: digests, in no order that a tree could be written in from one end.
//!
//! Where many write to a database of our own, each of their keys would be a page to write. So the one connection that writes
//! keeps the newest in memory and puts them in later, in the order in which they lie, some with each commit: a broom that goes
//! round. A start puts in those that a crash has left.

use std::collections::BTreeMap;
use std::ops::Bound;

use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::{Conn, statements};
use crate::trail::BUSY_JOBS;
use crate::tx::Tx;
use crate::value::Value;

/// Keys in memory while many write. One more, and the broom moves on.
const KEPT_MAX: usize = 16_384;

/// Keys that one commit puts in, at most: as many as it can bring.
const SWEPT_MAX: usize = 256;

/// How far what is said to be put in may lie back, where nobody hurries.
const SAID_EVERY_S: i64 = 60;

statements! {
    Instance Upkeep PUT = "INSERT INTO answer_keys (digest, created_at) VALUES ($1, $2)
        ON CONFLICT (digest) DO UPDATE SET created_at = excluded.created_at";
    Instance Upkeep PUT_REST = "INSERT INTO answer_keys (digest, created_at)
        SELECT digest, created_at FROM answers
        WHERE created_at >= (SELECT answers_keyed_to FROM instance WHERE id = 'berth') ORDER BY digest, created_at
        ON CONFLICT (digest) DO UPDATE SET created_at = excluded.created_at";
    Instance Upkeep SAY_REST = "UPDATE instance SET answers_keyed_to = COALESCE((SELECT MAX(created_at) FROM answers), 0)
        WHERE id = 'berth'";
    Instance Upkeep SAY = "UPDATE instance SET answers_keyed_to = $1 WHERE id = 'berth'";
}

/// Of a caller, what they asked for, and the key of the request.
pub(crate) type Digest = [u8; 32];

/// The keys that are not in the table yet, and when each answer was given.
#[derive(Debug)]
pub struct Unkeyed {
    keys: BTreeMap<Digest, Timestamp>,
    /// What the running job has added, in case it is undone.
    undo: Vec<Digest>,
    /// The broom has come to this one.
    swept: Digest,
    /// The newest answer when its round began, and of all.
    round: Timestamp,
    newest: Timestamp,
    /// As it stands in the database.
    said: Timestamp,
    kept_max: usize,
}

/// As a round begins; of the keys, none is in memory.
impl Default for Unkeyed {
    fn default() -> Self {
        Self::keeping(KEPT_MAX)
    }
}

impl Unkeyed {
    fn keeping(kept_max: usize) -> Self {
        let start = Timestamp::from_micros(0);
        let (keys, undo, swept) = (BTreeMap::new(), Vec::new(), Digest::default());
        Self { keys, undo, swept, round: start, newest: start, said: start, kept_max }
    }

    pub(crate) fn given_at(&self, digest: &Digest) -> Option<Timestamp> {
        self.keys.get(digest).copied()
    }

    pub(crate) fn begin_job(&mut self) {
        self.undo.clear();
    }

    pub(crate) fn undo_job(&mut self) {
        for digest in self.undo.drain(..) {
            self.keys.remove(&digest);
        }
    }

    /// The keys that come next in the order of the table. And up to when all are in it with these, if that is worth saying.
    fn sweep(&mut self) -> (Vec<(Digest, Timestamp)>, Option<Timestamp>) {
        let ahead = (Bound::Excluded(self.swept), Bound::Unbounded);
        let next: Vec<_> = self.keys.range(ahead).take(SWEPT_MAX).map(|(key, at)| (*key, *at)).collect();
        for (digest, _) in &next {
            self.keys.remove(digest);
        }
        let mut all_to = None;
        if next.len() == SWEPT_MAX {
            self.swept = next.last().map_or(Digest::default(), |(digest, _)| *digest);
        } else {
            // Whatever there was when the round began lay ahead of the broom.
            self.swept = Digest::default();
            all_to = Some(std::mem::replace(&mut self.round, self.newest));
        }
        if self.keys.is_empty() {
            all_to = Some(self.newest).filter(|newest| *newest > self.said.plus_seconds(SAID_EVERY_S));
        }
        let all_to = all_to.filter(|it| *it > self.said);
        self.said = all_to.unwrap_or(self.said);
        (next, all_to)
    }
}

pub(crate) fn add(tx: &mut Tx<'_>, digest: Digest, at: Timestamp) -> Result<(), StoreError> {
    let Some(unkeyed) = tx.unkeyed() else {
        return tx.execute(&PUT, &[digest.as_slice().into(), at.into()]).map(drop);
    };
    unkeyed.keys.insert(digest, at);
    unkeyed.undo.push(digest);
    unkeyed.newest = at;
    Ok(())
}

/// Puts some of the keys in, near the end of a transaction of so many jobs.
pub(crate) fn write(conn: &mut dyn Conn, unkeyed: &mut Unkeyed, jobs: usize) -> Result<(), StoreError> {
    let kept_max = if jobs < BUSY_JOBS { 0 } else { unkeyed.kept_max };
    if unkeyed.keys.len() <= kept_max {
        return Ok(());
    }
    let (next, all_to) = unkeyed.sweep();
    for (digest, at) in next {
        conn.execute(&PUT, &[&Value::from(digest.as_slice()), &at.into()])?;
    }
    match all_to {
        Some(all_to) => conn.execute(&SAY, &[&all_to.into()]).map(drop),
        None => Ok(()),
    }
}

/// Puts in what was left, for when nobody has it in memory.
pub(crate) fn write_rest(conn: &mut dyn Conn) -> Result<(), StoreError> {
    conn.execute(&PUT_REST, &[])?;
    conn.execute(&SAY_REST, &[]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Small steps of a large broom: whatever is added and swept, a crash loses no key.
        #[test]
        fn what_is_not_in_the_table_is_in_memory_and_no_older_than_what_is_said(
            steps in proptest::collection::vec((0usize..600, 0usize..4), 1..20)
        ) {
            let mut unkeyed = Unkeyed::keeping(0);
            let (mut table, mut added, mut said, mut now) = (BTreeSet::new(), Vec::new(), 0, 1_000_i64);
            for (adds, sweeps) in steps {
                for _ in 0..adds {
                    now += 20_000_000;
                    let mut digest = Digest::default();
                    digest[..8].copy_from_slice(&now.wrapping_mul(0x1e37_79b9_7f4a_7c15).to_be_bytes());
                    unkeyed.keys.insert(digest, Timestamp::from_micros(now));
                    unkeyed.newest = Timestamp::from_micros(now);
                    added.push((digest, now));
                }
                for _ in 0..sweeps {
                    let (next, all_to) = unkeyed.sweep();
                    prop_assert!(next.len() <= SWEPT_MAX && next.is_sorted());
                    table.extend(next.into_iter().map(|(digest, _)| digest));
                    said = all_to.map_or(said, Timestamp::as_micros);
                }
                for (digest, at) in &added {
                    prop_assert!(table.contains(digest) != unkeyed.keys.contains_key(digest));
                    prop_assert!(table.contains(digest) || *at >= said, "{at} is said to be in the table");
                }
            }
            // What is ended is said: a start has little to do.
            while !unkeyed.keys.is_empty() {
                said = unkeyed.sweep().1.map_or(said, Timestamp::as_micros);
            }
            let newest = added.last().map_or(0, |(_, at)| *at);
            prop_assert!(newest - said <= SAID_EVERY_S * 1_000_000);
        }
    }
}
