//! Secrets, tokens, members, events, login, completions and exit codes.

use std::os::unix::fs::PermissionsExt as _;

use expect_test::expect_file;
use rustix::process::Signal;
use serde_json::json;

use super::{CliFixture, PATIENCE, Transcript};
use crate::cli::login::TestBrowser;
use crate::harness::{BerthProcess, TestHome, TestServer, berth, wait_until};

#[test]
fn secret_set_list_remove() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_with_input("secret set DEPLOY_TOKEN", "s3cr3t-value-of-some-length\n");
    transcript.run_with_input("secret set DEPLOY_TOKEN", "another-value-of-some-length\n");
    transcript.run_with_input("secret set deploy-token", "s3cr3t-value-of-some-length\n");
    let made = cli.run("token create ci --days 7 --json").json();
    let token = made["token"].as_str().expect("a token").to_owned();
    let used =
        || BerthProcess::start(cli.command(&["env", "list"]).env("BERTH_TOKEN", &token)).wait(PATIENCE);
    assert_eq!(used().code, Some(0));
    transcript
        .run_all(&[&format!("token revoke {}", made["id"].as_str().expect("an id")), "token revoke nothing"]);
    assert_eq!(used().code, Some(4));
    transcript.run_all(&[
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
    transcript.compare(&expect_file!["expected/records.txt"]);
}

#[test]
fn token_create_list_revoke() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    let made = transcript.run("token create ci --days 7");
    transcript.hide(made.stdout.trim(), "TOKEN");
    let listed = transcript.run("token list");
    for line in listed.stdout.lines() {
        transcript.hide(line.split('\t').nth(1).expect("how it begins"), "BEGINS…");
    }
    transcript.run("token create ci --days 367");
    transcript.compare(&expect_file!["expected/tokens.txt"]);
}

#[test]
fn member_team_grant() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "member list",
        "team create sre --name Reliability",
        "team create sre",
        "team list",
        "team add sre ada",
        "team add sre unknown",
        "team members sre",
        "team members unknown",
    ]);
    let made = transcript.run("grant add team:sre deployer shop@production --json");
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    transcript.run_all(&[
        "grant add ada tester shop/qa-*",
        "grant add ada tester shop/qa-*",
        "grant add ada owner shop",
        "grant list",
        "grant list team:sre",
        "grant list team:unknown",
        "member access ada shop@production --permission stages:deploy",
        "member access ada org --permission nothing",
        &format!("grant remove {id}"),
        &format!("grant remove {id}"),
        "team remove sre ada",
        "team remove sre ada",
        "team delete sre",
        "team delete sre",
    ]);
    for command in ["member list", "team list"] {
        transcript.run_with_invalid_token(command);
    }
    transcript.run("token create ci --restrict-to environments:claim=everything/else/there");
    transcript.compare(&expect_file!["expected/access.txt"]);
}

#[test]
fn pull_request_list_and_show() {
    let cli = CliFixture::on_sqlite();
    let claimed = cli.run("env claim shop/qa-1 --detach --json").json();
    let session = claimed["sessionId"].as_str().expect("a session");
    let git = cli.config.path().join("shop.git");
    std::fs::create_dir(&git).expect("a directory");
    let place = json!({"url": git.to_str()});
    let made = cli.server.api.post("/api/v1/organizations/acme/repositories", &place).json();
    let repository = made["data"]["id"].as_str().expect("an id");
    let database = rusqlite::Connection::open(cli.home.path().join("berth.db")).expect("the database");
    let stored = database.execute_batch(&format!(
        "UPDATE pipelines SET repository_id = '{repository}', path = '.berth/shop/pipeline.yaml';
         INSERT INTO pull_requests (org_id, repository_id, number, title, url, author_id, author_name, head, head_branch,
             base_branch, is_fork, labels, is_draft, status, changed_at, failures, created_at)
           SELECT org_id, id, 42, 'Dark mode', 'https://git.acme.test/acme/shop/pull/42', '7', 'grace',
             '4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe', 'dark-mode', 'main', 0, '[\"preview\"]', 0, 'open', 1, 0, 2
           FROM repositories;
         INSERT INTO pull_requests (org_id, repository_id, number, title, url, author_id, author_name, head, head_branch,
             base_branch, is_fork, labels, is_draft, status, changed_at, failures, created_at)
           SELECT org_id, id, 43, 'Typo', 'https://git.acme.test/acme/shop/pull/43', '8', 'mallory',
             '9fceb02a9fceb02a9fceb02a9fceb02a9fceb02a', 'typo', 'main', 1, '[]', 0, 'open', 1, 0, 1
           FROM repositories;
         INSERT INTO pull_request_claims (org_id, repository_id, number, pipeline_id, environment_id, session_id,
             is_stopped, created_at)
           SELECT s.org_id, '{repository}', 42, e.pipeline_id, s.environment_id, s.id, 0, 1
           FROM sessions s JOIN environments e ON e.id = s.environment_id WHERE s.id = '{session}';"
    ));
    assert_eq!(stored, Ok(()));
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "pr list",
        "pr list --state merged",
        "pr list --state draft",
        "pr show 42",
        &format!("pr show 43 --repository {repository}"),
        "pr show 44",
        "pr show 44 --repository unknown",
        "pr approve 43 9fceb02a9f",
        &format!("pr approve 43 {} --repository {repository}", "9fceb02a".repeat(5)),
    ]);
    transcript.run_with_invalid_token("pr list");
    transcript.compare(&expect_file!["expected/pull-requests.txt"]);
}

