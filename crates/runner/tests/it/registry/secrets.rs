//! Tests with a registry that prints, stores or returns its secrets.

use berth_api::runner::{CallInput, SecretText, StepRunOutcome};
use serde_json::json;

use super::{custom_step, offer_script};
use crate::fixture::{StepRunnerFixture, expect_failure, expect_success};

const SECRET: &str = "hunter22-of-the-step";

fn call_with_secret(fixture: &StepRunnerFixture, id: &str, body: &str) -> StepRunOutcome {
    offer_script(fixture, id, body);
    let mut assignment = custom_step(id, id, json!({"token": SECRET}));
    assignment.masked = vec![SecretText::new(SECRET.into())];
    assignment.env.insert("TOKEN".into(), SECRET.into());
    fixture.run(assignment)
}

#[test]
fn secrets_in_custom_step_output_and_log_are_masked() {
    let fixture = StepRunnerFixture::new();
    let body = r#"
        echo "raw $TOKEN"; printf '%s' "$TOKEN" | base64; printf '%s' "x$TOKEN" | base64; printf '%s\n' "$input"
        # Cut in two by a line of the log, both ways round.
        printf 'hunter22-'; sleep 0.1; log '{"message":"in between"}'; sleep 0.1; printf 'of-the-step\n'; sleep 0.1
        log "{\"level\":\"info\",\"message\":\"says $TOKEN\",\"data\":{\"token\":\"$TOKEN\",\"deep\":[\"$TOKEN\"]}}"
        log '{"message":"\u0068unter22-of-the-step"}'
        log "not json $TOKEN"
        printf '{"message":"begins hunter22-' >> "$logs/$id.jsonl"; sleep 0.1; echo out; sleep 0.1
        printf 'of-the-step"}\n' >> "$logs/$id.jsonl"
        # At the place where a long line is shown in pieces.
        { head -c 65530 /dev/zero | tr '\0' x; printf '%s' "$TOKEN"; head -c 70000 /dev/zero | tr '\0' x; echo; } >> "$logs/$id.jsonl"
        answer '{"status":"SUCCESS"}'"#;
    expect_success(&call_with_secret(&fixture, "a", body));
    let log = fixture.link.text_of("a");
    for part in [
        "hunter22-of-the-step",
        "aHVudGVyMjItb2YtdGhlLXN0ZX",
        "h1bnRlcjIyLW9mLXRoZS1zdGVw",
        "hunter22-",
        "of-the-step",
    ] {
        assert!(!log.contains(part), "{part}: {}", log.replace(&"x".repeat(1000), "…"));
    }
    assert!(
        log.contains("in between\n") && log.contains(r#"says *** {"token":"***","deep":["***"]}"#),
        "{log}"
    );
    assert!(log.contains("not json ***\n") && log.contains("begins ***\n"), "{log}");
}

#[test]
fn secret_in_polling_state_or_output_is_rejected() {
    let fixture = StepRunnerFixture::new();
    for (id, body, part) in [
        (
            "state",
            r#"answer "{\"status\":\"TRIGGERED\",\"pollingState\":{\"auth\":\"Bearer $TOKEN\"}}""#,
            "its pollingState contains a secret",
        ),
        (
            "encoded",
            r#"answer "{\"status\":\"POLL_AGAIN\",\"pollingState\":[\"$(printf '%s' "$TOKEN" | base64)\"]}""#,
            "its pollingState contains a secret",
        ),
        (
            "output",
            r#"answer "{\"status\":\"SUCCESS\",\"data\":{\"a\":\"$TOKEN\"}}""#,
            "the output `a` contains a secret",
        ),
        (
            "nested",
            r#"answer "{\"status\":\"SUCCESS\",\"data\":{\"a\":{\"b\":[\"$TOKEN\"]}}}""#,
            "the output `a` contains a secret",
        ),
        ("name", r#"answer "{\"status\":\"SUCCESS\",\"data\":{\"$TOKEN\":1}}""#, "contains a secret"),
    ] {
        let outcome = call_with_secret(&fixture, id, body);
        let detail = match &outcome {
            // The step has started its work, which must not be started again.
            StepRunOutcome::Unanswered { detail } => detail,
            other => expect_failure(other).1,
        };
        let is_begun = matches!(outcome, StepRunOutcome::Unanswered { .. });
        assert!(is_begun == part.contains("pollingState") && detail.contains(part), "{id}: {detail}");
        assert!(!detail.contains(SECRET) && !fixture.link.text_of(id).contains(SECRET), "{id}: {detail}");
    }
}

#[test]
fn secrets_in_custom_step_messages_are_masked() {
    let fixture = StepRunnerFixture::new();
    let outcome = call_with_secret(
        &fixture,
        "failed",
        r#"answer "{\"status\":\"FAILED\",\"error\":\"bad token $TOKEN\"}""#,
    );
    assert_eq!(expect_failure(&outcome).1, "bad token ***");
    let body =
        r#"answer "{\"status\":\"APPROVAL_REQUIRED\",\"approvalRequest\":{\"context\":\"with $TOKEN\"}}""#;
    assert_eq!(
        call_with_secret(&fixture, "context", body),
        StepRunOutcome::ApprovalRequired { context: Some("with ***".into()) }
    );
    let outcome = call_with_secret(&fixture, "status", r#"answer "{\"status\":\"$TOKEN\"}""#);
    let StepRunOutcome::Unanswered { detail } = &outcome else { panic!("{outcome:?}") };
    assert!(detail.contains("***") && !detail.contains(SECRET), "{detail}");
    assert!(!fixture.link.text_of("status").contains(SECRET));
}

#[test]
fn params_with_secret_are_written_to_tmpfs_only() {
    let fixture = StepRunnerFixture::new();
    offer_script(
        &fixture,
        "d",
        r#"stat -f -c %T "$file"; grep -c hunter22 "$file"; answer '{"status":"SUCCESS"}'"#,
    );
    let run = |id: &str, masked: bool| {
        let mut assignment = custom_step(id, "d", json!({"token": SECRET}));
        if masked {
            assignment.masked = vec![SecretText::new(SECRET.into())];
        }
        assignment.custom.as_mut().expect("custom").input = CallInput::File;
        expect_success(&fixture.run(assignment));
        fixture.link.text_of(id)
    };
    assert_eq!(run("secret", true), "tmpfs\n1\n");
    assert!(run("plain", false).ends_with("\n1\n"));

    let fixture = StepRunnerFixture::with_options(|settings| settings.secret_dirs = vec!["/proc".into()]);
    offer_script(&fixture, "d", r#"answer '{"status":"SUCCESS"}'"#);
    let mut assignment = custom_step("refused", "d", json!({"token": SECRET}));
    assignment.masked = vec![SecretText::new(SECRET.into())];
    assignment.custom.as_mut().expect("custom").input = CallInput::File;
    let outcome = fixture.run(assignment);
    assert!(expect_failure(&outcome).1.contains("params that hold a secret need a tmpfs"), "{outcome:?}");
}
