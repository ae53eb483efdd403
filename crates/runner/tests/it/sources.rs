//! Workspaces from checkouts that the runner keeps.

use std::path::PathBuf;

use berth_api::runner::{AttemptAssignment, LinkError, StepRunOutcome};
use berth_runner::{RunnerOptions, SandboxMode};

use crate::fixture::{StepRunnerFixture, choose_confinement, expect_success, script};

/// A runner whose steps cannot see its files, which is required for keeping checkouts.
fn start_fixture(change: impl FnOnce(&mut RunnerOptions)) -> Option<StepRunnerFixture> {
    let confinement = choose_confinement(SandboxMode::Bubblewrap, &[])?;
    Some(StepRunnerFixture::with_options(|options| {
        options.confinement = confinement;
        change(options);
    }))
}

fn with_source(id: &str, key: &str, run: &str) -> AttemptAssignment {
    let mut step = script(id, run);
    step.has_source = true;
    step.source_key = Some(key.into());
    step
}

fn kept_dirs(fixture: &StepRunnerFixture) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(fixture.dir.path().join("work/sources"));
    entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[test]
fn steps_of_a_commit_share_its_checkout_but_no_files() {
    let Some(fixture) = start_fixture(|_| {}) else { return };
    let spoil = "cat README; echo spoiled > README; rm -f other; echo more > other";
    for id in ["a", "b"] {
        expect_success(&fixture.run(with_source(id, "one", spoil)));
        assert_eq!(fixture.link.text_of(id), "checked out\n");
    }
    assert_eq!(fixture.link.count_checkouts(), 1);
    expect_success(&fixture.run(with_source("c", "two", "cat README")));
    assert_eq!(fixture.link.count_checkouts(), 2, "another commit");
    assert_eq!(kept_dirs(&fixture).len(), 2);
}

#[test]
fn step_cannot_see_kept_checkouts() {
    let Some(fixture) = start_fixture(|_| {}) else { return };
    let sources = fixture.dir.path().join("work/sources");
    let run = format!("ls {} 2>/dev/null && echo LEAK; true", sources.display());
    expect_success(&fixture.run(with_source("a", "one", "true")));
    expect_success(&fixture.run(with_source("b", "one", &run)));
    assert_eq!((fixture.link.text_of("b").as_str(), kept_dirs(&fixture).len()), ("", 1));
}

#[test]
fn without_a_sandbox_no_checkout_is_kept() {
    let fixture = StepRunnerFixture::new();
    for id in ["a", "b"] {
        expect_success(&fixture.run(with_source(id, "one", "cat README")));
    }
    assert_eq!((fixture.link.count_checkouts(), kept_dirs(&fixture).len()), (2, 0));
}

#[test]
fn checkout_of_paths_has_no_other_files() {
    for sandbox in [SandboxMode::Off, SandboxMode::Bubblewrap] {
        let Some(confinement) = choose_confinement(sandbox, &[]) else { return };
        let fixture = StepRunnerFixture::with_options(|options| options.confinement = confinement);
        for (id, path, wanted) in [("a", "docs", ""), ("b", "README", "README\n"), ("c", "READ", "")] {
            let mut step = with_source(id, "one", "ls");
            step.source_paths = vec![path.into()];
            expect_success(&fixture.run(step));
            assert_eq!(fixture.link.text_of(id), wanted, "{path}");
        }
    }
}

#[test]
fn failed_checkout_is_not_kept() {
    let Some(fixture) = start_fixture(|_| {}) else { return };
    fixture.link.fail_checkouts(Some(LinkError::Refused("there is no such commit".into())));
    let outcome = fixture.run(with_source("a", "one", "true"));
    assert!(matches!(&outcome, StepRunOutcome::Failed { detail, .. } if detail.contains("no such commit")));
    assert_eq!(kept_dirs(&fixture).len(), 0);
    fixture.link.fail_checkouts(None);
    expect_success(&fixture.run(with_source("b", "one", "cat README")));
    assert_eq!(fixture.link.text_of("b"), "checked out\n");
}

#[test]
fn only_recent_checkouts_are_kept_and_none_after_a_restart() {
    let Some(mut fixture) = start_fixture(|_| {}) else { return };
    for number in 0..12 {
        let key = number.to_string();
        expect_success(&fixture.run(with_source(&format!("step-{key}"), &key, "true")));
    }
    assert_eq!(kept_dirs(&fixture).len(), 8);
    expect_success(&fixture.run(with_source("recent", "11", "true")));
    assert_eq!(fixture.link.count_checkouts(), 12);
    fixture.stop();
    berth_runner::kill_leftovers(&fixture.dir.path().join("work")).expect("cleaned up");
    assert_eq!(kept_dirs(&fixture).len(), 0);
}
