//! A client that takes over environments and deploys in them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::UnreliableClient;
use super::{PLACES, TakenEnvironment};
use crate::linear::real_server::session_ref;

const ORG: &str = "/api/v1/organizations/acme";
const SESSION_MS: std::ops::Range<u64> = 300..5_000;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Takes over an environment, deploys in it and releases it. Records what was acknowledged.
pub(super) fn take_over_and_deploy(client: &mut UnreliableClient<'_>) {
    let place = format!("w{}", client.random.next_in(0..PLACES));
    let environment = format!("{ORG}/pipelines/work/ephemeral-environments/{place}");
    let key = client.next_key();
    let body = json!({ "context": key, "commitId": "4f2a1c9" });
    let asked = client.request(|api| api.request("POST", &format!("{environment}/force-claim")).json(&body));
    let sent = client.shared.recorder.now();
    let Some(done) = client.send_until_answered(asked, &key).done else { return };
    let told = client.shared.recorder.now();
    let data = done.json()["data"].clone();
    let deployment = text(&data["deploymentId"]);
    let hold = session_ref(&data);
    let taken = TakenEnvironment {
        place,
        session: text(&data["sessionId"]),
        fence: hold.fence,
        deployment,
        sent,
        answered: told,
    };
    client.shared.taken.lock().expect("unpoisoned").push(taken.clone());

    // From here on, some clients release early, some lose the environment to another client, and some wait for the
    // deployment to finish.
    let until = Instant::now() + Duration::from_millis(client.random.next_in(SESSION_MS));
    let look = client.request(|api| api.request("GET", &format!("{ORG}/deployments/{}", taken.deployment)));
    while Instant::now() < until {
        let seen = client.send_once(&look);
        if seen.is_some_and(|seen| seen.json()["data"]["finishedAt"].is_string()) {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    if client.random.next_u64().is_multiple_of(2) {
        let release = format!("{environment}/sessions/{}", taken.session);
        let release = client.request(|api| api.request("DELETE", &release));
        client.send_once(&release);
    }
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text is missing: {value}")).to_owned()
}
