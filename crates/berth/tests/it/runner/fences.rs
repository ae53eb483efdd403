//! Runners that have seen higher fences than their server has, because the server's database is an older copy.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::fixture::{ORG, PATIENCE, RunnerFixture, first_step, text};
use super::protocol::RawRunner;
use crate::harness::wait_until;

const QA: &str = "/pipelines/shop/ephemeral-environments/qa-1";
const COUNTER_BITS: u32 = 40;

fn hello_body(epoch: &Value) -> Value {
    json!({"protocol": 2, "version": "0", "boot": "b", "labels": [], "slots": 1, "isolation": "process", "epoch": epoch})
}

fn claim(fixture: &RunnerFixture, body: &Value) -> Value {
    let held = fixture.api().post(&format!("{ORG}{QA}/sessions"), body);
    assert_eq!(held.status, 201, "{}", held.text());
    held.json()["data"].clone()
}

fn release(fixture: &RunnerFixture, session: &Value) {
    let path = format!("{ORG}{QA}/sessions/{}", text(&session["sessionId"]));
    let done = fixture.api().send(&fixture.api().request("DELETE", &path));
    assert_eq!(done.status, 200, "{}", done.text());
}

fn fence(session: &Value) -> i64 {
    session["fence"].as_i64().unwrap_or_else(|| panic!("{session}"))
}

fn events(fixture: &RunnerFixture, kind: &str) -> Vec<Value> {
    let found = fixture.api().get(&format!("{ORG}/events?kind={kind}")).json();
    found["data"].as_array().unwrap_or_else(|| panic!("{found}")).clone()
}

fn environment_state(fixture: &RunnerFixture) -> String {
    text(&fixture.api().get(&format!("{ORG}{QA}")).json()["data"]["state"])
}

fn spool_path(fixture: &RunnerFixture) -> PathBuf {
    fixture.path("far").join("spool")
}

#[test]
fn server_raises_its_epoch_above_a_runners() {
    let fixture = RunnerFixture::open();
    fixture.pipeline("    - { name: One, type: dummy }\n");
    let first = claim(&fixture, &json!({}));
    assert_eq!(fence(&first), 1);
    let stranger = RawRunner::new(&fixture);
    assert_eq!(stranger.post("hello", &hello_body(&json!(0)))["data"]["epoch"], 0);
    assert_eq!(stranger.post("hello", &hello_body(&json!(5)))["data"]["epoch"], 6, "above, not the same");
    assert_eq!(stranger.post("hello", &hello_body(&json!(6)))["data"]["epoch"], 6, "it is its own by now");
    assert_eq!(stranger.post("hello", &hello_body(&Value::Null))["data"]["epoch"], 6, "an older runner");
    release(&fixture, &first);
    assert_eq!(fence(&claim(&fixture, &json!({}))), 6 << COUNTER_BITS | 2);
    let told = events(&fixture, "epoch_raised");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["data"]["heard"], &told[0]["data"]["epoch"]), (&json!(5), &json!(6)), "{told:?}");
    assert!(text(&told[0]["data"]["detail"]).contains("older copy"), "{told:?}");
}

#[test]
fn runner_with_an_invalid_epoch_does_not_consume_epochs() {
    let fixture = RunnerFixture::open();
    fixture.pipeline("    - { name: One, type: dummy }\n");
    let stranger = RawRunner::new(&fixture);
    for said in [json!(8_191), json!(8_190), json!(4_000), json!(i64::MAX)] {
        let refused = stranger.post("hello", &hello_body(&said));
        assert_eq!(refused["code"], "invalid_state", "{refused}");
        let detail = text(&refused["detail"]);
        assert!(detail.contains("raise-epoch") && detail.contains("work directory"), "{detail}");
    }
    assert_eq!(fence(&claim(&fixture, &json!({}))), 1);
    // The refusals above are recorded, at most once each.
    let told = events(&fixture, "epoch_refused").len();
    assert!((1..=4).contains(&told), "{told}");
    assert_eq!(events(&fixture, "epoch_raised"), Vec::<Value>::new());
}

