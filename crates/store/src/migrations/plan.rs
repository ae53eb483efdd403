//! Decides which migrations to apply, and whether a program can use a database at all.

use super::{AppliedMigration, Migration, MigrationKind, Schema, outdated_message};
use crate::error::OpenError;

/// Name of the first migration in development versions of Berth, whose databases cannot be upgraded.
const UNSUPPORTED_FIRST: &str = "ground";

/// What a database says about its schema and its servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaState {
    /// By number. Empty for a new database.
    pub applied: Vec<AppliedMigration>,
    /// The lowest schema version of a server that may use the database.
    pub min_version: i64,
    /// Servers that run on the database. Empty on SQLite, which only one process can use.
    pub servers: Vec<LiveServer>,
}

/// A server that sent a heartbeat a short time ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveServer {
    pub id: String,
    /// Version of the program.
    pub program: String,
    pub schema_version: i64,
}

/// What a starting server does with the database.
#[derive(Debug, Default)]
pub struct MigrationPlan {
    pub apply: Vec<&'static Migration>,
    /// Contract migrations that wait until older servers have stopped. The program works without them.
    pub deferred: Vec<&'static Migration>,
    /// The lowest schema version of a server that may use the database after `apply`.
    pub min_version: i64,
}

impl Schema {
    /// Plans the migrations of a database. Refuses a database that this program cannot use.
    pub fn plan(&self, state: &SchemaState) -> Result<MigrationPlan, OpenError> {
        self.check_history(&state.applied)?;
        let own = self.version();
        if state.min_version > own {
            return Err(OpenError::Refused(outdated_message(state.min_version, own)));
        }
        if let Some(peer) = state.servers.iter().find(|it| it.schema_version < self.oldest_peer) {
            return Err(OpenError::Refused(format!(
                "a server of berth {} with schema version {} is running on this database; this program can run only next \
                 to servers with schema version {} or later. Stop the older servers, or upgrade them to a version in \
                 between first.",
                peer.program, peer.schema_version, self.oldest_peer,
            )));
        }
        let mut plan = MigrationPlan {
            min_version: state.min_version.max(self.oldest_peer),
            ..MigrationPlan::default()
        };
        let pending =
            self.migrations.iter().filter(|it| !state.applied.iter().any(|row| row.number == it.number));
        for migration in pending {
            match migration.kind {
                MigrationKind::Expand => plan.apply.push(migration),
                MigrationKind::Contract { min_version } => {
                    if state.servers.iter().any(|it| it.schema_version < min_version) {
                        plan.deferred.push(migration);
                    } else {
                        plan.apply.push(migration);
                        plan.min_version = plan.min_version.max(min_version);
                    }
                }
            }
        }
        Ok(plan)
    }

