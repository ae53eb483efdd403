//! SQL statements. The same text is used for both databases.
//!
//! Statements are named constants. Placeholders are written `$n`, as in PostgreSQL. For SQLite they are replaced by
//! `?n`, because SQLite treats `$n` as a *name* and numbers the names by first appearance. Tokens in braces are
//! replaced by syntax that differs between the databases.

pub(crate) mod bound;
mod column;
mod row;
mod table;
pub(crate) mod value;

pub use bound::{BoundRead, QueuedWrite};

pub use column::{FromValue, ToValue};
pub(crate) use column::{json_columns, sparse_json_columns, word_columns};
pub use row::{FromRow, RowReader, ToParams};
pub(crate) use row::{TableRow, column_group, from_row};
pub(crate) use table::{SqlText, TableColumns, sql, table};

use crate::error::StoreError;
use crate::sql::value::{SqlRow, SqlValue};

/// Which rows a statement may access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementScope {
    /// Rows of one organization. The transaction binds the organization's id as `$1`.
    Org,
    /// Rows of any organization, or of none.
    Instance,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    Read,
    /// Changes state. A transaction with such a statement must record an event.
    Write,
    /// Bookkeeping that needs no event: counters, last-used times, stored responses, and the events themselves.
    Upkeep,
}

#[derive(Debug, Clone, Copy)]
pub struct SqlStatement {
    pub name: &'static str,
    pub scope: StatementScope,
    pub kind: StatementKind,
    pub text: &'static str,
}