#[test]
fn runner_persists_seen_fences_across_restarts() {
    let fixture = RunnerFixture::open();
    fixture.pipeline("    - { name: One, type: script, params: { run: 'echo works' } }\n");
    let runner = fixture.runner("far", &[]);
    let held = claim(&fixture, &json!({"commitId": "4f2a1c9"}));
    fixture.wait_for_deployment(&text(&held["deploymentId"]), "end", |it| it["status"] == "succeeded");
    runner.signal(Signal::TERM);
    runner.wait(PATIENCE);
    let written = std::fs::read_to_string(spool_path(&fixture)).expect("the spool");
    assert!(written.lines().any(|line| line.starts_with("=env_") && line.contains(" 1 ses_")), "{written}");
    // Simulate that the runner has heard a later epoch from a server that was rolled back since.
    std::fs::write(spool_path(&fixture), written.replace("^0\n", "^40\n")).expect("written");
    let _again = fixture.restart_runner("far");
    release(&fixture, &held);
    assert_eq!(fence(&claim(&fixture, &json!({}))) >> COUNTER_BITS, 41);
    let written = std::fs::read_to_string(spool_path(&fixture)).expect("the spool");
    assert!(written.contains("^41\n") && written.contains("=env_"), "{written}");
}

#[test]
fn runner_refuses_a_lower_fence_until_a_take_over() {
    let fixture = RunnerFixture::open();
    let ledger = fixture.path("ledger");
    fixture.pipeline(&format!(
        "    - {{ name: One, type: script, params: {{ run: 'echo \"$BERTH_FENCE\" >> {}' }} }}\n",
        ledger.display()
    ));
    let runner = fixture.runner("far", &[]);
    let held = claim(&fixture, &json!({"commitId": "4f2a1c9"}));
    fixture.wait_for_deployment(&text(&held["deploymentId"]), "end", |it| it["status"] == "succeeded");
    assert_eq!(environment_state(&fixture), "dirty");
    release(&fixture, &held);
    runner.signal(Signal::TERM);
    runner.wait(PATIENCE);
    // Simulate that the server had issued fences up to 9 before its database was replaced with an older copy.
    let written = std::fs::read_to_string(spool_path(&fixture)).expect("the spool");
    let line = written.lines().find(|line| line.starts_with("=env_")).expect("a fence");
    let later = line.replace(" 1 ", " 9 ");
    std::fs::write(spool_path(&fixture), written.replace(line, &later)).expect("written");
    let _again = fixture.restart_runner("far");

    let held = claim(&fixture, &json!({"commitId": "4f2a1c9"}));
    assert_eq!(fence(&held), 2);
    let refused =
        fixture.wait_for_deployment(&text(&held["deploymentId"]), "end", |it| it["status"] == "failed");
    let attempts = &first_step(&refused)["attempts"];
    assert_eq!(
        attempts.as_array().map(Vec::len),
        Some(1),
        "the step is granted to no other runner: {refused}"
    );
    assert_eq!(attempts[0]["status"], "never_started", "{refused}");
    assert!(text(&first_step(&refused)["detail"]).contains("fence 9"), "{refused}");
    assert_eq!(environment_state(&fixture), "unknown");
    let alarm = events(&fixture, "environment_fence_refused");
    assert_eq!(alarm.len(), 1, "{alarm:?}");
    assert_eq!((&alarm[0]["data"]["knownFence"], &alarm[0]["data"]["fence"]), (&json!(9), &json!(2)));
    assert!(text(&alarm[0]["data"]["detail"]).contains("force-claim"), "{alarm:?}");
    wait_until(PATIENCE, "a raised epoch", || (events(&fixture, "epoch_raised").len() == 1).then_some(()));

    let force = format!("{ORG}{QA}/force-claim");
    let taken = fixture.api().post(&force, &json!({"reason": "looked at it", "commitId": "4f2a1c9"}));
    assert_eq!(taken.status, 201, "{}", taken.text());
    let taken = taken.json()["data"].clone();
    assert_eq!(fence(&taken), 1 << COUNTER_BITS | 3);
    fixture.wait_for_deployment(&text(&taken["deploymentId"]), "end", |it| it["status"] == "succeeded");
    assert_eq!(environment_state(&fixture), "dirty", "what is in it is known again");
    let ran = std::fs::read_to_string(&ledger).expect("the ledger");
    assert_eq!(ran, format!("1\n{}\n", fence(&taken)), "nothing of the refused one ran");
}

