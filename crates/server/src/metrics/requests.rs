//! Requests, counted by route and status. The route is that of the table, never the path somebody sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};

use super::text::Text;

const BOUNDS_MS: [u64; 10] = [1, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 60_000];
/// Routes times statuses; what comes after is counted as one.
const SERIES_MAX: usize = 2_048;
/// Nothing matched, or there was no room for one more.
const OTHER: &str = "other";

/// What of the lock a request is about. Named by method and end of the route.
const LOCK_OPERATIONS: [(&str, &str, &str); 8] = [
    ("POST", "/ephemeral-environments/{envName}/sessions", "claim"),
    ("POST", "/claim-any", "claim"),
    ("POST", "/force-claim", "force_claim"),
    ("POST", "/sessions/{sessionId}/extend", "extend"),
    ("POST", "/sessions/{sessionId}/hand-over", "hand_over"),
    ("POST", "/sessions/{sessionId}/deploy", "deploy"),
    ("DELETE", "/sessions/{sessionId}", "release"),
    ("DELETE", "/queue/{ticketId}", "leave"),
];

/// By route, method and status.
type All = BTreeMap<(Arc<str>, &'static str, u16), Series>;

#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<All>);

#[derive(Debug, Clone, Copy, Default)]
struct Series {
    buckets: [u64; BOUNDS_MS.len()],
    count: u64,
    sum_us: u64,
}

impl Requests {
    pub(crate) fn note(&self, method: &Method, route: Option<Arc<str>>, status: StatusCode, took: Duration) {
        let route = route.unwrap_or_else(|| OTHER.into());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (route, known(method), status.as_u16());
        if all.len() >= SERIES_MAX && !all.contains_key(&key) {
            key.0 = OTHER.into();
        }
        let series = all.entry(key).or_default();
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if let Some(place) = BOUNDS_MS.iter().position(|bound| ms <= *bound) {
            series.buckets[place] += 1;
        }
        series.count += 1;
        series.sum_us += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    }

    pub(super) fn write(&self, text: &mut Text) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let total = "berth_http_requests_total";
        text.about(total, "counter", "Requests that were answered, by route and status.");
        for ((route, method, status), series) in &all {
            let status = status.to_string();
            let labels = [("route", &**route), ("method", method), ("status", &status)];
            text.sample(total, &labels, series.count);
        }
        let mut by_route: BTreeMap<(&str, &str), Series> = BTreeMap::new();
        for ((route, method, _), series) in &all {
            by_route.entry((route, method)).or_default().add(series);
        }
        let took = "berth_http_request_duration_seconds";
        text.about(took, "histogram", "How long it took until the answer began; long polls with their wait.");
        for ((route, method), series) in by_route {
            let mut sum = 0;
            let within = BOUNDS_MS.iter().zip(series.buckets).map(|(bound, count)| {
                sum += count;
                (seconds(*bound * 1_000), sum)
            });
            let labels = [("route", route), ("method", method)];
            text.histogram(took, &labels, within, series.count, seconds(series.sum_us));
        }
        write_locks(text, &all);
    }
}

impl Series {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_us += other.sum_us;
        for (sum, more) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += more;
        }
    }
}

fn write_locks(text: &mut Text, all: &All) {
    let mut operations: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for ((route, method, status), series) in all {
        let found = LOCK_OPERATIONS.iter().find(|(of, end, _)| of == method && route.ends_with(end));
        if let Some((_, _, operation)) = found {
            *operations.entry((operation, outcome(*status))).or_default() += series.count;
        }
    }
    let name = "berth_lock_operations_total";
    text.about(name, "counter", "Operations on environments, by what came of them.");
    for ((operation, outcome), count) in operations {
        text.sample(name, &[("operation", operation), ("outcome", outcome)], count);
    }
}

const fn outcome(status: u16) -> &'static str {
    match status {
        202 => "accepted",
        200..=299 => "done",
        409 => "locked",
        412 => "moved",
        400..=499 => "refused",
        _ => "failed",
    }
}

/// A method is whatever a client sends.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => OTHER,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a measure, not an account")]
pub(super) fn seconds(us: u64) -> f64 {
    us as f64 / 1_000_000.0
}
