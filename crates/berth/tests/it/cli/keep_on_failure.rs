//! `berth env claim --keep-on-failure`: after a failure the session is kept, otherwise released.

use rustix::process::Signal;

use super::exec::ENVIRONMENT;
use super::{CliFixture, DEFINITION, PATIENCE};
use crate::harness::{BerthProcess, wait_until};

const KEEP: &[&str] = &["--for", "grace", "--keep-on-failure", "2h"];

impl CliFixture {
    /// Seconds until the session on qa-1 ends.
    fn seconds_left(&self) -> i64 {
        let lock = &self.environment()["lock"];
        let ends: jiff::Timestamp = lock["expiresAt"].as_str().expect("an end").parse().expect("a time");
        ends.as_second() - jiff::Timestamp::now().as_second()
    }

    pub(super) fn apply_definition(&self, definition: &str) {
        std::fs::write(self.config.path().join("shop.yaml"), definition).expect("a file");
        let applied = self.run("pipeline apply shop.yaml");
        assert_eq!(applied.code, Some(0), "{applied:?}");
    }
}

#[test]
fn keep_on_failure_keeps_the_session_for_the_given_time() {
    let cli = CliFixture::new();
    let ran = cli.claim_and_run(KEEP, "exit 7").wait(PATIENCE);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let said = &ran.stderr;
    assert!(said.contains("the command failed with exit code 7; keeping qa-1 until "), "{said}");
    assert!(said.contains("(in 2 h)") && said.contains("Contact: grace."), "{said}");
    assert!(said.contains("berth env release shop/qa-1"), "{said}");
    let left = cli.seconds_left();
    assert!((7_100..=7_200).contains(&left), "{left}");
    let lock = &cli.environment()["lock"];
    assert_eq!((&lock["contact"], &lock["holder"]["name"]), (&"grace".into(), &"ada".into()));
    assert_eq!(cli.run("env release shop/qa-1").code, Some(0));
    assert!(cli.is_free());
}

#[test]
fn keep_on_failure_releases_after_success() {
    let cli = CliFixture::new();
    let ran = cli.claim_and_run(KEEP, "exit 0").wait(PATIENCE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.stderr.contains("keeping"), "{ran:?}");
    assert!(cli.is_free());
}

#[test]
fn keep_on_failure_keeps_after_a_failed_deployment_or_a_crash() {
    let cli = CliFixture::new();
    let ran = cli.claim_and_run(&[KEEP, &["--commit", "bad"]].concat(), "echo began").wait(PATIENCE);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("the deployment did not succeed; keeping qa-1"), "{ran:?}");
    assert!(!cli.is_free());
    assert_eq!(cli.run("env release qa-1").code, Some(0));
    let ran = cli.claim_and_run(KEEP, "kill -9 $$").wait(PATIENCE);
    assert_eq!(ran.code, Some(137), "{ran:?}");
    assert!(!cli.is_free());
}

#[test]
fn keep_on_failure_releases_a_cancelled_job() {
    for signal in [Signal::TERM, Signal::INT] {
        let cli = CliFixture::new();
        let script = "trap 'exit 3' TERM INT; echo began; while :; do sleep 0.05; done";
        let mut process = cli.claim_and_run(KEEP, script);
        assert_eq!(process.first_line(), "began");
        process.signal(signal);
        let ran = process.wait(PATIENCE);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(cli.is_free() && !ran.stderr.contains("keeping"), "{ran:?}");
    }
    let cli = CliFixture::new();
    let ran = cli.claim_and_run(KEEP, "kill -INT $$").wait(PATIENCE);
    assert_eq!(ran.code, Some(130), "as after Ctrl-C on a terminal: {ran:?}");
    assert!(cli.is_free());
}

