//! `berth env claim … -- COMMAND`: the session lasts while the command runs and is always released.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use super::{CliFixture, PATIENCE};
use crate::harness::{BerthProcess, TestServer, berth, program, wait_until};

pub(super) const ENVIRONMENT: &str = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";
/// Shell script that prints "began" and runs until it receives SIGTERM.
const WAIT_SCRIPT: &str = "trap 'echo stopped; exit 3' TERM; echo began; while :; do sleep 0.05; done";

impl CliFixture {
    pub(super) fn environment(&self) -> Value {
        self.server.api.get(ENVIRONMENT).json()["data"].clone()
    }

    pub(super) fn is_free(&self) -> bool {
        self.environment()["lock"].is_null()
    }

    pub(super) fn claim_and_run(&self, more: &[&str], script: &str) -> BerthProcess {
        let words = [&["env", "claim", "qa-1"], more, &["--", "sh", "-c", script]].concat();
        BerthProcess::start(&mut self.command(&words))
    }

    fn claim_and_wait(&self) -> BerthProcess {
        let mut process = self.claim_and_run(&[], WAIT_SCRIPT);
        assert_eq!(process.first_line(), "began");
        process
    }
}

#[test]
fn exec_passes_session_variables_and_the_exit_code() {
    let cli = CliFixture::new();
    let script = "echo $BERTH_ENVIRONMENT $BERTH_FENCE; exit 7";
    let ran = cli.claim_and_run(&["--commit", "v1"], script).wait(PATIENCE);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), "qa-1 1\n"), "{ran:?}");
    assert!(cli.is_free());
    assert_eq!(cli.environment()["deployedCommitId"], "v1");
}

#[test]
fn exec_with_session_token_lets_only_the_command_use_the_session() {
    let cli = CliFixture::new();
    let extend = ["env", "extend", "shop/qa-1", "--ttl", "5m"];
    let script = format!(
        "case $BERTH_TOKEN in berth_ses_*) echo began;; esac; while [ ! -e go ]; do sleep 0.05; done; {} {}",
        program().display(),
        extend.join(" ")
    );
    let mut process = cli.claim_and_run(&["--session-token"], &script);
    assert_eq!(process.first_line(), "began");
    let other_job = cli.run_words(&extend);
    assert!(other_job.code != Some(0) && !cli.is_free(), "{other_job:?}");
    std::fs::write(cli.config.path().join("go"), "").unwrap();
    let ran = process.wait(PATIENCE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(cli.is_free());
}

#[test]
fn exec_with_a_lease_sends_heartbeats() {
    let cli = CliFixture::new();
    let refused = cli.run_words(&["env", "claim", "qa-1", "--ttl", "1h", "--", "true"]);
    assert!(refused.stderr.contains("requires --lease"), "{refused:?}");
    let mut process = cli.claim_and_run(&["--lease", "15s", "--ttl", "1h"], WAIT_SCRIPT);
    assert_eq!(process.first_line(), "began");
    let end = |it: &Value, member: &str| it["lock"][member].as_str().expect("an end").to_owned();
    let before = cli.environment();
    let after = wait_until(PATIENCE, "heartbeat", || {
        let seen = cli.environment();
        (end(&seen, "leaseExpiresAt") > end(&before, "leaseExpiresAt")).then_some(seen)
    });
    assert_eq!(end(&after, "expiresAt"), end(&before, "expiresAt"), "the hard end stays");
    let by_hand = cli.run_words(&["env", "heartbeat", "shop/qa-1"]);
    assert!(by_hand.stdout.starts_with("Renewed the lease of qa-1: it ends in"), "{by_hand:?}");
    process.signal(Signal::TERM);
    assert_eq!(process.wait(PATIENCE).code, Some(3));
    assert!(cli.is_free());
}

#[test]
fn exec_after_a_failed_deployment_does_not_start_the_command() {
    let cli = CliFixture::new();
    let ran = cli.claim_and_run(&["--commit", "bad"], "echo began").wait(PATIENCE);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("the command was not started"), "{ran:?}");
    assert!(cli.is_free());
}