/// Adds the deployer Grace, who is then logged in in one browser.
fn add_grace(cli: &CliFixture) {
    let invitation = json!({"email": "grace@acme.test", "name": "Grace", "role": "deployer"});
    let invited = cli.server.api.post("/api/v1/organizations/acme/invitations", &invitation).json();
    let link = invited["data"]["url"].as_str().and_then(|url| url.split_once('#')).expect("a link").1;
    let account = json!({"token": link, "password": "gulls over a quiet quay"});
    assert_eq!(cli.server.api.post("/api/v1/auth/sign-up", &account).status, 200);
}

#[test]
fn member_log_out() {
    let cli = CliFixture::new();
    add_grace(&cli);
    let service = json!({"email": "ci@acme.test", "role": "viewer", "kind": "service"});
    assert_eq!(cli.server.api.post("/api/v1/organizations/acme/members", &service).status, 201);
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "member log-out grace@acme.test",
        "member log-out grace",
        "member log-out ci@acme.test",
        "member log-out unknown@acme.test",
    ]);
    transcript.run_with_invalid_token("member log-out grace@acme.test");
    transcript.compare(&expect_file!["expected/member-log-out.txt"]);
}

#[test]
fn second_factor_reset() {
    let cli = CliFixture::on_sqlite();
    add_grace(&cli);
    let database = rusqlite::Connection::open(cli.home.path().join("berth.db")).expect("the database");
    let added = database.execute(
        "INSERT INTO second_factors (user_id, sealed, created_at, confirmed_at, last_step)
         SELECT id, x'00', 1, 1, 0 FROM users",
        [],
    );
    assert_eq!(added, Ok(2));
    let data = format!("--data-dir {}", cli.home.path().display());
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "member reset-second-factor grace",
        "member reset-second-factor grace",
        "member reset-second-factor ada",
        &format!("admin reset-second-factor ada@acme.test {data}"),
        &format!("admin reset-second-factor ada@acme.test {data}"),
        &format!("admin reset-second-factor unknown@acme.test {data}"),
    ]);
    transcript.compare(&expect_file!["expected/second-factor.txt"]);
}

#[test]
fn org_create_rename_delete() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    // A server with --local has only one organization.
    transcript.run("org create globex");
    transcript.run_all(&["org list", "org rename acme apex", "org rename unknown apex"]);
    transcript.run_all(&["org delete apex --confirm acme", "org delete apex --confirm apex"]);
    transcript.run_with_invalid_token("org list");

    let home = TestHome::new();
    let mut command = berth(&["serve", "--listen", "127.0.0.1:0", "--no-runner", "--data-dir"]);
    command.arg(home.path());
    if let Some(url) = home.database() {
        command.args(["--database", url]);
    }
    let server = TestServer::start(&mut command, &home.token);
    let run = |words: &str| {
        let mut command = cli.command(&words.split(' ').collect::<Vec<_>>());
        command.env("BERTH_SERVER", format!("http://{}", server.address)).env("BERTH_TOKEN", &home.token);
        BerthProcess::start(&mut command).wait(PATIENCE)
    };
    for words in [
        "org create globex --name Globex",
        "org create globex",
        "org list",
        "org delete globex --confirm globex",
    ] {
        let ran = run(words);
        let said = [cli.normalize(&ran.stdout), cli.normalize(&ran.stderr)];
        transcript.record(words, &[&said[0], &said[1]], &ran);
    }
    transcript.compare(&expect_file!["expected/organizations.txt"]);
}

