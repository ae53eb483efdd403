//! Killed in the middle of deployments, again and again: every one reaches its true end, or says that nobody knows and
//! waits for a person; no step runs twice unless it may, and nothing stays running.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Home, Server, until};
use crate::random::Random;

const KILLS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(30);
const PIPELINE: &str = "/api/v1/organizations/acme/pipelines/shop";
const DEPLOYMENTS: &str = "/api/v1/organizations/acme/deployments";
/// What steps do when their outcome is lost, and the environment that tries it.
const KINDS: [(&str, &str); 3] = [("ask", "qa-1"), ("retry", "qa-2"), ("fail", "qa-3")];

/// Three steps that each write when they begin and when they end; which of them runs depends on the environment.
fn definition(ledger: &Path) -> String {
    let mut steps = String::new();
    for (on_lost, _) in KINDS {
        for number in 1..=3 {
            let run = format!(
                "echo \"begin $BERTH_ATTEMPT_ID\" >> {0}; sleep 0.05; echo \"end $BERTH_ATTEMPT_ID\" >> {0}",
                ledger.display()
            );
            steps += &format!(
                "    - {{ name: {on_lost} {number}, type: script, on_lost: {on_lost}, params: {{ run: '{run}' }} }}\n"
            );
        }
    }
    let environment = |(own, name): &(&str, &str)| {
        let others = KINDS.iter().filter(|(other, _)| other != own);
        let skip: Vec<_> = others.flat_map(|(kind, _)| (1..=3).map(move |n| format!("{kind}-{n}"))).collect();
        format!("    {name}: {{ skip: [{}] }}\n", skip.join(", "))
    };
    let environments: String = KINDS.iter().map(environment).collect();
    format!(
        "version: 1\npipeline:\n  name: Shop\n  stages: [{{ name: staging }}]\n  ephemeral_environments:\n{environments}  steps:\n{steps}"
    )
}

#[test]
fn deployments_survive_kills_and_nothing_runs_that_should_not() {
    let mut random = Random::from_env("ENGINE_SEED");
    let home = Home::new();
    let outside = tempfile::tempdir().expect("a directory");
    let ledger = outside.path().join("ledger");
    let server = start(&home);
    let body = json!({"slug": "shop", "definition": definition(&ledger)});
    let made = server.api.post("/api/v1/organizations/acme/pipelines", &body);
    assert_eq!(made.status, 201, "{}", made.text());
    let sessions = KINDS.map(|(_, environment)| {
        let path = format!("{PIPELINE}/ephemeral-environments/{environment}/sessions");
        text(&server.api.post(&path, &json!({})).json()["data"]["sessionId"])
    });
    let mut server = Some(server);
    let mut lost = 0;
    for round in 0..KILLS {
        let mut running = server.take().expect("a server");
        let asked: Vec<String> = KINDS
            .iter()
            .zip(&sessions)
            .map(|((_, environment), session)| {
                let path =
                    format!("{PIPELINE}/ephemeral-environments/{environment}/sessions/{session}/deploy");
                let asked = running.api.post(&path, &json!({"commitId": format!("aaa{round}")}));
                assert_eq!(asked.status, 202, "{}", asked.text());
                text(&asked.json()["data"]["id"])
            })
            .collect();
        std::thread::sleep(Duration::from_millis(random.within(0..260)));
        running.process.kill();
        drop(running);
        let again = start(&home);
        for ((on_lost, _), id) in KINDS.iter().zip(&asked) {
            lost += usize::from(settle(&again, on_lost, id, round));
        }
        assert_eq!(left_running(&home), Vec::<String>::new(), "round {round}");
        server = Some(again);
    }
    assert!(lost > 0, "no kill ever met a running step");
    check_ledger(&ledger);
    server.expect("a server").stop();
}

fn start(home: &Home) -> Server {
    let mut command = home.serve_command();
    Server::start(command.args(["--sandbox", "off"]).env("BERTH_LOG__LEVEL", "warn"), &home.token)
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Brings a deployment to its end, answering where a person is asked. True: an attempt was lost.
fn settle(server: &Server, on_lost: &str, id: &str, round: usize) -> bool {
    let seen = until(PATIENCE, "end or question", || {
        let seen = server.api.get(&format!("{DEPLOYMENTS}/{id}")).json()["data"].clone();
        let is_asked = seen["blockedBy"][0]["kind"] == "unknown_outcome";
        (seen["finishedAt"].is_string() || is_asked).then_some(seen)
    });
    let steps = seen["stages"].as_array().into_iter().flatten().flat_map(|stage| stage["steps"].as_array());
    let steps: Vec<Value> = steps.flatten().cloned().collect();
    let is_unknown = |step: &Value| {
        let attempts = step["attempts"].as_array().cloned().unwrap_or_default();
        attempts.iter().any(|it| it["status"] == "unknown")
    };
    let unknown = steps.iter().find(|step| is_unknown(step));
    let what = format!("round {round}, {on_lost}: {seen}");
    match (on_lost, unknown) {
        (_, None) | ("retry", Some(_)) => assert_eq!(seen["status"], "succeeded", "{what}"),
        ("fail", Some(_)) => {
            assert_eq!((&seen["status"], &seen["cause"]), (&json!("failed"), &json!("lost")), "{what}");
        }
        (_, Some(step)) => {
            assert_eq!(step["status"], "waiting", "{what}");
            let path = format!("{DEPLOYMENTS}/{id}/steps/{}/resolve", text(&step["id"]));
            let resolved = server.api.post(&path, &json!({"outcome": "ran"}));
            assert_eq!(resolved.status, 200, "{}", resolved.text());
            let ended = until(PATIENCE, "end", || {
                let seen = server.api.get(&format!("{DEPLOYMENTS}/{id}")).json()["data"].clone();
                seen["finishedAt"].is_string().then_some(seen)
            });
            assert_eq!(ended["status"], "succeeded", "{ended}");
        }
    }
    unknown.is_some()
}

/// An attempt begins once and ends at most once.
fn check_ledger(ledger: &Path) {
    let text = std::fs::read_to_string(ledger).expect("a ledger");
    let mut lines: Vec<&str> = text.lines().collect();
    let count = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), count, "an attempt ran twice: {text}");
    for end in lines.iter().filter_map(|line| line.strip_prefix("end ")) {
        assert!(lines.contains(&format!("begin {end}").as_str()), "{end} ended and never began");
    }
}

/// Processes with the work directory of this server in their environment.
fn left_running(home: &Home) -> Vec<String> {
    let marker = home.path().join("work").display().to_string();
    let processes = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let pids = processes.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let is_ours = |entry: &std::fs::DirEntry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&marker)
    };
    let named = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ")
    };
    pids.filter(is_ours).map(named).collect()
}
