//! The four DORA metrics.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// DORA metrics: how often, how fast and how safely changes reach the last stage.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryInsights)]
pub struct DeliveryInsights {
    #[schema(format = DateTime)]
    pub from: String,
    /// End of the period, exclusive.
    #[schema(format = DateTime)]
    pub to: String,
    /// Null for all pipelines of the organization.
    pub pipeline_id: Option<String>,
    /// True if the period has more data than is evaluated: only the newest 10,000 finished deployments count.
    pub is_cut: bool,
    pub deployment_frequency: DeploymentFrequency,
    pub lead_time: LeadTime,
    pub change_failure_rate: ChangeFailureRate,
    pub time_to_restore: TimeToRestore,
    /// One entry per day of the period, in UTC.
    pub days: Vec<DeliveryDay>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentFrequency)]
pub struct DeploymentFrequency {
    /// Deployments that succeeded in the last stage, not counting rollbacks.
    pub deployments: usize,
    pub per_day: f64,
}

/// Time from commit to success in the last stage.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeadTime {
    /// Null if no deployment succeeded.
    pub median_seconds: Option<i64>,
    pub p90_seconds: Option<i64>,
    /// Number of deployments measured from the commit time.
    pub from_commit: usize,
    /// Number of deployments measured from their creation because the commit time is unknown.
    pub from_creation: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChangeFailureRate)]
pub struct ChangeFailureRate {
    /// From 0 to 1; null if no deployment finished in the last stage.
    pub rate: Option<f64>,
    pub failed: usize,
    /// Deployments that succeeded and were rolled back.
    pub rolled_back: usize,
    /// All deployments that finished in the last stage.
    pub deployments: usize,
}

/// Time from a failure in the last stage to the next success there.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TimeToRestore)]
pub struct TimeToRestore {
    /// Null if no failure was restored.
    pub median_seconds: Option<i64>,
    pub p90_seconds: Option<i64>,
    pub restored: usize,
    /// Pipelines whose last stage had failed and was not restored by the end of the period.
    pub open: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryDay)]
pub struct DeliveryDay {
    #[schema(format = Date, example = "2026-11-15")]
    pub date: String,
    pub deployments: usize,
    pub failed: usize,
    pub lead_time_seconds: Option<i64>,
    pub restore_seconds: Option<i64>,
}
