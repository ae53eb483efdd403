//! Schema migrations. Existing ones never change; new ones are appended. Each one runs in its own transaction.
//!
//! The same SQL text is used for both databases, see `docs/adr/0001-migrations.md`. Servers of two versions can run on
//! one database while it is upgraded, see `docs/adr/0023-rolling-upgrades.md`.

mod plan;

use std::fmt::Write as _;

use aws_lc_rs::digest;

pub use plan::{LiveServer, MigrationPlan, SchemaState};

use crate::sql::{SqlEngine, render_sql};

#[derive(Debug)]
pub struct Migration {
    pub number: i64,
    pub name: &'static str,
    pub kind: MigrationKind,
    pub text: &'static str,
}

/// What a migration means for servers that do not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationKind {
    /// Only adds to the schema, so older servers keep working.
    Expand,
    /// Removes or restricts something that older servers use. `min_version` is the lowest schema version whose servers
    /// no longer use it.
    Contract { min_version: i64 },
}

/// The schema of a program: its migrations, and which older servers can run at the same time.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Consecutively numbered from 1. The last number is the program's schema version.
    pub migrations: &'static [Migration],
    /// The lowest schema version of another server that can run next to this program.
    pub oldest_peer: i64,
}

/// The schema of this program. New migrations are added at the end, with consecutive numbers.
pub const SCHEMA: Schema = Schema {
    migrations: &[Migration {
        number: 1,
        name: "initial",
        kind: MigrationKind::Expand,
        text: include_str!("0001_initial.sql"),
    }],
    oldest_peer: 1,
};

pub(crate) const HISTORY_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
  number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";
pub(crate) const HISTORY: &str = "SELECT number, name, checksum FROM schema_migrations ORDER BY number";
/// The lowest schema version of a server that may use the database.
pub(crate) const MIN_VERSION: &str = "SELECT schema_min_version FROM instance WHERE id = 'berth'";

/// A migration that was applied to the database, as recorded in its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMigration {
    pub number: i64,
    pub name: String,
    pub checksum: String,
}

impl Schema {
    /// The number of the last migration.
    pub fn version(&self) -> i64 {
        self.migrations.last().map_or(0, |last| last.number)
    }
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

/// Raises the lowest schema version of a server that may use the database.
pub(crate) fn raise_min_version(to: i64) -> String {
    format!("UPDATE instance SET schema_min_version = {to} WHERE id = 'berth' AND schema_min_version < {to}")
}

/// The text for an operator whose program is too old for the database.
pub(crate) fn outdated_message(min_version: i64, own: i64) -> String {
    format!(
        "this database is newer than this program: it needs a server with schema version {min_version} or later, and \
         this program has {own}. Install the version of berth that wrote it, or a later one."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_numbers_are_consecutive() {
        for (index, migration) in SCHEMA.migrations.iter().enumerate() {
            assert_eq!(usize::try_from(migration.number).unwrap(), index + 1);
        }
        assert!((1..=SCHEMA.version()).contains(&SCHEMA.oldest_peer));
    }

    /// What an expand migration must not contain, because servers that do not know it would fail.
    fn list_breaking_changes(text: &str) -> Vec<String> {
        let upper = text.to_uppercase();
        let statements = upper.split(';').map(str::trim);
        let is_breaking = |it: &&str| {
            let words = [" DROP ", " RENAME ", " SET NOT NULL", " TYPE "];
            it.starts_with("DROP ")
                || it.starts_with("DELETE ")
                || it.starts_with("ALTER ") && words.iter().any(|word| it.contains(word))
                || it.contains(" ADD COLUMN ") && it.contains("NOT NULL") && !it.contains(" DEFAULT ")
        };
        statements.filter(is_breaking).map(str::to_owned).collect()
    }

    #[test]
    fn expand_migrations_keep_older_servers_working() {
        for migration in SCHEMA.migrations.iter().filter(|it| it.kind == MigrationKind::Expand) {
            assert_eq!(list_breaking_changes(migration.text), Vec::<String>::new(), "{}", migration.name);
        }
        for text in [
            "CREATE TABLE a (id TEXT); DROP TABLE b",
            "ALTER TABLE a DROP COLUMN b",
            "ALTER TABLE a RENAME COLUMN b TO c",
            "ALTER TABLE a ADD COLUMN b TEXT NOT NULL",
            "DELETE FROM a",
        ] {
            assert_eq!(list_breaking_changes(text).len(), 1, "{text}");
        }
        let allowed = "ALTER TABLE a ADD COLUMN b TEXT NOT NULL DEFAULT ''; ALTER TABLE a ADD COLUMN c TEXT";
        assert!(list_breaking_changes(allowed).is_empty());
    }
}
