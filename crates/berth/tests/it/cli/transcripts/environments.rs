//! Environments: claimed, deployed to, handed over and taken over.

use expect_test::expect_file;

use super::{CliFixture, Transcript};
use crate::linear::accounts::create_accounts;

#[test]
fn environment_claim_deploy_release() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "env list",
        "env list --pipeline nothing",
        "env claim qa-1 --why load-test --detach",
        "env claim qa-1",
        "env show qa-1",
        "env extend shop/qa-1 --ttl 4h",
        "env extend shop/qa-1 --ttl 10m",
        "env deploy qa-1 v1 --detach",
        "env history qa-1",
        "env queue qa-1",
        "env release qa-1",
        "env release qa-1",
        "env show nowhere",
        "env history nowhere",
        "env queue nowhere",
        "env extend qa-1",
        "env deploy qa-1 v1",
    ]);
    transcript.compare(&expect_file!["expected/environment.txt"]);
}

#[test]
fn environment_hand_over_queue_take_over() {
    let cli = CliFixture::new();
    create_accounts(&cli.server.api, 1);
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "env hand-over qa-1 robot-0@acme.test",
        "env claim qa-1",
        "env hand-over qa-1 unknown@acme.test",
        "env hand-over qa-1 robot-0@acme.test",
        "env claim qa-1",
        "env release qa-1",
        "env release qa-1 --yes",
        "env claim qa-1 --queue --detach",
        "env queue qa-1",
        "env take-over qa-1 --why hotfix --commit bad --no-deploy",
        "env take-over nowhere",
        "env list",
        "env history qa-1",
    ]);
    transcript.compare(&expect_file!["expected/handed-over.txt"]);
}

#[test]
fn environment_deploy_is_watched_to_the_end() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run("env claim qa-1");
    transcript.run_without_display("env deploy qa-1 v1");
    transcript.run_without_display("env deploy qa-1 bad");
    transcript.compare(&expect_file!["expected/environment-deploy.txt"]);
}

#[test]
fn environment_claim_with_contact_keep_on_failure_and_label() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "env claim qa-1 --for grace --detach",
        "env claim qa-1",
        "env show qa-1",
        "env list",
        "env history qa-1",
        "env release qa-1",
        "env claim qa-1 --for grace --keep-on-failure 2h -- true",
        "env list",
        "env claim qa-1 --for grace --keep-on-failure 2h -- false",
        "env show qa-1",
        "env release shop/qa-1",
        "env claim qa-1 --keep-on-failure 2h -- /nowhere/nothing",
        "env claim qa-1 --keep-on-failure 10s -- true",
        "env claim qa-1 --keep-on-failure 2h",
        "env claim --label small",
        "env claim --label small --pipeline shop",
        "env take-over qa-1 --for grace",
    ]);
    transcript.compare(&expect_file!["expected/keep-on-failure.txt"]);
}