    /// Applied migrations that this program does not know.
    pub fn list_unknown<'s>(&self, state: &'s SchemaState) -> Vec<&'s AppliedMigration> {
        state.applied.iter().filter(|row| row.number > self.version()).collect()
    }

    /// Refuses a database on which the migrations of this program are not the last ones, or have not all run. Copies
    /// between databases need the same tables on both sides.
    pub(crate) fn require_same(&self, applied: &[AppliedMigration]) -> Result<(), OpenError> {
        self.check_history(applied)?;
        match applied.iter().find(|row| row.number > self.version()) {
            None => Ok(()),
            Some(row) => Err(OpenError::Refused(format!(
                "the database has migration {} \"{}\", which this program does not know. Use the version of berth that \
                 wrote it, or a later one.",
                row.number, row.name,
            ))),
        }
    }

    fn check_history(&self, applied: &[AppliedMigration]) -> Result<(), OpenError> {
        if applied.first().is_some_and(|row| row.name == UNSUPPORTED_FIRST) {
            return Err(OpenError::Refused(
                "this database was written by a development version of berth from before the first release and cannot be \
                 upgraded; nothing was changed. Use the version that wrote it, or start with a new data directory or an \
                 empty PostgreSQL database: run `berth init`."
                    .into(),
            ));
        }
        for row in applied.iter().filter(|row| row.number <= self.version()) {
            let known = self.migrations.iter().find(|it| it.number == row.number);
            if known.is_none_or(|known| known.checksum() != row.checksum) {
                return Err(OpenError::Refused(format!(
                    "the migration history of the database differs at migration {} \"{}\": another build of berth created \
                     it. Nothing was changed.",
                    row.number, row.name,
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn migration(number: i64, kind: MigrationKind) -> Migration {
        Migration { number, name: "x", kind, text: "" }
    }

    /// Version 2 adds something, 3 uses only that, and 4 is the contract that removes what 3 no longer uses.
    const FIRST: &[Migration] = &[migration(1, MigrationKind::Expand)];
    const LAST: &[Migration] = &[
        migration(1, MigrationKind::Expand),
        migration(2, MigrationKind::Expand),
        migration(3, MigrationKind::Expand),
        migration(4, MigrationKind::Contract { min_version: 3 }),
        migration(5, MigrationKind::Expand),
    ];
    const OLD: Schema = Schema { migrations: FIRST, oldest_peer: 1 };
    const NEW: Schema = Schema { migrations: LAST, oldest_peer: 2 };

    fn state(applied: &[i64], min_version: i64, servers: &[i64]) -> SchemaState {
        let checksum = FIRST[0].checksum();
        SchemaState {
            applied: applied
                .iter()
                .map(|&number| AppliedMigration { number, name: "x".into(), checksum: checksum.clone() })
                .collect(),
            min_version,
            servers: servers
                .iter()
                .map(|&schema_version| LiveServer { id: "s".into(), program: "0.1.0".into(), schema_version })
                .collect(),
        }
    }

    fn numbers(migrations: &[&'static Migration]) -> Vec<i64> {
        migrations.iter().map(|it| it.number).collect()
    }

    fn refusal(schema: &Schema, state: &SchemaState) -> String {
        schema.plan(state).err().unwrap().to_string()
    }

    #[test]
    fn new_database_gets_every_migration() {
        let plan = NEW.plan(&state(&[], 0, &[])).unwrap();
        assert_eq!((numbers(&plan.apply), plan.min_version), (vec![1, 2, 3, 4, 5], 3));
        assert!(plan.deferred.is_empty());
    }

    #[test]
    fn contract_migration_waits_for_older_servers_and_later_expansions_do_not() {
        let plan = NEW.plan(&state(&[1, 2], 1, &[2, 5])).unwrap();
        assert_eq!((numbers(&plan.apply), numbers(&plan.deferred)), (vec![3, 5], vec![4]));
        assert_eq!(plan.min_version, 2, "servers of version 2 keep working");
        let plan = NEW.plan(&state(&[1, 2, 3, 5], 2, &[3, 5])).unwrap();
        assert_eq!((numbers(&plan.apply), plan.min_version), (vec![4], 3));
    }

    #[test]
    fn newer_schema_is_accepted_down_to_its_minimum() {
        assert!(OLD.plan(&state(&[1, 2], 1, &[2])).unwrap().apply.is_empty());
        assert_eq!(OLD.list_unknown(&state(&[1, 2], 1, &[])).len(), 1);
        let why = refusal(&OLD, &state(&[1, 2, 3, 5], 2, &[]));
        assert!(why.contains("newer than this program") && why.contains("schema version 2"), "{why}");
    }

    #[test]
    fn program_is_refused_next_to_servers_that_are_too_old() {
        let why = refusal(&NEW, &state(&[1], 1, &[1]));
        assert!(why.contains("berth 0.1.0 with schema version 1 is running"), "{why}");
    }

    #[test]
    fn edited_history_is_refused() {
        let mut edited = state(&[1], 1, &[]);
        edited.applied[0].checksum = "edited".into();
        assert!(refusal(&NEW, &edited).contains("differs at migration 1"));
        edited.applied[0].name = UNSUPPORTED_FIRST.into();
        assert!(refusal(&NEW, &edited).contains("before the first release"));
    }

    #[test]
    fn copy_needs_the_same_migrations() {
        NEW.require_same(&state(&[1, 2, 3, 5], 1, &[]).applied).unwrap();
        assert!(OLD.require_same(&state(&[1, 2], 1, &[]).applied).is_err());
    }
}
