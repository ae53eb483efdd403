//! A polling custom step survives `kill -9` of the server, both during a call and between calls.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{TestHome, TestServer, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const ORGANIZATION: &str = "/api/v1/organizations/acme";
const POLLS: usize = 5;

/// A step that records every call in a file and finishes after a fixed number of polls. While the file `hold` contains
/// a number, the poll with that number keeps running.
fn program(outside: &Path) -> String {
    let ledger = outside.join("ledger");
    let hold = outside.join("hold");
    format!(
        r#"#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --input) input=$2; shift;; --output) output=$2; shift;; esac
  shift
done
answer() {{ printf '%s' "$1" > "$output.part"; mv "$output.part" "$output"; exit 0; }}
case "$input" in
  *SYNTHESIZE-METADATA*)
    answer '{{"status":"SUCCESS","data":{{"metadata":[{{"stepType":"CUSTOM:DEPLOY","shortDescription":"Deploys slowly","paramsJsonSchema":{{"type":"object","properties":{{"target":{{"type":"string"}}}},"required":["target"],"additionalProperties":false}}}}]}}}}';;
  *'"pollingState":{{"n":'*)
    n=$(printf '%s' "$input" | sed 's/.*"pollingState":{{"n":\([0-9]*\).*/\1/')
    echo "poll $n" >> {ledger}
    echo "polled for the time $n"
    while [ -f {hold} ] && [ "$(cat {hold})" = "$n" ]; do sleep 0.02; done
    [ "$n" -ge {POLLS} ] && answer '{{"status":"SUCCESS","data":{{"polls":{POLLS},"url":"https://shop.test"}}}}'
    answer '{{"status":"POLL_AGAIN","pollingState":{{"n":'$((n + 1))'}},"retryAfterMs":200}}';;
  *)
    echo trigger >> {ledger}
    echo "began"
    answer '{{"status":"TRIGGERED","pollingState":{{"n":1}}}}';;
esac
"#,
        ledger = ledger.display(),
        hold = hold.display(),
    )
}

const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }]
  steps:
    - { name: Deploy, id: deploy, type: tools/deploy, env: { TOKEN: '${{ secrets.TOKEN }}' }, params: { target: shop } }
    - { name: Tell, type: script, env: { URL: '${{ steps.deploy.url }}' }, params: { run: 'echo \"it is at $URL\"' } }
";

#[test]
fn custom_step_triggers_once_and_resumes_polling_after_kills() {
    let (home, outside) = (TestHome::new(), tempfile::tempdir().expect("a directory"));
    let ledger = outside.path().join("ledger");
    let url = repository(outside.path());
    let mut server = start(&home, outside.path());
    let added =
        server.api.post(&format!("{ORGANIZATION}/step-registries"), &json!({"name": "tools", "url": url}));
    assert_eq!(added.status, 201, "{}", added.text());
    let path = format!("{ORGANIZATION}/step-registries/{}", text(&added.json()["data"]["id"]));
    wait_until(PATIENCE, "built registry", || {
        let seen = server.api.get(&path).json()["data"].clone();
        assert_ne!(seen["status"], "failed", "{seen}");
        (seen["status"] == "ready").then_some(())
    });
    let secret = json!({"name": "TOKEN", "value": "must never be printed"});
    assert_eq!(server.api.post(&format!("{ORGANIZATION}/secrets"), &secret).status, 201);
    let made = server
        .api
        .post(&format!("{ORGANIZATION}/pipelines"), &json!({"slug": "shop", "definition": DEFINITION}));
    assert_eq!(made.status, 201, "{}", made.text());
    let asked =
        server.api.post(&format!("{ORGANIZATION}/pipelines/shop/deployments"), &json!({"commitId": "aaa1"}));
    assert_eq!(asked.status, 202, "{}", asked.text());
    let deployment = format!("{ORGANIZATION}/deployments/{}", text(&asked.json()["data"]["id"]));
    for round in 1..=POLLS {
        // In even rounds the server is killed during a poll, in odd rounds between two calls.
        let is_within = round % 2 == 0;
        if is_within {
            std::fs::write(outside.path().join("hold"), round.to_string()).expect("written");
        }
        let line = format!("poll {round}");
        wait_until(PATIENCE, &line, || lines(&ledger).contains(&line).then_some(()));
        server.process.kill();
        drop(server);
        let _ = std::fs::remove_file(outside.path().join("hold"));
        server = start(&home, outside.path());
    }
    let ended = wait_until(PATIENCE, "end", || {
        let seen = server.api.get(&deployment).json()["data"].clone();
        seen["finishedAt"].is_string().then_some(seen)
    });
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let written = lines(&ledger);
    assert_eq!(written.iter().filter(|line| *line == "trigger").count(), 1, "{written:?}");
    for poll in 1..=POLLS {
        assert!(written.contains(&format!("poll {poll}")), "{written:?}");
    }
    let steps = &ended["stages"][0]["steps"];
    let attempts = steps[0]["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 1, "one attempt over all calls: {attempts:?}");
    assert!(attempts[0]["calls"].as_u64().is_some_and(|calls| calls > POLLS as u64), "{attempts:?}");
    assert_eq!(steps[0]["outputs"], json!({"polls": "5", "url": "https://shop.test"}));
    assert_eq!(steps[0]["uses"]["registry"], "tools");
    // All calls of the step write to one log.
    let log = server.api.get(&format!("{deployment}/steps/deploy/logs?raw=true")).text();
    assert!(log.starts_with("began\n"), "{log}");
    for poll in 1..=POLLS {
        assert!(log.contains(&format!("polled for the time {poll}\n")), "{log}");
    }
    let log = server.api.get(&format!("{deployment}/steps/tell/logs?raw=true")).text();
    assert!(log.contains("it is at https://shop.test"), "{log}");
    // Reading a secret in several calls of one attempt is recorded as one event.
    let read = server.api.get(&format!("{ORGANIZATION}/events?kind=secret_read")).json();
    assert_eq!(read["data"].as_array().map(Vec::len), Some(1), "{read}");
    server.stop();
}

fn start(home: &TestHome, outside: &Path) -> TestServer {
    let mut command = home.serve_command();
    command.args(["--sandbox", "off", "--repository-root"]).arg(outside).env("BERTH_LOG__LEVEL", "warn");
    TestServer::start(&mut command, &home.token)
}

/// Creates a git repository with the registry and returns its URL.
fn repository(outside: &Path) -> String {
    let source = outside.join("tools");
    std::fs::create_dir(&source).expect("a directory");
    std::fs::write(source.join("berth-registry.yaml"), "start: sh ./steps.sh\n").expect("written");
    std::fs::write(source.join("steps.sh"), program(outside)).expect("written");
    for words in ["init --quiet --initial-branch main", "add .", "commit --quiet --message steps"] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Ada", "-c", "user.email=ada@acme.test"]).args(words.split(' '));
        let done = git.current_dir(&source).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    }
    source.display().to_string()
}

fn lines(ledger: &Path) -> Vec<String> {
    std::fs::read_to_string(ledger).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
