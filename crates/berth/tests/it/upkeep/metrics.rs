//! Metrics: correct values at their own address, no user-chosen names in labels, and alert rules that use only existing
//! metrics.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::json;

use super::{PATIENCE, SHOP, claim, make_shop};
use crate::client::ApiHandle;
use crate::harness::{TestHome, TestServer, wait_until};

const ALERTS: &str = include_str!("../../../../../packaging/alerts.yaml");

/// Returns all words that look like names of our metrics.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    text.split(|c| !is_part(c)).filter(|word| word.starts_with("berth_")).collect()
}

#[test]
fn metrics_are_correct_anonymous_and_match_the_alerts() {
    let home = TestHome::new();
    let mut command = home.serve_command();
    command.env("BERTH_METRICS__LISTEN", "127.0.0.1:0").env("BERTH_LOG__FORMAT", "json");
    let server = TestServer::start(&mut command, &home.token);
    let address: SocketAddr = wait_until(PATIENCE, "address of the metrics", || {
        let log = server.process.stderr();
        let line = log.lines().find(|line| line.contains("serving metrics"))?;
        let told: serde_json::Value = serde_json::from_str(line).ok()?;
        told["address"].as_str()?.parse().ok()
    });
    make_shop(&server.api);
    claim(&server.api, "qa-1");
    let path = format!("{SHOP}/ephemeral-environments/qa-1/sessions");
    assert_eq!(server.api.post(&path, &json!({})).status, 409);
    assert_eq!(server.api.get("/nothing/like/this/canary-77").status, 404);

    let measured = ApiHandle { address, token: String::new() };
    let text = measured.get("/metrics").text();
    for line in [
        "berth_sessions_held 1",
        "berth_tickets_waiting 0",
        "berth_database_up 1",
        "berth_lock_operations_total{operation=\"claim\",outcome=\"done\"} 1",
        "berth_lock_operations_total{operation=\"claim\",outcome=\"locked\"} 1",
        "berth_http_requests_total{route=\"/api/v1/organizations/{orgId}/pipelines\",method=\"POST\",status=\"201\"} 1",
        "berth_runners{state=\"online\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let count =
        text.lines().find_map(|line| line.strip_prefix("berth_database_commit_duration_seconds_count "));
    assert!(count.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count > 2), "{text}");
    for chosen in ["acme", "shop", "qa-1", "ada", "canary"] {
        assert!(!text.contains(chosen), "{chosen} is in\n{text}");
    }
    let served = metric_names(&text);
    for wanted in metric_names(ALERTS) {
        assert!(served.contains(wanted), "{wanted} of packaging/alerts.yaml is not served");
    }
    assert!(metric_names(ALERTS).len() > 5, "alerts name nothing");

    assert_eq!(measured.get("/healthz").status, 404, "nothing else is there");
    assert!(!server.api.get("/metrics").text().contains("berth_sessions_held"), "not where people are");
    server.stop();
}
