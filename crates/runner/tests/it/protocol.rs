//! Tests of the protocol between runner and server, including outages of the server.

use std::fs;
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptOrder, StepRunOutcome};
use berth_runner::{RunnerStartError, StepRunner};

use crate::fixture::{
    StepRunnerFixture, expect_success, list_sleepers, runner_options, script, step, unique_sleep, wait_until,
};

#[test]
fn next_step_arrives_in_response_to_report() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.slots = 1);
    let rest = (1..20).map(|number| script(&format!("s{number}"), "echo here")).collect();
    fixture.link.enqueue_chain("s0", rest);
    fixture.link.enqueue(script("s0", "true"));
    let reports = fixture.link.wait_for_reports(20);
    let ids: Vec<String> = reports.iter().map(|report| report.attempt.step_id.clone()).collect();
    assert_eq!(ids, (0..20).map(|number| format!("s{number}")).collect::<Vec<_>>());
    for pair in reports.windows(2) {
        assert_eq!(pair[0].next_nonce.as_ref(), Some(&pair[1].attempt.nonce));
    }
}

#[test]
fn parallel_steps_are_limited_by_slots() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.slots = 3);
    for number in 0..5 {
        fixture.link.enqueue(script(&format!("s{number}"), "echo up; sleep 1000"));
    }
    for number in 0..3 {
        fixture.link.wait_for_log(&format!("s{number}"), "up");
    }
    assert_eq!((fixture.link.text_of("s3"), fixture.link.text_of("s4")), (String::new(), String::new()));
    fixture.link.set_order("s1", AttemptOrder::Cancel, None);
    fixture.link.wait_for_log("s3", "up");
    for number in [0, 2, 3, 4] {
        fixture.link.set_order(&format!("s{number}"), AttemptOrder::Cancel, None);
    }
    fixture.link.wait_for_reports(5);
}

#[test]
fn stale_attempt_is_stopped_and_not_reported() {
    let fixture = StepRunnerFixture::new();
    let mark = unique_sleep();
    fixture.link.enqueue(script("a", &format!("echo ready; trap 'exit 0' TERM; sleep {mark}")));
    fixture.link.wait_for_log("a", "ready");
    fixture.link.set_order("a", AttemptOrder::Stale, None);
    wait_until("it is gone", || list_sleepers(&mark).is_empty());
    // The slot is free again, and the stale attempt was not reported.
    expect_success(&fixture.run(script("b", "true")));
    assert!(!fixture.link.has_report("a"));
}

#[test]
fn report_is_retried_until_received() {
    let fixture = StepRunnerFixture::new();
    fixture.link.enqueue(script("a", "echo begun; while [ ! -e /dev/null/x ]; do sleep 0.01; [ -e \"$HOME/../go\" ] && exit 0; done; exit 0"));
    fixture.link.wait_for_log("a", "begun");
    fixture.link.set_unavailable(true);
    let go = fixture.dir.path().join("work/attempts");
    for entry in fs::read_dir(&go).expect("attempts").flatten() {
        fs::write(entry.path().join("go"), "").expect("file");
    }
    fixture.link.wait_for_report_attempts("a", 3);
    assert!(!fixture.link.has_report("a"));
    fixture.link.set_unavailable(false);
    expect_success(&fixture.link.wait_for_report("a").outcome);
}

#[test]
fn runner_without_responses_stops_its_steps() {
    let fixture = StepRunnerFixture::with_options(|settings| {
        settings.self_stop = Duration::from_millis(600);
        settings.heartbeat_wait = Duration::from_millis(100);
    });
    let mark = unique_sleep();
    fixture.link.enqueue(script("a", &format!("echo ready; sleep {mark}")));
    fixture.link.wait_for_log("a", "ready");
    fixture.link.wait_for_heartbeats(8);
    assert_eq!(list_sleepers(&mark).len(), 1, "while it is answered, it goes on");
    let began = Instant::now();
    fixture.link.set_unavailable(true);
    wait_until("it has stopped", || list_sleepers(&mark).is_empty());
    assert!(began.elapsed() > Duration::from_millis(300), "{:?}", began.elapsed());
    fixture.link.set_unavailable(false);
    assert_eq!(fixture.link.wait_for_report("a").outcome, StepRunOutcome::Interrupted);
    assert!(fixture.link.text_of("a").contains("the server did not answer for too long"));
}

