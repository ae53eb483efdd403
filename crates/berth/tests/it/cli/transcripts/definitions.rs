//! Definitions that are validated and run locally, applied to a server, or read from repositories; custom steps.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use expect_test::expect_file;

use super::{CliFixture, Transcript};
use crate::harness::{ProcessOutput, wait_until};

const SITE: &str = "version: 1
pipeline:
  name: Site
  stages: [{ name: staging }, { name: prod, requires: { approvals: 1 } }]
  steps:
    - { name: Deploy, type: script, params: { run: 'cat page.txt; test ! -e broken' } }
";
const BUILD_MAX: Duration = Duration::from_secs(120);

fn git(dir: &Path, words: &str) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ada", "-c", "user.email=ada@acme.test"]).args(words.split(' '));
    let done = git.current_dir(dir).output().expect("git");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("text").trim().to_owned()
}

/// Commits everything in the directory and returns the commit id.
fn commit(dir: &Path) -> String {
    git(dir, "init --quiet --initial-branch main");
    git(dir, "add .");
    git(dir, "commit --quiet --message first");
    git(dir, "rev-parse HEAD")
}

fn create_site(cli: &CliFixture) -> std::path::PathBuf {
    let dir = cli.config.path().join("site");
    std::fs::create_dir_all(dir.join(".berth/site")).expect("a directory");
    std::fs::write(dir.join(".berth/site/pipeline.yaml"), SITE).expect("a file");
    std::fs::write(dir.join("page.txt"), "a page\n").expect("a file");
    dir
}

#[test]
fn pipeline_validate_apply_remove() {
    let cli = CliFixture::new();
    std::fs::write(cli.config.path().join("wrong.yaml"), "version: 1\npipeline: { nam: x }\n")
        .expect("a file");
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "pipeline validate shop.yaml",
        "pipeline validate wrong.yaml",
        "pipeline plan shop.yaml --environment qa-1 --commit v1",
        "pipeline plan shop.yaml --environment qa-9",
        "pipeline plan wrong.yaml",
        "pipeline apply shop.yaml --slug web",
        "pipeline apply shop.yaml --slug web",
        "pipeline apply wrong.yaml",
        "pipeline show nothing",
        "pipeline stop nothing",
        "pipeline resume nothing",
        "pipeline rm web",
        "pipeline rm web",
        "pipeline list",
    ]);
    transcript.run_long("pipeline schema");
    transcript.compare(&expect_file!["expected/pipeline.txt"]);
}

#[test]
fn run_stage_locally() {
    let cli = CliFixture::new();
    let dir = create_site(&cli);
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&["run staging --dir site", "run nowhere --dir site"]);
    std::fs::write(dir.join("broken"), "").expect("a file");
    transcript.run("run prod --dir site");
    transcript.compare(&expect_file!["expected/run.txt"]);
}

#[test]
fn repo_add_sync_remove() {
    let cli = CliFixture::new();
    let head = commit(&create_site(&cli));
    let mut transcript = Transcript::new(&cli);
    transcript.hide(&head[..8], "HEAD");
    let address = cli.config.path().join("site").display().to_string();
    transcript.run_all(&[
        "repo add site",
        "repo add ftp://acme.test/shop.git",
        "repo list",
        &format!("repo sync {address}"),
        "repo sync nothing",
        "repo apps",
        "repo apps --delete app_00000000000000000000000000",
        &format!("repo rm {address}"),
        &format!("repo rm {address} --force"),
    ]);
    transcript.compare(&expect_file!["expected/repository.txt"]);
}

#[test]
fn repo_connect_deliveries() {
    const SHOP: &str = "https://github.com/acme/shop.git";
    let cli = CliFixture::with_public_url("https://berth.acme.test");
    assert_eq!(cli.run(&format!("repo add {SHOP} --detach")).code, Some(0));
    let mut transcript = Transcript::new(&cli);
    let hide_secret = |transcript: &mut Transcript<'_>, ran: &ProcessOutput| {
        let secret = ran.stdout.rsplit_once("once: ").expect("a secret").1.trim().to_owned();
        assert_eq!(secret.len(), 64);
        transcript.hide(&secret, "SECRET");
    };
    transcript.run(&format!("repo connect {SHOP} --show"));
    let ran = transcript.run(&format!("repo connect {SHOP}"));
    hide_secret(&mut transcript, &ran);
    transcript.run(&format!("repo connect {SHOP}"));
    transcript.run(&format!("repo connect {SHOP} --show"));
    transcript.run(&format!("repo connect {SHOP} --test"));
    let ran = transcript.run(&format!("repo connect {SHOP} --rotate"));
    hide_secret(&mut transcript, &ran);
    transcript.run_all(&[
        &format!("repo deliveries {SHOP}"),
        "repo deliveries nothing",
        &format!("repo connect {SHOP} --remove"),
        &format!("repo connect {SHOP} --forge svn"),
    ]);
    transcript.compare(&expect_file!["expected/repository-connection.txt"]);
}

#[test]
fn registry_new_test_add_remove() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "registry new shelly --lang shell",
        "registry new shelly --lang shell",
        "registry test shelly --step greet --params {\"who\":\"world\"}",
        "registry test nowhere",
    ]);
    let dir = cli.config.path().join("shelly");
    let head = commit(&dir);
    transcript.hide(&head[..8], "HEAD");
    let address = dir.display().to_string();
    transcript
        .run_all(&[&format!("registry add shelly {address}"), &format!("registry add shelly {address}")]);
    wait_until(BUILD_MAX, "registry that is built", || {
        cli.run("registry list").stdout.contains("\tready\t").then_some(())
    });
    transcript.run_all(&[
        "registry list",
        "registry sync shelly",
        "registry sync nothing",
        "registry rm shelly",
        "registry rm shelly",
    ]);
    transcript.compare(&expect_file!["expected/registry.txt"]);
}
