//! `integrations/gitlab`, run by gitlab-ci-local.

use std::path::{Path, PathBuf};

use berth_testkit::outcome;
use serde_json::json;

use super::super::{CliFixture, DEFINITION, PATIENCE};
use super::page::read_example;
use super::{CiRepository, HOSTILE, ServedFile};
use crate::harness::{BerthProcess, ProcessOutput};

/// Environment variable that names the directory in whose `node_modules` gitlab-ci-local is installed.
const NPM: &str = "BERTH_TEST_NPM";
/// gitlab-ci-local copies the repository with it.
const RSYNC: &str = "/usr/bin/rsync";
const CLAIM: &[(&str, &str)] = &[("BERTH_ENVIRONMENT", "shop/qa-1"), ("BERTH_COMMIT", "none")];

/// A repository with jobs that extend the templates, and a server.
struct GitLabProject {
    cli: CliFixture,
    repository: CiRepository,
    runner: PathBuf,
}

impl GitLabProject {
    /// Returns `None` and reports that if gitlab-ci-local is not installed.
    fn new() -> Option<Self> {
        let dir = std::env::var_os(NPM).map(PathBuf::from);
        let runner = dir.map(|dir| dir.join("node_modules/.bin/gitlab-ci-local"));
        let Some(runner) = runner.filter(|runner| runner.exists() && Path::new(RSYNC).exists()) else {
            outcome::skip(
                "gitlab-ci-local",
                &format!("`cargo xtask test` installs it and rsync; {NPM} names it"),
            );
            return None;
        };
        let repository = CiRepository::new();
        repository.copy_integration("gitlab/berth.gitlab-ci.yml", "ci/berth.gitlab-ci.yml");
        Some(Self { cli: CliFixture::new(), repository, runner })
    }

    /// Runs a job that extends the template with these variables. The token is a variable of the project.
    fn run(&self, template: &str, variables: &[(&str, &str)]) -> ProcessOutput {
        let variables: serde_json::Map<_, _> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value.replace('$', "$$"))))
            .collect();
        let project = json!({
            "include": [{"local": "ci/berth.gitlab-ci.yml"}],
            "job": {"extends": template, "variables": variables},
        });
        self.repository.write(".gitlab-ci.yml", &project.to_string());
        self.repository.commit();
        self.run_on_head("job")
    }

    /// Runs a job on the newest commit.
    fn run_on_head(&self, job: &str) -> ProcessOutput {
        let mut command = self.repository.command(&self.runner);
        command.args([job, "--shell-executor-no-image", "true", "--home"]).arg(self.repository.home.path());
        for (name, value) in [
            ("BERTH_SERVER", self.cli.url()),
            ("BERTH_TOKEN", self.cli.home.token.clone()),
            ("GITLAB_USER_LOGIN", "grace".to_owned()),
        ] {
            command.arg("--variable").arg(format!("{name}={value}"));
        }
        let ran = BerthProcess::start(&mut command).wait(PATIENCE);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!said.contains(&self.cli.home.token), "the token is in the log: {ran:?}");
        ProcessOutput { stdout: said, ..ran }
    }

    fn run_claim(&self, more: &[(&str, &str)]) -> ProcessOutput {
        self.run(".berth-claim", &[CLAIM, more].concat())
    }
}

#[test]
fn gitlab_template_runs_the_command_in_the_environment_for_the_user() {
    let Some(project) = GitLabProject::new() else { return };
    let command = "berth env show \"shop/$BERTH_ENVIRONMENT\"";
    let ran = project.run(".berth-claim", &[("BERTH_ENVIRONMENT", "shop/qa-1"), ("BERTH_COMMAND", command)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("ada for grace since") && ran.stdout.contains("/jobs/"), "{ran:?}");
    assert!(project.cli.is_free());
    let head = project.repository.git(&["rev-parse", "HEAD"]);
    assert_eq!(project.cli.environment()["deployedCommitId"], head.as_str());
}

#[test]
fn gitlab_jobs_of_the_page_test_and_deploy() {
    let Some(project) = GitLabProject::new() else { return };
    project.cli.remove_approvals();
    project.repository.add_e2e_tests();
    project.repository.write(".gitlab-ci.yml", read_example("GitLab", "yaml"));
    let commit = project.repository.commit();
    for job in ["e2e", "deploy"] {
        let ran = project.run_on_head(job);
        assert_eq!(ran.code, Some(0), "{job}: {ran:?}");
    }
    project.cli.assert_tested_and_deployed(&commit, "/jobs/");
}

#[test]
fn gitlab_template_keeps_the_environment_after_a_failure() {
    let Some(project) = GitLabProject::new() else { return };
    let keep = [("BERTH_COMMAND", "exit 7"), ("BERTH_FOR", "linus (#42)"), ("BERTH_KEEP_ON_FAILURE", "2h")];
    let ran = project.run_claim(&keep);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("exit code 7; keeping qa-1 until"), "{ran:?}");
    assert_eq!(project.cli.environment()["lock"]["contact"], "linus (#42)");
    let ran = project.run_claim(&[("BERTH_COMMAND", "true"), ("BERTH_QUEUE", "false")]);
    assert!(ran.code != Some(0) && ran.stdout.contains("you already hold environment"), "{ran:?}");
    assert_eq!(project.cli.run("env release shop/qa-1").code, Some(0));
    let ran = project.run_claim(&[("BERTH_COMMAND", "false\ntrue")]);
    assert_ne!(ran.code, Some(0), "a failed line fails the command: {ran:?}");
    assert!(project.cli.is_free(), "without BERTH_KEEP_ON_FAILURE it is released");
}

