//! A counter that tells when cached permissions are outdated.
//!
//! Code that wants to cache permissions notes the counter before it reads them. It may use the cached permissions for
//! as long as the counter does not change.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sql;

/// Tables that decide who a caller is and what the caller may do.
const TABLES: [&str; 9] = [
    "api_tokens",
    "grants",
    "instance_admins",
    "memberships",
    "organizations",
    "provider_identities",
    "second_factors",
    "team_members",
    "users",
];

/// The starts of statements that run often and take no permission away, so they must not invalidate the cache: they
/// record the use of a token or of a code of a second factor, and that an identity provider was asked about an account
/// and confirmed it.
const IRRELEVANT: [&str; 4] = [
    "UPDATE api_tokens SET last_used_at",
    "UPDATE provider_identities SET next_check_at",
    "UPDATE provider_identities SET verified_at",
    "UPDATE second_factors SET last_step",
];

/// The counter is odd from the first statement that writes to one of [`TABLES`] until the end of the transaction. While
/// it is odd, permissions are read from the database and not cached.
#[derive(Debug, Default)]
pub(crate) struct AccessGeneration(AtomicU64);

impl AccessGeneration {
    pub(crate) fn current(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|generation| generation.is_multiple_of(2))
    }

    /// Called by the writer thread when a statement affects permissions. Idempotent within a transaction.
    pub(crate) fn begin_change(&self) {
        self.0.fetch_or(1, Ordering::SeqCst);
    }

    /// Called after the transaction has committed or rolled back, before its callers get their results.
    pub(crate) fn end_change(&self) {
        if self.current().is_none() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Whether this statement may change permissions. This is derived from the SQL text, so that no new statement can be
/// forgotten.
pub(crate) fn is_changed_by(text: &str) -> bool {
    !IRRELEVANT.iter().any(|start| text.starts_with(start))
        && TABLES.iter().any(|table| sql::writes_table(text, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_generation_changes_with_statements_that_affect_permissions() {
        let names: Vec<_> =
            sql::all_statements().filter(|it| is_changed_by(it.text)).map(|it| it.name).collect();
        expect_test::expect![[r#"
            [
                "berth_store::tables::grant::INSERT",
                "berth_store::tables::grant::DELETE",
                "berth_store::tables::grant::DELETE_OF_SUBJECT",
                "berth_store::tables::instance_admin::INSERT",
                "berth_store::tables::instance_admin::DELETE",
                "berth_store::tables::member::PUT",
                "berth_store::tables::member::DELETE",
                "berth_store::tables::organization::PUT",
                "berth_store::tables::organization_removal::API_TOKENS",
                "berth_store::tables::organization_removal::GRANTS",
                "berth_store::tables::organization_removal::PROVIDER_IDENTITIES",
                "berth_store::tables::organization_removal::TEAM_MEMBERS",
                "berth_store::tables::organization_removal::MEMBERSHIPS",
                "berth_store::tables::organization_removal::ORGANIZATION",
                "berth_store::tables::provider_identity::PUT",
                "berth_store::tables::provider_identity::DELETE",
                "berth_store::tables::second_factor::BEGIN",
                "berth_store::tables::second_factor::CONFIRM",
                "berth_store::tables::second_factor::DELETE",
                "berth_store::tables::second_factor::DELETE_UNCONFIRMED",
                "berth_store::tables::team::ADD_MEMBER",
                "berth_store::tables::team::REMOVE_MEMBER",
                "berth_store::tables::team::REMOVE_ALL_MEMBERS",
                "berth_store::tables::team::REMOVE_USER",
                "berth_store::tables::token::INSERT",
                "berth_store::tables::token::REVOKE",
                "berth_store::tables::token::REVOKE_OF_USER",
                "berth_store::tables::token::DELETE_ENDED",
                "berth_store::tables::user::PUT",
            ]
        "#]]
        .assert_debug_eq(&names);
        assert!(!is_changed_by("UPDATE users_seen SET a = 1") && !is_changed_by("SELECT id FROM users"));
    }

    #[test]
    fn access_generation_is_none_during_a_change() {
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
