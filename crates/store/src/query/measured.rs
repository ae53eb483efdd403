//! Totals of the installation for metrics; cheap enough for a scrape every few seconds.

use berth_core::runner::Runner;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tables::runner;
use crate::tx::Read;

/// Runners loaded to count them by state.
const RUNNERS_MAX: i64 = 10_000;

statements! {
    Instance Read HELD = "SELECT CAST(COUNT(*) AS BIGINT) FROM sessions WHERE ended_at IS NULL";
    Instance Read WAITING = "SELECT CAST(COUNT(*) AS BIGINT) FROM tickets WHERE status = 'waiting'";
    Instance Read RUNNING = "SELECT CAST(COUNT(*) AS BIGINT) FROM attempts WHERE ended_at IS NULL AND parked_at IS NULL";
    Instance Read READY = "SELECT CAST(COUNT(*) AS BIGINT) FROM runs WHERE ready_at IS NOT NULL";
    Instance Read QUEUED = "SELECT CAST(COUNT(*) AS BIGINT) FROM runs WHERE queued_for IS NOT NULL";
    Instance Read FAILING = "SELECT CAST(COUNT(*) AS BIGINT) FROM webhook_cursors WHERE failures > 0";
    Instance Read SILENT = "SELECT CAST(COUNT(*) AS BIGINT) FROM webhooks WHERE inactive_since IS NOT NULL";
    Instance Read EVENTS = "SELECT CAST(COALESCE(SUM(sequence), 0) AS BIGINT) FROM event_heads";
}

#[derive(Debug, Clone)]
pub struct Measured {
    pub held_sessions: i64,
    pub waiting_tickets: i64,
    /// Attempts that are running.
    pub running_steps: i64,
    /// Deployments with a step that waits for a runner or for its start time.
    pub ready_deployments: i64,
    /// Deployments that wait to enter a stage.
    pub queued_deployments: i64,
    pub failing_webhooks: i64,
    pub silent_webhooks: i64,
    pub events: i64,
    pub runners: Vec<Runner>,
}

pub fn measured(db: &mut impl Read) -> Result<Measured, StoreError> {
    let mut number = |statement| db.row(statement, &[])?.map_or(Ok(0), |row| row.int(0));
    Ok(Measured {
        held_sessions: number(&HELD)?,
        waiting_tickets: number(&WAITING)?,
        running_steps: number(&RUNNING)?,
        ready_deployments: number(&READY)?,
        queued_deployments: number(&QUEUED)?,
        failing_webhooks: number(&FAILING)?,
        silent_webhooks: number(&SILENT)?,
        events: number(&EVENTS)?,
        runners: runner::registered(db, RUNNERS_MAX)?,
    })
}