#[test]
fn runner_refuses_the_same_fence_for_another_session() {
    let fixture = RunnerFixture::open();
    fixture.pipeline("    - { name: One, type: script, params: { run: 'echo works' } }\n");
    let runner = fixture.runner("far", &[]);
    let held = claim(&fixture, &json!({"commitId": "4f2a1c9"}));
    fixture.wait_for_deployment(&text(&held["deploymentId"]), "end", |it| it["status"] == "succeeded");
    release(&fixture, &held);
    runner.signal(Signal::TERM);
    runner.wait(PATIENCE);
    // Simulate that the next session has already run steps here, and that the database was then replaced with a copy
    // from before that session's claim.
    let written = std::fs::read_to_string(spool_path(&fixture)).expect("the spool");
    std::fs::write(spool_path(&fixture), written.replace(" 1 ses_", " 2 ses_")).expect("written");
    let _again = fixture.restart_runner("far");

    let held = claim(&fixture, &json!({"commitId": "4f2a1c9"}));
    assert_eq!(fence(&held), 2);
    let refused =
        fixture.wait_for_deployment(&text(&held["deploymentId"]), "end", |it| it["status"] == "failed");
    assert_eq!(first_step(&refused)["attempts"][0]["status"], "never_started", "{refused}");
    assert_eq!(environment_state(&fixture), "unknown");
    let alarm = events(&fixture, "environment_fence_refused");
    assert_eq!(alarm.len(), 1, "{alarm:?}");
    assert_eq!((&alarm[0]["data"]["knownFence"], &alarm[0]["data"]["fence"]), (&json!(2), &json!(2)));
    wait_until(PATIENCE, "a raised epoch", || (events(&fixture, "epoch_raised").len() == 1).then_some(()));
    let force = json!({"reason": "looked at it", "commitId": "4f2a1c9"});
    let taken = fixture.api().post(&format!("{ORG}{QA}/force-claim"), &force).json()["data"].clone();
    assert_eq!(fence(&taken), 1 << COUNTER_BITS | 3);
    fixture.wait_for_deployment(&text(&taken["deploymentId"]), "end", |it| it["status"] == "succeeded");
}

#[test]
fn reset_runs_although_the_next_session_has_a_higher_fence() {
    let fixture = RunnerFixture::open();
    let ledger = fixture.path("ledger");
    let definition = format!(
        "version: 1\npipeline:\n  name: Shop\n  tracks: main\n  stages: [{{ name: staging }}]\n  ephemeral_environments: {{ qa-1: {{ on_release: deploy_tracked }} }}\n  steps:\n    - {{ name: One, type: script, params: {{ run: 'echo \"$BERTH_FENCE\" >> {}' }} }}\n",
        ledger.display()
    );
    let made =
        fixture.api().post(&format!("{ORG}/pipelines"), &json!({"slug": "shop", "definition": definition}));
    assert_eq!(made.status, 201, "{}", made.text());
    let _runner = fixture.runner("far", &[]);
    let id = fixture.start();
    fixture.wait_for_deployment(&id, "end", |it| it["status"] == "succeeded");
    let held = claim(&fixture, &json!({"commitId": "4f2a1c9"}));
    fixture.wait_for_deployment(&text(&held["deploymentId"]), "end", |it| it["status"] == "succeeded");
    let next =
        fixture.api().post(&format!("{ORG}{QA}/sessions"), &json!({"commitId": "5a3b2d8", "queue": true}));
    assert_eq!(next.status, 202, "{}", next.text());
    release(&fixture, &held);
    let ran = wait_until(PATIENCE, "the next one's work", || {
        let ran = std::fs::read_to_string(&ledger).unwrap_or_default();
        (ran.lines().count() >= 4).then_some(ran)
    });
    // The ledger contains the fence of each deployment: none for the stage, then those of the session, of its reset,
    // and of the queued session.
    assert_eq!(ran, "\n1\n2\n3\n");
    assert_eq!(events(&fixture, "environment_fence_refused"), Vec::<Value>::new());
}
