//! Tests that steps run as an unprivileged user if the runner is root.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use berth_api::runner::SecretText;
use berth_runner::{Confinement, RunnerStartError, SandboxMode, StepRunner, StepUserAccount, StepUserError};
use berth_testkit::outcome;
use serde_json::json;

use crate::fixture::{StepRunnerFixture, choose_confinement, expect_success, runner_options, script};
use crate::link::TestLink;
use crate::registry::{custom_step, offer_script};

/// An account that exists on every system and owns nothing.
const USER: &str = "nobody";
const SUCCESS: &str = r#"answer '{"status":"SUCCESS"}'"#;

/// Returns `None` unless the tests run as root.
fn find_test_user() -> Option<StepUserAccount> {
    match StepUserAccount::find(USER) {
        Ok(user) => Some(user),
        Err(error) => {
            outcome::report_impossible("another user for steps", &error.to_string());
            None
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
}

fn start_fixture(sandbox: SandboxMode) -> Option<StepRunnerFixture> {
    let user = find_test_user()?;
    choose_confinement(sandbox, &[])?;
    let confinement = Confinement::choose_as(Some(user), sandbox, &[], &[]).expect("it works here");
    Some(StepRunnerFixture::with_options(|settings| {
        settings.confinement = confinement;
        set_mode(settings.work_dir.parent().expect("a parent"), 0o711);
    }))
}

fn check_user(sandbox: SandboxMode) {
    let Some(fixture) = start_fixture(sandbox) else { return };
    let key = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file");
    let run = format!(
        "id -u; id -G; cat README; cat $KEY; echo\n\
         grep CapEff /proc/self/status\n\
         echo made > made; echo x > $HOME/x; echo y > $TMPDIR/y; echo image=1 > $BERTH_OUTPUT\n\
         cat {} 2>/dev/null && echo LEAK key; kill -0 {} 2>/dev/null && echo LEAK signal; ls {} 2>/dev/null | grep lock && echo LEAK list\n\
         true",
        key.path().display(),
        std::process::id(),
        fixture.dir.path().join("work").display(),
    );
    let mut assignment = script("a", &run);
    assignment.has_source = true;
    assignment.outputs = vec!["image".into()];
    assignment.secret_files.insert("KEY".into(), SecretText::new("hunter22".into()));
    let outcome = fixture.run(assignment);
    let log = fixture.link.text_of("a");
    assert_eq!(expect_success(&outcome)["image"], "1", "{log}");
    let start = "65534\n65534\nchecked out\n***\nCapEff:\t0000000000000000\n";
    assert!(log.starts_with(start) && !log.contains("LEAK"), "{log}");
    // The next step gets a new workspace.
    expect_success(&fixture.run(script("b", "test \"$(id -u)\" = 65534; echo x > x")));

    offer_script(
        &fixture,
        "d",
        &format!("id -u; (echo x > new) 2>/dev/null && echo LEAK; cat \"$KEY\"; {SUCCESS}"),
    );
    let mut assignment = custom_step("c", "d", json!({"token": "hunter22"}));
    assignment.masked = vec![SecretText::new("hunter22".into())];
    assignment.secret_files.insert("KEY".into(), SecretText::new("key-of-the-step".into()));
    assignment.custom.as_mut().expect("custom").input = berth_api::runner::CallInput::File;
    let outcome = fixture.run(assignment);
    let log = fixture.link.text_of("c");
    expect_success(&outcome);
    assert!(log.starts_with("65534\n***") && !log.contains("LEAK"), "{log}");
}

#[test]
fn step_runs_as_another_user_without_a_sandbox() {
    check_user(SandboxMode::Off);
}

#[test]
fn step_runs_as_another_user_with_landlock() {
    check_user(SandboxMode::Landlock);
}

#[test]
fn step_runs_as_another_user_with_bubblewrap() {
    check_user(SandboxMode::Bubblewrap);
}

#[test]
fn work_directory_that_the_user_cannot_enter_is_refused_at_start() {
    let Some(user) = find_test_user() else { return };
    let dir = tempfile::tempdir().expect("directory");
    set_mode(dir.path(), 0o700);
    let mut settings = runner_options(dir.path().join("work"));
    settings.confinement =
        Confinement::choose_as(Some(user), SandboxMode::Off, &[], &[]).expect("no sandbox");
    let refused = StepRunner::start(settings, std::sync::Arc::new(TestLink::default())).err();
    let Some(RunnerStartError::User(error @ StepUserError::Outside { .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains("the user nobody, as which steps run, cannot enter"), "{error}");
}

#[test]
fn user_that_does_not_exist_or_is_root_is_refused() {
    if find_test_user().is_none() {
        return;
    }
    let why = |name: &str| StepUserAccount::find(name).expect_err("refused").to_string();
    assert!(why("no-such-user").contains("there is no user no-such-user"), "{}", why("no-such-user"));
    assert!(why("root").contains("name an unprivileged user"), "{}", why("root"));
}
