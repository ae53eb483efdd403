//! Tests of a script's environment, and of how its exit is interpreted.

use std::collections::BTreeMap;

use berth_api::runner::{FailureCause, Isolation, SecretText, StepRunOutcome};
use berth_runner::SCRIPT_BYTES_MAX;

use crate::fixture::{StepRunnerFixture, expect_failure, expect_success, script};

#[test]
fn stdout_and_stderr_arrive_in_order() {
    let fixture = StepRunnerFixture::new();
    let run =
        "i=0; while [ $i -lt 200 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done; printf '\\377\\376 end'";
    expect_success(&fixture.run(script("a", run)));
    let mut expected: Vec<u8> = (0..200).flat_map(|i| format!("out{i}\nerr{i}\n").into_bytes()).collect();
    expected.extend_from_slice(b"\xff\xfe end");
    assert_eq!(fixture.link.log_of("a"), expected, "also bytes that are no text");
    assert_eq!(fixture.link.wait_for_report("a").isolation, Isolation::Process);
}

#[test]
fn step_environment_is_exactly_as_declared() {
    let fixture = StepRunnerFixture::new();
    let mut assignment = script("a", "env | sort; cat; pwd; ls -A; cat README; umask");
    assignment.has_source = true;
    assignment.env = BTreeMap::from([("IMAGE".into(), "a b\nc".into()), ("TOKEN".into(), "hunter22".into())]);
    assignment.facts = BTreeMap::from([("BERTH_STAGE".into(), "production".into())]);
    assignment.masked = vec![SecretText::new("hunter22".into())];
    expect_success(&fixture.run(assignment));
    let log = fixture.link.text_of("a");
    let names: Vec<&str> =
        log.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "BERTH_ATTEMPT_ID",
            "BERTH_OUTPUT",
            "BERTH_STAGE",
            "BERTH_WORKSPACE",
            "HOME",
            "IMAGE",
            "PATH",
            "PWD",
            "TMPDIR",
            "TOKEN"
        ],
        "PWD is the shell's own: {log}"
    );
    assert!(log.contains("TOKEN=***\n") && !log.contains("hunter22"), "{log}");
    assert!(log.contains("README\nchecked out\n"), "{log}");
}

#[test]
fn step_with_reserved_variable_is_rejected() {
    let fixture = StepRunnerFixture::new();
    for name in ["BERTH_OUTPUT", "LD_PRELOAD", "PATH", "GIT_DIR", "IFS"] {
        let mut assignment = script(name, "true");
        assignment.env.insert(name.into(), "x".into());
        let outcome = fixture.run(assignment);
        let (cause, detail) = expect_failure(&outcome);
        assert_eq!(cause, FailureCause::Invalid);
        assert!(detail.contains(name) && detail.contains("reserved"), "{detail}");
    }
}

#[test]
fn script_text_is_run_unchanged() {
    let fixture = StepRunnerFixture::new();
    let outcome = fixture.run(script("a", "#!/bin/sh\necho $0 $#\nno-such-command"));
    assert!(expect_failure(&outcome).1.contains("127"), "{outcome:?}");
    let log = fixture.link.text_of("a");
    assert!(log.starts_with("/bin/sh 0\n") && log.contains("3: no-such-command"), "{log}");
    for empty in ["", "\n", "# nothing"] {
        expect_success(&fixture.run(script(&format!("empty {empty}"), empty)));
    }
    for odd in ["-x", "--", "+e"] {
        let outcome = fixture.run(script(odd, odd));
        assert!(expect_failure(&outcome).1.contains("127"), "{odd}: {outcome:?}");
    }
    let longest = format!("true #{}", "x".repeat(SCRIPT_BYTES_MAX - 6));
    expect_success(&fixture.run(script("longest", &longest)));
    let outcome = fixture.run(script("longer", &format!("{longest}x")));
    assert!(expect_failure(&outcome).1.contains("longer than"), "{outcome:?}");
}

