//! Access generation: a counter that invalidates cached permissions.
//!
//! A caller that notes the generation and then reads who may do what may use what it read for as long as the generation is
//! the same.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sql;

/// What the answer to "who is this, and what may they do?" is read from.
const TABLES: [&str; 4] = ["api_tokens", "memberships", "organizations", "users"];

/// Says nothing about what a token may do, and is written all the time.
const IRRELEVANT: &str = "UPDATE api_tokens SET last_used_at";

/// Odd from the first statement that changes such a table until its transaction has ended: there is no generation then, and
/// permissions are read from the database.
#[derive(Debug, Default)]
pub(crate) struct AccessGeneration(AtomicU64);

impl AccessGeneration {
    pub(crate) fn current(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|generation| generation.is_multiple_of(2))
    }

    /// Called by the writer alone. A second call in the same transaction changes nothing.
    pub(crate) fn begin_change(&self) {
        self.0.fetch_or(1, Ordering::SeqCst);
    }

    /// Called when the transaction has ended, whatever its outcome, and before its callers get their answers.
    pub(crate) fn end_change(&self) {
        if self.current().is_none() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Read from the text of a statement, so that none can be forgotten.
pub(crate) fn is_changed_by(text: &str) -> bool {
    !text.starts_with(IRRELEVANT) && TABLES.iter().any(|table| sql::changes(text, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_who_may_do_what_is_noticed() {
        let names: Vec<_> = sql::all().filter(|it| is_changed_by(it.text)).map(|it| it.name).collect();
        expect_test::expect![[r#"
            [
                "berth_store::tables::member::PUT",
                "berth_store::tables::member::DELETE",
                "berth_store::tables::organization::PUT",
                "berth_store::tables::token::INSERT",
                "berth_store::tables::token::REVOKE",
                "berth_store::tables::token::REVOKE_OF_USER",
                "berth_store::tables::user::PUT",
            ]
        "#]]
        .assert_debug_eq(&names);
        assert!(!is_changed_by("UPDATE users_seen SET a = 1") && !is_changed_by("SELECT id FROM users"));
    }

    #[test]
    fn there_is_no_generation_while_a_change_is_under_way() {
        let generation = AccessGeneration::default();
        let before = generation.current();
        generation.end_change();
        assert_eq!(generation.current(), before, "nothing has changed");
        generation.begin_change();
        generation.begin_change();
        assert_eq!(generation.current(), None);
        generation.end_change();
        assert!(generation.current().is_some() && generation.current() != before);
    }
}
