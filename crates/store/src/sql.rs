//! One SQL text for two databases.
//!
//! Statements are constants with a name. Placeholders are written `$n`, as PostgreSQL wants them; for SQLite they
//! are rendered `?n`, because there `$n` is a *name* numbered by first appearance. Tokens in braces stand for what
//! only one engine has.

use crate::error::StoreError;
use crate::trail::Heads;
use crate::value::{Row, Value};

/// Whose rows a statement touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Rows of one organization: `$1` is its id and is bound by the transaction, never by the caller.
    Org,
    /// Rows of the whole installation.
    Instance,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    /// A change of state: its transaction must record an event.
    Write,
    /// Bookkeeping nobody needs to audit: counters, last-used times, stored answers, events themselves.
    Upkeep,
}

#[derive(Debug, Clone, Copy)]
pub struct Statement {
    pub name: &'static str,
    pub scope: Scope,
    pub kind: Kind,
    pub text: &'static str,
}

/// A database connection, owned by one thread.
pub trait Conn {
    fn query(&mut self, statement: &Statement, params: &[&Value]) -> Result<Vec<Row>, StoreError>;
    /// Returns how many rows changed.
    fn execute(&mut self, statement: &Statement, params: &[&Value]) -> Result<u64, StoreError>;
    /// Where the histories end, of those this connection writes.
    fn heads(&mut self) -> &mut Heads;
    /// The epoch of what is written here, where a connection has one of its own.
    fn epoch(&self) -> Option<i64> {
        None
    }
    /// It has risen in this transaction. Only for a connection with one of its own.
    fn set_epoch(&mut self, _: i64) {}
    /// Somebody is told of an earlier commit: it has to be as safe as if it had been made now.
    fn vouch(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Declares statements and, beside them, the list of all of them.
macro_rules! statements {
    ($($scope:ident $kind:ident $name:ident = $text:expr;)+) => {
        $(const $name: $crate::sql::Statement = $crate::sql::Statement {
            name: concat!(module_path!(), "::", stringify!($name)),
            scope: $crate::sql::Scope::$scope,
            kind: $crate::sql::Kind::$kind,
            text: $text,
        };)+
        pub(crate) const STATEMENTS: &[$crate::sql::Statement] = &[$($name),+];
    };
}
pub(crate) use statements;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
    /// For those who only look: they lock nothing.
    PostgresSnapshot,
}

const TOKENS: &[(&str, &str, &str)] = &[
    // token, SQLite, PostgreSQL
    ("{for_update}", "", "FOR UPDATE"),
    // The optional side of a LEFT JOIN cannot be locked.
    ("{for_update_of_e}", "", "FOR UPDATE OF e"),
    ("{skip_locked}", "", "FOR UPDATE SKIP LOCKED"),
    ("{without_rowid}", "WITHOUT ROWID", ""),
];

pub fn render(text: &str, engine: Engine) -> String {
    let mut out = match engine {
        Engine::Sqlite => text.replace('$', "?"),
        Engine::Postgres | Engine::PostgresSnapshot => text.to_owned(),
    };
    for (token, sqlite, postgres) in TOKENS {
        out = out.replace(token, if engine == Engine::Postgres { postgres } else { sqlite });
    }
    out
}

/// Whether a statement with this text writes to the table.
pub(crate) fn changes(text: &str, table: &str) -> bool {
    ["INSERT INTO", "UPDATE", "DELETE FROM"].iter().any(|verb| {
        let after = text.split(&format!("{verb} {table}")).nth(1);
        after.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    })
}

/// Every statement of the program. The SQLite driver refuses, in debug builds, one that is not here.
pub fn all() -> impl Iterator<Item = &'static Statement> {
    [
        crate::event_lists::STATEMENTS,
        crate::idempotency::STATEMENTS,
        crate::lists::STATEMENTS,
        crate::outbox::STATEMENTS,
        crate::query::analyses::STATEMENTS,
        crate::query::approvals::STATEMENTS,
        crate::query::deployed::STATEMENTS,
        crate::query::deployments::STATEMENTS,
        crate::query::insights::STATEMENTS,
        crate::query::invitations::STATEMENTS,
        crate::query::attempts::STATEMENTS,
        crate::query::environments::STATEMENTS,
        crate::query::events::STATEMENTS,
        crate::query::everywhere::STATEMENTS,
        crate::query::findable::STATEMENTS,
        crate::query::measured::STATEMENTS,
        crate::query::members::STATEMENTS,
        crate::query::pipelines::STATEMENTS,
        crate::query::runs::STATEMENTS,
        crate::query::registries::STATEMENTS,
        crate::query::repositories::STATEMENTS,
        crate::query::runners::STATEMENTS,
        crate::query::secrets::STATEMENTS,
        crate::query::tokens::STATEMENTS,
        crate::query::webhooks::STATEMENTS,
        crate::records::analysis::STATEMENTS,
        crate::records::analysis_settings::STATEMENTS,
        crate::records::fix_pull_request::STATEMENTS,
        crate::records::approval::STATEMENTS,
        crate::records::change_authors::STATEMENTS,
        crate::records::delivery::STATEMENTS,
        crate::records::deployment::STATEMENTS,
        crate::records::environment::STATEMENTS,
        crate::records::event_retention::STATEMENTS,
        crate::records::instance::STATEMENTS,
        crate::records::invitation::STATEMENTS,
        crate::records::key::STATEMENTS,
        crate::records::lease::STATEMENTS,
        crate::records::organization::STATEMENTS,
        crate::records::password_reset::STATEMENTS,
        crate::records::member::STATEMENTS,
        crate::records::pipeline::STATEMENTS,
        crate::records::plan::STATEMENTS,
        crate::records::retention::STATEMENTS,
        crate::records::rollout::STATEMENTS,
        crate::records::run::STATEMENTS,
        crate::records::registry::STATEMENTS,
        crate::records::registry_build::STATEMENTS,
        crate::records::repository::STATEMENTS,
        crate::records::runner::STATEMENTS,
        crate::records::secret::STATEMENTS,
        crate::records::session::STATEMENTS,
        crate::records::sign_in::STATEMENTS,
        crate::records::stage::STATEMENTS,
        crate::records::ticket::STATEMENTS,
        crate::records::token::STATEMENTS,
        crate::records::user::STATEMENTS,
        crate::records::webhook::STATEMENTS,
        crate::trail::STATEMENTS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn placeholders_and_tokens_are_rendered_for_each_engine() {
        let text = "SELECT a FROM t WHERE b = $2 AND c = $1 {for_update}";
        assert_eq!(render(text, Engine::Sqlite), "SELECT a FROM t WHERE b = ?2 AND c = ?1 ");
        assert_eq!(render(text, Engine::Postgres), "SELECT a FROM t WHERE b = $2 AND c = $1 FOR UPDATE");
        assert_eq!(render(text, Engine::PostgresSnapshot), "SELECT a FROM t WHERE b = $2 AND c = $1 ");
    }

    #[test]
    fn names_are_unique() {
        let names: Vec<_> = all().map(|statement| statement.name).collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn every_statement_of_an_organization_names_it_first() {
        for statement in all().filter(|statement| statement.scope == Scope::Org) {
            let text = statement.text;
            let bound =
                text.contains("org_id = $1") || (text.contains("(org_id, ") && text.contains("($1, "));
            assert!(bound, "{} does not bind org_id to $1", statement.name);
        }
    }

    #[test]
    fn a_statement_is_of_the_kind_it_says() {
        for statement in all() {
            let reads = statement.text.trim_start().starts_with("SELECT");
            assert_eq!(reads, statement.kind == Kind::Read, "{}", statement.name);
        }
    }
}
