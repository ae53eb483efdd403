//! `integrations/github-action`, run by act.

use std::path::PathBuf;

use berth_testkit::outcome;
use serde_json::json;

use super::super::{CliFixture, DEFINITION, PATIENCE};
use super::page::{SERVER, read_example};
use super::{CiRepository, HOSTILE, ServedFile};
use crate::harness::{BerthProcess, ProcessOutput};

/// Environment variable that names the interpreter in whose directory act is installed.
const PYTHON: &str = "BERTH_TEST_PYTHON";
const CLAIM: &[(&str, &str)] = &[("environment", "shop/qa-1"), ("commit", "none")];

/// A repository with a workflow that uses the action, and a server.
struct Workflow {
    cli: CliFixture,
    repository: CiRepository,
    act: PathBuf,
}

impl Workflow {
    /// Returns `None` and reports that if act is not installed.
    fn new() -> Option<Self> {
        let python = std::env::var_os(PYTHON).map(PathBuf::from);
        let Some(act) = python.map(|python| python.with_file_name("act")).filter(|act| act.exists()) else {
            outcome::skip("act", &format!("`cargo xtask test` installs it next to {PYTHON}"));
            return None;
        };
        let repository = CiRepository::new();
        repository.copy_integration("github-action/action.yml", ".github/actions/berth/action.yml");
        Some(Self { cli: CliFixture::new(), repository, act })
    }

    /// Runs a job that uses the action with these inputs. act knows the token only as a variable, so only the action
    /// masks it.
    fn run(&self, inputs: &[(&str, &str)]) -> ProcessOutput {
        let mut with = json!({"server": self.cli.url(), "token": "${{ vars.TOKEN }}"});
        for (name, value) in inputs {
            with[*name] = json!(value);
        }
        let steps =
            json!([{"uses": "actions/checkout@v4"}, {"uses": "./.github/actions/berth", "with": with}]);
        let workflow = json!({"name": "E2E", "on": "push", "jobs": {"e2e": {"runs-on": "ubuntu-latest", "steps": steps}}});
        self.run_workflow(&workflow.to_string(), &["--var", &format!("TOKEN={}", self.cli.home.token)])
    }

    /// Runs a workflow on the newest commit.
    fn run_workflow(&self, workflow: &str, args: &[&str]) -> ProcessOutput {
        self.repository.write(".github/workflows/e2e.yml", workflow);
        self.repository.commit();
        let mut command = self.repository.command(&self.act);
        // Runs the steps on this machine. act does not download actions/checkout but copies the repository.
        command.args(["push", "--actor", "grace"]).args(args);
        for label in ["ubuntu-latest", "self-hosted"] {
            command.arg("--platform").arg(format!("{label}=-self-hosted"));
        }
        let ran = BerthProcess::start(&mut command).wait(PATIENCE);
        assert!(!ran.stdout.contains(&self.cli.home.token), "the token is in the log: {ran:?}");
        ran
    }

    fn run_claim(&self, more: &[(&str, &str)]) -> ProcessOutput {
        self.run(&[CLAIM, more].concat())
    }
}

