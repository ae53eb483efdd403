//! Tests of the built-in step types other than `script`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptOrder, FailureCause, Isolation, SecretText, StepRunOutcome};
use serde_json::json;

use crate::fixture::{StepRunnerFixture, expect_failure, expect_success, step};

/// Starts a server that responds with these statuses in order, and then repeats the last one.
fn serve_statuses(statuses: Vec<u16>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("socket");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        let mut statuses = statuses.into_iter().peekable();
        for stream in listener.incoming() {
            let mut stream = stream.expect("connection");
            let mut lines = BufReader::new(stream.try_clone().expect("clone")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let status = statuses.next().expect("a status");
            if statuses.peek().is_none() {
                statuses = vec![status, status].into_iter().peekable();
            }
            let head = format!("HTTP/1.1 {status} X\r\nLocation: /away\r\nContent-Length: 2\r\n\r\nok");
            stream.write_all(head.as_bytes()).ok();
        }
    });
    format!("http://{address}")
}

#[test]
fn http_check_repeats_until_expected_status() {
    let fixture = StepRunnerFixture::new();
    let url = serve_statuses(vec![503, 503, 200]);
    let outcome =
        fixture.run(step("a", "http_check", json!({ "url": format!("{url}/health"), "within": "20s" })));
    expect_success(&outcome);
    let log = fixture.link.text_of("a");
    assert_eq!(log.lines().count(), 3, "a line per try: {log}");
    assert!(log.lines().last().expect("a line").contains("/health answered 200 in "), "{log}");
    assert_eq!(fixture.link.wait_for_report("a").isolation, Isolation::None);
}

#[test]
fn http_check_does_not_follow_redirects() {
    let fixture = StepRunnerFixture::new();
    let url = serve_statuses(vec![302]);
    expect_success(&fixture.run(step(
        "a",
        "http_check",
        json!({ "url": url, "expect_status": 302, "method": "HEAD" }),
    )));
}

#[test]
fn http_check_without_expected_response_fails() {
    let fixture = StepRunnerFixture::new();
    let url = serve_statuses(vec![500]);
    let outcome = fixture.run(step("a", "http_check", json!({ "url": url, "within": "1s" })));
    assert_eq!(
        expect_failure(&outcome),
        (FailureCause::Exited, "expected 200 within 1s, but it answered 500")
    );
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("address");
    let url = format!("https://user:hunter22@{closed}/");
    let mut assignment = step("b", "http_check", json!({ "url": url, "within": "1s" }));
    assignment.masked = vec![SecretText::new("hunter22".into())];
    let outcome = fixture.run(assignment);
    assert!(expect_failure(&outcome).1.contains("request failed"), "{outcome:?}");
    assert!(!fixture.link.text_of("b").contains("hunter22"), "{}", fixture.link.text_of("b"));
}

#[test]
fn http_check_waiting_for_response_is_cancelled_at_once() {
    let fixture = StepRunnerFixture::new();
    // This server accepts connections but never responds.
    let listener = TcpListener::bind("127.0.0.1:0").expect("socket");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    fixture.link.enqueue(step("a", "http_check", json!({ "url": url })));
    let _asked = listener.accept().expect("asked");
    fixture.link.wait_for_heartbeats(1);
    let began = Instant::now();
    fixture.link.set_order("a", AttemptOrder::Cancel, Some("enough"));
    assert_eq!(fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(fixture.link.text_of("a"), "[berth] stopped: enough\n");
}

#[test]
fn wait_for_repeats_command_until_success() {
    let fixture = StepRunnerFixture::new();
    let run = "echo x >> tries; test $(wc -l < tries) -ge 3; echo image=b > $BERTH_OUTPUT";
    let mut assignment = step("a", "wait_for", json!({ "run": run, "every": "1s", "within": "20s" }));
    assignment.outputs = vec!["image".into()];
    let outcome = fixture.run(assignment);
    assert_eq!(expect_success(&outcome)["image"], "b");
    assert_eq!(fixture.link.text_of("a"), "[berth] not yet: exited with 1\n".repeat(2));
}

#[test]
fn wait_for_fails_after_its_time() {
    let fixture = StepRunnerFixture::new();
    let outcome = fixture.run(step("a", "wait_for", json!({ "run": "sleep 1000", "within": "1s" })));
    assert_eq!(
        expect_failure(&outcome),
        (FailureCause::Exited, "not within 1s: the command was still running")
    );
    let outcome =
        fixture.run(step("b", "wait_for", json!({ "url": serve_statuses(vec![404, 204]), "every": "1s" })));
    expect_success(&outcome);
    assert_eq!(fixture.link.text_of("b"), "[berth] not yet: answered 404\n");
}

#[test]
fn dummy_step_follows_its_params() {
    let fixture = StepRunnerFixture::new();
    let mut assignment = step(
        "a",
        "dummy",
        json!({ "message": "hello", "duration": "1s", "outputs": { "image": "a", "no": "b" } }),
    );
    assignment.outputs = vec!["image".into()];
    assert_eq!(expect_success(&fixture.run(assignment)).len(), 1);
    assert!(fixture.link.text_of("a").starts_with("hello\n[berth] warning: `no`"));
    let outcome = fixture.run(step("b", "dummy", json!({ "outcome": "fail" })));
    assert_eq!(expect_failure(&outcome).0, FailureCause::Exited);
    let mut assignment = step("c", "dummy", json!({ "outcome": "hang" }));
    assignment.timeout_s = 1;
    assert_eq!(expect_failure(&fixture.run(assignment)).0, FailureCause::TimedOut);
}

#[test]
fn wait_for_is_interrupted_if_a_later_try_cannot_start() {
    let fixture = StepRunnerFixture::new();
    // The first run removes the working directory, so the second run cannot start.
    let params = json!({ "run": "rmdir ../workspace; exit 1", "every": "1s", "within": "20s" });
    assert_eq!(fixture.run(step("a", "wait_for", params)), StepRunOutcome::Interrupted);
    let log = fixture.link.text_of("a");
    assert!(log.contains("[berth] stopped: the runner cannot continue: "), "{log}");
}