#[test]
fn heartbeats_continue_while_step_runs() {
    let fixture =
        StepRunnerFixture::with_options(|settings| settings.heartbeat_wait = Duration::from_millis(20));
    fixture.link.enqueue(step("a", "dummy", serde_json::json!({ "outcome": "hang" })));
    fixture.link.wait_for_heartbeats(5);
    fixture.link.set_order("a", AttemptOrder::Cancel, None);
    assert_eq!(fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
}

#[test]
fn unavailable_server_is_polled_again() {
    let fixture = StepRunnerFixture::new();
    fixture.link.set_unavailable(true);
    fixture.link.enqueue(script("a", "true"));
    fixture.link.wait_for_acquires(2, false);
    fixture.link.set_unavailable(false);
    expect_success(&fixture.link.wait_for_report("a").outcome);
}

#[test]
fn work_directory_is_locked_by_one_runner() {
    let fixture = StepRunnerFixture::new();
    let second = StepRunner::start(runner_options(fixture.dir.path().join("work")), fixture.link.clone());
    assert!(matches!(second, Err(RunnerStartError::InUse(_))), "{:?}", second.err());
}

#[test]
fn idle_runner_stops_quickly() {
    let mut fixture = StepRunnerFixture::new();
    let began = Instant::now();
    fixture.stop();
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn acquire_nonces_are_not_reused_after_response() {
    let fixture =
        StepRunnerFixture::with_options(|settings| settings.acquire_wait = Duration::from_millis(1));
    let answered = fixture.link.wait_for_acquires(3, true);
    fixture.link.set_unavailable(true);
    let all = fixture.link.wait_for_acquires(3, false);
    fixture.link.set_unavailable(false);
    for pair in all.windows(2) {
        let [(before, is_answered), (after, _)] = pair else { unreachable!("windows of two") };
        assert_eq!(before != after, *is_answered, "spent by an answer, kept without one");
        assert!(!*is_answered || before.iter().all(|nonce| !after.contains(nonce)));
    }
    assert!(all.len() > answered.len());
}

#[test]
fn repeated_report_requests_same_next_step_during_shutdown() {
    let mut fixture = StepRunnerFixture::new();
    fixture.link.enqueue_chain("a", vec![script("b", "true")]);
    fixture.link.lose_report_responses(2);
    fixture.link.enqueue(script("a", "true"));
    fixture.link.wait_for_report_attempts("a", 1);
    fixture.stop();
    let tries = fixture.link.wait_for_report_attempts("a", 2);
    assert!(tries[0].next_nonce.is_some());
    assert!(tries.iter().all(|report| *report == tries[0]), "{tries:?}");
    // The server had already granted the next step, so it is reported as well.
    let next = fixture.link.wait_for_report("b");
    assert!(
        matches!(next.outcome, StepRunOutcome::NeverStarted { .. } | StepRunOutcome::Succeeded { .. }),
        "{next:?}"
    );
}

#[test]
fn step_starts_once_after_its_grant() {
    let fixture = StepRunnerFixture::new();
    let effect = fixture.dir.path().join("effect");
    fixture.link.hold_reports(true);
    fixture.link.lose_report_responses(2);
    fixture.link.enqueue_chain("a", vec![script("b", &format!("echo done >> {}", effect.display()))]);
    expect_success(&fixture.run(script("a", "true")));
    let attempts = fixture.dir.path().join("work/attempts");
    assert_eq!(
        fs::read_dir(&attempts).expect("attempts").count(),
        1,
        "no workspace for a step without a grant"
    );
    assert!(!effect.exists());
    fixture.link.hold_reports(false);
    expect_success(&fixture.link.wait_for_report("b").outcome);
    assert_eq!(fixture.link.wait_for_report_attempts("a", 3).len(), 3);
    assert_eq!(fs::read_to_string(&effect).expect("it ran"), "done\n");
}
