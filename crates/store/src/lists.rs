//! Lists that know their length and find any offset quickly.
//!
//! Beside a list's rows stand its total and the counts of blocks of about [`BLOCK_MEMBERS`] consecutive ids. An
//! offset is found by adding up blocks and then skipping inside one: a million rows cost a thousand small ones.

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};

/// Ids per block. The square root of a million, so that blocks and the rows inside one are equally few.
const BLOCK_MEMBERS: i64 = 1_000;

statements! {
    Org Upkeep COUNT = "INSERT INTO list_totals (org_id, list, members, last_id) VALUES ($1, $2, $3, $4)
        ON CONFLICT (org_id, list) DO UPDATE SET members = list_totals.members + excluded.members,
          last_id = CASE WHEN excluded.last_id > list_totals.last_id THEN excluded.last_id ELSE list_totals.last_id END";
    Org Read BLOCK_OF = "SELECT first_id, members FROM list_blocks
        WHERE org_id = $1 AND list = $2 AND first_id <= $3 ORDER BY first_id DESC LIMIT 1";
    Org Upkeep COUNT_IN_BLOCK = "INSERT INTO list_blocks (org_id, list, first_id, members) VALUES ($1, $2, $3, $4)
        ON CONFLICT (org_id, list, first_id) DO UPDATE SET members = list_blocks.members + excluded.members";
    Org Read TOTAL = "SELECT members, last_id FROM list_totals WHERE org_id = $1 AND list = $2";
    Org Read BLOCKS = "SELECT first_id, members FROM list_blocks WHERE org_id = $1 AND list = $2 ORDER BY first_id";
}

/// Where to begin reading for an offset: at this id, after skipping so many rows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) first_id: String,
    pub(crate) skip: i64,
}

pub(crate) fn added(tx: &mut Tx<'_>, list: &str, id: &str) -> Result<(), StoreError> {
    let highest = match tx.row(&TOTAL, &[list.into()])? {
        Some(row) => id > row.text(1)?,
        None => true,
    };
    tx.execute(&COUNT, &[list.into(), 1i64.into(), id.into()])?;
    let block = match tx.row(&BLOCK_OF, &[list.into(), id.into()])? {
        // The first block begins before every id, so that none falls in front of it.
        None => String::new(),
        // Only an id above all others may begin a block: ids after it would be counted in the block before.
        Some(row) if highest && row.int(1)? >= BLOCK_MEMBERS => id.to_owned(),
        Some(row) => row.text(0)?.to_owned(),
    };
    tx.execute(&COUNT_IN_BLOCK, &[list.into(), block.into(), 1i64.into()]).map(drop)
}

pub(crate) fn removed(tx: &mut Tx<'_>, list: &str, id: &str) -> Result<(), StoreError> {
    tx.execute(&COUNT, &[list.into(), (-1i64).into(), id.into()])?;
    let block = tx
        .row(&BLOCK_OF, &[list.into(), id.into()])?
        .ok_or_else(|| StoreError::Bug(format!("{id} is in no block of {list}")))?;
    tx.execute(&COUNT_IN_BLOCK, &[list.into(), block.text(0)?.into(), (-1i64).into()]).map(drop)
}

pub(crate) fn total(db: &mut impl Read, list: &str) -> Result<i64, StoreError> {
    db.row(&TOTAL, &[list.into()])?.map_or(Ok(0), |row| row.int(0))
}

/// `None` when the offset is past the end.
pub(crate) fn anchor(db: &mut impl Read, list: &str, offset: i64) -> Result<Option<Anchor>, StoreError> {
    let mut before = 0;
    for block in db.rows(&BLOCKS, &[list.into()])? {
        let members = block.int(1)?;
        if offset < before + members {
            return Ok(Some(Anchor { first_id: block.text(0)?.to_owned(), skip: offset - before }));
        }
        before += members;
    }
    Ok(None)
}
