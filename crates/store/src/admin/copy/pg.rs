//! The PostgreSQL side of a copy.

use ::postgres::fallible_iterator::FallibleIterator as _;
use ::postgres::types::ToSql;
use ::postgres::{Client, Transaction};

use super::BATCH_ROWS;
use super::schema::Table;
use crate::error::{OpenError, StoreError};
use crate::postgres::{opened, owned, told};
use crate::sql::value::Value;

pub(super) struct Postgres(Client);

pub(super) struct Writing<'c> {
    tx: Transaction<'c>,
}

impl Postgres {
    /// Checks and migrates the database, as a server does.
    pub(super) fn open(url: &str) -> Result<Self, OpenError> {
        opened(url).map(Self)
    }

    /// Begins a serializable transaction. Writes of a server that is running are not copied: the caller checks that none is.
    pub(super) fn begin(&mut self) -> Result<Writing<'_>, StoreError> {
        let isolation = ::postgres::IsolationLevel::Serializable;
        let tx = self.0.build_transaction().isolation_level(isolation).start().map_err(failed)?;
        Ok(Writing { tx })
    }
}

impl Writing<'_> {
    pub(super) fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        let row = self.tx.query_one(&format!("SELECT COUNT(*) FROM {}", table.name), &[]).map_err(failed)?;
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or_default())
    }

    /// Whether a server holds a lease, or did until a few seconds ago.
    pub(super) fn has_servers(&mut self) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM leases
            WHERE expires_at > CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT))";
        Ok(self.tx.query_one(text, &[]).map_err(failed)?.get(0))
    }

    pub(super) fn execute(&mut self, text: &str) -> Result<(), StoreError> {
        self.tx.batch_execute(text).map_err(failed)
    }

    pub(super) fn insert(&mut self, table: &Table, rows: &[Vec<Value>]) -> Result<(), StoreError> {
        for rows in rows.chunks(BATCH_ROWS) {
            let params: Vec<&(dyn ToSql + Sync)> = rows.iter().flatten().map(|it| it as _).collect();
            self.tx.execute(&table.insert(rows.len(), "$"), &params).map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn each(
        &mut self,
        table: &Table,
        mut take: impl FnMut(Vec<Value>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let none: [&(dyn ToSql + Sync); 0] = [];
        let mut rows = self.tx.query_raw(&table.select(), none).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(owned(&row).map_err(failed)?.0)?;
        }
        Ok(())
    }

    pub(super) fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().map_err(failed)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: ::postgres::Error) -> StoreError {
    StoreError::Unavailable(format!("PostgreSQL: {}", told(&error)))
}
