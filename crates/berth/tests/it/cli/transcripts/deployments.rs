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
    let desk = CliFixture::new();
    let id = desk.start("shop v1");
    let approval = desk.pending_approval();
    let mut before = Transcript::new(&desk);
    before.run_all(&[
        "status shop",
        "approve",
        "logs shop deploy",
        "logs shop -f",
        "logs shop nothing",
        &format!("approve {id} --why fine"),
    ]);
    before.run_watching("status shop --watch");
    before.run(&format!("approve {approval}"));
    before.compare(&expect_file!["expected/stages-before.txt"]);

    let mut after = Transcript::new(&desk);
    after.run_watching("deploy shop bad");
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
    let desk = CliFixture::new();
    let mut talk = Transcript::new(&desk);
    talk.run("reject");
    let rejected = desk.start("shop v1");
    desk.pending_approval();
    talk.run(&format!("reject {rejected} --why unripe"));
    assert_eq!(desk.watch(&rejected), Some(1));
    talk.run(&format!("reject {rejected}"));

    let stopped = desk.start("shop v2");
    desk.pending_approval();
    talk.run(&format!("deployment cancel {stopped} --why later"));
    assert_eq!(desk.watch(&stopped), Some(1));
    talk.run_all(&[
        &format!("deployment cancel {stopped}"),
        &format!("deployment show {stopped}"),
        "deployment cancel nothing",
    ]);

    talk.run_watching("deploy shop bad");
    let failed = desk.run("deployment list --status failed --json");
    let failed = failed.json()["data"][0]["id"].as_str().expect("an id").to_owned();
    talk.run_watching(&format!("deployment retry {failed}"));
    assert_eq!(desk.watch(&failed), Some(1));
    talk.run("deployment retry nothing");

    talk.run_watching("deploy shop v3 --bypass fire");
    talk.run_watching("deploy shop v4 --bypass fire");
    let newest = desk.run("status shop --json").json()["id"].as_str().expect("an id").to_owned();
    talk.run(&format!("deployment rollback {newest} nowhere"));
    talk.run_watching(&format!("deployment rollback {newest} staging --why slow"));
    talk.run(&format!("deployment retry {newest}"));
    talk.compare(&expect_file!["expected/deployment.txt"]);
}

#[test]
fn deployment_resolve_unknown_step() {
    let mut desk = CliFixture::new();
    std::fs::write(desk.config.path().join("ask.yaml"), ASKS).expect("a file");
    assert_eq!(desk.run("pipeline apply ask.yaml").code, Some(0));
    let id = desk.start("ask v1");
    wait_until(PATIENCE, "log", || desk.run("logs ask deploy").stdout.contains("begins").then_some(()));
    desk.server.process.kill();
    desk.server = TestServer::start(&mut desk.home.serve_command(), &desk.home.token);
    let step = wait_until(PATIENCE, "question", || {
        let seen = desk.run(&format!("status {id} --json")).json();
        let asks = seen["blockedBy"][0]["kind"] == "unknown_outcome";
        asks.then(|| seen["stages"][0]["steps"][0]["id"].as_str().expect("a step").to_owned())
    });
    let mut talk = Transcript::new(&desk);
    talk.run_all(&[
        "status ask",
        &format!("deployment resolve {id} nothing ran"),
        &format!("deployment resolve {id} {step} perhaps"),
        &format!("deployment resolve {id} {step} ran"),
    ]);
    assert_eq!(desk.watch(&id), Some(0));
    talk.compare(&expect_file!["expected/resolved.txt"]);
}

#[test]
fn approval_without_enough_approvers_says_how_to_continue() {
    let desk = CliFixture::new();
    std::fs::write(desk.config.path().join("alone.yaml"), ALONE).expect("a file");
    assert_eq!(desk.run("pipeline apply alone.yaml").code, Some(0));
    let id = desk.start("alone v1");
    desk.pending_approval();
    let mut talk = Transcript::new(&desk);
    talk.run_all(&["approve", "status alone", &format!("approve {id}")]);
    talk.run_watching("deploy alone v1 --bypass fire");
    talk.compare(&expect_file!["expected/unreachable.txt"]);
}
