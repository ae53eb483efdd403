//! HTTP requests by route and status. The route label is the route pattern, never the path that a client sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

const BOUNDS_S: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 60.0];
/// Maximum number of label combinations. Requests with further combinations are counted as [`OTHER`].
const SERIES_MAX: usize = 2_048;
/// Label for requests that match no route or exceed [`SERIES_MAX`].
const OTHER: &str = "other";

/// Lock operations: the method, the end of the route pattern, and the label.
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: Arc<str>,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: Arc<str>,
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LockLabels {
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Debug)]
pub(crate) struct RequestMetrics {
    answered: Family<RequestLabels, Counter>,
    series: AtomicUsize,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    locks: Family<LockLabels, Counter>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        let durations = Family::new_with_constructor((|| Histogram::new(BOUNDS_S)) as fn() -> Histogram);
        Self { answered: Family::default(), series: AtomicUsize::new(0), durations, locks: Family::default() }
    }
}

impl RequestMetrics {
    pub(crate) fn record_request(
        &self,
        method: &Method,
        route: Option<Arc<str>>,
        status: StatusCode,
        took: Duration,
    ) {
        let (route, method, status) =
            (route.unwrap_or_else(|| OTHER.into()), method_label(method), status.as_u16());
        let found = LOCK_OPERATIONS.iter().find(|(of, end, _)| *of == method && route.ends_with(end));
        if let Some((_, _, operation)) = found {
            self.locks.get_or_create(&LockLabels { operation, outcome: outcome_label(status) }).inc();
        }
        let mut labels = RequestLabels { route, method, status };
        let is_new = self.answered.get(&labels).is_none();
        if is_new && self.series.fetch_add(1, Ordering::Relaxed) >= SERIES_MAX {
            labels.route = OTHER.into();
        }
        self.answered.get_or_create(&labels).inc();
        let labels = RouteLabels { route: labels.route, method };
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "HTTP requests, by route and status";
        registry.register("berth_http_requests", help, self.answered.clone());
        let help = "Time until the response started, including the wait of long polls";
        registry.register("berth_http_request_duration_seconds", help, self.durations.clone());
        let help = "Operations on environments, by outcome";
        registry.register("berth_lock_operations", help, self.locks.clone());
    }
}

const fn outcome_label(status: u16) -> &'static str {
    match status {
        202 => "accepted",
        200..=299 => "done",
        409 => "locked",
        412 => "moved",
        400..=499 => "refused",
        _ => "failed",
    }
}

/// Returns the label for a method. Clients can send any method, so unknown methods share one label.
fn method_label(method: &Method) -> &'static str {
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
