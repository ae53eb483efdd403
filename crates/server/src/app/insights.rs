//! The four DORA metrics, computed from the outcomes of each pipeline's last stage.

use berth_api::insights as wire;
use berth_core::access::{Action, permit};
use berth_core::insights::{DayMetrics, DoraMetrics, measure};
use berth_core::time::Timestamp;
use berth_store::tables::{pipeline, stage_end};

use super::resource_access::{require_everywhere, stage_targets};
use super::{ApiResponse, App};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::limits::{DELIVERY_ROWS_MAX, INSIGHT_DAYS_DEFAULT, INSIGHT_DAYS_MAX};

const DAY_S: i64 = 24 * 60 * 60;
/// Length of the date part of an API timestamp.
const DATE_CHARS: usize = "2026-11-15".len();

#[derive(Debug, Clone, Default)]
pub struct InsightsRequest {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    /// Id or slug of a pipeline; `None` for all pipelines.
    pub pipeline: Option<String>,
}

impl App {
    pub async fn view_delivery(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsRead>,
        asked: InsightsRequest,
    ) -> Result<ApiResponse<wire::DeliveryInsights>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let to = asked.to.unwrap_or(db.now());
            let from = asked.from.unwrap_or(to.plus_seconds(-INSIGHT_DAYS_DEFAULT * DAY_S));
            check_range(from, to)?;
            let pipeline = match asked.pipeline {
                None => {
                    require_everywhere(&access, Action::DeploymentsRead)?;
                    None
                }
                Some(key) => {
                    let found = pipeline::find(db, &key)?.filter(|found| {
                        let targets = stage_targets(found);
                        targets.iter().any(|target| access.may(Action::DeploymentsRead, target))
                    });
                    let missing =
                        || AppError::invalid_parameter("pipeline", "is not a pipeline of this organization");
                    Some(found.ok_or_else(missing)?.id)
                }
            };
            // Read one row more than the limit to detect truncation.
            let mut seen = stage_end::list_last_stages(db, pipeline, from, to, DELIVERY_ROWS_MAX + 1)?;
            let most = usize::try_from(DELIVERY_ROWS_MAX).unwrap_or(usize::MAX);
            let is_cut = seen.len() > most;
            seen.drain(..seen.len().saturating_sub(most));
            let found = to_response(&measure(&seen, from, to), from, to);
            let pipeline_id = pipeline.map(|id| id.to_string());
            Ok(ApiResponse::ok(wire::DeliveryInsights { pipeline_id, is_cut, ..found }))
        })
        .await
    }
}

fn check_range(from: Timestamp, to: Timestamp) -> Result<(), AppError> {
    if from >= to {
        return Err(AppError::invalid_parameter("from", "must be before `to`"));
    }
    if to > from.plus_seconds(INSIGHT_DAYS_MAX * DAY_S) {
        let text = format!("must be at most {INSIGHT_DAYS_MAX} days before `to`");
        return Err(AppError::invalid_parameter("from", text));
    }
    Ok(())
}

fn to_response(found: &DoraMetrics, from: Timestamp, to: Timestamp) -> wire::DeliveryInsights {
    wire::DeliveryInsights {
        from: from.to_string(),
        to: to.to_string(),
        pipeline_id: None,
        is_cut: false,
        deployment_frequency: wire::DeploymentFrequency {
            deployments: found.deployments,
            per_day: per_day(found.deployments, to.seconds_since(from)),
        },
        lead_time: wire::LeadTime {
            median_seconds: found.lead.seconds.median,
            p90_seconds: found.lead.seconds.p90,
            from_commit: found.lead.from_commit,
            from_creation: found.lead.from_creation,
        },
        change_failure_rate: wire::ChangeFailureRate {
            rate: found.failures.rate(),
            failed: found.failures.failed,
            rolled_back: found.failures.rolled_back,
            deployments: found.failures.reached,
        },
        time_to_restore: wire::TimeToRestore {
            median_seconds: found.restores.seconds.median,
            p90_seconds: found.restores.seconds.p90,
            restored: found.restores.restored,
            open: found.restores.open,
        },
        days: found.days.iter().map(day_to_wire).collect(),
    }
}

fn day_to_wire(it: &DayMetrics) -> wire::DeliveryDay {
    let mut date = it.start.to_string();
    date.truncate(DATE_CHARS);
    wire::DeliveryDay {
        date,
        deployments: it.deployments,
        failed: it.failed,
        lead_time_seconds: it.lead_median,
        restore_seconds: it.restore_median,
    }
}

/// Returns the average count per day, rounded down to three decimals.
fn per_day(count: usize, seconds: i64) -> f64 {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let thousandths = count.saturating_mul(1_000).saturating_mul(DAY_S) / seconds.max(1);
    f64::from(i32::try_from(thousandths).unwrap_or(i32::MAX)) / 1_000.0
}
