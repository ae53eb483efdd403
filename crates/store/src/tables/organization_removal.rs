//! Deletes an organization with everything that belongs to it.

use berth_core::id::OrgId;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{SqlStatement, StatementKind, StatementScope, statements};
use crate::tx::{StoreRead as _, Tx};

// Upkeep, because the audit log of the organization is deleted as well. The caller records the deletion elsewhere.
// Ordered so that a row is deleted before the row that it refers to.
statements! {
    Org Upkeep EVENT_TERMS = "DELETE FROM event_terms WHERE term_id IN (SELECT id FROM terms WHERE org_id = $1)";
    Org Upkeep ACTION_LINKS = "DELETE FROM action_links WHERE org_id = $1";
    Org Upkeep NOTIFICATIONS = "DELETE FROM notifications WHERE org_id = $1";
    Org Upkeep NOTIFICATION_CURSORS = "DELETE FROM notification_cursors WHERE org_id = $1";
    Org Upkeep NOTIFICATION_RULES = "DELETE FROM notification_rules WHERE org_id = $1";
    Org Upkeep CHAT_MESSAGES = "DELETE FROM chat_messages WHERE org_id = $1";
    Org Upkeep CHAT_DESTINATIONS = "DELETE FROM chat_destinations WHERE org_id = $1";
    Org Upkeep SLACK_CONNECTIONS = "DELETE FROM slack_connections WHERE org_id = $1";
    Org Upkeep SLACK_REQUESTS = "DELETE FROM slack_requests WHERE org_id = $1";
    Org Upkeep AGENT_STOPS = "DELETE FROM agent_stops WHERE org_id = $1";
    Org Upkeep AGENTS = "DELETE FROM agents WHERE org_id = $1";
    Org Upkeep ANALYSIS_REQUESTS = "DELETE FROM analysis_requests WHERE org_id = $1";
    Org Upkeep ANALYSIS_SETTINGS = "DELETE FROM analysis_settings WHERE org_id = $1";
    Org Upkeep API_TOKENS = "DELETE FROM api_tokens WHERE org_id = $1";
    Org Upkeep APPROVALS = "DELETE FROM approvals WHERE org_id = $1";
    Org Upkeep ARTIFACT_OBJECTS = "DELETE FROM artifact_objects WHERE org_id = $1";
    Org Upkeep ATTEMPTS = "DELETE FROM attempts WHERE org_id = $1";
    Org Upkeep BUILDS = "DELETE FROM builds WHERE org_id = $1";
    Org Upkeep CHANGE_AUTHORS = "DELETE FROM change_authors WHERE org_id = $1";
    Org Upkeep COMMITS = "DELETE FROM commits WHERE org_id = $1";
    Org Upkeep COMMIT_STATUSES = "DELETE FROM commit_statuses WHERE org_id = $1";
    Org Upkeep COMMIT_STATUS_CURSORS = "DELETE FROM commit_status_cursors WHERE org_id = $1";
    Org Upkeep EVENT_HEADS = "DELETE FROM event_heads WHERE org_id = $1";
    Org Upkeep EVENTS = "DELETE FROM events WHERE org_id = $1";
    Org Upkeep HOOK_DELIVERIES = "DELETE FROM hook_deliveries WHERE org_id = $1";
    Org Upkeep PULL_REQUEST_COMMANDS = "DELETE FROM pull_request_commands WHERE org_id = $1";
    Org Upkeep PULL_REQUEST_CLAIMS = "DELETE FROM pull_request_claims WHERE org_id = $1";
    Org Upkeep PULL_REQUESTS = "DELETE FROM pull_requests WHERE org_id = $1";
    Org Upkeep FORGE_LINK_CODES = "DELETE FROM forge_link_codes WHERE org_id = $1";
    Org Upkeep FORGE_ACCOUNTS = "DELETE FROM forge_accounts WHERE org_id = $1";
    Org Upkeep FORGE_DEPLOYMENTS = "DELETE FROM forge_deployments WHERE org_id = $1";
    Org Upkeep FORGE_CONNECTIONS = "DELETE FROM forge_connections WHERE org_id = $1";
    Org Upkeep FORGE_APP_SETUPS = "DELETE FROM forge_app_setups WHERE org_id = $1";
    Org Upkeep FORGE_APPS = "DELETE FROM forge_apps WHERE org_id = $1";
    Org Upkeep FIX_PULL_REQUESTS = "DELETE FROM fix_pull_requests WHERE org_id = $1";
    Org Upkeep GRANTS = "DELETE FROM grants WHERE org_id = $1";
    Org Upkeep IMAGE_PINS = "DELETE FROM image_pins WHERE org_id = $1";
    Org Upkeep INVITATIONS = "DELETE FROM invitations WHERE org_id = $1";
    Org Upkeep LOG_OBJECTS = "DELETE FROM log_objects WHERE org_id = $1";
    Org Upkeep OUTBOX = "DELETE FROM outbox WHERE org_id = $1";
    // Otherwise a login that came from the organization's identity provider would continue without being verified.
    Org Upkeep PROVIDER_SIGN_INS = "DELETE FROM sign_ins
        WHERE id IN (SELECT sign_in_id FROM provider_logins WHERE org_id = $1)";
    Org Upkeep PROVIDER_LOGINS = "DELETE FROM provider_logins WHERE org_id = $1";
    Org Upkeep PROVIDER_IDENTITIES = "DELETE FROM provider_identities WHERE org_id = $1";
    Org Upkeep PLANS = "DELETE FROM plans WHERE org_id = $1";
    Org Upkeep REGISTRY_BUILDS = "DELETE FROM registry_builds WHERE org_id = $1";
    Org Upkeep REGISTRY_REFS = "DELETE FROM registry_refs WHERE org_id = $1";
    Org Upkeep REPOSITORIES = "DELETE FROM repositories WHERE org_id = $1";
    Org Upkeep RUNNERS = "DELETE FROM runners WHERE org_id = $1";
    Org Upkeep PIPELINE_TRIGRAMS = "DELETE FROM pipeline_trigrams WHERE org_id = $1";
    Org Upkeep SECRET_USES = "DELETE FROM secret_uses WHERE org_id = $1";
    Org Upkeep SECRET_VALUES = "DELETE FROM secret_values WHERE org_id = $1";
    Org Upkeep SESSIONS = "DELETE FROM sessions WHERE org_id = $1";
    Org Upkeep STAGE_ENDS = "DELETE FROM stage_ends WHERE org_id = $1";
    Org Upkeep STAGES = "DELETE FROM stages WHERE org_id = $1";
    Org Upkeep STEP_RUNS = "DELETE FROM step_runs WHERE org_id = $1";
    Org Upkeep STEP_USES = "DELETE FROM step_uses WHERE org_id = $1";
    Org Upkeep TEAM_MEMBERS = "DELETE FROM team_members WHERE org_id = $1";
    Org Upkeep TERMS = "DELETE FROM terms WHERE org_id = $1";
    Org Upkeep TICKETS = "DELETE FROM tickets WHERE org_id = $1";
    Org Upkeep WEBHOOK_ATTEMPTS = "DELETE FROM webhook_attempts WHERE org_id = $1";
    Org Upkeep WEBHOOK_CURSORS = "DELETE FROM webhook_cursors WHERE org_id = $1";
    Org Upkeep WEBHOOK_SECRETS = "DELETE FROM webhook_secrets WHERE org_id = $1";
    Org Upkeep ANALYSES = "DELETE FROM analyses WHERE org_id = $1";
    Org Upkeep DATA_KEYS = "DELETE FROM data_keys WHERE org_id = $1";
    Org Upkeep MEMBERSHIPS = "DELETE FROM memberships WHERE org_id = $1";
    Org Upkeep REGISTRY_VERSIONS = "DELETE FROM registry_versions WHERE org_id = $1";
    Org Upkeep RUNS = "DELETE FROM runs WHERE org_id = $1";
    Org Upkeep SECRETS = "DELETE FROM secrets WHERE org_id = $1";
    Org Upkeep TEAMS = "DELETE FROM teams WHERE org_id = $1";
    Org Upkeep WEBHOOK_DELIVERIES = "DELETE FROM webhook_deliveries WHERE org_id = $1";
    Org Upkeep DEPLOYMENTS = "DELETE FROM deployments WHERE org_id = $1";
    Org Upkeep REGISTRIES = "DELETE FROM registries WHERE org_id = $1";
    Org Upkeep WEBHOOKS = "DELETE FROM webhooks WHERE org_id = $1";
    Org Upkeep ENVIRONMENTS = "DELETE FROM environments WHERE org_id = $1";
    Org Upkeep PIPELINES = "DELETE FROM pipelines WHERE org_id = $1";
    Org Upkeep DEFINITIONS = "DELETE FROM definitions WHERE org_id = $1";
    Instance Upkeep ORGANIZATION = "DELETE FROM organizations WHERE id = $1";
    Org Read ACTIVE_SESSIONS = "SELECT CAST(COUNT(*) AS BIGINT) FROM sessions
        WHERE org_id = $1 AND ended_at IS NULL";
    Org Read UNFINISHED_DEPLOYMENTS = "SELECT CAST(COUNT(*) AS BIGINT) FROM deployments
        WHERE org_id = $1 AND finished_at IS NULL";
}

