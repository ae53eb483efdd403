//! Open invitations of an organization.

use super::{From, Slice};
use crate::error::StoreError;
use crate::records::invitation::{self, Invitation, read};
use crate::sql::statements;
use crate::tx::Read;

statements! {
    Org Read LIST = "SELECT i.id, i.email, i.name, i.role, i.invited_by, u.name, i.created_at, i.expires_at
        FROM invitations i JOIN users u ON u.id = i.invited_by
        WHERE i.org_id = $1 AND i.id > $2 AND i.expires_at > $3 ORDER BY i.id LIMIT $4 OFFSET $5";
}

pub fn list(db: &mut impl Read, from: &From, limit: i64) -> Result<Slice<Invitation>, StoreError> {
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let now = db.now();
    let rows = db.rows(&LIST, &[after.into(), now.into(), (limit + 1).into(), offset.into()])?;
    let total = Some(invitation::count(db)?);
    Ok(Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, total))
}
