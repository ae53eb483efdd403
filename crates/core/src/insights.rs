//! DORA metrics: how often, how fast and how safely changes reach the last stage of a pipeline.
//!
//! A rollback is not a change: it counts neither as a deployment nor as a failure. A successful rollback does end a
//! failure.

use std::collections::{BTreeMap, BTreeSet};

use crate::deployment::stages::stage::PastStageEnd;
use crate::id::{DeploymentId, PipelineId};
use crate::time::Timestamp;

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// A deployment that ended in the last stage of its pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct LastStageEnd {
    pub past: PastStageEnd,
    /// When the deployment was requested.
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DoraMetrics {
    /// Number of changes that succeeded in the last stage.
    pub deployments: usize,
    pub lead: LeadTimeStats,
    pub failures: FailureStats,
    pub restores: RestoreStats,
    /// One entry for every day (UTC) of the period.
    pub days: Vec<DayMetrics>,
}

/// Lead time: seconds from the commit to success in the last stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadTimeStats {
    pub seconds: DurationPercentiles,
    /// Number of changes with a known commit time.
    pub from_commit: usize,
    /// Number of changes without a known commit time; their lead time starts with the request for the deployment.
    pub from_creation: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FailureStats {
    /// Number of changes that succeeded or failed in the last stage.
    pub reached: usize,
    pub failed: usize,
    /// Number of changes that succeeded and were rolled back later.
    pub rolled_back: usize,
}

impl FailureStats {
    /// The share of changes that failed or were rolled back; `None` if there were no changes.
    pub fn rate(&self) -> Option<f64> {
        ratio(self.failed + self.rolled_back, self.reached)
    }
}

/// Seconds from a failure to the next success in the same stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreStats {
    pub seconds: DurationPercentiles,
    pub restored: usize,
    /// Number of pipelines still failing at the end of the period.
    pub open: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationPercentiles {
    pub median: Option<i64>,
    pub p90: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DayMetrics {
    pub start: Timestamp,
    pub deployments: usize,
    pub failed: usize,
    pub lead_median: Option<i64>,
    pub restore_median: Option<i64>,
}

#[derive(Default)]
struct DaySamples {
    deployments: usize,
    failed: usize,
    leads: Vec<i64>,
    restores: Vec<i64>,
}

/// Computes the metrics. `seen` is sorted, oldest first. The caller limits the length of the period.
pub fn measure(seen: &[LastStageEnd], from: Timestamp, to: Timestamp) -> DoraMetrics {
    let mut days: BTreeMap<i64, DaySamples> = BTreeMap::new();
    let last = to.as_micros().saturating_sub(1).max(from.as_micros()).div_euclid(DAY_MICROS);
    for day in from.as_micros().div_euclid(DAY_MICROS)..=last {
        days.entry(day).or_default();
    }
    let (mut leads, mut restored_after) = (Vec::new(), Vec::new());
    let (mut from_commit, mut deployments) = (0, 0);
    let (mut reached, mut failed) = (BTreeSet::new(), BTreeSet::new());
    let mut rolled_back: BTreeSet<DeploymentId> = BTreeSet::new();
    let mut broken: BTreeMap<PipelineId, Timestamp> = BTreeMap::new();
    for it in seen {
        let end = &it.past.end;
        let day = days.entry(end.at.as_micros().div_euclid(DAY_MICROS)).or_default();
        if end.is_success
            && let Some(since) = broken.remove(&end.pipeline)
        {
            let seconds = end.at.seconds_since(since).max(0);
            restored_after.push(seconds);
            day.restores.push(seconds);
        }
        if !end.is_success {
            broken.entry(end.pipeline).or_insert(end.at);
        }
        if end.rolled_back.is_some() {
            continue;
        }
        reached.insert(end.deployment);
        if end.is_success {
            deployments += 1;
            day.deployments += 1;
            from_commit += usize::from(end.committed_at.is_some());
            let seconds = end.at.seconds_since(end.committed_at.unwrap_or(it.created_at)).max(0);
            leads.push(seconds);
            day.leads.push(seconds);
            if it.past.is_rolled_back {
                rolled_back.insert(end.deployment);
            }
        } else {
            day.failed += usize::from(failed.insert(end.deployment));
        }
    }
    DoraMetrics {
        deployments,
        lead: LeadTimeStats {
            from_commit,
            from_creation: leads.len() - from_commit,
            seconds: duration_percentiles(leads),
        },
        failures: FailureStats {
            reached: reached.len(),
            failed: failed.len(),
            rolled_back: rolled_back.difference(&failed).count(),
        },
        restores: RestoreStats {
            restored: restored_after.len(),
            seconds: duration_percentiles(restored_after),
            open: broken.len(),
        },
        days: days.into_iter().map(summarize_day).collect(),
    }
}

fn summarize_day((day, it): (i64, DaySamples)) -> DayMetrics {
    DayMetrics {
        start: Timestamp::from_micros(day.saturating_mul(DAY_MICROS)),
        deployments: it.deployments,
        failed: it.failed,
        lead_median: duration_percentiles(it.leads).median,
        restore_median: duration_percentiles(it.restores).median,
    }
}

fn duration_percentiles(mut seconds: Vec<i64>) -> DurationPercentiles {
    seconds.sort_unstable();
    DurationPercentiles { median: median(&seconds), p90: p90(&seconds) }
}

/// The middle of sorted values; of an even number of values, the mean of the two in the middle.
pub fn median(sorted: &[i64]) -> Option<i64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    Some(lower.midpoint(upper))
}