#[test]
fn keep_on_failure_says_that_the_idle_timeout_is_shorter() {
    let cli = CliFixture::new();
    let idle = "qa-1: { ttl: 2h, release: [{ on: timeout, after_idle: 30m }] }";
    cli.apply_definition(&DEFINITION.replace("qa-1: { ttl: 2h }", idle));
    let ran = cli.claim_and_run(KEEP, "exit 7").wait(PATIENCE);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.stderr.contains("(in 30 min)"), "{ran:?}");
    let text = "That is less than the requested 2 h: qa-1 releases sessions that are idle.";
    assert!(ran.stderr.contains(text), "{ran:?}");
    assert!((1_700..=1_800).contains(&cli.seconds_left()));
}

#[test]
fn keep_on_failure_after_a_takeover_leaves_the_new_session_alone() {
    let cli = CliFixture::new();
    let mut process = cli.claim_and_run(KEEP, "trap 'exit 3' TERM; echo began; while :; do sleep 0.05; done");
    assert_eq!(process.first_line(), "began");
    assert_eq!(cli.run("env take-over qa-1 --why hotfix").code, Some(0));
    let ran = process.wait(PATIENCE);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(!ran.stderr.contains("keeping"), "{ran:?}");
    assert_eq!(cli.environment()["lock"]["fence"], 2);
}

#[test]
fn keep_on_failure_with_a_session_token_says_who_may_release() {
    let cli = CliFixture::new();
    let ran = cli.claim_and_run(&[KEEP, &["--session-token"]].concat(), "exit 7").wait(PATIENCE);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.stderr.contains("a member who may release other members' sessions"), "{ran:?}");
    assert!(!ran.stderr.contains("berth_ses_"), "the token is not printed: {ran:?}");
    assert_eq!(cli.run("env release shop/qa-1").code, Some(0), "ada is an owner");
}

#[test]
fn claim_by_label_runs_in_the_first_environment_that_becomes_free() {
    let cli = CliFixture::new();
    let both = DEFINITION
        .replace("qa-1: { ttl: 2h }", "qa-1: { labels: [small] }")
        .replace("qa-2: {}", "qa-2: { labels: [small] }");
    cli.apply_definition(&both);
    let claim = ["env", "claim", "--label", "small", "--pipeline", "shop"];
    for name in ["qa-1", "qa-2"] {
        let ran = cli.run_words(&claim);
        assert!(ran.code == Some(0) && ran.stdout.starts_with(&format!("Claimed {name}")), "{ran:?}");
    }
    let refused = cli.run_words(&claim);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains("Wait in the queue with --queue"), "{refused:?}");
    let run = |script: &'static str| {
        let words = [&claim[..], &["--queue", "--", "sh", "-c", script]].concat();
        BerthProcess::start(&mut cli.command(&words))
    };
    let queue = |name: &str| {
        let path = format!("{}/queue", ENVIRONMENT.replace("qa-1", name));
        cli.server.api.get(&path).json()["data"].as_array().map_or(0, Vec::len)
    };
    let waiting = run("echo in $BERTH_ENVIRONMENT");
    wait_until(PATIENCE, "two queue tickets", || (queue("qa-1") + queue("qa-2") == 2).then_some(()));
    wait_until(PATIENCE, "queue status", || {
        waiting.stderr().contains("waiting for an environment with the label small").then_some(())
    });
    assert_eq!(cli.run("env release shop/qa-2").code, Some(0));
    let ran = waiting.wait(PATIENCE);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "in qa-2\n"), "{ran:?}");
    assert_eq!((queue("qa-1"), cli.is_free()), (0, false), "only qa-2 was granted");

    assert_eq!(cli.run_words(&claim).code, Some(0));
    let gives_up = run("echo never");
    wait_until(PATIENCE, "queue status", || gives_up.stderr().contains("in the queue").then_some(()));
    gives_up.signal(Signal::INT);
    assert_eq!(gives_up.wait(PATIENCE).code, Some(130));
    assert_eq!((queue("qa-1"), queue("qa-2")), (0, 0));
}