#[test]
fn gitlab_template_executes_no_variable_as_code() {
    let Some(project) = GitLabProject::new() else { return };
    let texts = [("BERTH_COMMAND", "true"), ("BERTH_WHY", HOSTILE), ("BERTH_FOR", HOSTILE)];
    let ran = project.run_claim(&texts);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let history = project.cli.server.api.get(&format!("{}/history", super::super::exec::ENVIRONMENT)).json();
    let session = &history["data"][0];
    assert_eq!((&session["context"], &session["contact"]), (&json!(HOSTILE), &json!(HOSTILE)));
    for name in ["BERTH_ENVIRONMENT", "BERTH_LABEL", "BERTH_COMMIT", "BERTH_WAIT", "BERTH_URL", "BERTH_PATH"]
    {
        project.run_claim(&[("BERTH_COMMAND", "true"), (name, HOSTILE)]);
    }
    assert!(project.repository.is_unharmed());
}

#[test]
fn gitlab_template_deploys_a_pipeline_and_claims_by_label() {
    let Some(project) = GitLabProject::new() else { return };
    let definition = DEFINITION
        .replace(", { name: prod, requires: { approvals: 1 } }", "")
        .replace("qa-2: {}", "qa-2: { labels: [small] }");
    project.cli.apply_definition(&definition);
    let ran = project.run(".berth-deploy", &[("BERTH_PIPELINE", "shop"), ("BERTH_COMMIT", "v1")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = project.run(".berth-deploy", &[("BERTH_PIPELINE", "shop"), ("BERTH_COMMIT", "bad")]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    let command = ("BERTH_COMMAND", "echo \"in $BERTH_ENVIRONMENT\"");
    let label = [("BERTH_LABEL", "small"), ("BERTH_PIPELINE", "shop"), ("BERTH_COMMIT", "none"), command];
    let ran = project.run(".berth-claim", &label);
    assert!(ran.code == Some(0) && ran.stdout.contains("in qa-2"), "{ran:?}");
}

#[test]
fn gitlab_template_downloads_berth_only_with_the_right_checksum() {
    let Some(project) = GitLabProject::new() else { return };
    std::fs::remove_file(project.repository.bin().join("berth")).expect("it was there");
    let missing = project.run_claim(&[("BERTH_COMMAND", "true")]);
    assert!(missing.code != Some(0) && missing.stdout.contains("berth is not on PATH"), "{missing:?}");
    for (file, name) in
        [(ServedFile::serve_program(), "berth"), (ServedFile::serve_archive(), "berth.tar.gz")]
    {
        let url = file.url(name);
        let download = |sha256: &str| {
            project.run_claim(&[
                ("BERTH_COMMAND", "echo be''gan"),
                ("BERTH_URL", &url),
                ("BERTH_SHA256", sha256),
            ])
        };
        let ran = download(&file.sha256);
        assert!(ran.code == Some(0) && ran.stdout.contains("began"), "{ran:?}");
        for (sha256, why) in
            [(&"0".repeat(64), "does not have the checksum"), (&String::new(), "needs BERTH_SHA256")]
        {
            let ran = download(sha256);
            assert!(
                ran.code != Some(0) && ran.stdout.contains(why) && !ran.stdout.contains("began"),
                "{ran:?}"
            );
        }
    }
}
