//! A client that takes over environments and deploys in them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::UnreliableClient;
use super::{PLACES, TakenEnvironment};
use crate::linear::real_server::session_ref;

const ORG: &str = "/api/v1/organizations/acme";
const STAYS_MS: std::ops::Range<u64> = 300..5_000;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Takes over an environment, deploys in it and releases it. Records what was acknowledged.
pub(super) fn take_over_and_deploy(asker: &mut UnreliableClient<'_>) {
    let place = format!("w{}", asker.random.within(0..PLACES));
    let environment = format!("{ORG}/pipelines/work/ephemeral-environments/{place}");
    let key = asker.key();
    let body = json!({ "context": key, "commitId": "4f2a1c9" });
    let asked = asker.request(|api| api.request("POST", &format!("{environment}/force-claim")).json(&body));
    let sent = asker.shared.board.now();
    let Some(done) = asker.send_until_answered(asked, &key).done else { return };
    let told = asker.shared.board.now();
    let data = done.json()["data"].clone();
    let deployment = text(&data["deploymentId"]);
    let hold = session_ref(&data);
    let taken = TakenEnvironment {
        place,
        session: text(&data["sessionId"]),
        fence: hold.fence,
        deployment,
        sent,
        told,
    };
    asker.shared.taken.lock().expect("unpoisoned").push(taken.clone());

    // From here on, some clients release early, some lose the environment to another client, and some wait for the
    // deployment to finish.
    let until = Instant::now() + Duration::from_millis(asker.random.within(STAYS_MS));
    let look = asker.request(|api| api.request("GET", &format!("{ORG}/deployments/{}", taken.deployment)));
    while Instant::now() < until {
        let seen = asker.send_once(&look);
        if seen.is_some_and(|seen| seen.json()["data"]["finishedAt"].is_string()) {
            break;
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    if asker.random.next().is_multiple_of(2) {
        let release = format!("{environment}/sessions/{}", taken.session);
        let release = asker.request(|api| api.request("DELETE", &release));
        asker.send_once(&release);
    }
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text is missing: {value}")).to_owned()
}