/// Work that prevents the deletion of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveWork {
    pub sessions: i64,
    pub deployments: i64,
}

/// Counts the active work of the transaction's organization.
pub fn count_active_work(tx: &mut Tx<'_>) -> Result<ActiveWork, StoreError> {
    Ok(ActiveWork {
        sessions: tx.fetch_count(&ACTIVE_SESSIONS, &[])?,
        deployments: tx.fetch_count(&UNFINISHED_DEPLOYMENTS, &[])?,
    })
}

/// Deletes all rows of an organization, and the organization. Accounts of its members stay.
pub fn delete_organization(tx: &mut Tx<'_>, org: OrgId) -> Result<(), StoreError> {
    tx.within_org(org, |tx| {
        let is_removal =
            |it: &&SqlStatement| it.kind == StatementKind::Upkeep && it.scope == StatementScope::Org;
        for statement in STATEMENTS.iter().filter(is_removal) {
            tx.execute(statement, &[])?;
        }
        Ok::<_, StoreError>(())
    })?;
    tx.execute_one(&ORGANIZATION, &[text(org)])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::STATEMENTS;

    /// Names of the tables with a column `org_id`, from the schema.
    fn tables_of_organizations() -> BTreeSet<&'static str> {
        let schema = include_str!("../migrations/0001_initial.sql");
        let tables = schema.split("CREATE TABLE ").skip(1);
        let described = tables.filter_map(|table| table.split_once(" ("));
        let owned = described.filter(|(_, rest)| {
            let columns = rest.split("\n)").next().unwrap_or_default();
            columns.lines().any(|line| line.trim_start().starts_with("org_id TEXT"))
        });
        owned.map(|(name, _)| name).collect()
    }

    #[test]
    fn organization_removal_covers_every_table_with_an_organization() {
        let deleted = STATEMENTS
            .iter()
            .filter_map(|it| it.text.strip_prefix("DELETE FROM ")?.strip_suffix(" WHERE org_id = $1"));
        assert_eq!(deleted.collect::<BTreeSet<_>>(), tables_of_organizations());
    }
}
