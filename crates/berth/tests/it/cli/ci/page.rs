//! The examples of `docs/ci.md`, run as they are printed: whole files by implementations of the CI systems, and the
//! commands of the others by a shell.

use super::super::{CliFixture, DEFINITION, PATIENCE};
use super::CiRepository;
use crate::harness::BerthProcess;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ci.md"));
/// The server in the examples.
pub(super) const SERVER: &str = "https://berth.acme.test";
/// Tests that only pass in the environment.
const E2E: &str = "#!/bin/sh\necho \"testing $BERTH_ENVIRONMENT with fence $BERTH_FENCE\"\ntest \"$BERTH_ENVIRONMENT\" = qa-1\n";

/// Returns the first code block in this language below a heading.
pub(super) fn read_example(heading: &str, language: &str) -> &'static str {
    let section = PAGE.split_once(&format!("\n## {heading}\n"));
    let (_, section) = section.unwrap_or_else(|| panic!("no section {heading}"));
    let block = section.split_once(&format!("\n```{language}\n"));
    let (_, block) = block.unwrap_or_else(|| panic!("no {language} in {heading}"));
    block.split_once("\n```").expect("an end").0
}

impl CiRepository {
    /// Adds the tests that the examples run.
    pub(super) fn add_e2e_tests(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        self.write("e2e.sh", E2E);
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.dir.path().join("e2e.sh"), executable).expect("it is ours");
    }
}

impl CliFixture {
    /// Changes the pipeline so that its deployments need no approval.
    pub(super) fn remove_approvals(&self) {
        self.apply_definition(&DEFINITION.replace(", { name: prod, requires: { approvals: 1 } }", ""));
    }

    /// Asserts that the commit was tested in qa-1 for this reason, and then deployed.
    pub(super) fn assert_tested_and_deployed(&self, commit: &str, reason: &str) {
        assert!(self.is_free());
        let history = self.server.api.get(&format!("{}/history", super::super::exec::ENVIRONMENT)).json();
        let session = &history["data"][0];
        assert_eq!(self.environment()["deployedCommitId"], commit);
        assert!(session["context"].as_str().is_some_and(|text| text.contains(reason)), "{session}");
        let list = self.server.api.get("/api/v1/organizations/acme/deployments").json();
        let deployed = list["data"].as_array().expect("a list").iter().filter(|it| it["commitId"] == commit);
        let statuses: Vec<_> = deployed.map(|it| it["status"].as_str().expect("a status")).collect();
        assert_eq!(statuses, ["succeeded", "succeeded"], "in qa-1 and in the pipeline: {list}");
    }
}

/// Runs the commands in order, each in a shell of its own, as CI systems do.
fn check_commands(commands: &[String], variables: &[(&str, &str)]) {
    let (cli, repository) = (CliFixture::new(), CiRepository::new());
    cli.remove_approvals();
    repository.add_e2e_tests();
    let commit = repository.commit();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for script in commands {
        let mut shell = repository.command("sh".as_ref());
        shell.args(["-e", "-c", script]);
        shell.env("BERTH_SERVER", cli.url()).env("BERTH_TOKEN", &cli.home.token);
        for (name, value) in variables {
            shell.env(name, value.replace("COMMIT", &commit));
        }
        let ran = BerthProcess::start(&mut shell).wait(PATIENCE);
        assert_eq!(ran.code, Some(0), "{script}: {ran:?}");
    }
    cli.assert_tested_and_deployed(&commit, "https://ci.acme.test/7");
}

#[test]
fn jenkins_commands_of_the_page_test_and_deploy() {
    let example = read_example("Jenkins", "groovy");
    assert!(example.contains(&format!("BERTH_SERVER = '{SERVER}'")) && example.contains("BERTH_TOKEN ="));
    let commands =
        example.lines().filter_map(|line| Some(line.split_once("sh '")?.1.rsplit_once('\'')?.0.to_owned()));
    check_commands(
        &commands.collect::<Vec<_>>(),
        &[("GIT_COMMIT", "COMMIT"), ("BUILD_URL", "https://ci.acme.test/7")],
    );
}

#[test]
fn buildkite_commands_of_the_page_test_and_deploy() {
    let example = read_example("Buildkite", "yaml");
    // Buildkite expands $NAME when it reads the file, and passes $$NAME on to the shell.
    let commands =
        example.lines().filter_map(|line| Some(line.split_once("- command: ")?.1.replace("$$", "$")));
    check_commands(
        &commands.collect::<Vec<_>>(),
        &[("BUILDKITE_COMMIT", "COMMIT"), ("BUILDKITE_BUILD_URL", "https://ci.acme.test/7")],
    );
}
