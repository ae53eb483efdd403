//! Schema migrations. Existing ones never change; new ones are appended. Each one runs in its own transaction.
//!
//! The same SQL text is used for both databases, see `docs/adr/0001-migrations.md`.

use std::fmt::Write as _;

use aws_lc_rs::digest;

use crate::error::OpenError;
use crate::sql::{SqlEngine, render_sql};

pub struct Migration {
    pub number: i64,
    pub name: &'static str,
    pub text: &'static str,
}

/// New migrations are added at the end, with consecutive numbers.
pub const MIGRATIONS: &[Migration] =
    &[Migration { number: 1, name: "initial", text: include_str!("0001_initial.sql") }];

/// Name of the first migration in development versions of Berth, whose databases cannot be upgraded.
const UNSUPPORTED_FIRST: &str = "ground";

pub const HISTORY_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
  number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";

/// A migration that was applied to the database, as recorded in its history.
#[derive(Debug, PartialEq, Eq)]
pub struct AppliedMigration {
    pub number: i64,
    pub name: String,
    pub checksum: String,
}

impl Migration {
    pub fn render_for(&self, engine: SqlEngine) -> String {
        let text = render_sql(self.text, engine);
        match engine {
            SqlEngine::Sqlite => text,
            // Makes PostgreSQL sort text by bytes, as SQLite and Rust do, regardless of the database's locale.
            SqlEngine::Postgres | SqlEngine::PostgresSnapshot => text.replace(" TEXT", " TEXT COLLATE \"C\""),
        }
    }

    pub fn checksum(&self) -> String {
        let digest = digest::digest(&digest::SHA256, self.text.as_bytes());
        digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// The migrations that are still to be applied to a database with this history.
pub fn list_pending(applied: &[AppliedMigration]) -> Result<&'static [Migration], OpenError> {
    if applied.first().is_some_and(|row| row.name == UNSUPPORTED_FIRST) {
        return Err(OpenError::Refused(
            "this database was written by a development version of berth from before the first release and cannot be \
             upgraded; nothing was changed. Use the version that wrote it, or start with a new data directory or an empty \
             PostgreSQL database: run `berth init`."
                .into(),
        ));
    }
    for (index, row) in applied.iter().enumerate() {
        let Some(known) = MIGRATIONS.get(index) else {
            return Err(OpenError::Refused(format!(
                "this database is newer than this program: it has migration {} \"{}\", the newest known here is {}. \
                 Install the version of berth that wrote it, or a later one.",
                row.number,
                row.name,
                MIGRATIONS.last().map_or(0, |newest| newest.number),
            )));
        };
        if (row.number, row.checksum.as_str()) != (known.number, known.checksum().as_str()) {
            return Err(OpenError::Refused(format!(
                "the migration history of the database differs at migration {} \"{}\": another build of berth created it. \
                 Nothing was changed.",
                row.number, row.name,
            )));
        }
    }
    Ok(&MIGRATIONS[applied.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied_migration(number: i64, checksum: String) -> AppliedMigration {
        AppliedMigration { number, name: "x".into(), checksum }
    }

    #[test]
    fn migration_numbers_are_consecutive() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.number).unwrap(), index + 1);
        }
    }

    #[test]
    fn migration_history_that_is_edited_or_newer_is_refused() {
        let known: Vec<_> = MIGRATIONS.iter().map(|m| applied_migration(m.number, m.checksum())).collect();
        assert!(list_pending(&known).unwrap().is_empty());
        assert_eq!(list_pending(&[]).unwrap().len(), MIGRATIONS.len());

        let mut newer = known;
        newer.push(applied_migration(99, String::new()));
        assert!(list_pending(&newer).err().unwrap().to_string().contains("newer than this program"));
        assert!(
            list_pending(&[applied_migration(1, "edited".into())])
                .err()
                .unwrap()
                .to_string()
                .contains("differs")
        );
    }
}