#[test]
fn event_list_follow_export_verify() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    let follow = BerthProcess::start(&mut cli.command(&["event", "follow", "--kind", "pipeline_stopped"]));
    let seen = wait_until(PATIENCE, "event", || {
        assert_eq!(cli.run("pipeline stop shop --why freeze").code, Some(0));
        assert_eq!(cli.run("pipeline resume shop").code, Some(0));
        (!follow.stdout_now().is_empty()).then(|| follow.stdout_now())
    });
    follow.signal(Signal::INT);
    let ran = follow.wait(PATIENCE);
    let event = seen.lines().next().expect("an event");
    let (number, _) = event.split_once(' ').expect("a number");
    transcript.record("event follow --kind pipeline_stopped", &[&event.replacen(number, "N", 1)], &ran);
    transcript.run("event follow --actor");
    transcript.run_long("event export");
    std::fs::write(cli.config.path().join("history.jsonl"), cli.run("event export").stdout).expect("a file");
    let checked = transcript.run("event verify");
    let words = checked.stdout.split(['(', ' ']);
    let count = words.clone().find_map(|it| it.parse::<u64>().ok()).expect("how many");
    transcript.hide(&format!("({count} events"), "(N events");
    transcript.hide(&format!("({} intact", count - 1), "(N-1 intact");
    transcript.hide(&format!("head {count}:"), "head N:");
    transcript.run_all(&["event verify history.jsonl", "event verify missing.jsonl"]);
    transcript.hide(&format!("--head {count}:"), "--head N:");
    transcript.hide(&format!("event {count}:"), "event N:");
    transcript.run(&format!("event verify --head {count}:sha256:{}", "0".repeat(64)));
    transcript.compare(&expect_file!["expected/events.txt"]);
}

#[test]
fn list_commands_with_an_invalid_token_fail() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
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
        transcript.run_with_invalid_token(command);
    }
    transcript.compare(&expect_file!["expected/invalid-token.txt"]);
}

#[test]
fn login_saves_a_private_file_and_logout_removes_it() {
    let cli = CliFixture::new();
    let address = format!("http://{}", cli.server.address);
    let bare = |words: &[&str]| {
        let mut command = cli.command(words);
        command.env_remove("BERTH_TOKEN").env_remove("BERTH_SERVER");
        command
    };
    let run = |words: &[&str]| BerthProcess::start(&mut bare(words)).wait(PATIENCE);
    assert_eq!(run(&["env", "list"]).code, Some(4));
    let mut transcript = Transcript::new(&cli);
    transcript.run(&format!("login {address}"));
    let file = cli.config.path().join("berth/login.json");
    let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(&["env", "list"]).code, Some(0));
    // A saved token is sent only to its own server.
    let elsewhere = run(&["env", "list", "--server", "http://127.0.0.1:9"]);
    assert_eq!(elsewhere.code, Some(4), "{elsewhere:?}");
    transcript.run_with_invalid_token(&format!("login {address}"));
    let _browser = TestBrowser::log_in(&cli);
    let listed = transcript.run("login list");
    let id = listed.stdout.trim_end().rsplit('\t').next().expect("an id").to_owned();
    transcript.run_with_invalid_token("login list");
    transcript.run_all(&[&format!("login end {id}"), &format!("login end {id}")]);
    transcript.run("logout");
    assert!(!file.exists());
    transcript.run("logout");
    transcript.compare(&expect_file!["expected/login.txt"]);
}

#[test]
fn completion_and_man_write_their_output() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_long("completion bash");
    transcript.run_all(&["completion csh", "man pages", "man shop.yaml"]);
    assert!(cli.config.path().join("pages/berth-env-claim.1").is_file());
    transcript.compare(&expect_file!["expected/shell.txt"]);
}

#[test]
fn errors_have_exit_codes_and_hints() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&[
        "env claim",
        "env claim qa-1 --ttl soon",
        "status dep_01m7g4d0vte3jvz7vxfqbbnt37",
        "deploy nothing v1",
        "env claim qa-1 --commit HEAD",
        "pipeline apply missing.yaml",
    ]);
    transcript.compare(&expect_file!["expected/errors.txt"]);
    let away = cli.run("env list --server http://127.0.0.1:9");
    assert_eq!(away.code, Some(1), "{away:?}");
    assert!(away.stderr.contains("cannot reach http://127.0.0.1:9"), "{away:?}");
}
