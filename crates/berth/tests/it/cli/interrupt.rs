//! What an interrupt means for a command that watches a deployment.

use rustix::process::Signal;

use super::{CliFixture, PATIENCE};
use crate::harness::{BerthProcess, wait_until};

#[test]
fn interrupted_deploy_says_that_the_deployment_continues() {
    let cli = CliFixture::new();
    let deploy = BerthProcess::start(&mut cli.command(&["deploy", "shop", "v1"]));
    wait_until(PATIENCE, "approval", || {
        let waiting = cli.run("approve --jq .data[].id").stdout;
        waiting.starts_with("apr_").then_some(())
    });
    deploy.signal(Signal::INT);
    let ran = deploy.wait(PATIENCE);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    let page = ran.stderr.lines().next().unwrap_or_default();
    assert!(page.contains("/o/acme/deployments/dep_"), "the URL comes first: {ran:?}");
    let note = "The deployment continues. Watch it with `berth status shop#1 --watch`";
    assert!(ran.stderr.contains(note), "{ran:?}");
    assert_eq!(cli.run("status shop#1 --jq .status").stdout, "waiting\n");
    // The name in the hint is one that other commands accept.
    let cancelled = cli.run("deployment cancel shop#1 --jq .status");
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
}

#[test]
fn interrupted_claim_says_that_the_environment_is_still_held() {
    let cli = CliFixture::new();
    std::fs::write(cli.config.path().join("slow.yaml"), SLOW).expect("a file");
    assert_eq!(cli.run("pipeline apply slow.yaml").code, Some(0));
    let claim = BerthProcess::start(&mut cli.command(&["env", "claim", "dev-1", "--commit", "v1"]));
    wait_until(PATIENCE, "deployment", || {
        (cli.run("status slow --jq .status").stdout == "running\n").then_some(())
    });
    claim.signal(Signal::INT);
    let ran = claim.wait(PATIENCE);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.stderr.contains("You still hold dev-1, and its deployment continues."), "{ran:?}");
    assert_eq!(cli.run("env show dev-1 --jq .lockStatus").stdout, "locked\n");
}

const SLOW: &str = "version: 1
pipeline:
  name: Slow
  stages: [{ name: staging }]
  ephemeral_environments: { dev-1: {} }
  steps:
    - name: Deploy
      type: script
      params: { run: exec sleep 600 }
";
