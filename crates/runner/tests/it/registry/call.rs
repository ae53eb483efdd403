//! Tests of single calls: how input is passed, and what counts as an answer.

use std::time::{Duration, Instant};

use berth_api::runner::{AttemptOrder, CallInput, FailureCause, StepRunOutcome};
use serde_json::{Value, json};

use super::{call_step, custom_step, expect_unanswered, offer_script};
use crate::fixture::{StepRunnerFixture, expect_failure, expect_success, list_sleepers, unique_sleep};

#[test]
fn custom_step_gets_task_and_returns_outputs() {
    let fixture = StepRunnerFixture::new();
    offer_script(
        &fixture,
        "sha256:1",
        r#"printf '%s\n' "$input"; pwd; ls -d "$logs" >/dev/null && [ ! -e "$output" ] && echo fresh
           [ -z "$BERTH_OUTPUT" ] && cat "$BERTH_WORKSPACE/README" && echo "$COLOR $BERTH_STEP"
           answer '{"status":"SUCCESS","data":{"url":"https://x.test","count":3,"none":null}}'"#,
    );
    let mut assignment = custom_step("a", "sha256:1", json!({"target": "staging"}));
    assignment.has_source = true;
    assignment.env.insert("COLOR".into(), "blue".into());
    assignment.facts.insert("BERTH_STEP".into(), "deploy".into());
    let outcome = fixture.run(assignment);
    let outputs: Vec<(&str, &str)> =
        expect_success(&outcome).iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(outputs, [("count", "3"), ("url", "https://x.test")]);
    let log = fixture.link.text_of("a");
    let lines: Vec<&str> = log.lines().collect();
    let task: Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_eq!(task, json!({"job": "EXECUTE", "type": "DEPLOY", "params": {"target": "staging"}}));
    assert!(lines[1].ends_with("/registries/sha256-1"), "{log}");
    assert_eq!(&lines[2..], ["fresh", "checked out", "blue deploy"]);
}