#[test]
fn script_stops_at_first_failing_command() {
    let fixture = StepRunnerFixture::new();
    let outcome = fixture.run(script("a", "echo one\nfalse\necho two"));
    assert_eq!(expect_failure(&outcome), (FailureCause::Exited, "exited with 1"));
    assert_eq!(fixture.link.text_of("a"), "one\n");
}

#[test]
fn script_exit_statuses_are_distinguished() {
    let fixture = StepRunnerFixture::new();
    for (id, run, cause, part) in [
        ("exit", "exit 3", FailureCause::Exited, "exited with 3"),
        ("no-command", "no-such-command", FailureCause::Exited, "127: a command was not found"),
        ("no-program", "/etc/passwd", FailureCause::Exited, "126"),
        ("kill", "kill -9 $$", FailureCause::Killed, "signal 9 (KILL)"),
        ("segv", "kill -SEGV $$", FailureCause::Killed, "signal 11 (SEGV)"),
        ("child", "sh -c 'kill -TERM $$'", FailureCause::Exited, "signal 15 (TERM)"),
    ] {
        let outcome = fixture.run(script(id, run));
        let (found, detail) = expect_failure(&outcome);
        assert!(found == cause && detail.contains(part), "{id}: {found:?} {detail}");
    }
    let StepRunOutcome::Failed { exit_code, .. } = fixture.run(script("code", "exit 42")) else {
        panic!("fails")
    };
    assert_eq!(exit_code, Some(42));
}

#[test]
fn outputs_come_from_output_file_only() {
    let fixture = StepRunnerFixture::new();
    let run = "echo image=printed; echo '::set-output name=image::x'; echo '##vso[task.setvariable]'\n\
               { echo image=app:1; echo 'notes<<E'; echo a; echo b; echo E; echo other=1; } >> $BERTH_OUTPUT";
    let mut assignment = script("a", run);
    assignment.outputs = vec!["image".into(), "notes".into()];
    let outcome = fixture.run(assignment);
    let expected = BTreeMap::from([("image".into(), "app:1".into()), ("notes".into(), "a\nb".into())]);
    assert_eq!(expect_success(&outcome), &expected);
    assert!(
        fixture
            .link
            .text_of("a")
            .ends_with("warning: `other` is not among the step's `outputs` and is not kept\n")
    );

    for (id, run, part) in [
        ("bad", "echo hello >> $BERTH_OUTPUT", "line 1"),
        ("link", "ln -sf /etc/passwd $BERTH_OUTPUT", "cannot be read"),
        ("pipe", "rm $BERTH_OUTPUT; mkfifo $BERTH_OUTPUT", "no longer a file"),
        ("big", "head -c 1048577 /dev/zero > $BERTH_OUTPUT", "longer than 1048576"),
        ("secret", "echo image=hunter22 > $BERTH_OUTPUT", "contains a secret"),
    ] {
        let mut assignment = script(id, run);
        assignment.outputs = vec!["image".into()];
        assignment.masked = vec![SecretText::new("hunter22".into())];
        let outcome = fixture.run(assignment);
        let (cause, detail) = expect_failure(&outcome);
        assert!(cause == FailureCause::Invalid && detail.contains(part), "{id}: {detail}");
    }
}

#[test]
fn secret_files_are_on_tmpfs_and_removed_with_the_step() {
    let fixture = StepRunnerFixture::new();
    let mut assignment = script(
        "a",
        "stat -f -c %T $KEY; stat -c '%a %s' $KEY $(dirname $KEY) | head -1; echo $KEY; cat $KEY",
    );
    assignment.secret_files.insert("KEY".into(), SecretText::new("line-one-x\nline-two-x\n".into()));
    expect_success(&fixture.run(assignment));
    let log = fixture.link.text_of("a");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[0], "tmpfs");
    assert_eq!(lines[1], "600 22");
    assert_eq!(lines[3], "***", "{log}");
    let path = std::path::PathBuf::from(lines[2]);
    crate::fixture::wait_until("the secret is gone", || !path.parent().expect("directory").exists());
}

