//! Tests with steps that replace files, leave processes behind, or write without end.

use berth_api::runner::{Isolation, Network, SecretText, StepRunOutcome};
use berth_runner::SandboxMode;
use serde_json::json;

use super::{call_step, custom_step, expect_unanswered, offer_script};
use crate::fixture::{
    StepRunnerFixture, choose_confinement, expect_failure, expect_success, list_sleepers, unique_sleep,
};

const SUCCESS: &str = r#"answer '{"status":"SUCCESS"}'"#;

#[test]
fn answer_that_is_not_a_regular_file_is_ignored() {
    let fixture = StepRunnerFixture::new();
    let outside = fixture.dir.path().join("outside.json");
    std::fs::write(&outside, r#"{"status":"SUCCESS","data":{"stolen":"1"}}"#).expect("file");
    for (id, body) in [
        ("pipe", r#"mkfifo "$output""#.to_owned()),
        (
            "pipe-with-a-writer",
            format!(r#"mkfifo "$output"; setsid sh -c 'cat {} > "$0"' "$output" &"#, outside.display()),
        ),
        ("link", format!(r#"ln -s {} "$output""#, outside.display())),
        ("device", r#"ln -s /dev/zero "$output""#.to_owned()),
    ] {
        let outcome = call_step(&fixture, id, &body);
        assert!(expect_unanswered(&outcome).starts_with("its answer cannot be read"), "{id}: {outcome:?}");
    }
    // If the directory was replaced, an answer in the new directory does not count.
    let body = r#"mv "$(dirname "$output")" elsewhere-$$ 2>/dev/null || mv "$(dirname "$output")" "$TMPDIR/moved"
        mkdir "$(dirname "$output")"; answer '{"status":"SUCCESS"}'"#;
    expect_unanswered(&call_step(&fixture, "directory", body));
}

#[test]
fn step_log_is_read_from_its_original_file_only() {
    let fixture = StepRunnerFixture::new();
    let outside = fixture.dir.path().join("outside");
    std::fs::create_dir(&outside).expect("directory");
    std::fs::write(outside.join("stolen"), "{\"message\":\"stolen\"}\n").expect("file");
    let outside = outside.display();
    for (id, body) in [
        ("link", format!(r#"ln -s {outside}/stolen "$logs/$id.jsonl"; sleep 0.1; {SUCCESS}"#)),
        ("pipe", format!(r#"mkfifo "$logs/$id.jsonl"; sleep 0.1; {SUCCESS}"#)),
        (
            "directory",
            format!(
                r#"cp {outside}/stolen "$TMPDIR/$id.jsonl"; rm -r "$logs"; ln -s "$TMPDIR" "$logs"; sleep 0.1; {SUCCESS}"#
            ),
        ),
        ("gone", format!(r#"rm -r "$logs"; {SUCCESS}"#)),
    ] {
        expect_success(&call_step(&fixture, id, &body));
        assert_eq!(fixture.link.text_of(id), "", "{id}");
    }
    // A step may truncate its log file.
    let body = format!(
        r#"log '{{"message":"one, which is the longer one"}}'; sleep 0.2; : > "$logs/$id.jsonl"
           log '{{"message":"two"}}'; {SUCCESS}"#
    );
    expect_success(&call_step(&fixture, "emptied", &body));
    assert_eq!(fixture.link.text_of("emptied"), "one, which is the longer one\ntwo\n");
}

#[test]
fn step_log_lines_and_size_are_limited() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.step_log_bytes_max = 1_000_000);
    let body = format!(
        r#"{{ printf '{{"message":"'; head -c 300000 /dev/zero | tr '\0' x; printf '"}}\n'; }} >> "$logs/$id.jsonl"
           log '{{"message":"after"}}'; printf '{{"message":"without an end' >> "$logs/$id.jsonl"; {SUCCESS}"#
    );
    expect_success(&call_step(&fixture, "line", &body));
    let log = fixture.link.text_of("line");
    assert_eq!(log.matches('x').count(), 300_000);
    assert!(log.ends_with("\"}\nafter\n{\"message\":\"without an end\n"), "{}", &log[log.len() - 80..]);
    let body = format!(
        r#"head -c 3000000 /dev/zero | tr '\0' '\n' | sed 's/^/{{"message":"x"}}/' >> "$logs/$id.jsonl"; {SUCCESS}"#
    );
    offer_script(&fixture, "many", &body);
    expect_success(&fixture.run(custom_step("many", "many", json!({}))));
    let log = fixture.link.text_of("many");
    assert!(log.len() < 1_000_100 && log.contains("[berth] log truncated"), "{}", log.len());
}

#[test]
fn processes_left_by_custom_step_are_killed() {
    let fixture = StepRunnerFixture::new();
    let mark = unique_sleep();
    let body = format!(
        "i=0; while [ $i -lt 20 ]; do setsid sh -c 'setsid sleep {mark} & sleep {mark}' >/dev/null 2>&1 & i=$((i+1)); done\n\
         env -i setsid sleep {mark} >/dev/null 2>&1 &\n{SUCCESS}"
    );
    expect_success(&call_step(&fixture, "a", &body));
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
}

fn check_confinement(sandbox: SandboxMode, isolation: Isolation) {
    let Some(confinement) = choose_confinement(sandbox, &[]) else { return };
    let fixture = StepRunnerFixture::with_options(|settings| settings.confinement = confinement);
    offer_script(&fixture, "other", SUCCESS);
    expect_success(&fixture.run(custom_step("before", "other", json!({}))));
    let body = r#"(echo x >> run.sh) 2>/dev/null && echo LEAK own; (echo x > new) 2>/dev/null && echo LEAK new
        ls ../other 2>/dev/null && echo LEAK other; cat "$(dirname "$PWD")/../lock" 2>/dev/null && echo LEAK lock
        echo made > "$BERTH_WORKSPACE/made" && cat "$BERTH_WORKSPACE/made"; cat "$KEY"; echo; mktemp >/dev/null
        log '{"message":"from inside"}'; printf '%s\n' "$input"; answer '{"status":"SUCCESS","data":{"a":"1"}}'; sleep 60"#;
    offer_script(&fixture, "d", body);
    let mut assignment = custom_step("a", "d", json!({"token": "hunter22"}));
    assignment.masked = vec![SecretText::new("hunter22".into())];
    assignment.secret_files.insert("KEY".into(), SecretText::new("key-of-the-step".into()));
    assignment.custom.as_mut().expect("custom").input = berth_api::runner::CallInput::File;
    let outcome = fixture.run(assignment);
    let log = fixture.link.text_of("a");
    assert!(!log.contains("LEAK"), "{log}");
    assert_eq!(expect_success(&outcome)["a"], "1", "{log}");
    for part in ["made\n", "\n***\n", "from inside\n", r#"{"token":"***"}"#] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert_eq!(fixture.link.wait_for_report("a").isolation, isolation);
    // The first call could not change the registry, so another call gets an answer.
    assert!(!matches!(fixture.run(custom_step("b", "d", json!({}))), StepRunOutcome::Unanswered { .. }));
}

#[test]
fn custom_step_is_confined_by_bubblewrap() {
    check_confinement(SandboxMode::Bubblewrap, Isolation::Bubblewrap);
}

#[test]
fn custom_step_is_confined_by_landlock() {
    check_confinement(SandboxMode::Landlock, Isolation::Landlock);
}

#[test]
fn network_none_applies_to_custom_step() {
    let Some(confined) = choose_confinement(SandboxMode::Bubblewrap, &[]) else { return };
    let fixture = StepRunnerFixture::with_options(|settings| settings.confinement = confined);
    let body = format!("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; {SUCCESS}");
    offer_script(&fixture, "d", &body);
    let mut assignment = custom_step("a", "d", json!({}));
    assignment.network = Network::None;
    expect_success(&fixture.run(assignment));
    assert_eq!(fixture.link.text_of("a"), "lo\n");
    assert_eq!(fixture.link.wait_for_report("a").network, Some(Network::None));

    let fixture = StepRunnerFixture::new();
    offer_script(&fixture, "d", &body);
    let mut assignment = custom_step("b", "d", json!({}));
    assignment.network = Network::None;
    let outcome = fixture.run(assignment);
    assert!(expect_failure(&outcome).1.contains("needs the sandbox bubblewrap"), "{outcome:?}");
}