#[test]
fn exec_releases_after_a_crash_or_a_missing_program() {
    let cli = CliFixture::new();
    let ran = cli.claim_and_run(&[], "kill -9 $$").wait(PATIENCE);
    assert_eq!(ran.code, Some(137), "{ran:?}");
    assert!(cli.is_free());
    let ran = cli.run("env claim qa-1 -- /nowhere/nothing");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("cannot start /nowhere/nothing"), "{ran:?}");
    assert!(cli.is_free());
}

#[test]
fn exec_forwards_signals_and_releases() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let cli = CliFixture::new();
        let script = "trap '' HUP; trap 'exit 3' TERM INT; echo began; while :; do sleep 0.05; done";
        let mut process = cli.claim_and_run(&[], script);
        assert_eq!(process.first_line(), "began");
        process.signal(signal);
        let ran = process.wait(PATIENCE);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(cli.is_free());
    }
}

#[test]
fn exec_stops_the_command_on_take_over() {
    let cli = CliFixture::new();
    let process = cli.claim_and_wait();
    let taken = cli.run("env take-over qa-1 --why hotfix");
    assert_eq!(taken.code, Some(0), "{taken:?}");
    let ran = process.wait(PATIENCE);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "began\nstopped\n"), "{ran:?}");
    assert!(ran.stderr.contains("qa-1 was taken over by ada: hotfix"), "{ran:?}");
    assert_eq!(cli.environment()["lock"]["fence"], 2, "the new session is not released");
}

#[test]
fn exec_stops_the_command_on_take_over_when_output_is_blocked() {
    let cli = CliFixture::new();
    let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
    let mut command = cli.command(&["env", "claim", "qa-1", "--", "sh", "-c", "echo began; exec sleep 600"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full);
    let mut process = command.spawn().expect("it starts");
    let mut line = String::new();
    let mut said = BufReader::new(process.stdout.take().expect("its output"));
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "began\n");
    assert_eq!(cli.run("env take-over qa-1 --why hotfix").code, Some(0));
    let ended = wait_until(PATIENCE, "end of the program", || process.try_wait().expect("its status"));
    assert_eq!(ended.code(), Some(5));
}

#[test]
fn exec_waits_in_the_queue_and_leaves_it_on_interrupt() {
    let cli = CliFixture::new();
    assert_eq!(cli.run("env claim qa-1").code, Some(0));
    let waiting = cli.claim_and_run(&["--queue"], "echo my turn");
    let gives_up = cli.claim_and_run(&["--queue"], "echo never");
    let queue = || cli.server.api.get(&format!("{ENVIRONMENT}/queue")).json()["data"].clone();
    wait_until(PATIENCE, "two queue tickets", || (queue().as_array()?.len() == 2).then_some(()));
    wait_until(PATIENCE, "queue position", || gives_up.stderr().contains("in the queue").then_some(()));
    gives_up.signal(Signal::INT);
    let gone = gives_up.wait(PATIENCE);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(130), ""), "{gone:?}");
    assert_eq!(queue().as_array().map(Vec::len), Some(1));
    assert_eq!(cli.run("env release qa-1").code, Some(0));
    let ran = waiting.wait(PATIENCE);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "my turn\n"), "{ran:?}");
    assert!(cli.is_free());
}

/// Runs the command in a pseudo-terminal made by `script`.
fn claim_on_terminal(cli: &CliFixture, script: &str) -> Command {
    let program = program().display().to_string();
    command_on_terminal(cli, &format!("{program} env claim qa-1 -- sh -c '{script}'"))
}

pub(super) fn command_on_terminal(cli: &CliFixture, line: &str) -> Command {
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--flush", "--return", "--command", line, "/dev/null"]);
    terminal.current_dir(cli.config.path()).env("SHELL", "/bin/bash");
    terminal.envs(cli.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    terminal
}

#[test]
fn exec_gives_the_command_the_terminal_and_takes_it_back() {
    let cli = CliFixture::new();
    let mut terminal = claim_on_terminal(&cli, "read line; echo got $line");
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = terminal.spawn().expect("script");
    process.stdin.take().expect("its input").write_all(b"hello\n").expect("it is read");
    let ran = process.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains("got hello"), "{said}");
    assert!(cli.is_free());
}

