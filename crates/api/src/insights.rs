//! DORA's four measures.

use serde::Serialize;
use utoipa::ToSchema;

/// How often, how fast and how safely changes reach the last stage.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryInsights)]
pub struct Insights {
    #[schema(format = DateTime)]
    pub from: String,
    /// Not part of it any more.
    #[schema(format = DateTime)]
    pub to: String,
    /// Null: all pipelines of the organization.
    pub pipeline_id: Option<String>,
    /// There is more in this time than is looked at: only the newest 10,000 ends count.
    pub is_cut: bool,
    pub deployment_frequency: Frequency,
    pub lead_time: LeadTime,
    pub change_failure_rate: FailureRate,
    pub time_to_restore: Restore,
    /// Every day of this time, in UTC.
    pub days: Vec<Day>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentFrequency)]
pub struct Frequency {
    /// Deployments that succeeded in the last stage, without rollbacks.
    pub deployments: usize,
    pub per_day: f64,
}

/// From the commit to success in the last stage.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeadTime {
    /// Null where nothing succeeded.
    pub median_seconds: Option<i64>,
    pub p90_seconds: Option<i64>,
    /// Of how many the time of the commit is known.
    pub from_commit: usize,
    /// Of how many it is not: those are measured from when their deployment was asked for.
    pub from_creation: usize,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChangeFailureRate)]
pub struct FailureRate {
    /// From 0 to 1; null where nothing came to an end in the last stage.
    pub rate: Option<f64>,
    pub failed: usize,
    /// Succeeded, and were taken back.
    pub rolled_back: usize,
    /// All that came to an end in the last stage.
    pub deployments: usize,
}

/// From a failure in the last stage to the next success there.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TimeToRestore)]
pub struct Restore {
    /// Null where nothing was restored.
    pub median_seconds: Option<i64>,
    pub p90_seconds: Option<i64>,
    pub restored: usize,
    /// Pipelines whose last stage had failed and was not restored by the end of this time.
    pub open: usize,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryDay)]
pub struct Day {
    #[schema(format = Date, example = "2026-11-15")]
    pub date: String,
    pub deployments: usize,
    pub failed: usize,
    pub lead_time_seconds: Option<i64>,
    pub restore_seconds: Option<i64>,
}