#[test]
fn github_action_runs_the_command_in_the_environment_for_the_actor() {
    let Some(workflow) = Workflow::new() else { return };
    let command = "berth env show \"shop/$BERTH_ENVIRONMENT\"\n\
                   echo \"started by $(cat /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/comm)\"";
    let ran = workflow.run(&[("environment", "shop/qa-1"), ("command", command)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("ada for grace"), "{ran:?}");
    assert!(ran.stdout.contains("E2E #1: https://github.com/acme/shop/actions/runs/1"), "{ran:?}");
    assert!(ran.stdout.contains("started by act"), "berth gets the signals of a cancelled job: {ran:?}");
    assert!(workflow.cli.is_free());
    let head = workflow.repository.git(&["rev-parse", "HEAD"]);
    assert_eq!(workflow.cli.environment()["deployedCommitId"], head.as_str());
}

#[test]
fn github_workflow_of_the_page_tests_and_deploys() {
    let Some(workflow) = Workflow::new() else { return };
    workflow.cli.remove_approvals();
    workflow.repository.add_e2e_tests();
    let jobs = read_example("GitHub Actions", "yaml").replace(SERVER, &workflow.cli.url());
    let secret = format!("BERTH_TOKEN={}", workflow.cli.home.token);
    let ran = workflow.run_workflow(&format!("name: E2E\non: push\n{jobs}"), &["--secret", &secret]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    workflow.cli.assert_tested_and_deployed(&workflow.repository.git(&["rev-parse", "HEAD"]), "E2E #1");
}

#[test]
fn github_action_keeps_the_environment_after_a_failure() {
    let Some(workflow) = Workflow::new() else { return };
    let ran = workflow.run_claim(&[
        ("command", "false | true\nexit 0"),
        ("for", "linus (#42)"),
        ("keep-on-failure", "2h"),
    ]);
    assert_eq!(ran.code, Some(1), "a failed pipe fails the script: {ran:?}");
    assert!(
        ran.stdout.contains("keeping qa-1 until") && ran.stdout.contains("Contact: linus (#42)"),
        "{ran:?}"
    );
    assert_eq!(workflow.cli.environment()["lock"]["contact"], "linus (#42)");
    let ran = workflow.run_claim(&[("command", "true"), ("queue", "false")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("you already hold environment \"qa-1\" for linus (#42)"), "{ran:?}");
    assert_eq!(workflow.cli.run("env release shop/qa-1").code, Some(0));
    let ran = workflow.run_claim(&[("command", "exit 7")]);
    assert!(ran.stdout.contains("exit status 7"), "{ran:?}");
    assert!(workflow.cli.is_free(), "without keep-on-failure it is released");
}

#[test]
fn github_action_masks_the_token_and_executes_no_input_as_code() {
    let Some(workflow) = Workflow::new() else { return };
    let ran = workflow.run_claim(&[
        ("command", "echo \"the token is $BERTH_TOKEN\"; berth env show shop/qa-1"),
        ("why", HOSTILE),
        ("for", HOSTILE),
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("the token is ***"), "{ran:?}");
    let history = workflow.cli.server.api.get(&format!("{}/history", super::super::exec::ENVIRONMENT)).json();
    let session = &history["data"][0];
    assert_eq!((&session["context"], &session["contact"]), (&json!(HOSTILE), &json!(HOSTILE)));
    for input in
        ["environment", "label", "pipeline", "commit", "wait", "keep-on-failure", "deploy", "berth-path"]
    {
        workflow.run(&[("environment", "shop/qa-1"), ("command", "true"), (input, HOSTILE)]);
    }
    assert!(workflow.repository.is_unharmed());
}

#[test]
fn github_action_deploys_a_pipeline() {
    let Some(workflow) = Workflow::new() else { return };
    workflow.cli.apply_definition(&DEFINITION.replace(", { name: prod, requires: { approvals: 1 } }", ""));
    let ran = workflow.run(&[("deploy", "shop"), ("commit", "v1")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = workflow.run(&[("deploy", "shop"), ("commit", "bad")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let list = workflow.cli.server.api.get("/api/v1/organizations/acme/deployments").json();
    let seen: Vec<_> =
        list["data"].as_array().expect("a list").iter().map(|it| (&it["commitId"], &it["status"])).collect();
    assert_eq!(seen, [(&json!("bad"), &json!("failed")), (&json!("v1"), &json!("succeeded"))]);
}

#[test]
fn github_action_claims_by_label_in_a_directory() {
    let Some(workflow) = Workflow::new() else { return };
    workflow.cli.apply_definition(&DEFINITION.replace("qa-2: {}", "qa-2: { labels: [small] }"));
    workflow.repository.write("tests/here", "");
    let ran = workflow.run(&[
        ("label", "small"),
        ("pipeline", "shop"),
        ("commit", "none"),
        ("working-directory", "tests"),
        ("command", "echo \"in $BERTH_ENVIRONMENT with $(ls)\""),
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("in qa-2 with here"), "{ran:?}");
}

/// Number of runs in which the message is looked for: act sometimes loses the last lines of a step that ends at once.
const RUNS_MAX: usize = 3;

/// Asserts that the action fails with this message, and does not run the command.
fn assert_refused(why: &str, run: impl Fn() -> ProcessOutput) {
    let runs: Vec<_> = (0..RUNS_MAX).map(|_| run()).collect();
    for ran in &runs {
        assert!(ran.code == Some(1) && !ran.stdout.contains("| began"), "{why}: {ran:?}");
    }
    assert!(runs.iter().any(|ran| ran.stdout.contains(why)), "{why}: {runs:?}");
}

#[test]
fn github_action_downloads_berth_only_with_the_right_checksum() {
    let Some(workflow) = Workflow::new() else { return };
    std::fs::remove_file(workflow.repository.bin().join("berth")).expect("it was there");
    assert_refused("berth is not on PATH", || workflow.run_claim(&[("command", "true")]));
    for (file, name) in
        [(ServedFile::serve_program(), "berth"), (ServedFile::serve_archive(), "berth.tar.gz?v=1")]
    {
        let url = file.url(name);
        let download = |sha256: &str| {
            workflow.run_claim(&[("command", "echo began"), ("berth-url", &url), ("berth-sha256", sha256)])
        };
        let ran = download(&file.sha256);
        assert!(ran.code == Some(0) && ran.stdout.contains("| began"), "{ran:?}");
        assert_refused("does not have the checksum", || download(&"0".repeat(64)));
        assert_refused("needs berth-sha256", || download(""));
    }
}

#[test]
fn github_action_refuses_contradicting_inputs() {
    let Some(workflow) = Workflow::new() else { return };
    let wrong: [(&[(&str, &str)], &str); 5] = [
        (&[], "set command"),
        (&[("command", "true")], "set environment or label"),
        (&[("command", "true"), ("environment", "shop/qa-1"), ("label", "small")], "not both"),
        (&[("deploy", "shop"), ("command", "true")], "deploy cannot be combined"),
        (
            &[("command", "true"), ("environment", "shop/qa-1"), ("queue", "maybe")],
            "queue must be true or false",
        ),
    ];
    for (inputs, why) in wrong {
        assert_refused(why, || workflow.run(inputs));
    }
    assert!(workflow.cli.is_free());
}

#[test]
fn github_action_has_expressions_only_in_env() {
    let text = include_str!("../../../../../../integrations/github-action/action.yml");
    let outside: Vec<&str> = text.lines().filter(|line| line.contains("${{") && !is_variable(line)).collect();
    assert_eq!(outside, [""; 0]);
    assert!(text.lines().filter(|line| is_variable(line)).count() > 10);
}

/// Whether the line is an entry of `env:` whose value is one expression.
fn is_variable(line: &str) -> bool {
    let Some((name, value)) = line.trim().split_once(": ") else { return false };
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && value.starts_with("${{ ")
        && value.ends_with(" }}")
}
