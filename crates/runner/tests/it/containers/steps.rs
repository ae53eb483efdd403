//! What a step in a container gets, and what comes out of it.

use std::collections::BTreeMap;

use berth_api::runner::{AttemptAssignment, FailureCause, Isolation, Network, SecretText};
use berth_testkit::podman::IMAGE;

use super::{ContainerFixture, container, in_container};
use crate::fixture::{StepRunnerFixture, expect_failure, expect_success, script};

const MEMORY: u64 = 32 * 1024 * 1024;

#[test]
fn step_in_container_gets_workspace_secrets_and_variables_and_nothing_else() {
    let Some(it) = ContainerFixture::start() else { return };
    let mut step = in_container(
        "a",
        "cat README; echo \"$GREETING $BERTH_STEP\"; cat \"$KEY\"; echo err >&2; mkdir out; echo data >out/file\n\
         echo \"digest=$(wc -c <\"$KEY\")\" >>\"$BERTH_OUTPUT\"; pwd; env | cut -d= -f1 | sort | tr '\\n' ' '; echo\n\
         ls / | tr '\\n' ' '; echo; grep -c . /proc/net/dev; grep NoNewPrivs /proc/self/status",
    );
    step.has_source = true;
    step.env = BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]);
    step.facts = BTreeMap::from([("BERTH_STEP".to_owned(), "a".to_owned())]);
    step.secret_files = BTreeMap::from([("KEY".to_owned(), SecretText::new("s3cret-value".to_owned()))]);
    step.outputs = vec!["digest".to_owned()];
    step.artifacts = BTreeMap::from([("file".to_owned(), "out/file".to_owned())]);
    let outcome = it.fixture.run(step);
    let log = it.fixture.link.text_of("a");
    assert_eq!(expect_success(&outcome)["digest"], "12", "{log}");
    assert_eq!(it.fixture.link.stored_artifacts()["file"], b"data\n");
    assert!(!log.contains("s3cret-value"), "{log}");
    let (said, rest) = log.split_once("checked out\nhello a\n").unwrap_or_else(|| panic!("{log}"));
    assert!(said.starts_with(&format!("[berth] image {IMAGE} is sha256:")), "{log}");
    for part in ["/berth/workspace\n", "err\n", "berth bin dev etc proc root run sys tmp", "NoNewPrivs:\t1\n"]
    {
        assert!(rest.contains(part), "{part:?} is missing: {log}");
    }
    // Three lines: the header and loopback.
    assert!(rest.contains("\n3\n"), "{log}");
    for name in ["BERTH_ATTEMPT_ID", "BERTH_OUTPUT", "BERTH_STEP", "BERTH_WORKSPACE", "GREETING", "KEY"] {
        assert!(rest.contains(&format!("{name} ")), "{name} is missing: {log}");
    }
    assert!(!rest.contains("CARGO"), "variables of the runner: {log}");
    let report = it.fixture.link.wait_for_report("a");
    assert_eq!((report.isolation, report.network), (Isolation::Container, Some(Network::None)));
    it.check_nothing_left();
}

#[test]
fn exit_codes_memory_limit_and_user_apply_to_containers() {
    let Some(it) = ContainerFixture::start() else { return };
    let outcome = it.fixture.run(in_container("code", "exit 7"));
    assert_eq!(expect_failure(&outcome), (FailureCause::Exited, "exited with 7"));

    let mut step = in_container("memory", "dd if=/dev/zero of=/dev/null bs=200M count=1; echo survived");
    step.container =
        Some(berth_api::runner::ContainerAssignment { memory_bytes: Some(MEMORY), ..container(IMAGE) });
    let outcome = it.fixture.run(step);
    let (cause, detail) = expect_failure(&outcome);
    assert!(cause == FailureCause::Exited && detail.contains("exceeded the step's memory limit"), "{detail}");

    let mut step =
        in_container("user", "id -u; echo mine >file; cat \"$KEY\" >copy; echo x=1 >>\"$BERTH_OUTPUT\"");
    step.container =
        Some(berth_api::runner::ContainerAssignment { user: Some("app".to_owned()), ..container(IMAGE) });
    step.has_source = true;
    step.outputs = vec!["x".to_owned()];
    step.secret_files = BTreeMap::from([("KEY".to_owned(), SecretText::new("s3cret-value".to_owned()))]);
    let outcome = it.fixture.run(step);
    assert_eq!(expect_success(&outcome)["x"], "1", "{}", it.fixture.link.text_of("user"));
    assert!(it.fixture.link.text_of("user").contains("\n1000\n"));

    let outcome = it.fixture.run(in_container("timeout", "true"));
    expect_success(&outcome);
    let step = AttemptAssignment { timeout_s: 2, ..in_container("slow", "sleep 1000") };
    assert_eq!(expect_failure(&it.fixture.run(step)).0, FailureCause::TimedOut);
    it.check_nothing_left();
}

#[test]
fn image_is_pinned_once_per_deployment() {
    let Some(it) = ContainerFixture::start() else { return };
    expect_success(&it.fixture.run(in_container("first", "cat /etc/version 2>/dev/null || echo old")));
    let pinned = it.fixture.link.pins()[IMAGE].clone();
    // The tag moves to another image.
    it.podman.text(&[
        "run",
        "--name",
        "change",
        "--network",
        "none",
        IMAGE,
        "sh",
        "-c",
        "echo new >/etc/version",
    ]);
    it.podman.text(&["commit", "--quiet", "change", IMAGE]);
    it.podman.text(&["rm", "change"]);
    expect_success(&it.fixture.run(in_container("second", "cat /etc/version 2>/dev/null || echo old")));
    let log = it.fixture.link.text_of("second");
    assert!(log.contains(&format!("image {IMAGE} is {pinned}")) && log.contains("\nold\n"), "{log}");
    // An image that is missing and may not be pulled.
    let mut step = in_container("never", "true");
    step.container = Some(berth_api::runner::ContainerAssignment {
        pull: berth_api::runner::ImagePull::Never,
        ..container("localhost/missing:1")
    });
    let outcome = it.fixture.run(step);
    let (cause, detail) = expect_failure(&outcome);
    assert!(cause == FailureCause::Invalid && detail.contains("pull: never"), "{detail}");
    it.check_nothing_left();
}

#[test]
fn container_step_on_a_runner_without_engine_fails_before_it_runs() {
    let fixture = StepRunnerFixture::new();
    let outcome = fixture.run(in_container("a", "echo ran"));
    let (cause, detail) = expect_failure(&outcome);
    assert!(cause == FailureCause::Invalid && detail.contains("no container engine"), "{detail}");
    assert!(!fixture.link.text_of("a").contains("ran"));
    let outcome = fixture.run(AttemptAssignment { network: Network::Bridge, ..script("b", "true") });
    assert!(expect_failure(&outcome).1.contains("only for steps in containers"));
}
