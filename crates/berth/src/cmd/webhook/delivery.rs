//! `berth webhook deliveries` and `berth webhook redeliver`.

use berth_api::webhook::{DeliveryAttempt, DeliveryStatus, WireDelivery};
use serde_json::json;

use crate::client::{ApiClient, ClientError, percent_encode};
use crate::output::time::{format_ago, format_time_left};
use crate::output::{CommandOutput, strip_control_chars, wire_word};

/// Number of deliveries among which `redeliver` looks for the newest failed one.
const SEARCHED_MAX: usize = 200;

pub(super) fn list(client: &ApiClient, out: &CommandOutput, path: &str, count: usize) -> anyhow::Result<()> {
    let found = client.list::<WireDelivery>(&format!("{path}/deliveries"), count)?;
    let row = |it: &WireDelivery| {
        vec![
            format_ago(&it.created_at),
            it.kind.clone(),
            wire_word(it.status),
            it.attempts.len().to_string(),
            describe_last_attempt(it),
            it.id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["created", "event", "status", "attempts", "last response", "id"];
    out.print_table(&found.raw, &heading, &rows, "No deliveries yet.")
}

fn describe_last_attempt(it: &WireDelivery) -> String {
    let next = it.next_try_at.as_deref().map(|at| format!("; next attempt {}", format_time_left(at)));
    let last = it.attempts.last().map_or_else(|| "-".to_owned(), describe_attempt);
    format!("{last}{}", next.unwrap_or_default())
}

fn describe_attempt(it: &DeliveryAttempt) -> String {
    match (it.status, &it.error) {
        (Some(status), _) => format!("HTTP {status} after {} ms", it.duration_ms),
        (None, Some(error)) => strip_control_chars(error),
        (None, None) => "no response".to_owned(),
    }
}

pub(super) fn redeliver(
    client: &ApiClient,
    out: &CommandOutput,
    path: &str,
    delivery: Option<&str>,
) -> anyhow::Result<()> {
    let id = match delivery {
        Some(id) => id.to_owned(),
        None => {
            let found: Vec<WireDelivery> = client.list(&format!("{path}/deliveries"), SEARCHED_MAX)?.data;
            let failed = found.into_iter().find(|it| it.status == DeliveryStatus::Failed);
            failed.ok_or_else(|| ClientError::NotFound("no failed delivery; give a delivery id".into()))?.id
        }
    };
    let path = format!("{path}/deliveries/{}/redeliver", percent_encode(&id));
    let sent = client.post::<WireDelivery>(&path, &json!({}))?;
    out.print_reply(&sent.raw, || {
        format!("Redelivering {} ({}).", sent.data.kind, wire_word(sent.data.status))
    })
}