#[test]
fn custom_step_poll_and_approval_pass_state() {
    let fixture = StepRunnerFixture::new();
    offer_script(
        &fixture,
        "d",
        r#"printf '%s\n' "$input"
           case "$input" in
             *pollingState*) answer '{"status":"SUCCESS"}' ;;
             *approvalContext*) answer '{"status":"TRIGGERED","pollingState":{"job":7}}' ;;
             *) answer '{"status":"APPROVAL_REQUIRED","approvalRequest":{"context":"drops 3 tables"}}' ;;
           esac"#,
    );
    let outcome = fixture.run(custom_step("first", "d", json!({})));
    assert_eq!(outcome, StepRunOutcome::ApprovalRequired { context: Some("drops 3 tables".into()) });
    let mut second = custom_step("second", "d", json!({}));
    second.custom.as_mut().expect("custom").approved_by = Some("usr_1".into());
    assert_eq!(fixture.run(second), StepRunOutcome::Waiting { state: json!({"job": 7}), pause_ms: 5_000 });
    assert!(
        fixture
            .link
            .text_of("second")
            .contains(r#""approvalContext":{"approved":true,"approverId":"usr_1"}"#)
    );
    let mut third = custom_step("third", "d", json!({}));
    third.custom.as_mut().expect("custom").polling_state = Some(json!({"job": 7}));
    expect_success(&fixture.run(third));
    assert!(fixture.link.text_of("third").contains(r#""pollingState":{"job":7}"#));
    assert_eq!(fixture.link.fetched_registries(), ["d"], "fetched once, used three times");
}

#[test]
fn answer_file_counts_regardless_of_exit_code() {
    let fixture = StepRunnerFixture::new();
    let outcome = call_step(
        &fixture,
        "a",
        r#"answer '{"status":"FAILED","error":"no quota","errorCode":"QUOTA"}'; exit 0"#,
    );
    assert_eq!(expect_failure(&outcome), (FailureCause::Exited, "QUOTA: no quota"));
    expect_success(&call_step(&fixture, "b", r#"answer '{"status":"SUCCESS"}'; exit 1"#));
    expect_success(&call_step(&fixture, "c", r#"answer '{"status":"SUCCESS"}'; kill -9 $$"#));
}

#[test]
fn invalid_answer_file_is_unanswered() {
    let fixture = StepRunnerFixture::new();
    for (id, body, part) in [
        ("crash", "exit 3", "it exited with 3, and wrote no answer"),
        ("silent", "exit 0", "it exited without writing an answer"),
        ("missing", "no-such-program", "it exited with 127: a command was not found"),
        ("killed", "kill -9 $$", "ended by signal 9 (KILL)"),
        ("empty", "answer ''", "it exited without writing an answer"),
        ("cut", r#"answer '{"status":"SUCC'"#, "its answer cannot be read"),
        ("garbage", "answer hello", "its answer cannot be read"),
        ("status", r#"answer '{"status":"DONE"}'"#, r#"has the status "DONE""#),
        ("list", "answer '[]'", "its answer cannot be read"),
        ("state", r#"answer '{"status":"TRIGGERED"}'"#, "TRIGGERED without a pollingState"),
        ("directory", r#"mkdir "$output""#, "its answer cannot be read: it is not a file"),
        ("huge", r#"head -c 3000000 /dev/zero > "$output""#, "longer than 2097152 bytes"),
    ] {
        let outcome = call_step(&fixture, id, body);
        let detail = expect_unanswered(&outcome);
        assert!(detail.contains(part), "{id}: {detail}");
        assert!(fixture.link.text_of(id).contains("[berth] no answer: "), "{id}");
    }
    // A poll without an answer has the same outcome. The server knows that a poll may be repeated.
    offer_script(&fixture, "poll", "exit 3");
    let mut poll = custom_step("poll", "poll", json!({}));
    poll.custom.as_mut().expect("custom").polling_state = Some(json!(1));
    expect_unanswered(&fixture.run(poll));
}

#[test]
fn custom_step_failure_answer_fails_the_step() {
    let fixture = StepRunnerFixture::new();
    let body = r#"case "$input" in
        *'"type":"DEPLOY"'*) ;;
        *) answer '{"status":"FAILED","error":"no step of this type","errorCode":"STEP_NOT_FOUND"}'; exit 0 ;;
      esac
      case "$input" in
        *'"target":"'*) answer '{"status":"SUCCESS"}' ;;
        *) answer '{"status":"FAILED","error":"target: expected a string","errorCode":"INVALID_PARAMS"}' ;;
      esac"#;
    offer_script(&fixture, "d", body);
    let mut wrong = custom_step("type", "d", json!({"target": "x"}));
    wrong.custom.as_mut().expect("custom").step_type = "deploy".into();
    assert_eq!(expect_failure(&fixture.run(wrong)).1, "STEP_NOT_FOUND: no step of this type");
    let outcome = fixture.run(custom_step("params", "d", json!({"target": 7})));
    assert_eq!(expect_failure(&outcome).1, "INVALID_PARAMS: target: expected a string");
    expect_success(&fixture.run(custom_step("good", "d", json!({"target": "x"}))));
}

#[test]
fn custom_step_hanging_after_answer_succeeds() {
    let fixture = StepRunnerFixture::new();
    let mark = unique_sleep();
    let began = Instant::now();
    let body = format!(
        r#"answer '{{"status":"SUCCESS","data":{{"a":"1"}}}}'; trap '' TERM; sleep {mark}; sleep {mark}"#
    );
    assert_eq!(expect_success(&call_step(&fixture, "a", &body))["a"], "1");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
}

#[test]
fn partially_written_answer_is_awaited() {
    let fixture = StepRunnerFixture::new();
    // The answer stays incomplete for longer than a process may keep running after a complete answer.
    let body = r#"printf '{"status":"SUCCESS","data":{' > "$output"; sleep 2.5
        printf '"a":"1"}' >> "$output"; sleep 0.1; printf '}' >> "$output""#;
    assert_eq!(expect_success(&call_step(&fixture, "a", body))["a"], "1");
}

#[test]
fn custom_step_hanging_before_answer_times_out() {
    let fixture = StepRunnerFixture::new();
    let mark = unique_sleep();
    offer_script(&fixture, "d", &format!(r#"printf '{{"status":' > "$output"; sleep {mark}"#));
    let mut assignment = custom_step("a", "d", json!({}));
    assignment.timeout_s = 1;
    let outcome = fixture.run(assignment);
    let detail = "it took longer than its timeout of 1s, and wrote no answer";
    assert_eq!(outcome, StepRunOutcome::Unanswered { detail: detail.into() }, "it may have taken effect");
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    // An answer that is complete before the timeout counts.
    offer_script(&fixture, "e", &format!(r#"answer '{{"status":"SUCCESS"}}'; sleep {mark}"#));
    let mut assignment = custom_step("b", "e", json!({}));
    assignment.timeout_s = 1;
    expect_success(&fixture.run(assignment));
}

#[test]
fn cancelled_custom_step_is_stopped() {
    let fixture = StepRunnerFixture::new();
    let mark = unique_sleep();
    offer_script(&fixture, "d", &format!(r#"echo ready; sleep {mark}; answer '{{"status":"SUCCESS"}}'"#));
    fixture.link.enqueue(custom_step("a", "d", json!({})));
    fixture.link.wait_for_log("a", "ready");
    fixture.link.set_order("a", AttemptOrder::Cancel, Some("enough"));
    assert_eq!(fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    assert!(fixture.link.text_of("a").ends_with("[berth] stopped: enough\n"));
}

#[test]
fn complete_answer_is_reported_on_shutdown() {
    let mark = unique_sleep();
    let mut fixture = StepRunnerFixture::new();
    offer_script(&fixture, "d", &format!(r#"answer '{{"status":"SUCCESS"}}'; echo ready; sleep {mark}"#));
    offer_script(&fixture, "e", &format!("echo ready; sleep {mark}"));
    fixture.link.enqueue(custom_step("answered", "d", json!({})));
    fixture.link.enqueue(custom_step("not", "e", json!({})));
    fixture.link.wait_for_log("answered", "ready");
    fixture.link.wait_for_log("not", "ready");
    fixture.stop();
    expect_success(&fixture.link.wait_for_report("answered").outcome);
    assert_eq!(fixture.link.wait_for_report("not").outcome, StepRunOutcome::Interrupted);
}

#[test]
fn task_above_argument_limit_is_rejected_before_start() {
    let fixture = StepRunnerFixture::new();
    let body = r#"answer "{\"status\":\"SUCCESS\",\"data\":{\"length\":${#input}}}""#;
    offer_script(&fixture, "d", body);
    let frame = json!({"job": "EXECUTE", "type": "DEPLOY", "params": {"text": ""}}).to_string().len();
    let most = 128 * 1024 - 1 - frame;
    let outcome = fixture.run(custom_step("fits", "d", json!({"text": "x".repeat(most)})));
    assert_eq!(expect_success(&outcome)["length"], (128 * 1024 - 1).to_string());
    let outcome = fixture.run(custom_step("long", "d", json!({"text": "x".repeat(most + 1)})));
    let (cause, detail) = expect_failure(&outcome);
    assert_eq!(cause, FailureCause::Invalid);
    assert!(
        detail.starts_with("what the step is called with has 131072 bytes")
            && detail.contains("`input: file`")
    );
    assert_eq!(fixture.link.wait_for_report("long").isolation, berth_api::runner::Isolation::None);
    // A task that is passed in a file has no length limit.
    offer_script(&fixture, "f", r#"echo "${#input}"; answer '{"status":"SUCCESS"}'"#);
    let mut assignment = custom_step("file", "f", json!({"text": "x".repeat(500_000)}));
    assignment.custom.as_mut().expect("custom").input = CallInput::File;
    expect_success(&fixture.run(assignment));
    assert_eq!(fixture.link.text_of("file"), format!("{}\n", 500_000 + frame));
}

#[test]
fn custom_step_logs_are_ordered_across_polls() {
    let fixture = StepRunnerFixture::new();
    let body = r#"echo one; sleep 0.5; log '{"timestamp":"t","level":"info","message":"two"}'; sleep 0.5
        printf three; sleep 0.5; log '{"level":"warn","message":"four","data":{"a": 1}}'; sleep 0.5; echo five
        answer '{"status":"POLL_AGAIN","pollingState":{},"retryAfterMs":200}'; printf six"#;
    offer_script(&fixture, "d", body);
    let expected = "one\ntwo\nthree\n[warn] four {\"a\":1}\nfive\nsix\n";
    assert_eq!(
        fixture.run(custom_step("a", "d", json!({}))),
        StepRunOutcome::Waiting { state: json!({}), pause_ms: 200 }
    );
    assert_eq!(fixture.link.text_of("a"), expected);
    let mut again = custom_step("a", "d", json!({}));
    let call = again.custom.as_mut().expect("custom");
    (call.log_bytes, call.polling_state) = (expected.len() as u64, Some(json!({})));
    fixture.link.enqueue(again);
    let reports = fixture.link.wait_for_reports(2);
    assert_eq!(reports[1].log_bytes, 2 * expected.len() as u64);
    assert_eq!(fixture.link.text_of("a"), expected.repeat(2));
}

#[test]
fn log_limit_counts_all_calls() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.step_log_bytes_max = 1_000);
    offer_script(
        &fixture,
        "d",
        r#"head -c 600 /dev/zero | tr '\0' x; echo; answer '{"status":"POLL_AGAIN","pollingState":1}'"#,
    );
    let mut bytes = 0;
    for calls in 1..=4 {
        let mut poll = custom_step("a", "d", json!({}));
        poll.custom.as_mut().expect("custom").log_bytes = bytes;
        fixture.link.enqueue(poll);
        bytes = fixture.link.wait_for_reports(calls)[calls - 1].log_bytes;
    }
    let log = fixture.link.text_of("a");
    assert_eq!(log.matches('x').count(), 999, "{log}");
    assert_eq!(log.matches("log truncated").count(), 1, "{log}");
}

#[test]
fn registry_cache_evicts_least_recently_used() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.slots = 4);
    for number in 0..18 {
        offer_script(&fixture, &format!("d{number}"), r#"answer '{"status":"SUCCESS"}'"#);
    }
    for number in 0..18 {
        expect_success(&fixture.run(custom_step(&format!("s{number}"), &format!("d{number}"), json!({}))));
    }
    let kept = || std::fs::read_dir(fixture.dir.path().join("work/registries")).expect("directory").count();
    assert_eq!(kept(), 16);
    // The most recently used registry is still cached, and the oldest ones were evicted.
    expect_success(&fixture.run(custom_step("again", "d17", json!({}))));
    assert_eq!(fixture.link.fetched_registries().len(), 18);
    expect_success(&fixture.run(custom_step("first", "d0", json!({}))));
    assert_eq!(fixture.link.fetched_registries().len(), 19);
    let outcome = fixture.run(custom_step("absent", "nothing", json!({})));
    assert!(expect_failure(&outcome).1.contains("cannot fetch the step registry: there is no such registry"));
    assert_eq!(kept(), 16);
    let outcome = fixture.run(custom_step("traversal", "../../x", json!({})));
    assert!(expect_failure(&outcome).1.contains("digest of the step registry is invalid"), "{outcome:?}");
}

#[test]
fn concurrent_calls_fetch_registry_once() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.slots = 8);
    offer_script(&fixture, "d", r#"answer '{"status":"SUCCESS"}'"#);
    for number in 0..8 {
        fixture.link.enqueue(custom_step(&format!("s{number}"), "d", json!({})));
    }
    fixture.link.wait_for_reports(8).iter().for_each(|report| {
        expect_success(&report.outcome);
    });
    assert_eq!(fixture.link.fetched_registries(), ["d"]);
}

#[test]
fn custom_step_outputs_are_limited() {
    let fixture = StepRunnerFixture::new();
    let many: Vec<String> = (0..101).map(|number| format!(r#""o{number}":1"#)).collect();
    let body = format!(r#"answer '{{"status":"SUCCESS","data":{{{}}}}}'"#, many.join(","));
    let outcome = call_step(&fixture, "many", &body);
    assert!(expect_failure(&outcome).1.contains("101 outputs, but at most 100"), "{outcome:?}");
    let body = r#"{ printf '{"status":"SUCCESS","data":{"a":"'; head -c 1048577 /dev/zero | tr '\0' x; printf '"}}'; } > "$output""#;
    let outcome = call_step(&fixture, "long", body);
    assert!(expect_failure(&outcome).1.contains("longer than 1048576 bytes"), "{outcome:?}");
}

#[test]
fn custom_step_artifacts_are_uploaded() {
    let fixture = StepRunnerFixture::new();
    offer_script(&fixture, "d", r#"echo page > "$BERTH_WORKSPACE/site"; answer '{"status":"SUCCESS"}'"#);
    let mut assignment = custom_step("a", "d", json!({}));
    assignment.artifacts.insert("site".into(), "site".into());
    expect_success(&fixture.run(assignment));
    assert_eq!(fixture.link.stored_artifacts()["site"], b"page\n");
}
