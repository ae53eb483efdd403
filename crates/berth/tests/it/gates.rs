//! Pending approvals and deployment windows survive `kill -9` of the server.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{TestHome, TestServer, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const ORG: &str = "/api/v1/organizations/acme";
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  stages: [{ name: production, requires: { timeout: 1h } }]
  steps:
    - { name: Soak, type: soak, params: { duration: 2s } }
    - { name: Ask, type: approval }
    - { name: Deploy, type: dummy }
";

fn start(home: &TestHome) -> TestServer {
    let mut command = home.serve_command();
    TestServer::start(command.args(["--sandbox", "off"]).env("BERTH_LOG__LEVEL", "warn"), &home.token)
}

fn kill_and_restart(home: &TestHome, mut server: TestServer) -> TestServer {
    server.process.kill();
    drop(server);
    start(home)
}

/// Waits until the first entry of `blockedBy` has this kind, and returns the deployment.
fn wait_for_obstacle(server: &TestServer, id: &str, kind: &str) -> Value {
    wait_until(PATIENCE, kind, || {
        let seen = server.api.get(&format!("{ORG}/deployments/{id}")).json()["data"].clone();
        (seen["blockedBy"][0]["kind"] == kind).then(|| seen["blockedBy"][0].clone())
    })
}

fn approve(server: &TestServer) -> Value {
    let open = server.api.get(&format!("{ORG}/approvals")).json()["data"].clone();
    assert_eq!(open.as_array().map(Vec::len), Some(1), "{open}");
    let path = format!("{ORG}/approvals/{}/approve", open[0]["id"].as_str().expect("an id"));
    let said = server.api.post(&path, &json!({}));
    assert_eq!(said.status, 200, "{}", said.text());
    open[0].clone()
}

#[test]
fn approvals_and_windows_stay_pending_after_kill() {
    let home = TestHome::new();
    let server = start(&home);
    let made =
        server.api.post(&format!("{ORG}/pipelines"), &json!({"slug": "shop", "definition": DEFINITION}));
    assert_eq!(made.status, 201, "{}", made.text());
    let started =
        server.api.post(&format!("{ORG}/pipelines/shop/deployments"), &json!({"commitId": "4f2a1c9"}));
    let id = started.json()["data"]["id"].as_str().expect("an id").to_owned();
    let asked = wait_for_obstacle(&server, &id, "approval");

    let server = kill_and_restart(&home, server);
    assert_eq!(wait_for_obstacle(&server, &id, "approval"), asked, "the same question, until the same time");
    let first = approve(&server);
    let soaks = wait_for_obstacle(&server, &id, "soak");

    let server = kill_and_restart(&home, server);
    let ended = wait_for_obstacle(&server, &id, "approval");
    assert_ne!(soaks["clearsAt"], ended["clearsAt"]);

    let server = kill_and_restart(&home, server);
    let second = approve(&server);
    assert_ne!(first["id"], second["id"]);
    let seen = wait_until(PATIENCE, "end", || {
        let seen = server.api.get(&format!("{ORG}/deployments/{id}")).json()["data"].clone();
        seen["finishedAt"].is_string().then_some(seen)
    });
    assert_eq!(seen["status"], "succeeded", "{seen}");
    let asked = server.api.get(&format!("{ORG}/approvals?status=all")).json()["data"].clone();
    assert_eq!(asked.as_array().map(Vec::len), Some(2), "no approval is requested twice: {asked}");
    server.stop();
}
