//! Deployments: started, watched, approved, cancelled, retried and rolled back.

use expect_test::expect_file;

use super::{CliFixture, PATIENCE, Transcript};
use crate::harness::{TestServer, wait_until};

/// With `on_lost: ask`, the step's outcome is unknown after the server was killed.
const ASKS: &str = "version: 1
pipeline:
  name: Ask
  stages: [{ name: staging }]
  steps:
    - name: Deploy
      id: deploy
      type: script
      on_lost: ask
      params: { run: 'echo begins; exec sleep 600' }
";

/// Needs an approval that the only member cannot give, because self-approval is not allowed.
const ALONE: &str = "version: 1
pipeline:
  name: Alone
  stages: [{ name: prod, requires: { self_approval: false } }]
  steps: [{ name: Deploy, type: dummy }]
";

/// Stores an artifact.
const SITE: &str = "version: 1
pipeline:
  name: Site
  stages: [{ name: staging }]
  steps:
    - name: Build
      id: build
      type: script
      artifacts: { site: { path: index.html } }
      params: { run: 'echo hello > index.html' }
";

impl CliFixture {
    /// Starts a deployment and returns its id.
    fn start(&self, words: &str) -> String {
        let started = self.run(&format!("deploy {words} --detach --json"));
        started.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Returns the approval that a deployment waits for.
    fn pending_approval(&self) -> String {
        wait_until(PATIENCE, "approval", || {
            self.run("approve --json").json()["data"][0]["id"].as_str().map(str::to_owned)
        })
    }

    fn watch(&self, id: &str) -> Option<i32> {
        self.run(&format!("status {id} --watch")).code
    }
}

#[test]
fn deploy_through_the_stages_with_approval() {
    let cli = CliFixture::new();
    let id = cli.start("shop v1");
    let approval = cli.pending_approval();
    let mut before = Transcript::new(&cli);
    before.run_all(&[
        "status shop",
        "approve",
        "logs shop deploy",
        "logs shop -f",
        "logs shop nothing",
        &format!("approve {id} --why fine"),
    ]);
    before.run_without_display("status shop --watch");
    before.run(&format!("approve {approval}"));
    before.compare(&expect_file!["expected/stages-before.txt"]);

    let mut after = Transcript::new(&cli);
    after.run_without_display("deploy shop bad");
    after.run_all(&[
        "deployment list",
        "deployment list --pipeline nothing",
        "deployment show dep_01m7g4d0vte3jvz7vxfqbbnt37",
        "status shop",
        "pipeline list",
        "pipeline stop shop --why freeze",
        "pipeline resume shop",
        "pipeline show shop",
        "analyze shop",
        "analyze nothing",
    ]);
    after.compare(&expect_file!["expected/stages-after.txt"]);
}

#[test]
fn deployment_reject_cancel_retry_rollback() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run("reject");
    let rejected = cli.start("shop v1");
    cli.pending_approval();
    transcript.run(&format!("reject {rejected} --why unripe"));
    assert_eq!(cli.watch(&rejected), Some(1));
    transcript.run(&format!("reject {rejected}"));

    let stopped = cli.start("shop v2");
    cli.pending_approval();
    transcript.run(&format!("deployment cancel {stopped} --why later"));
    assert_eq!(cli.watch(&stopped), Some(1));
    transcript.run_all(&[
        &format!("deployment cancel {stopped}"),
        &format!("deployment show {stopped}"),
        "deployment cancel nothing",
    ]);

    transcript.run_without_display("deploy shop bad");
    let failed = cli.run("deployment list --status failed --json");
    let failed = failed.json()["data"][0]["id"].as_str().expect("an id").to_owned();
    transcript.run_without_display(&format!("deployment retry {failed}"));
    assert_eq!(cli.watch(&failed), Some(1));
    transcript.run("deployment retry nothing");

    transcript.run_without_display("deploy shop v3 --bypass fire");
    transcript.run_without_display("deploy shop v4 --bypass fire");
    let newest = cli.run("status shop --json").json()["id"].as_str().expect("an id").to_owned();
    transcript.run(&format!("deployment rollback {newest} nowhere"));
    transcript.run_without_display(&format!("deployment rollback {newest} staging --why slow"));
    transcript.run(&format!("deployment retry {newest}"));
    transcript.compare(&expect_file!["expected/deployment.txt"]);
}

#[test]
fn deployment_artifacts_are_listed_and_downloaded() {
    let cli = CliFixture::new();
    std::fs::write(cli.config.path().join("site.yaml"), SITE).expect("a file");
    assert_eq!(cli.run("pipeline apply site.yaml").code, Some(0));
    let id = cli.start("site v1");
    assert_eq!(cli.watch(&id), Some(0));
    let mut transcript = Transcript::new(&cli);
    let listed = cli.run(&format!("deployment artifacts {id} --json")).json();
    let artifact = &listed["artifacts"][0];
    // The archive has the time of the file.
    transcript.hide(artifact["digest"].as_str().expect("a digest"), "DIGEST");
    transcript.hide(&artifact["bytes"].to_string(), "N");
    transcript.run_all(&[
        &format!("deployment artifacts {id}"),
        "deployment artifacts nothing",
        &format!("deployment download {id} site"),
        &format!("deployment download {id} site"),
        &format!("deployment download {id} nothing -o other"),
    ]);
    let unpacked = std::process::Command::new("tar")
        .args(["--zstd", "-xOf", "site.tar.zst"])
        .current_dir(cli.config.path())
        .output()
        .expect("tar");
    assert!(String::from_utf8_lossy(&unpacked.stdout).contains("hello"), "{unpacked:?}");
    transcript.compare(&expect_file!["expected/artifacts.txt"]);
}

#[test]
fn deployment_resolve_unknown_step() {
    let mut cli = CliFixture::new();
    std::fs::write(cli.config.path().join("ask.yaml"), ASKS).expect("a file");
    assert_eq!(cli.run("pipeline apply ask.yaml").code, Some(0));
    let id = cli.start("ask v1");
    wait_until(PATIENCE, "log", || cli.run("logs ask deploy").stdout.contains("begins").then_some(()));
    cli.server.process.kill();
    cli.server = TestServer::start(&mut cli.home.serve_command(), &cli.home.token);
    let step = wait_until(PATIENCE, "question", || {
        let seen = cli.run(&format!("status {id} --json")).json();
        let asks = seen["blockedBy"][0]["kind"] == "unknown_outcome";
        asks.then(|| seen["stages"][0]["steps"][0]["id"].as_str().expect("a step").to_owned())
    });
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "status ask",
        &format!("deployment resolve {id} nothing ran"),
        &format!("deployment resolve {id} {step} perhaps"),
        &format!("deployment resolve {id} {step} ran"),
    ]);
    assert_eq!(cli.watch(&id), Some(0));
    transcript.compare(&expect_file!["expected/resolved.txt"]);
}

#[test]
fn approval_without_enough_approvers_says_how_to_continue() {
    let cli = CliFixture::new();
    std::fs::write(cli.config.path().join("alone.yaml"), ALONE).expect("a file");
    assert_eq!(cli.run("pipeline apply alone.yaml").code, Some(0));
    let id = cli.start("alone v1");
    cli.pending_approval();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&["approve", "status alone", &format!("approve {id}")]);
    transcript.run_without_display("deploy alone v1 --bypass fire");
    transcript.compare(&expect_file!["expected/unreachable.txt"]);
}
