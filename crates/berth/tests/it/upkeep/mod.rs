//! Operations: backup and restore, copied database files, retention, TLS, metrics, migration to PostgreSQL, read-only
//! SQL.

mod backup;
mod copied_database;
mod event_retention;
mod metrics;
mod migration;
mod retention;
pub(crate) mod tls;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::ApiHandle;
use crate::harness::{ProcessOutput, TestServer, berth, run, wait_until};

pub(super) const PATIENCE: Duration = Duration::from_secs(120);
pub(super) const ORGANIZATION: &str = "/api/v1/organizations/acme";
pub(super) const SHOP: &str = "/api/v1/organizations/acme/pipelines/shop";
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }]
  ephemeral_environments:
    qa-1: {}
    qa-2: {}
  steps:
    - name: Speak
      type: script
      params: { run: 'echo it runs; mkdir out; echo built > out/a; [ \"$BERTH_COMMIT\" != slow ] || sleep 600' }
      artifacts: { made: { path: out } }
      on_lost: ask
";

/// Runs `berth admin …` on a data directory.
pub(super) fn run_admin(words: &[&str], dir: &Path) -> ProcessOutput {
    run(&[&["admin"], words, &["--data-dir", path_text(dir)]].concat())
}

pub(super) fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

pub(super) fn serve(dir: &Path, more: &[&str], token: &str) -> TestServer {
    let words = ["serve", "--listen", "127.0.0.1:0", "--rate-limit", "off", "--data-dir", path_text(dir)];
    TestServer::start(berth(&[&words, more].concat()).env("BERTH_LOG__LEVEL", "warn"), token)
}

pub(super) fn make_shop(api: &ApiHandle) {
    let body = json!({ "slug": "shop", "definition": DEFINITION });
    let made = api.post(&format!("{ORGANIZATION}/pipelines"), &body);
    assert_eq!(made.status, 201, "{}", made.text());
}

/// Claims the environment; returns session id and fence.
pub(super) fn claim(api: &ApiHandle, environment: &str) -> (String, i64) {
    let held = api.post(&format!("{SHOP}/ephemeral-environments/{environment}/sessions"), &json!({}));
    assert_eq!(held.status, 201, "{}", held.text());
    let told = held.json()["data"].clone();
    let id = told["sessionId"].as_str().expect("a session").to_owned();
    (id, told["fence"].as_i64().expect("a fence"))
}

/// Deploys in a session; returns the deployment once it has the wanted status.
pub(super) fn deploy(api: &ApiHandle, environment: &str, session: &str, commit: &str, status: &str) -> Value {
    let path = format!("{SHOP}/ephemeral-environments/{environment}/sessions/{session}/deploy");
    let asked = api.post(&path, &json!({ "commitId": commit }));
    assert_eq!(asked.status, 202, "{}", asked.text());
    let id = asked.json()["data"]["id"].as_str().expect("its id").to_owned();
    wait_until(PATIENCE, &format!("deployment that is {status}"), || {
        let seen = api.get(&format!("{ORGANIZATION}/deployments/{id}")).json()["data"].clone();
        let step = &seen["stages"][0]["steps"][0]["status"];
        (seen["status"] == status && (status != "running" || *step == "running")).then_some(seen)
    })
}

pub(super) fn deploy_log(api: &ApiHandle, deployment: &Value) -> String {
    let step = deployment["stages"][0]["steps"][0]["id"].as_str().expect("a step");
    let id = deployment["id"].as_str().expect("its id");
    api.get(&format!("{ORGANIZATION}/deployments/{id}/steps/{step}/logs?raw=true")).text()
}
