//! Gauges of the whole installation, for the metrics endpoint. They are cheap enough to be queried every few seconds.

use berth_core::runner::Runner;

use super::runner;
use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::StoreRead;

/// Maximum number of runners that are loaded in order to count them by status.
const RUNNERS_MAX: i64 = 10_000;

statements! {
    Instance Read OPEN_SESSIONS = "SELECT CAST(COUNT(*) AS BIGINT) FROM sessions WHERE ended_at IS NULL";
    Instance Read WAITING_TICKETS = "SELECT CAST(COUNT(*) AS BIGINT) FROM tickets WHERE status = 'waiting'";
    Instance Read RUNNING_STEPS = "SELECT CAST(COUNT(*) AS BIGINT) FROM attempts
        WHERE ended_at IS NULL AND parked_at IS NULL";
    Instance Read READY_DEPLOYMENTS = "SELECT CAST(COUNT(*) AS BIGINT) FROM runs WHERE ready_at IS NOT NULL";
    Instance Read QUEUED_DEPLOYMENTS = "SELECT CAST(COUNT(*) AS BIGINT) FROM runs WHERE queued_for IS NOT NULL";
    Instance Read FAILING_WEBHOOKS = "SELECT CAST(COUNT(*) AS BIGINT) FROM webhook_cursors WHERE failures > 0";
    Instance Read INACTIVE_WEBHOOKS = "SELECT CAST(COUNT(*) AS BIGINT) FROM webhooks WHERE inactive_since IS NOT NULL";
    Instance Read EVENTS = "SELECT CAST(COALESCE(SUM(sequence), 0) AS BIGINT) FROM event_heads";
}

#[derive(Debug, Clone)]
pub struct InstanceGauges {
    pub open_sessions: i64,
    pub waiting_tickets: i64,
    /// Number of steps that have a live attempt.
    pub running_steps: i64,
    /// Number of deployments with at least one step that waits for a runner.
    pub ready_deployments: i64,
    /// Number of deployments that are waiting to enter a stage.
    pub queued_deployments: i64,
    pub failing_webhooks: i64,
    pub inactive_webhooks: i64,
    pub events: i64,
    pub runners: Vec<Runner>,
}

pub fn load(db: &mut impl StoreRead) -> Result<InstanceGauges, StoreError> {
    Ok(InstanceGauges {
        open_sessions: db.fetch_count(&OPEN_SESSIONS, &[])?,
        waiting_tickets: db.fetch_count(&WAITING_TICKETS, &[])?,
        running_steps: db.fetch_count(&RUNNING_STEPS, &[])?,
        ready_deployments: db.fetch_count(&READY_DEPLOYMENTS, &[])?,
        queued_deployments: db.fetch_count(&QUEUED_DEPLOYMENTS, &[])?,
        failing_webhooks: db.fetch_count(&FAILING_WEBHOOKS, &[])?,
        inactive_webhooks: db.fetch_count(&INACTIVE_WEBHOOKS, &[])?,
        events: db.fetch_count(&EVENTS, &[])?,
        runners: runner::list_registered(db, RUNNERS_MAX)?,
    })
}
