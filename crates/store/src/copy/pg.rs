//! The side of PostgreSQL.

use ::postgres::fallible_iterator::FallibleIterator as _;
use ::postgres::types::ToSql;
use ::postgres::{Client, Transaction};

use super::BATCH_ROWS;
use super::schema::Table;
use crate::error::{OpenError, StoreError};
use crate::postgres::{opened, owned, told};
use crate::value::Value;

pub(super) struct Postgres(Client);

pub(super) struct Writing<'c> {
    tx: Transaction<'c>,
}

impl Postgres {
    /// Checked and migrated, as a server would.
    pub(super) fn open(url: &str) -> Result<Self, OpenError> {
        opened(url).map(Self)
    }

    /// One transaction for everything: it sees one moment, and whoever writes what it has read does so before or after it.
    /// What a server writes meanwhile is not in a copy; that none is running is for the caller to see to.
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

    /// Whether a server leads the background work, or did so until a moment ago.
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