#[test]
fn exec_on_a_terminal_stops_child_processes_on_take_over() {
    let cli = CliFixture::new();
    let process = BerthProcess::start(&mut claim_on_terminal(&cli, "sleep 600 & echo $!; wait"));
    let sleeper = wait_until(PATIENCE, "number of the process", || {
        let said = process.stdout_now();
        said.lines().find_map(|line| line.trim().parse().ok()).and_then(Pid::from_raw)
    });
    test_kill_process(sleeper).expect("it runs");
    assert_eq!(cli.run("env take-over qa-1 --why hotfix").code, Some(0));
    wait_until(PATIENCE, "end of what it started", || test_kill_process(sleeper).is_err().then_some(()));
    assert_eq!(process.wait(PATIENCE).code, Some(5));
}

#[test]
fn exec_with_tostop_reports_a_take_over() {
    let cli = CliFixture::new();
    let process =
        BerthProcess::start(&mut claim_on_terminal(&cli, "stty tostop; echo began; exec sleep 600"));
    wait_until(PATIENCE, "begin", || process.stdout_now().contains("began").then_some(()));
    assert_eq!(cli.run("env take-over qa-1 --why hotfix").code, Some(0));
    let ran = process.wait(PATIENCE);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stdout.contains("qa-1 was taken over by ada: hotfix"), "{ran:?}");
}

#[test]
fn exec_in_background_gets_the_terminal_in_foreground() {
    let cli = CliFixture::new();
    let program = program().display().to_string();
    // The command starts in the background. Its standard input is not the terminal, so it opens `/dev/tty` to read.
    let command = "touch began; read line </dev/tty; echo got $line";
    let line = format!(
        "set -m; {program} env claim qa-1 -- sh -c '{command}' </dev/null & \
         until test -e began; do sleep 0.05; done; echo behind; read go; fg"
    );
    let mut terminal = command_on_terminal(&cli, &line);
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = terminal.spawn().expect("script");
    let mut input = process.stdin.take().expect("its input");
    input.write_all(b"go\nhello\n").expect("it is read");
    let ran = process.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains("got hello"), "{said}");
    assert!(cli.is_free());
}

#[test]
fn exec_session_survives_server_restart_and_expires_after_kill() {
    let mut cli = CliFixture::new();
    let mut process = cli.claim_and_run(&[], "echo $$; exec sleep 600");
    let command_id = process.first_line();
    let address = cli.server.address;
    let mut command = berth(&["serve", "--listen", &address.to_string(), "--data-dir"]);
    command.arg(cli.home.path());
    let token = cli.home.token.clone();
    let before = cli.environment();
    cli.server.process.kill();
    cli.server = TestServer::start(&mut command, &token);
    let ttl = |it: &Value| it["lock"]["expiresAt"].as_str().expect("an end").to_owned();
    let after = wait_until(PATIENCE, "extended session", || {
        let seen = cli.environment();
        (ttl(&seen) > ttl(&before)).then_some(seen)
    });
    assert_eq!(after["lock"]["sessionId"], before["lock"]["sessionId"]);
    process.kill();
    // The killed `berth` process can no longer stop its command, so the test has to.
    let id = Pid::from_raw(command_id.parse().expect("a number")).expect("a process");
    kill_process(id, Signal::KILL).expect("it goes on");
    let session = format!("{ENVIRONMENT}/sessions/{}", after["lock"]["sessionId"].as_str().expect("an id"));
    let seen = cli.server.api.get(&session).json()["data"].clone();
    let ends: jiff::Timestamp = ttl(&cli.environment()).parse().expect("a time");
    assert_eq!(seen["status"], json!("active"));
    assert!(ends.duration_since(jiff::Timestamp::now()) <= jiff::SignedDuration::from_secs(60));
}
