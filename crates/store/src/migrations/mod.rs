//! Migrations: they add, they are never edited, and each runs in a transaction of its own.
//!
//! The runner is ours because one text serves both engines; see `docs/adr/0001-migrations.md`.

use std::fmt::Write as _;

use aws_lc_rs::digest;

use crate::error::OpenError;
use crate::sql::{Engine, render};

pub struct Migration {
    pub number: i64,
    pub name: &'static str,
    pub text: &'static str,
}

pub const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "ground", text: include_str!("0001_ground.sql") },
    Migration { number: 2, name: "secrets", text: include_str!("0002_secrets.sql") },
    Migration { number: 3, name: "environments", text: include_str!("0003_environments.sql") },
    Migration { number: 4, name: "engine", text: include_str!("0004_engine.sql") },
    Migration { number: 5, name: "lighter", text: include_str!("0005_lighter.sql") },
    Migration { number: 6, name: "approvals", text: include_str!("0006_approvals.sql") },
    Migration { number: 7, name: "webhooks", text: include_str!("0007_webhooks.sql") },
    Migration { number: 8, name: "stages", text: include_str!("0008_stages.sql") },
    Migration { number: 9, name: "registries", text: include_str!("0009_registries.sql") },
    Migration { number: 10, name: "calls", text: include_str!("0010_calls.sql") },
    Migration { number: 11, name: "analyses", text: include_str!("0011_analyses.sql") },
    Migration { number: 12, name: "fix_ends", text: include_str!("0012_fix_ends.sql") },
    Migration { number: 13, name: "runners", text: include_str!("0013_runners.sql") },
    Migration { number: 14, name: "leases", text: include_str!("0014_leases.sql") },
    Migration { number: 15, name: "incarnations", text: include_str!("0015_incarnations.sql") },
    Migration { number: 16, name: "retention", text: include_str!("0016_retention.sql") },
    Migration { number: 17, name: "timeline", text: include_str!("0017_timeline.sql") },
    Migration { number: 18, name: "silence", text: include_str!("0018_silence.sql") },
    Migration { number: 19, name: "keeping", text: include_str!("0019_keeping.sql") },
    Migration { number: 20, name: "kept_events", text: include_str!("0020_kept_events.sql") },
    Migration { number: 21, name: "event_lists", text: include_str!("0021_event_lists.sql") },
    Migration { number: 22, name: "chained_sessions", text: include_str!("0022_chained_sessions.sql") },
    Migration { number: 23, name: "answer_keys", text: include_str!("0023_answer_keys.sql") },
    Migration { number: 24, name: "numbered_events", text: include_str!("0024_numbered_events.sql") },
    Migration { number: 25, name: "runner_labels", text: include_str!("0025_runner_labels.sql") },
    Migration { number: 26, name: "invitations", text: include_str!("0026_invitations.sql") },
    Migration { number: 27, name: "isolation", text: include_str!("0027_isolation.sql") },
    Migration { number: 28, name: "change_authors", text: include_str!("0028_change_authors.sql") },
    Migration {
        number: 29,
        name: "due_of_organizations",
        text: include_str!("0029_due_of_organizations.sql"),
    },
    Migration { number: 30, name: "retries_and_groups", text: include_str!("0030_retries_and_groups.sql") },
    Migration { number: 31, name: "stored_responses", text: include_str!("0031_stored_responses.sql") },
    Migration { number: 32, name: "session_history", text: include_str!("0032_session_history.sql") },
];

pub const HISTORY_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
  number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";

/// A migration as the database remembers it.
#[derive(Debug, PartialEq, Eq)]
pub struct Applied {
    pub number: i64,
    pub name: String,
    pub checksum: String,
}

impl Migration {
    pub fn rendered(&self, engine: Engine) -> String {
        let text = render(self.text, engine);
        match engine {
            Engine::Sqlite => text,
            // Ids, names and words sort by their bytes, as in SQLite and in this program, whatever the database's locale.
            Engine::Postgres | Engine::PostgresSnapshot => text.replace(" TEXT", " TEXT COLLATE \"C\""),
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

/// Which migrations are still to run on a database with this history.
pub fn pending(applied: &[Applied]) -> Result<&'static [Migration], OpenError> {
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
                "the database's history differs from this program's at migration {} \"{}\". \
                 It was made by another build of berth; nothing was changed.",
                row.number, row.name,
            )));
        }
    }
    Ok(&MIGRATIONS[applied.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(number: i64, checksum: String) -> Applied {
        Applied { number, name: "x".into(), checksum }
    }

    #[test]
    fn numbers_are_consecutive_from_one() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.number).unwrap(), index + 1);
        }
    }

    #[test]
    fn an_edited_or_newer_history_is_refused() {
        let known: Vec<_> = MIGRATIONS.iter().map(|m| applied(m.number, m.checksum())).collect();
        assert!(pending(&known).unwrap().is_empty());
        assert_eq!(pending(&[]).unwrap().len(), MIGRATIONS.len());

        let mut newer = known;
        newer.push(applied(99, String::new()));
        assert!(pending(&newer).err().unwrap().to_string().contains("newer than this program"));
        assert!(pending(&[applied(1, "edited".into())]).err().unwrap().to_string().contains("differs"));
    }
}
