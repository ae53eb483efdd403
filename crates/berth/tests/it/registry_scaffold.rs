//! Registries created with `berth registry new`, registered on a running server and used in a pipeline.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use berth_testkit::outcome;
use serde_json::{Value, json};

use crate::harness::{TestHome, TestServer, berth, wait_until};

/// Long enough for a build that downloads a compiler.
const PATIENCE: Duration = Duration::from_secs(480);
const ORGANIZATION: &str = "/api/v1/organizations/acme";

/// Scaffolds a registry and commits it; returns its URL.
fn scaffold(outside: &Path, name: &str, language: &str) -> String {
    let made = berth(&["registry", "new", name, "--lang", language]).current_dir(outside).output();
    assert!(made.expect("the program").status.success());
    let dir = outside.join(name);
    for words in ["init --quiet --initial-branch main", "add .", "commit --quiet --message steps"] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Ada", "-c", "user.email=ada@acme.test"]).args(words.split(' '));
        let done = git.current_dir(&dir).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    }
    dir.display().to_string()
}

/// Starts a server with a sandbox that works on this machine.
fn start(home: &TestHome, outside: &Path) -> TestServer {
    let mut command = home.serve_command();
    command.arg("--repository-root").arg(outside).env("BERTH_LOG__LEVEL", "warn");
    TestServer::start(&mut command, &home.token)
}

/// Registers the registry, waits until it has been built, and returns its API path.
fn register(server: &TestServer, name: &str, url: &str) -> String {
    let body = json!({"name": name, "url": url});
    let added = server.api.post(&format!("{ORGANIZATION}/step-registries"), &body);
    assert_eq!(added.status, 201, "{}", added.text());
    let path = format!("{ORGANIZATION}/step-registries/{}", text(&added.json()["data"]["id"]));
    wait_until(PATIENCE, "built registry", || {
        let seen = server.api.get(&path).json()["data"].clone();
        let log = || server.api.get(&format!("{path}/builds/1/logs")).text();
        assert_ne!(seen["status"], "failed", "{seen}\n{}", log());
        (seen["status"] == "ready").then_some(())
    });
    path
}

/// Deploys a pipeline with all three scaffolded steps.
fn check_scaffold(name: &str, language: &str) {
    let (home, outside) = (TestHome::new(), tempfile::tempdir().expect("a directory"));
    let url = scaffold(outside.path(), name, language);
    let server = start(&home, outside.path());
    let path = register(&server, name, &url);
    let steps = server.api.get(&format!("{path}/steps")).json()["data"].clone();
    let shown = serde_json::to_string(&steps).expect("JSON");
    for part in
        ["GREET", "ROLLOUT", "WIPE", "Whom to greet", "Starts a rollout", &format!("type: {name}/wipe")]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let definition = format!(
        "version: 1
pipeline:
  name: Shop
  stages: [{{ name: staging }}]
  steps:
    - {{ name: Greet, id: greet, type: {name}/greet, params: {{ who: world }} }}
    - {{ name: Roll out, id: rollout, type: CUSTOM:ROLLOUT, params: {{ version: v1, replicas: 2 }} }}
    - {{ name: Wipe, id: wipe, type: {name}/wipe, params: {{ table: '${{{{ steps.rollout.id }}}}' }} }}
"
    );
    let made = server
        .api
        .post(&format!("{ORGANIZATION}/pipelines"), &json!({"slug": "shop", "definition": definition}));
    assert_eq!(made.status, 201, "{}", made.text());
    let asked =
        server.api.post(&format!("{ORGANIZATION}/pipelines/shop/deployments"), &json!({"commitId": "aaa1"}));
    assert_eq!(asked.status, 202, "{}", asked.text());
    let deployment = format!("{ORGANIZATION}/deployments/{}", text(&asked.json()["data"]["id"]));
    let question = wait_until(PATIENCE, "question of the last step", || {
        let seen = server.api.get(&deployment).json()["data"].clone();
        assert!(!seen["finishedAt"].is_string(), "{seen}");
        server.api.get(&format!("{ORGANIZATION}/approvals")).json()["data"].get(0).cloned()
    });
    let shown = serde_json::to_string(&question).expect("JSON");
    assert!(shown.contains("empties the table rollout-v1"), "{shown}");
    let said =
        server.api.post(&format!("{ORGANIZATION}/approvals/{}/approve", text(&question["id"])), &json!({}));
    assert!(said.status < 300, "{}", said.text());
    let ended = wait_until(PATIENCE, "end", || {
        let seen = server.api.get(&deployment).json()["data"].clone();
        seen["finishedAt"].is_string().then_some(seen)
    });
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let steps = &ended["stages"][0]["steps"];
    assert_eq!(steps[0]["outputs"], json!({"text": "Hello, world!"}));
    assert_eq!(steps[1]["outputs"], json!({"id": "rollout-v1", "ready": "2"}));
    assert_eq!(steps[1]["attempts"][0]["calls"], 3, "{ended}");
    let log = server.api.get(&format!("{deployment}/steps/rollout/logs?raw=true")).text();
    assert_eq!(log, "starting the rollout of v1\n1 of 2 are ready\n2 of 2 are ready\n");
    server.stop();
}

fn is_installed(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|told| told.status.success())
}

#[test]
fn shell_scaffold_runs_in_a_pipeline() {
    if !is_installed("jq", &["--version"]) {
        outcome::skip("jq", "apt-get install jq");
        return;
    }
    check_scaffold("shelly", "shell");
}

#[test]
fn typescript_scaffold_runs_in_a_pipeline() {
    if !is_installed("npm", &["view", "typescript", "version"]) {
        outcome::skip("the npm registry", "typescript is fetched from it");
        return;
    }
    check_scaffold("typed", "typescript");
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
