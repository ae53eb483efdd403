//! Whether anything about who may do what has changed since somebody looked.
//!
//! Who a token speaks for is asked with every request and changes seldom. Whoever notes the mark first, then reads, may use
//! what was read for as long as the mark is the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_core::access::Role;
use berth_core::id::{OrgId, TokenId};
use berth_core::time::Timestamp;

use crate::sql;

/// What the answer to "who is this, and what may they do?" is read from.
const TABLES: [&str; 4] = ["api_tokens", "memberships", "organizations", "users"];

/// Tokens that a connection remembers; one more, and it begins anew.
const REMEMBERED_MAX: usize = 1_024;

/// Says nothing about what a token may do, and is written all the time.
const IRRELEVANT: &str = "UPDATE api_tokens SET last_used_at";

/// Rises before and after each commit that changes such a table: it is odd while one is under way, and nobody can tell
/// what holds.
#[derive(Debug, Default)]
pub(crate) struct Changes(AtomicU64);

impl Changes {
    pub(crate) fn mark(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|mark| mark.is_multiple_of(2))
    }

    /// Before the commit, and again when it is over, however it ended, before anybody is told.
    pub(crate) fn step(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What tokens may do and until when, as the one connection that writes has read it. Forgotten with every change of access, and
/// whenever something is undone. In debug builds, what is found here is compared with the database.
#[derive(Debug, Default)]
pub struct Standings(HashMap<(OrgId, TokenId), Standing>);

pub(crate) type Standing = (Role, Option<Timestamp>);

impl Standings {
    pub(crate) fn of(&self, org: OrgId, token: TokenId) -> Option<Standing> {
        self.0.get(&(org, token)).copied()
    }

    pub(crate) fn remember(&mut self, org: OrgId, token: TokenId, standing: Standing) {
        if self.0.len() == REMEMBERED_MAX {
            self.forget();
        }
        self.0.insert((org, token), standing);
    }

    pub(crate) fn forget(&mut self) {
        self.0.clear();
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
                "berth_store::records::organization::PUT",
                "berth_store::records::member::PUT",
                "berth_store::records::member::DELETE",
                "berth_store::records::token::INSERT",
                "berth_store::records::token::REVOKE",
                "berth_store::records::token::REVOKE_OF_USER",
                "berth_store::records::user::PUT",
            ]
        "#]]
        .assert_debug_eq(&names);
        assert!(!is_changed_by("UPDATE users_seen SET a = 1") && !is_changed_by("SELECT id FROM users"));
    }

    #[test]
    fn there_is_no_mark_while_a_change_is_under_way() {
        let changes = Changes::default();
        let before = changes.mark();
        changes.step();
        assert_eq!(changes.mark(), None);
        changes.step();
        assert!(changes.mark().is_some() && changes.mark() != before);
    }
}
