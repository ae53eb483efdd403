//! Reads that run before their results are needed, several in one round trip.

use crate::error::StoreError;
use crate::sql::bound::bind_org;
use crate::sql::value::{SqlRow, SqlValue};
use crate::sql::{BoundRead, SqlConn, SqlStatement};

/// Rows of reads that ran before they were needed.
#[derive(Default)]
pub(crate) struct RowsAhead(Vec<(BoundRead, Vec<SqlRow>)>);

impl RowsAhead {
    pub(crate) fn run(
        &mut self,
        conn: &mut dyn SqlConn,
        org: Option<&SqlValue>,
        reads: Vec<BoundRead>,
    ) -> Result<(), StoreError> {
        let bound =
            reads.iter().map(|read| Ok((read.statement, bind_org(read.statement, org, &read.params)?)));
        let bound = bound.collect::<Result<Vec<_>, StoreError>>()?;
        let rows = conn.query_all(&bound)?;
        self.0 = reads.into_iter().zip(rows.unwrap_or_default()).collect();
        Ok(())
    }

    pub(crate) fn take(&mut self, statement: &SqlStatement, params: &[SqlValue]) -> Option<Vec<SqlRow>> {
        let is_same = |(read, _): &(BoundRead, Vec<SqlRow>)| {
            read.statement.name == statement.name && read.params == params
        };
        let at = self.0.iter().position(is_same)?;
        Some(self.0.swap_remove(at).1)
    }
}