/// A database connection, owned by one thread.
pub trait SqlConn {
    fn query(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> Result<Vec<SqlRow>, StoreError>;
    /// Runs a write and returns the number of changed rows.
    fn execute(&mut self, statement: &SqlStatement, params: &[&SqlValue]) -> Result<u64, StoreError>;

    /// Runs a write, now or later. A driver that runs it later reports its error then.
    fn queue(&mut self, write: QueuedWrite) -> Result<(), StoreError> {
        let mut changed = self.execute(write.first.statement, &write.params_of(&write.first))?;
        if write.needs_other(changed) {
            let mut other = 0;
            for step in &write.otherwise {
                other = self.execute(step.statement, &write.params_of(step))?;
            }
            changed += other;
        }
        write.check(changed)
    }

    /// Runs several reads in one round trip and returns the rows of each. `None` if statements need no round trips, so
    /// that there is nothing to gain.
    fn query_all(&mut self, _: &[BatchedRead<'_>]) -> Result<Option<Vec<Vec<SqlRow>>>, StoreError> {
        Ok(None)
    }

    /// Whether [`SqlConn::query_all`] returns rows.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A read with all its parameters.
pub(crate) type BatchedRead<'a> = (&'a SqlStatement, Vec<&'a SqlValue>);

/// Declares statements, and a list of them. A statement is a string literal (`=`) or a [`SqlText`] that is composed at
/// compile time (`=>`).
macro_rules! statements {
    ($($scope:ident $kind:ident $name:ident $(= $text:expr)? $(=> $composed:expr)?;)+) => {
        $(const $name: $crate::sql::SqlStatement = $crate::sql::SqlStatement {
            name: concat!(module_path!(), "::", stringify!($name)),
            scope: $crate::sql::StatementScope::$scope,
            kind: $crate::sql::StatementKind::$kind,
            text: {
                $($text)?
                $(
                    const TEXT: $crate::sql::SqlText = $composed;
                    const BYTES: [u8; TEXT.len] = TEXT.trim();
                    match std::str::from_utf8(&BYTES) {
                        Ok(text) => text,
                        Err(_) => panic!("SQL is UTF-8"),
                    }
                )?
            },
        };)+
        pub(crate) const STATEMENTS: &[$crate::sql::SqlStatement] = &[$($name),+];
    };
}
pub(crate) use statements;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlEngine {
    Sqlite,
    Postgres,
    /// For read-only connections, on which rows cannot be locked.
    PostgresSnapshot,
}

/// Tokens that lock rows: the token, and its replacement in PostgreSQL. They are removed where rows cannot be locked.
const LOCK_TOKENS: &[(&str, &str)] = &[
    ("{for_update}", "FOR UPDATE"),
    // Names the table, because PostgreSQL cannot lock the optional side of a LEFT JOIN.
    ("{for_update_of_e}", "FOR UPDATE OF e"),
    ("{skip_locked}", "FOR UPDATE SKIP LOCKED"),
];

/// Tokens for syntax that differs: the token, its replacement in SQLite, and its replacement in PostgreSQL.
const TOKENS: &[(&str, &str, &str)] = &[
    ("{without_rowid}", "WITHOUT ROWID", ""),
    // A commit that wrote nothing does not wait for synchronous standbys. This writes a record to the WAL, so that it
    // does.
    ("{emit_wal_record}", "''", "CAST(pg_logical_emit_message(true, 'berth', '') AS TEXT)"),
    // `SELECT value FROM {json_elements}(CAST($2 AS TEXT){as_jsonb})` reads the strings of a JSON list.
    ("{json_elements}", "json_each", "jsonb_array_elements_text"),
    ("{as_jsonb}", "", "::jsonb"),
    ("{identity}", "INTEGER PRIMARY KEY", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
];

pub fn render_sql(text: &str, engine: SqlEngine) -> String {
    let mut out = match engine {
        SqlEngine::Sqlite => text.replace('$', "?"),
        SqlEngine::Postgres | SqlEngine::PostgresSnapshot => text.to_owned(),
    };
    for (token, postgres) in LOCK_TOKENS {
        out = out.replace(token, if engine == SqlEngine::Postgres { postgres } else { "" });
    }
    for (token, sqlite, postgres) in TOKENS {
        out = out.replace(token, if engine == SqlEngine::Sqlite { sqlite } else { postgres });
    }
    out
}

/// Whether a statement with this SQL text writes to the table.
pub(crate) fn writes_table(text: &str, table: &str) -> bool {
    ["INSERT INTO", "UPDATE", "DELETE FROM"].iter().any(|verb| {
        let after = text.split(&format!("{verb} {table}")).nth(1);
        after.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    })
}

/// Every statement of the program. In debug builds, the drivers panic if they are given any other statement.
pub fn all_statements() -> impl Iterator<Item = &'static SqlStatement> {
    [
        crate::audit::terms::STATEMENTS,
        crate::idempotency::STATEMENTS,
        crate::outbox::STATEMENTS,
        crate::admin::integrity::STATEMENTS,
        crate::tables::analysis::STATEMENTS,
        crate::tables::action_link::STATEMENTS,
        crate::tables::agent::STATEMENTS,
        crate::tables::analysis_settings::STATEMENTS,
        crate::tables::approval::STATEMENTS,
        crate::tables::artifact_object::STATEMENTS,
        crate::tables::chat_destination::STATEMENTS,
        crate::tables::chat_message::STATEMENTS,
        crate::tables::change_authors::STATEMENTS,
        crate::tables::cli_login::STATEMENTS,
        crate::tables::commit::STATEMENTS,
        crate::tables::commit_status::STATEMENTS,
        crate::tables::delivery::STATEMENTS,
        crate::tables::environment::STATEMENTS,
        crate::tables::event::STATEMENTS,
        crate::tables::event_retention::STATEMENTS,
        crate::tables::fix_pull_request::STATEMENTS,
        crate::tables::forge_account::STATEMENTS,
        crate::tables::forge_app::STATEMENTS,
        crate::tables::forge_app_setup::STATEMENTS,
        crate::tables::forge_connection::STATEMENTS,
        crate::tables::forge_deployment::STATEMENTS,
        crate::tables::grant::STATEMENTS,
        crate::tables::hook_delivery::STATEMENTS,
        crate::tables::instance::STATEMENTS,
        crate::tables::instance_admin::STATEMENTS,
        crate::tables::invitation::STATEMENTS,
        crate::tables::key::STATEMENTS,
        crate::tables::lease::STATEMENTS,
        crate::tables::log_object::STATEMENTS,
        crate::tables::member::STATEMENTS,
        crate::tables::notification::STATEMENTS,
        crate::tables::notification_rule::STATEMENTS,
        crate::tables::organization::STATEMENTS,
        crate::tables::organization_removal::STATEMENTS,
        crate::tables::password_reset::STATEMENTS,
        crate::tables::pipeline::STATEMENTS,
        crate::tables::pipeline_search::STATEMENTS,
        crate::tables::plan::STATEMENTS,
        crate::tables::provider_identity::STATEMENTS,
        crate::tables::provider_login::STATEMENTS,
        crate::tables::pull_request::STATEMENTS,
        crate::tables::pull_request_claim::STATEMENTS,
        crate::tables::pull_request_command::STATEMENTS,
        crate::tables::registry::STATEMENTS,
        crate::tables::registry_build::STATEMENTS,
        crate::tables::repository::STATEMENTS,
        crate::tables::retention::STATEMENTS,
        crate::tables::runner::STATEMENTS,
        crate::tables::second_factor::STATEMENTS,
        crate::tables::secret::STATEMENTS,
        crate::tables::server::STATEMENTS,
        crate::tables::session::STATEMENTS,
        crate::tables::sign_in::STATEMENTS,
        crate::tables::slack_connection::STATEMENTS,
        crate::tables::signing_key::STATEMENTS,
        crate::tables::team::STATEMENTS,
        crate::tables::ticket::STATEMENTS,
        crate::tables::token::STATEMENTS,
        crate::tables::user::STATEMENTS,
        crate::tables::webhook::STATEMENTS,
        crate::tables::attempt::STATEMENTS,
        crate::tables::image_pin::STATEMENTS,
        crate::tables::current_deployment::STATEMENTS,
        crate::tables::deployment::STATEMENTS,
        crate::tables::deployment_list::STATEMENTS,
        crate::tables::gauges::STATEMENTS,
        crate::tables::run::STATEMENTS,
        crate::tables::schedule::STATEMENTS,
        crate::tables::stage::STATEMENTS,
        crate::tables::stage_end::STATEMENTS,
        crate::audit::append::STATEMENTS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn statement_placeholders_and_tokens_are_rendered_per_engine() {
        let text = "SELECT a FROM t WHERE b = $2 AND c = $1 {for_update}";
        assert_eq!(render_sql(text, SqlEngine::Sqlite), "SELECT a FROM t WHERE b = ?2 AND c = ?1 ");
        assert_eq!(
            render_sql(text, SqlEngine::Postgres),
            "SELECT a FROM t WHERE b = $2 AND c = $1 FOR UPDATE"
        );
        assert_eq!(render_sql(text, SqlEngine::PostgresSnapshot), "SELECT a FROM t WHERE b = $2 AND c = $1 ");
    }

    #[test]
    fn statement_names_are_unique() {
        let names: Vec<_> = all_statements().map(|statement| statement.name).collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn organization_statements_bind_org_id_first() {
        for statement in all_statements().filter(|statement| statement.scope == StatementScope::Org) {
            let text = statement.text;
            let bound =
                text.contains("org_id = $1") || (text.contains("(org_id, ") && text.contains("($1, "));
            assert!(bound, "{} does not bind org_id to $1", statement.name);
        }
    }

    #[test]
    fn statement_kind_matches_its_text() {
        for statement in all_statements() {
            let reads = statement.text.trim_start().starts_with("SELECT");
            assert_eq!(reads, statement.kind == StatementKind::Read, "{}", statement.name);
        }
    }
}
