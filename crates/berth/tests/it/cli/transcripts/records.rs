//! Secrets, tokens, events, login, completions and exit codes.

use std::os::unix::fs::PermissionsExt as _;

use expect_test::expect_file;
use rustix::process::Signal;

use super::{CliFixture, PATIENCE, Transcript};
use crate::harness::{BerthProcess, wait_until};

#[test]
fn secret_set_list_remove() {
    let desk = CliFixture::new();
    let mut talk = Transcript::new(&desk);
    talk.run_with_input("secret set DEPLOY_TOKEN", "s3cr3t-value-of-some-length\n");
    talk.run_with_input("secret set DEPLOY_TOKEN", "another-value-of-some-length\n");
    talk.run_with_input("secret set deploy-token", "s3cr3t-value-of-some-length\n");
    let made = desk.run("token create ci --days 7 --json").json();
    let token = made["token"].as_str().expect("a token").to_owned();
    let used =
        || BerthProcess::start(desk.command(&["env", "list"]).env("BERTH_TOKEN", &token)).wait(PATIENCE);
    assert_eq!(used().code, Some(0));
    talk.run_all(&[&format!("token revoke {}", made["id"].as_str().expect("an id")), "token revoke nothing"]);
    assert_eq!(used().code, Some(4));
    talk.run_all(&[
        "secret list",
        "secret rm DEPLOY_TOKEN",
        "secret rm DEPLOY_TOKEN",
        "event list --limit 3",
        "event list --kind secret_deleted",
        "event list --limit 0",
        "repo list",
        "registry list",
        "open --print dep_1",
        "open --print shop/qa-1",
        "open --print shop qa-1",
    ]);
    talk.compare(&expect_file!["expected/records.txt"]);
}

#[test]
fn token_create_list_revoke() {
    let desk = CliFixture::new();
    let mut talk = Transcript::new(&desk);
    let made = talk.run("token create ci --days 7");
    talk.hide(made.stdout.trim(), "TOKEN");
    let listed = talk.run("token list");
    for line in listed.stdout.lines() {
        talk.hide(line.split('\t').nth(1).expect("how it begins"), "BEGINS…");
    }
    talk.run("token create ci --days 367");
    talk.compare(&expect_file!["expected/tokens.txt"]);
}

#[test]
fn event_list_follow_export_verify() {
    let desk = CliFixture::new();
    let mut talk = Transcript::new(&desk);
    let follow = BerthProcess::start(&mut desk.command(&["event", "follow", "--kind", "pipeline_stopped"]));
    let seen = wait_until(PATIENCE, "event", || {
        assert_eq!(desk.run("pipeline stop shop --why freeze").code, Some(0));
        assert_eq!(desk.run("pipeline resume shop").code, Some(0));
        (!follow.stdout_now().is_empty()).then(|| follow.stdout_now())
    });
    follow.signal(Signal::INT);
    let ran = follow.wait(PATIENCE);
    let event = seen.lines().next().expect("an event");
    let (number, _) = event.split_once(' ').expect("a number");
    talk.record("event follow --kind pipeline_stopped", &[&event.replacen(number, "N", 1)], &ran);
    talk.run("event follow --actor");
    talk.run_long("event export");
    std::fs::write(desk.config.path().join("history.jsonl"), desk.run("event export").stdout)
        .expect("a file");
    let checked = talk.run("event verify");
    let words = checked.stdout.split(['(', ' ']);
    let count = words.clone().find_map(|it| it.parse::<u64>().ok()).expect("how many");
    talk.hide(&format!("({count} events"), "(N events");
    talk.hide(&format!("({} intact", count - 1), "(N-1 intact");
    talk.hide(&format!("head {count}:"), "head N:");
    talk.run_all(&["event verify history.jsonl", "event verify missing.jsonl"]);
    talk.hide(&format!("--head {count}:"), "--head N:");
    talk.hide(&format!("event {count}:"), "event N:");
    talk.run(&format!("event verify --head {count}:sha256:{}", "0".repeat(64)));
    talk.compare(&expect_file!["expected/events.txt"]);
}

#[test]
fn list_commands_with_an_invalid_token_fail() {
    let desk = CliFixture::new();
    let mut talk = Transcript::new(&desk);
    for command in [
        "env list",
        "approve",
        "pipeline list",
        "repo list",
        "secret list",
        "event export",
        "registry list",
        "token list",
    ] {
        talk.run_with_invalid_token(command);
    }
    talk.compare(&expect_file!["expected/invalid-token.txt"]);
}

#[test]
fn login_saves_a_private_file_and_logout_removes_it() {
    let desk = CliFixture::new();
    let address = format!("http://{}", desk.server.address);
    let bare = |words: &[&str]| {
        let mut command = desk.command(words);
        command.env_remove("BERTH_TOKEN").env_remove("BERTH_SERVER");
        command
    };
    let run = |words: &[&str]| BerthProcess::start(&mut bare(words)).wait(PATIENCE);
    assert_eq!(run(&["env", "list"]).code, Some(4));
    let mut talk = Transcript::new(&desk);
    talk.run(&format!("login {address}"));
    let file = desk.config.path().join("berth/login.json");
    let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(&["env", "list"]).code, Some(0));
    // A saved token is sent only to its own server.
    let elsewhere = run(&["env", "list", "--server", "http://127.0.0.1:9"]);
    assert_eq!(elsewhere.code, Some(4), "{elsewhere:?}");
    talk.run_with_invalid_token(&format!("login {address}"));
    talk.run("logout");
    assert!(!file.exists());
    talk.run("logout");
    talk.compare(&expect_file!["expected/login.txt"]);
}

#[test]
fn completion_and_man_write_their_output() {
    let desk = CliFixture::new();
    let mut talk = Transcript::new(&desk);
    talk.run_long("completion bash");
    talk.run_all(&["completion csh", "man pages", "man shop.yaml"]);
    assert!(desk.config.path().join("pages/berth-env-claim.1").is_file());
    talk.compare(&expect_file!["expected/shell.txt"]);
}

#[test]
fn errors_have_exit_codes_and_hints() {
    let desk = CliFixture::new();
    let mut talk = Transcript::new(&desk);
    talk.run_all(&[
        "env claim",
        "env claim qa-1 --ttl soon",
        "status dep_01m7g4d0vte3jvz7vxfqbbnt37",
        "deploy nothing v1",
        "env claim qa-1 --commit HEAD",
        "pipeline apply missing.yaml",
    ]);
    talk.compare(&expect_file!["expected/errors.txt"]);
    let away = desk.run("env list --server http://127.0.0.1:9");
    assert_eq!(away.code, Some(1), "{away:?}");
    assert!(away.stderr.contains("cannot reach http://127.0.0.1:9"), "{away:?}");
}