#[test]
fn secret_files_without_tmpfs_are_rejected() {
    let fixture = StepRunnerFixture::with_options(|settings| {
        settings.secret_dirs = vec!["/proc".into(), "/nowhere".into()];
    });
    let mut assignment = script("a", "true");
    assignment.secret_files.insert("KEY".into(), SecretText::new("hunter22".into()));
    let outcome = fixture.run(assignment);
    let (cause, detail) = expect_failure(&outcome);
    assert!(cause == FailureCause::Invalid && detail.contains("need a tmpfs"), "{detail}");
}

#[test]
fn artifacts_are_uploaded_and_fetched() {
    let fixture = StepRunnerFixture::new();
    let mut build = script("build", "mkdir dist; echo page > dist/site");
    build.artifacts.insert("site".into(), "dist/site".into());
    let outcome = fixture.run(build);
    let StepRunOutcome::Succeeded { artifacts, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(artifacts["site"], "digest-of-5-bytes");
    assert_eq!(fixture.link.stored_artifacts()["site"], b"page\n");
    let mut deploy = script("deploy", "cat site");
    deploy.needs_artifacts = vec!["site".into()];
    expect_success(&fixture.run(deploy));
    assert_eq!(fixture.link.text_of("deploy"), "page\n");

    for (id, run, path, part) in [
        ("missing", "true", "dist/", "`site` is missing"),
        ("link", "ln -s /etc site", "site", "leads out of the workspace"),
        ("up", "true", "../home", "not below the workspace"),
    ] {
        let mut assignment = script(id, run);
        assignment.artifacts.insert("site".into(), path.into());
        let outcome = fixture.run(assignment);
        let (cause, detail) = expect_failure(&outcome);
        assert!(cause == FailureCause::MissingArtifact && detail.contains(part), "{id}: {detail}");
    }
}

#[test]
fn step_that_cannot_start_explains_why() {
    let fixture = StepRunnerFixture::new();
    let mut assignment = script("artifact", "true");
    assignment.needs_artifacts = vec!["nothing".into()];
    let outcome = fixture.run(assignment);
    assert!(expect_failure(&outcome).1.contains("cannot fetch the artifact `nothing`"), "{outcome:?}");
    let outcome = fixture.run(script("long", &"#".repeat(200_000)));
    assert!(expect_failure(&outcome).1.contains("put it into a file"), "{outcome:?}");
    let outcome = fixture.run(crate::fixture::step("kind", "teleport", serde_json::json!({})));
    assert!(expect_failure(&outcome).1.contains("does not know the step type `teleport`"), "{outcome:?}");
}

#[test]
fn step_above_memory_limit_fails() {
    let fixture =
        StepRunnerFixture::with_options(|settings| settings.step_memory_bytes_max = Some(256 * 1024 * 1024));
    expect_success(&fixture.run(script("small", "head -c 1000 /dev/zero | tail -c 1000 > /dev/null")));
    let outcome =
        fixture.run(script("large", "sleep 0.2; head -c 500000000 /dev/zero | tail -n 1 > /dev/null"));
    assert_eq!(expect_failure(&outcome).0, FailureCause::Exited);
    assert!(fixture.link.text_of("large").contains("memory"), "{}", fixture.link.text_of("large"));
}

#[test]
fn read_only_directories_are_removed() {
    let fixture = StepRunnerFixture::new();
    expect_success(&fixture.run(script("a", "mkdir -p x/y; touch x/y/z; chmod -R 555 x")));
}

#[test]
fn step_that_replaces_output_file_does_not_block() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.slots = 1);
    expect_success(&fixture.run(script("pipe", "mkfifo ../secrets")));
    expect_success(&fixture.run(script("after", "true")));
}
