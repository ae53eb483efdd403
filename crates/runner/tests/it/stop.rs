//! Tests that a cancellation stops all processes of a step.

use std::time::{Duration, Instant};

use berth_api::runner::{AttemptOrder, FailureCause, SecretText, StepRunOutcome};
use berth_testkit::outcome;

use crate::fixture::{
    StepRunnerFixture, expect_failure, expect_success, list_sleepers, script, unique_sleep, wait_until,
};

/// Starts a script, cancels it once it has printed `ready`, and checks that none of its processes is left. `SLEEP` in
/// the text is replaced by a unique argument for `sleep`.
fn check_cancel(text: &str) -> Duration {
    let fixture = StepRunnerFixture::new();
    let mark = unique_sleep();
    fixture.link.enqueue(script("a", &text.replace("SLEEP", &mark)));
    fixture.link.wait_for_log("a", "ready");
    let began = Instant::now();
    fixture.link.set_order("a", AttemptOrder::Cancel, Some("taken over by Ada"));
    assert_eq!(fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    let took = began.elapsed();
    assert_eq!(list_sleepers(&mark), Vec::<String>::new(), "{text}");
    assert!(fixture.link.text_of("a").ends_with("[berth] stopped: taken over by Ada\n"));
    took
}

#[test]
fn checkout_in_progress_ends_with_step_timeout() {
    let fixture = StepRunnerFixture::new();
    fixture.link.block_checkouts();
    let mut step = script("a", "echo never");
    (step.has_source, step.timeout_s) = (true, 1);
    let outcome = fixture.run(step);
    let is_said =
        matches!(&outcome, StepRunOutcome::NeverStarted { detail, .. } if detail.contains("check out"));
    assert!(is_said, "{outcome:?}");
}

#[test]
fn cancelled_step_stops_on_sigterm() {
    let took = check_cancel("echo ready; sleep SLEEP");
    assert!(took < Duration::from_millis(900), "before the grace is over: {took:?}");
}

#[test]
fn step_ignoring_sigterm_is_killed_after_grace() {
    let took = check_cancel("trap '' TERM; echo ready; while :; do sleep SLEEP; done");
    assert!(took >= Duration::from_secs(1), "not before: {took:?}");
}

#[test]
fn cancelled_step_can_clean_up() {
    let fixture = StepRunnerFixture::new();
    let run = "sh -c 'trap \"sleep 0.3; echo cleaned; exit 0\" TERM; echo ready; while :; do sleep 0.05; done'; echo no";
    fixture.link.enqueue(script("a", run));
    fixture.link.wait_for_log("a", "ready");
    fixture.link.set_order("a", AttemptOrder::Cancel, None);
    assert_eq!(fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    let log = fixture.link.text_of("a");
    assert!(log.contains("cleaned\n") && log.ends_with("[berth] stopped: cancelled\n"), "{log}");
    assert!(!log.contains("no\n"), "the script does not go on: {log}");
}

#[test]
fn cancel_kills_daemons_in_own_sessions() {
    check_cancel("setsid sleep SLEEP & echo ready; sleep 1000");
}

#[test]
fn cancel_kills_daemon_with_closed_pipes() {
    check_cancel("setsid sleep SLEEP >/dev/null 2>&1 </dev/null & echo ready; sleep 1000");
}

#[test]
fn cancel_kills_double_forked_daemon() {
    check_cancel(
        "(setsid sh -c '(trap \"\" TERM HUP; sleep SLEEP) >/dev/null 2>&1 &' &) ; sleep 0.2; echo ready; sleep 1000",
    );
}

#[test]
fn cancel_kills_daemon_with_cleared_environment() {
    check_cancel(
        "(env -i setsid sh -c '(sleep SLEEP) >/dev/null 2>&1 &' &) ; sleep 0.2; echo ready; sleep 1000",
    );
}

#[test]
fn cancel_kills_stopped_process() {
    check_cancel("sleep SLEEP & kill -STOP $!; echo ready; kill -STOP $$");
}

#[test]
fn cancel_kills_fork_bomb() {
    check_cancel(
        "trap '' TERM; f() { while :; do sleep SLEEP & sleep 0.01; done; }; f & f & echo ready; sleep 1000",
    );
}

#[test]
fn background_processes_end_with_the_step() {
    let fixture = StepRunnerFixture::new();
    for (id, text) in [
        ("plain", "sleep SLEEP & echo done"),
        ("session", "setsid sleep SLEEP & echo done"),
        ("closed", "setsid sleep SLEEP >/dev/null 2>&1 & sleep 0.1; echo done"),
        ("twice", "(setsid sh -c 'sleep SLEEP >/dev/null 2>&1 &' &); sleep 0.2; echo done"),
        ("clear", "(env -i setsid sh -c 'sleep SLEEP >/dev/null 2>&1 &' &); sleep 0.2; echo done"),
    ] {
        let mark = unique_sleep();
        let began = Instant::now();
        expect_success(&fixture.run(script(id, &text.replace("SLEEP", &mark))));
        assert!(began.elapsed() < Duration::from_secs(5), "a daemon does not hold the step");
        assert_eq!(list_sleepers(&mark), Vec::<String>::new(), "{id}");
        assert_eq!(fixture.link.text_of(id), "done\n");
    }
}

#[test]
fn daemons_end_with_their_step_while_another_step_runs() {
    let fixture = StepRunnerFixture::new();
    let (one, other) = (unique_sleep(), unique_sleep());
    fixture.link.enqueue(script("long", &format!("setsid sleep {other} & echo ready; sleep {other}")));
    fixture.link.wait_for_log("long", "ready");
    expect_success(&fixture.run(script("short", &format!("setsid sleep {one} >/dev/null 2>&1 & sleep 0.1"))));
    assert_eq!(list_sleepers(&one), Vec::<String>::new());
    assert_eq!(list_sleepers(&other).len(), 2, "the other step is left alone");
    fixture.link.set_order("long", AttemptOrder::Cancel, None);
    fixture.link.wait_for_report("long");
    assert_eq!(list_sleepers(&other), Vec::<String>::new());
}

#[test]
fn daemon_without_marks_ends_with_its_step_while_older_step_runs() {
    if !std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| mounts.contains(" - cgroup2 ")) {
        outcome::report_impossible("cgroup v2", "this machine has none mounted");
        return;
    }
    let fixture = StepRunnerFixture::new();
    let (one, other) = (unique_sleep(), unique_sleep());
    fixture.link.enqueue(script("long", &format!("setsid env -i sleep {other} & echo ready; sleep {other}")));
    fixture.link.wait_for_log("long", "ready");
    let daemon = format!("(env -i setsid sh -c 'sleep {one} >/dev/null 2>&1 &' &); sleep 0.2");
    expect_success(&fixture.run(script("short", &daemon)));
    assert_eq!(list_sleepers(&one), Vec::<String>::new());
    assert_eq!(list_sleepers(&other).len(), 2, "the other step is left alone");
    fixture.link.set_order("long", AttemptOrder::Cancel, None);
    fixture.link.wait_for_report("long");
    assert_eq!(list_sleepers(&other), Vec::<String>::new());
}

#[test]
fn step_leaves_no_zombies() {
    let fixture = StepRunnerFixture::new();
    let run = "i=0; while [ $i -lt 20 ]; do (setsid sh -c 'true &' &); i=$((i+1)); done; sleep 0.2";
    expect_success(&fixture.run(script("a", run)));
    let own = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
    assert_eq!(children.trim(), "");
}

#[test]
fn late_output_of_background_process_arrives() {
    let fixture = StepRunnerFixture::new();
    expect_success(&fixture.run(script("a", "(sleep 0.03; echo late) & echo early")));
    assert_eq!(fixture.link.text_of("a"), "early\nlate\n");
}

#[test]
fn step_is_stopped_at_its_timeout() {
    let fixture = StepRunnerFixture::new();
    let mark = unique_sleep();
    let mut assignment = script("a", &format!("echo begun; sleep {mark}"));
    assignment.timeout_s = 1;
    let outcome = fixture.run(assignment);
    assert_eq!(expect_failure(&outcome), (FailureCause::TimedOut, "took longer than its timeout of 1s"));
    assert_eq!(fixture.link.text_of("a"), "begun\n[berth] stopped: it took longer than its timeout of 1s\n");
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
}

#[test]
fn runner_shutdown_interrupts_steps() {
    let mut fixture = StepRunnerFixture::new();
    let mark = unique_sleep();
    for id in ["a", "b"] {
        fixture
            .link
            .enqueue(script(id, &format!("trap '' TERM; echo ready; while :; do sleep {mark}; done")));
    }
    fixture.link.wait_for_log("a", "ready");
    fixture.link.wait_for_log("b", "ready");
    fixture.stop();
    for id in ["a", "b"] {
        let report = fixture.link.wait_for_report(id);
        assert_eq!((report.outcome, report.next_nonce), (StepRunOutcome::Interrupted, None));
        assert!(fixture.link.text_of(id).ends_with("[berth] stopped: the runner is shutting down\n"));
    }
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
}

#[test]
fn cancel_at_any_instant_leaves_no_processes() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.slots = 2);
    let mark = unique_sleep();
    // Use a linear congruential generator, so that the cancellations are spread out over time but the same in every
    // run.
    let mut seed = 42_u64;
    let count = outcome::short_or_long(60, 200);
    for number in 0..count {
        let id = format!("s{number}");
        let run = format!("setsid sleep {mark} & echo $$; sleep 0.00{}; exit 7", number % 10);
        fixture.link.enqueue(script(&id, &run));
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let instant = Instant::now() + Duration::from_micros(seed >> 33 & 0x3fff);
        while Instant::now() < instant {
            std::thread::yield_now();
        }
        fixture.link.set_order(&id, AttemptOrder::Cancel, Some("enough"));
        let outcome = fixture.link.wait_for_report(&id).outcome;
        let is_true = matches!(&outcome, StepRunOutcome::Stopped)
            || matches!(&outcome, StepRunOutcome::Failed { exit_code: Some(7), .. });
        assert!(is_true, "{outcome:?}");
        assert_eq!(list_sleepers(&mark), Vec::<String>::new(), "{id} {outcome:?}");
    }
    wait_until("all are reported", || fixture.link.has_report(&format!("s{}", count - 1)));
    outcome::report_coverage(&format!("{count} steps cancelled at different instants"));
}

#[test]
fn undetected_daemon_filling_the_pipe_does_not_block_the_step() {
    let fixture = StepRunnerFixture::new();
    // While another step is running, an orphan without an attempt id may belong to that step, so it is not killed.
    fixture.link.enqueue(script("other", "echo ready; sleep 1000"));
    fixture.link.wait_for_log("other", "ready");
    let run = "for i in 1 2 3; do (env -i setsid yes hunter-0 &); done; sleep 0.1; echo done";
    let mut assignment = script("a", run);
    // With many secrets, masking is slower than writing, so the pipe stays full.
    assignment.masked = (0..500).map(|number| SecretText::new(format!("hunter-{number}-22"))).collect();
    expect_success(&fixture.run(assignment));
    fixture.link.set_order("other", AttemptOrder::Cancel, None);
    fixture.link.wait_for_report("other");
}
