//! The PostgreSQL side of a copy.

use ::postgres::fallible_iterator::FallibleIterator as _;
use ::postgres::types::ToSql;
use ::postgres::{Client, Transaction};

use super::BATCH_ROWS;
use super::schema::CopyTable;
use crate::error::{OpenError, StoreError};
use crate::migrations::SchemaState;
use crate::postgres::{error_chain, open_client, read_row, read_schema_state};
use crate::sql::value::SqlValue;

pub(super) struct CopyClient(Client);

pub(super) struct CopyTx<'c> {
    tx: Transaction<'c>,
}

impl CopyClient {
    /// Connects to the database, after the same checks and migrations as at the start of a server.
    pub(super) fn open(url: &str) -> Result<Self, OpenError> {
        open_client(url).map(Self)
    }

    pub(super) fn read_schema_state(&mut self) -> Result<SchemaState, StoreError> {
        read_schema_state(&mut self.0).map_err(copy_error)
    }

    /// Begins a serializable transaction. It would miss writes that a running server makes in the meantime, so the
    /// caller must check that no server is running.
    pub(super) fn begin(&mut self) -> Result<CopyTx<'_>, StoreError> {
        let isolation = ::postgres::IsolationLevel::Serializable;
        let tx = self.0.build_transaction().isolation_level(isolation).start().map_err(copy_error)?;
        Ok(CopyTx { tx })
    }
}

impl CopyTx<'_> {
    pub(super) fn count(&mut self, table: &CopyTable) -> Result<u64, StoreError> {
        let row =
            self.tx.query_one(&format!("SELECT COUNT(*) FROM {}", table.name), &[]).map_err(copy_error)?;
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or_default())
    }

    /// Whether a server is running. That is assumed if some lease has not expired, so this stays true for a few seconds
    /// after a server was killed.
    pub(super) fn has_servers(&mut self) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM leases
            WHERE expires_at > CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT))";
        Ok(self.tx.query_one(text, &[]).map_err(copy_error)?.get(0))
    }

    pub(super) fn execute(&mut self, text: &str) -> Result<(), StoreError> {
        self.tx.batch_execute(text).map_err(copy_error)
    }

    pub(super) fn insert(&mut self, table: &CopyTable, rows: &[Vec<SqlValue>]) -> Result<(), StoreError> {
        for rows in rows.chunks(BATCH_ROWS) {
            let params: Vec<&(dyn ToSql + Sync)> = rows.iter().flatten().map(|it| it as _).collect();
            self.tx.execute(&table.insert(rows.len(), "$"), &params).map_err(copy_error)?;
        }
        Ok(())
    }

    pub(super) fn for_each_row(
        &mut self,
        table: &CopyTable,
        mut take: impl FnMut(Vec<SqlValue>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let none: [&(dyn ToSql + Sync); 0] = [];
        let mut rows = self.tx.query_raw(&table.select(), none).map_err(copy_error)?;
        while let Some(row) = rows.next().map_err(copy_error)? {
            take(read_row(&row).map_err(copy_error)?.0)?;
        }
        Ok(())
    }

    pub(super) fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().map_err(copy_error)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn copy_error(error: ::postgres::Error) -> StoreError {
    StoreError::Unavailable(format!("PostgreSQL: {}", error_chain(&error)))
}
