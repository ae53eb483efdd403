//! Kills the server during deployments, repeatedly. Every deployment must end with its true outcome, or wait as
//! `unknown` for a person's decision. No step runs twice unless its `on_lost` allows it, and no process is left behind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{TestHome, TestServer, wait_until};
use crate::random::SeededRandom;

const KILLS: usize = 12;
/// The server is killed just before, and in another round just after, each of this many consecutive commits.
const COMMITS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(120);
const PIPELINE: &str = "/api/v1/organizations/acme/pipelines/shop";
const DEPLOYMENTS: &str = "/api/v1/organizations/acme/deployments";
/// Values of `on_lost`, each with the environment that tests it.
const KINDS: [(&str, &str); 3] = [("ask", "qa-1"), ("retry", "qa-2"), ("fail", "qa-3")];

/// A pipeline with three steps per value of `on_lost`. The environment determines which three of them run. They record
/// their start and end in the file `ledger`.
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
fn deployments_survive_kills_without_extra_step_runs() {
    let mut random = SeededRandom::from_env("ENGINE_SEED");
    let fixture = EngineFixture::new();
    let mut lost = 0;
    for round in 0..KILLS {
        let mut server = fixture.start();
        let asked = fixture.deploy(&server, round);
        std::thread::sleep(Duration::from_millis(random.next_in(0..260)));
        server.process.kill();
        drop(server);
        lost += fixture.restart_and_wait(&asked, round);
    }
    assert!(lost > 0, "no kill ever met a running step");
    check_ledger(&fixture.ledger);
}

#[test]
fn kill_before_or_after_a_commit_loses_and_repeats_nothing() {
    let fixture = EngineFixture::new();
    let preloaded = compile_kill_at_commit(fixture.outside.path());
    for (round, (side, commit)) in kill_points().enumerate() {
        let point = fixture.outside.path().join(format!("point-{round}"));
        let mut command = fixture.command();
        command.env("LD_PRELOAD", &preloaded).env("KILL_AT_COMMIT", &point);
        let server = TestServer::start(&mut command, &fixture.home.token);
        let asked = fixture.deploy(&server, round);
        let draft = point.with_extension("draft");
        std::fs::write(&draft, format!("{side} {commit}")).expect("written");
        std::fs::rename(draft, point).expect("armed");
        let ended = server.process.wait(PATIENCE);
        assert_eq!(ended.code, None, "not killed {side} commit {commit}: {}", ended.stderr);
        fixture.restart_and_wait(&asked, round);
    }
    check_ledger(&fixture.ledger);
}

/// Compiles the LD_PRELOAD library that kills the server at a commit.
fn compile_kill_at_commit(dir: &Path) -> PathBuf {
    let library = dir.join("kill_at_commit.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/kill_at_commit.c");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
    let compiled = compiled.expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    library
}

fn kill_points() -> impl Iterator<Item = (&'static str, usize)> {
    ["before", "after"].into_iter().flat_map(|side| (1..=COMMITS).map(move |commit| (side, commit)))
}

/// A data directory with the pipeline and a session in each environment. The steps write to a ledger outside of it.
struct EngineFixture {
    home: TestHome,
    outside: tempfile::TempDir,
    ledger: PathBuf,
    sessions: [String; KINDS.len()],
}

impl EngineFixture {
    fn new() -> Self {
        let home = TestHome::new();
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
        server.stop();
        Self { home, outside, ledger, sessions }
    }

    fn command(&self) -> Command {
        command(&self.home)
    }

    fn start(&self) -> TestServer {
        start(&self.home)
    }

    /// Starts a deployment in each environment.
    fn deploy(&self, server: &TestServer, round: usize) -> Vec<String> {
        let asked = KINDS.iter().zip(&self.sessions).map(|((_, environment), session)| {
            let path = format!("{PIPELINE}/ephemeral-environments/{environment}/sessions/{session}/deploy");
            let asked = server.api.post(&path, &json!({"commitId": format!("aaa{round}")}));
            assert_eq!(asked.status, 202, "{}", asked.text());
            text(&asked.json()["data"]["id"])
        });
        asked.collect()
    }

    /// Restarts the server and waits until every deployment has ended. Returns the number of lost attempts.
    fn restart_and_wait(&self, asked: &[String], round: usize) -> usize {
        let again = self.start();
        let mut lost = 0;
        for ((on_lost, _), id) in KINDS.iter().zip(asked) {
            lost += usize::from(wait_for_end(&again, on_lost, id, round));
        }
        assert_eq!(list_leftover_processes(&self.home), Vec::<String>::new(), "round {round}");
        again.stop();
        lost
    }
}

fn command(home: &TestHome) -> Command {
    let mut command = home.serve_command();
    command.args(["--sandbox", "off"]).env("BERTH_LOG__LEVEL", "warn");
    command
}

fn start(home: &TestHome) -> TestServer {
    TestServer::start(&mut command(home), &home.token)
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Waits until a deployment has ended, resolving unknown outcomes. Returns whether an attempt was lost.
fn wait_for_end(server: &TestServer, on_lost: &str, id: &str, round: usize) -> bool {
    let seen = wait_until(PATIENCE, "end or question", || {
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
            let ended = wait_until(PATIENCE, "end", || {
                let seen = server.api.get(&format!("{DEPLOYMENTS}/{id}")).json()["data"].clone();
                seen["finishedAt"].is_string().then_some(seen)
            });
            assert_eq!(ended["status"], "succeeded", "{ended}");
        }
    }
    unknown.is_some()
}

/// Checks that every attempt started once and ended at most once.
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

/// Lists processes that have this server's work directory in their environment.
fn list_leftover_processes(home: &TestHome) -> Vec<String> {
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