/// The smallest of sorted values that at least 90% do not exceed.
pub fn p90(sorted: &[i64]) -> Option<i64> {
    sorted.get((sorted.len() * 9).div_ceil(10).saturating_sub(1)).copied()
}

/// The ratio, rounded to three decimal places.
fn ratio(part: usize, whole: usize) -> Option<f64> {
    let thousandths = (part * 1_000).checked_div(whole)?;
    Some(f64::from(u32::try_from(thousandths).unwrap_or(1_000)) / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::stages::stage::StageEnd;

    const HOUR_S: i64 = 3_600;

    fn midnight() -> Timestamp {
        Timestamp::parse("2026-11-01T00:00:00Z").expect("a time")
    }

    #[test]
    fn percentiles_of_few_values() {
        for (sorted, middle, high) in [
            (&[][..], None, None),
            (&[7], Some(7), Some(7)),
            (&[0, 960], Some(480), Some(960)),
            (&[1, 2, 30], Some(2), Some(30)),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9, 100], Some(5), Some(9)),
        ] {
            assert_eq!((median(sorted), p90(sorted)), (middle, high), "{sorted:?}");
        }
    }

    fn id(number: u8) -> DeploymentId {
        DeploymentId::from_parts(midnight(), [number; 10])
    }

    /// A deployment that ended in the last stage at this hour and was requested an hour before.
    fn stage_end(number: u8, hours: i64, is_success: bool) -> LastStageEnd {
        let at = midnight().plus_seconds(hours * HOUR_S);
        let end = StageEnd {
            pipeline: PipelineId::from_parts(midnight(), [0; 10]),
            stage: "production".into(),
            deployment: id(number),
            tries: 1,
            is_success,
            at,
            origin: id(number),
            rolled_back: None,
            committed_at: None,
            is_last: true,
        };
        LastStageEnd {
            past: PastStageEnd { end, is_rolled_back: false },
            created_at: at.plus_seconds(-HOUR_S),
        }
    }

    fn with_commit_time(mut it: LastStageEnd, hours_before: i64) -> LastStageEnd {
        it.past.end.committed_at = Some(it.past.end.at.plus_seconds(-hours_before * HOUR_S));
        it
    }

    fn measure_days(seen: &[LastStageEnd], days: i64) -> DoraMetrics {
        measure(seen, midnight(), midnight().plus_seconds(days * 24 * HOUR_S))
    }

    #[test]
    fn metrics_without_deployments_are_empty() {
        let found = measure_days(&[], 2);
        assert_eq!((found.deployments, found.failures.rate()), (0, None));
        assert_eq!(
            (&found.lead.seconds, &found.restores.seconds),
            (&DurationPercentiles::default(), &DurationPercentiles::default())
        );
        let days: Vec<_> = found.days.iter().map(|day| (day.start.to_string(), day.lead_median)).collect();
        let wanted = ["2026-11-01T00:00:00.000Z", "2026-11-02T00:00:00.000Z"];
        assert_eq!(days, wanted.map(|day| (day.to_owned(), None)));
    }

    #[test]
    fn metrics_of_sample_deployments_match_expected_values() {
        let mut bad = stage_end(4, 30, true);
        bad.past.is_rolled_back = true;
        let mut back = stage_end(5, 31, true);
        (back.past.end.rolled_back, back.past.end.origin) = (Some(id(4)), id(3));
        let history = [
            with_commit_time(stage_end(1, 10, true), 5),
            // Deployment 2 fails twice, and deployment 3 succeeds two hours after the first failure.
            stage_end(2, 12, false),
            stage_end(2, 13, false),
            stage_end(3, 14, true),
            bad,
            back,
            stage_end(6, 40, false),
        ];
        let found = measure_days(&history, 2);
        assert_eq!(found.deployments, 3);
        let lead = LeadTimeStats {
            seconds: DurationPercentiles { median: Some(HOUR_S), p90: Some(5 * HOUR_S) },
            from_commit: 1,
            from_creation: 2,
        };
        assert_eq!(found.lead, lead);
        assert_eq!(found.failures, FailureStats { reached: 5, failed: 2, rolled_back: 1 });
        assert_eq!(found.failures.rate(), Some(0.6));
        let seconds = DurationPercentiles { median: Some(2 * HOUR_S), p90: Some(2 * HOUR_S) };
        assert_eq!(found.restores, RestoreStats { seconds, restored: 1, open: 1 });
        let days: Vec<_> = found.days.iter().map(|day| (day.deployments, day.failed)).collect();
        assert_eq!(days, [(2, 1), (1, 1)]);
    }

    #[test]
    fn rollback_counts_as_restore_but_not_as_deployment() {
        let mut back = stage_end(3, 3, true);
        (back.past.end.rolled_back, back.past.end.origin) = (Some(id(2)), id(1));
        let found = measure_days(&[stage_end(1, 1, true), stage_end(2, 2, false), back], 1);
        assert_eq!((found.deployments, found.failures.reached), (1, 2));
        assert_eq!(found.restores.seconds.median, Some(HOUR_S));
    }

    #[test]
    fn lead_time_of_commit_in_future_is_zero() {
        let found = measure_days(&[with_commit_time(stage_end(1, 1, true), -3)], 1);
        assert_eq!(found.lead.seconds.median, Some(0));
    }
}
