//! A second connection to the store's database, for raw SQL.

use std::time::Duration;

use ::postgres::Client;
use ::postgres::types::ToSql;
use berth_core::id::OrgId;
use berth_store::sql::{SqlEngine, render_sql};
use rusqlite::{Connection, TransactionBehavior, params_from_iter};

use super::super::DatabaseLocation;

pub(super) enum RawConnection {
    Sqlite(Connection),
    Postgres(Box<Client>),
}

impl RawConnection {
    pub(super) fn open(place: &DatabaseLocation) -> Self {
        if let Some(scratch) = &place.postgres {
            return Self::Postgres(Box::new(scratch.connect()));
        }
        let connection = Connection::open(place.dir.path().join("berth.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection.pragma_update(None, "synchronous", "OFF").unwrap();
        connection.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        Self::Sqlite(connection)
    }

    /// Runs statements in one transaction.
    pub(super) fn execute_all(&mut self, changes: &[(&str, &[&str])]) {
        match self {
            Self::Sqlite(connection) => {
                let rows = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                for (text, params) in changes {
                    rows.execute(&render_sql(text, SqlEngine::Sqlite), params_from_iter(*params)).unwrap();
                }
                rows.commit().unwrap();
            }
            Self::Postgres(connection) => {
                let mut rows = connection.transaction().unwrap();
                for (text, params) in changes {
                    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|it| it as _).collect();
                    rows.execute(*text, &params).unwrap();
                }
                rows.commit().unwrap();
            }
        }
    }

    /// Returns the first column of a query on one organization.
    pub(super) fn query_texts(&mut self, text: &str, org: OrgId) -> Vec<String> {
        let org = org.to_string();
        match self {
            Self::Sqlite(connection) => {
                let mut query = connection.prepare_cached(&render_sql(text, SqlEngine::Sqlite)).unwrap();
                let rows = query.query_map([org], |row| row.get(0)).unwrap();
                rows.map(Result::unwrap).collect()
            }
            Self::Postgres(connection) => {
                connection.query(text, &[&org]).unwrap().iter().map(|row| row.get(0)).collect()
            }
        }
    }

    /// All rows of a table that belong to an organization, as text.
    pub(super) fn dump_table(&mut self, table: &str, org: OrgId) -> Vec<String> {
        let Self::Sqlite(connection) = self else {
            return self.query_texts(
                &format!("SELECT CAST(t.* AS TEXT) FROM {table} t WHERE org_id = $1 ORDER BY 1"),
                org,
            );
        };
        let mut query =
            connection.prepare_cached(&format!("SELECT * FROM {table} WHERE org_id = ?1")).unwrap();
        let columns = query.column_count();
        let read = |row: &rusqlite::Row<'_>| {
            let values: Result<Vec<rusqlite::types::Value>, _> =
                (0..columns).map(|column| row.get(column)).collect();
            values.map(|values| format!("{values:?}"))
        };
        let rows = query.query_map([org.to_string()], read).unwrap();
        rows.map(Result::unwrap).collect()
    }
}
