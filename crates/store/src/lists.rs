//! Lists that know their length and find any offset quickly.
//!
//! Beside a list's rows stand its total and the counts of blocks of consecutive ids: small blocks, and large ones that
//! begin where a small one begins. An offset is found by adding up large blocks, then the small ones of one large
//! block, then skipping inside one small block: a million rows cost some two hundred steps.

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};

// Tests fill many blocks with few rows.
const SMALL_MEMBERS: i64 = if cfg!(test) { 3 } else { 250 };
const LARGE_MEMBERS: i64 = if cfg!(test) { 10 } else { 16_000 };
const SMALL: &str = "small";
const LARGE: &str = "large";

statements! {
    Org Upkeep COUNT = "INSERT INTO list_totals (org_id, list, members, last_id) VALUES ($1, $2, $3, $4)
        ON CONFLICT (org_id, list) DO UPDATE SET members = list_totals.members + excluded.members,
          last_id = CASE WHEN excluded.last_id > list_totals.last_id THEN excluded.last_id ELSE list_totals.last_id END";
    Org Read BLOCK_OF = "SELECT first_id, members FROM list_blocks
        WHERE org_id = $1 AND list = $2 AND size = $3 AND first_id <= $4 ORDER BY first_id DESC LIMIT 1";
    Org Upkeep COUNT_IN_BLOCK = "INSERT INTO list_blocks (org_id, list, size, first_id, members)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (org_id, list, size, first_id) DO UPDATE SET members = list_blocks.members + excluded.members";
    // The first block stays, and so does a small one on which a large one begins.
    Org Upkeep DROP_EMPTY = "DELETE FROM list_blocks WHERE org_id = $1 AND list = $2 AND size = $3 AND first_id = $4
          AND members = 0 AND first_id <> ''
          AND (size = 'large' OR NOT EXISTS (SELECT 1 FROM list_blocks large WHERE large.org_id = $1
            AND large.list = $2 AND large.size = 'large' AND large.first_id = $4))";
    Org Read TOTAL = "SELECT members, last_id FROM list_totals WHERE org_id = $1 AND list = $2";
    Org Read BLOCKS = "SELECT first_id, members FROM list_blocks
        WHERE org_id = $1 AND list = $2 AND size = $3 AND first_id >= $4 ORDER BY first_id LIMIT $5";
}

/// Where to begin reading for an offset: at this id, after skipping so many rows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) first_id: String,
    pub(crate) skip: i64,
}

pub(crate) fn added(tx: &mut Tx<'_>, list: &str, id: &str) -> Result<(), StoreError> {
    // Only an id above all others may begin a block: ids after it would be counted in the block before.
    let highest = match tx.row(&TOTAL, &[list.into()])? {
        Some(row) => id > row.text(1)?,
        None => true,
    };
    tx.execute(&COUNT, &[list.into(), 1i64.into(), id.into()])?;
    let (large, is_full) = block_of(tx, list, LARGE, id, LARGE_MEMBERS)?;
    let begins_large = highest && is_full;
    let (small, is_full) = block_of(tx, list, SMALL, id, SMALL_MEMBERS)?;
    let begins_small = begins_large || (highest && is_full);
    count(tx, list, LARGE, if begins_large { id } else { &large }, 1)?;
    count(tx, list, SMALL, if begins_small { id } else { &small }, 1)
}

pub(crate) fn removed(tx: &mut Tx<'_>, list: &str, id: &str) -> Result<(), StoreError> {
    tx.execute(&COUNT, &[list.into(), (-1i64).into(), id.into()])?;
    for (size, most) in [(LARGE, LARGE_MEMBERS), (SMALL, SMALL_MEMBERS)] {
        let (block, _) = block_of(tx, list, size, id, most)?;
        count(tx, list, size, &block, -1)?;
        tx.execute(&DROP_EMPTY, &[list.into(), size.into(), block.into()])?;
    }
    Ok(())
}

