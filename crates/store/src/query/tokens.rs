//! Live API tokens.

use berth_core::id::UserId;

use super::{COUNTED_MAX, From, Slice, counted};
use crate::error::StoreError;
use crate::records::token::{Token, read};
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Value, text};

statements! {
    Org Read LIST = "SELECT id, user_id, name, prefix, created_at, expires_at, last_used_at, revoked_at FROM api_tokens
        WHERE org_id = $1 AND revoked_at IS NULL AND id > $2 AND (CAST($3 AS TEXT) IS NULL OR user_id = $3)
        ORDER BY id LIMIT $4 OFFSET $5";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT id FROM api_tokens
        WHERE org_id = $1 AND revoked_at IS NULL AND (CAST($2 AS TEXT) IS NULL OR user_id = $2) LIMIT $3) AS counted";
}

/// All of the organization, or those of one user.
pub fn list(
    db: &mut impl Read,
    of: Option<UserId>,
    from: &From,
    limit: i64,
) -> Result<Slice<Token>, StoreError> {
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let of: Value = of.map(text).into();
    let count = db.row(&COUNT, &[of.clone(), (COUNTED_MAX + 1).into()])?;
    let total = counted(count.map_or(Ok(0), |row| row.int(0))?);
    let rows = db.rows(&LIST, &[after.into(), of, (limit + 1).into(), offset.into()])?;
    Ok(Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, total))
}
