//! Agents: their limits, and the switch that stops all of them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::event::WireActor;

/// What an agent may do at most.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentLimits)]
pub struct WireAgentLimits {
    /// Sessions that it may hold and wait for at the same time.
    pub sessions: i64,
    /// Length of a session from claim to end, extensions included.
    pub session_seconds: i64,
    pub deployments_per_hour: i64,
    pub force_claim: WireTakeoverScope,
}

/// Whose sessions an agent may take over, if its role allows takeovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TakeoverScope)]
pub enum WireTakeoverScope {
    Never,
    /// Only sessions of other agents.
    Agents,
    Anyone,
}

/// Limits of an agent. Limits that are left out keep their value, or get the default.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentLimitsPatch {
    /// Sessions that it may hold and wait for at the same time. Defaults to 1.
    #[schema(minimum = 1, maximum = 100)]
    pub sessions: Option<i64>,
    /// Length of a session from claim to end, extensions included. Defaults to an hour.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub session_seconds: Option<i64>,
    /// Defaults to 30.
    #[schema(minimum = 0, maximum = 1_000)]
    pub deployments_per_hour: Option<i64>,
    /// Defaults to `never`.
    pub force_claim: Option<WireTakeoverScope>,
}

/// Whether the agents of the organization are stopped.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentsStatus)]
pub struct WireAgentsStatus {
    pub stopped: bool,
    #[schema(format = DateTime)]
    pub stopped_at: Option<String>,
    pub stopped_by: Option<WireActor>,
    pub reason: Option<String>,
    /// In the response to a stop: number of sessions that it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sessions_ended: Option<usize>,
    /// In the response to a stop: number of queue tickets that it cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tickets_cancelled: Option<usize>,
}

impl ReplayableBody for WireAgentsStatus {}
