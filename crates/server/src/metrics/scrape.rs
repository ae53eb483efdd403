//! Collects the metrics for one scrape: counters in memory, and values read from the database.

use std::fmt;
use std::time::Duration;

use berth_core::runner::RunnerStatus;
use berth_store::commit_stats::{BOUNDS_US, CommitStats};
use berth_store::tables::gauges;
use berth_store::tables::gauges::InstanceGauges;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::RequestMetrics;
use crate::error::AppError;
use crate::jobs::BackgroundJobs;

/// All runner states, so that a state without runners is exported as 0.
const RUNNER_STATES: [(RunnerStatus, &str); 5] = [
    (RunnerStatus::Pending, "pending"),
    (RunnerStatus::Online, "online"),
    (RunnerStatus::Draining, "draining"),
    (RunnerStatus::Offline, "offline"),
    (RunnerStatus::Lost, "lost"),
];

/// Renders the metrics in the OpenMetrics text format.
pub(super) async fn scrape(jobs: &BackgroundJobs, requests: &RequestMetrics) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("berth_build", "Version of the server", build);
    let mut gauge =
        |name: &str, help: &str, value: u64| registry.register(name, help, ConstGauge::new(value));
    gauge("berth_leader", "Whether this server runs the background jobs", jobs.lead.is_leader().into());
    if let Ok(info) = rustix::fs::statvfs(&jobs.config.data_dir) {
        let free = info.f_bavail * info.f_frsize;
        gauge("berth_data_free_bytes", "Free space on the file system of the data directory", free);
    }
    if let Some(objects) = &jobs.services.objects {
        let storage = objects.storage();
        gauge(
            "berth_storage_up",
            "Whether the last access to object storage succeeded",
            storage.is_up().into(),
        );
        let unstored = jobs.services.logs.unstored_count() as u64;
        gauge("berth_storage_logs_pending", "Logs with output that is not in object storage yet", unstored);
    }
    let looked = jobs.services.store.read(None, |db| Ok::<_, AppError>((gauges::load(db)?, db.now()))).await;
    gauge("berth_database_up", "Whether the database responds", looked.is_ok().into());
    let counted = jobs.services.store.commit_stats();
    gauge("berth_database_queue_length", "Write jobs waiting for the writer", counted.waiting);
    let help = "Write jobs that were committed or rolled back; several share a commit";
    registry.register("berth_database_changes", help, ConstCounter::new(counted.jobs));
    let help = "Waits for the PostgreSQL server; several statements can share one";
    registry.register("berth_database_round_trips", help, ConstCounter::new(counted.round_trips));
    let help = "Duration of commits, including the write jobs in them";
    registry.register("berth_database_commit_duration_seconds", help, CommitDurations(counted));
    if let Some(objects) = &jobs.services.objects {
        let help = "Failed accesses to object storage";
        registry.register("berth_storage_failures", help, ConstCounter::new(objects.storage().failures()));
    }
    requests.register(&mut registry);
    match looked {
        Ok((found, now)) => {
            register_store_metrics(&mut registry, &found);
            let runners = Family::<[(&str, &str); 1], Gauge>::default();
            for (state, word) in RUNNER_STATES {
                let is_in =
                    found.runners.iter().filter(|it| it.state(now, &jobs.config.runner_times) == state);
                runners.get_or_create(&[("state", word)]).inc_by(is_in.map(|_| 1).sum());
            }
            registry.register("berth_runners", "Remote runners, by state", runners);
        }
        Err(error) => tracing::warn!(?error, "cannot read metrics from the database"),
    }
    let mut body = String::new();
    text::encode(&mut body, &registry)?;
    Ok(body)
}

fn register_store_metrics(registry: &mut Registry, found: &InstanceGauges) {
    for (name, help, value) in [
        ("berth_sessions_held", "Environments that are held", found.open_sessions),
        ("berth_tickets_waiting", "Tickets in the queues of environments", found.waiting_tickets),
        ("berth_steps_running", "Running steps", found.running_steps),
        (
            "berth_deployments_ready",
            "Deployments with a step that waits for a runner or for its start time",
            found.ready_deployments,
        ),
        ("berth_deployments_queued", "Deployments that wait to enter a stage", found.queued_deployments),
        ("berth_webhooks_failing", "Webhooks whose last delivery failed", found.failing_webhooks),
        ("berth_webhooks_inactive", "Inactive webhooks", found.inactive_webhooks),
    ] {
        registry.register(name, help, ConstGauge::new(value));
    }
    let help = "Events in the audit logs of all organizations";
    registry.register("berth_events", help, ConstCounter::new(found.events.unsigned_abs()));
}

#[derive(Debug)]
struct CommitDurations(CommitStats);

impl EncodeMetric for CommitDurations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let seconds = |us: u64| Duration::from_micros(us).as_secs_f64();
        let CommitStats { within, count, sum_us, .. } = self.0;
        let bounds = BOUNDS_US.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        let mut before = 0;
        // The store's buckets are cumulative, but the encoder expects the count of each bucket alone.
        let buckets = bounds.zip(within.into_iter().chain([count]));
        let buckets = buckets.map(|(bound, up_to)| {
            let in_bucket = up_to.saturating_sub(before);
            before = up_to;
            (bound, in_bucket)
        });
        encoder.encode_histogram::<NoLabelSet>(seconds(sum_us), count, &buckets.collect::<Vec<_>>(), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