pub(crate) fn total(db: &mut impl Read, list: &str) -> Result<i64, StoreError> {
    db.row(&TOTAL, &[list.into()])?.map_or(Ok(0), |row| row.int(0))
}

/// `None` when the offset is past the end.
pub(crate) fn anchor(db: &mut impl Read, list: &str, offset: i64) -> Result<Option<Anchor>, StoreError> {
    if offset == 0 {
        return Ok(Some(Anchor { first_id: String::new(), skip: 0 }));
    }
    let start = Anchor { first_id: String::new(), skip: offset };
    let Some(large) = within(db, list, LARGE, start)? else { return Ok(None) };
    within(db, list, SMALL, large)
}

/// Adds up blocks of a size from where `from` begins, until the one that holds the row it skips to.
fn within(db: &mut impl Read, list: &str, size: &str, from: Anchor) -> Result<Option<Anchor>, StoreError> {
    /// Blocks taken from the store at a time.
    const BATCH: i64 = 256;
    let Anchor { first_id: mut next, mut skip } = from;
    loop {
        let blocks = db.rows(&BLOCKS, &[list.into(), size.into(), next.as_str().into(), BATCH.into()])?;
        for block in &blocks {
            let members = block.int(1)?;
            if skip < members {
                return Ok(Some(Anchor { first_id: block.text(0)?.to_owned(), skip }));
            }
            skip -= members;
        }
        let Some(last) = blocks.last().filter(|_| blocks.len() as i64 == BATCH) else { return Ok(None) };
        // The smallest text after the last block's first id.
        next = format!("{}\u{1}", last.text(0)?);
    }
}

/// The block an id belongs to, and whether it has all the members it should.
fn block_of(
    db: &mut impl Read,
    list: &str,
    size: &str,
    id: &str,
    most: i64,
) -> Result<(String, bool), StoreError> {
    match db.row(&BLOCK_OF, &[list.into(), size.into(), id.into()])? {
        // The first block begins before every id, so that none falls in front of it.
        None => Ok((String::new(), false)),
        Some(row) => Ok((row.text(0)?.to_owned(), row.int(1)? >= most)),
    }
}

fn count(tx: &mut Tx<'_>, list: &str, size: &str, block: &str, by: i64) -> Result<(), StoreError> {
    tx.execute(&COUNT_IN_BLOCK, &[list.into(), size.into(), block.into(), by.into()]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use berth_core::id::OrgId;
    use berth_core::time::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::{Context, Store};

    /// Adds or removes these numbers in turn, and finds every offset as a plain sorted list would.
    fn check(store: &Store, org: OrgId, toggled: Vec<u16>) {
        let done = store.transact_blocking(Context::system(Some(org)), move |tx| {
            let mut model = BTreeSet::new();
            for number in toggled {
                let id = format!("x_{number:05}");
                if model.remove(&id) {
                    removed(tx, "x", &id)?;
                } else {
                    added(tx, "x", &id)?;
                    model.insert(id);
                }
            }
            assert_eq!(total(tx, "x")?, model.len() as i64);
            for offset in 0..model.len() + 3 {
                let found = anchor(tx, "x", offset as i64)?.and_then(|anchor| {
                    model.range(anchor.first_id..).nth(usize::try_from(anchor.skip).unwrap())
                });
                assert_eq!(found, model.iter().nth(offset), "at offset {offset} of {model:?}");
            }
            Ok::<_, StoreError>(())
        });
        done.unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn offsets_are_exact_whatever_was_added_and_removed(
            toggled in proptest::collection::vec(0u16..200, 0..400), churn in 0u16..60
        ) {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open_sqlite(&dir.path().join("berth.db")).unwrap();
            // In order at the end, with churn there: how lists really grow.
            let grown = (200..260).chain((0..churn).flat_map(|n| [300 + n, 300 + n])).chain(400..440);
            check(&store, OrgId::from_parts(Timestamp::from_micros(1), [1; 10]), toggled);
            check(&store, OrgId::from_parts(Timestamp::from_micros(1), [2; 10]), grown.collect());
        }
    }
}
