//! Conversations: commands and what they answered.

use std::os::unix::fs::PermissionsExt as _;

use expect_test::{ExpectFile, expect_file};

use super::Desk;

/// Each line is a command; its answer and exit code follow.
fn check(desk: &Desk, commands: &[&str], expected: &ExpectFile) {
    let mut talk = String::new();
    for command in commands {
        let ran = desk.run(command);
        talk.push_str(&format!("$ berth {command}\n"));
        for text in [&ran.stdout, &ran.stderr] {
            for line in desk.plain(text).lines() {
                talk.push_str(&format!("{line}\n"));
            }
        }
        if ran.code != Some(0) {
            talk.push_str(&format!(
                "exit {}\n",
                ran.code.map_or_else(|| "-".into(), |code| code.to_string())
            ));
        }
    }
    expected.assert_eq(&desk.plain(&talk));
}

#[test]
fn an_environment_is_claimed_used_and_released() {
    let desk = Desk::new();
    check(
        &desk,
        &[
            "env list",
            "env claim qa-1 --why load-test --detach",
            "env claim qa-1",
            "env show qa-1",
            "env extend shop/qa-1 --ttl 4h",
            "env deploy qa-1 v1 --detach",
            "env history qa-1",
            "env queue qa-1",
            "env release qa-1",
            "env release qa-1",
            "env show nowhere",
        ],
        &expect_file!["talks/environment.txt"],
    );
}

#[test]
fn a_commit_goes_through_the_stages() {
    let desk = Desk::new();
    let started = desk.run("deploy shop v1 --detach --json");
    let id = started.json()["id"].as_str().expect("an id").to_owned();
    let approval = crate::harness::until(super::PATIENCE, "approval", || {
        desk.run("approve --json").json()["data"][0]["id"].as_str().map(str::to_owned)
    });
    check(
        &desk,
        &["status shop", "approve", "logs shop deploy", "logs shop -f", "logs shop nothing"],
        &expect_file!["talks/stages-before.txt"],
    );
    let answered = desk.run(&format!("approve {id} --why fine"));
    assert_eq!(answered.code, Some(0), "{answered:?}");
    assert_eq!(desk.run("status shop --watch").code, Some(0));
    assert_eq!(desk.run("deploy shop bad").code, Some(1));
    let again = desk.run(&format!("approve {approval}"));
    assert_eq!(again.code, Some(1), "{again:?}");
    check(
        &desk,
        &[
            "deployment list",
            "status shop",
            "deployment retry nothing",
            "pipeline list",
            "pipeline stop shop --why freeze",
            "pipeline resume shop",
            "pipeline show shop",
            "analyze shop",
        ],
        &expect_file!["talks/stages-after.txt"],
    );
}

#[test]
fn secrets_tokens_and_the_history() {
    let desk = Desk::new();
    let kept = desk.feed("secret set DEPLOY_TOKEN", "s3cr3t-value-of-some-length\n");
    assert_eq!(kept.stdout, "DEPLOY_TOKEN is kept, version 1.\n", "{kept:?}");
    let kept = desk.feed("secret set DEPLOY_TOKEN", "another-value-of-some-length\n");
    assert_eq!(kept.stdout, "DEPLOY_TOKEN is kept, version 2.\n", "{kept:?}");
    let made = desk.run("token create ci --days 7 --json").json();
    let token = made["token"].as_str().expect("a token").to_owned();
    let used = crate::harness::Process::start(desk.command(&["env", "list"]).env("BERTH_TOKEN", &token));
    assert_eq!(used.wait(super::PATIENCE).code, Some(0));
    let revoked = desk.run(&format!("token revoke {}", made["id"].as_str().expect("an id")));
    assert_eq!(revoked.stdout, "ci is revoked.\n");
    let used = crate::harness::Process::start(desk.command(&["env", "list"]).env("BERTH_TOKEN", &token));
    assert_eq!(used.wait(super::PATIENCE).code, Some(4));
    check(
        &desk,
        &[
            "secret list",
            "secret rm DEPLOY_TOKEN",
            "secret rm DEPLOY_TOKEN",
            "event list --limit 3",
            "event list --kind secret_deleted",
            "repo list",
            "registry list",
            "open --print dep_1",
            "open --print shop/qa-1",
        ],
        &expect_file!["talks/records.txt"],
    );
    assert!(desk.run("event verify").stdout.starts_with("valid ("));
}

#[test]
fn a_login_is_kept_for_this_account_alone_and_forgotten() {
    let desk = Desk::new();
    let address = format!("http://{}", desk.server.address);
    let bare = |words: &[&str]| {
        let mut command = desk.command(words);
        command.env_remove("BERTH_TOKEN").env_remove("BERTH_SERVER");
        command
    };
    let run = |words: &[&str]| crate::harness::Process::start(&mut bare(words)).wait(super::PATIENCE);
    assert_eq!(run(&["env", "list"]).code, Some(4));
    let login = desk.run_words(&["login", &address]);
    assert_eq!(login.code, Some(0), "{login:?}");
    let file = desk.config.path().join("berth/login.json");
    let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(&["env", "list"]).code, Some(0));
    // What was kept for one server is not shown to another.
    let elsewhere = run(&["env", "list", "--server", "http://127.0.0.1:9"]);
    assert_eq!(elsewhere.code, Some(4), "{elsewhere:?}");
    assert_eq!(run(&["logout"]).code, Some(0));
    assert!(!file.exists());
}

#[test]
fn what_goes_wrong_has_its_exit_code_and_says_what_to_do() {
    let desk = Desk::new();
    check(
        &desk,
        &[
            "env claim",
            "env claim qa-1 --ttl soon",
            "status dep_01m7g4d0vte3jvz7vxfqbbnt37",
            "deploy nothing v1",
            "env claim qa-1 --commit HEAD",
            "pipeline apply missing.yaml",
        ],
        &expect_file!["talks/wrong.txt"],
    );
    let away = desk.run("env list --server http://127.0.0.1:9");
    assert_eq!(away.code, Some(1), "{away:?}");
    assert!(away.stderr.contains("cannot reach http://127.0.0.1:9"), "{away:?}");
    std::fs::write(desk.config.path().join("wrong.yaml"), "version: 1\npipeline: { nam: x }\n")
        .expect("a file");
    let wrong = desk.run("pipeline apply wrong.yaml");
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stdout.contains("did you mean `name`"), "{wrong:?}");
}
