//! `berth login` through a browser, with a real server. The test plays the person in the browser.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use super::{CliFixture, PATIENCE};
use crate::client::{ApiHandle, RawRequest};
use crate::harness::{BerthProcess, run, wait_until};

const PASSWORD: &str = "a lighthouse on the cape";
const APPROVE: &str = "/api/v1/organizations/acme/cli-logins";

/// A browser in which Ada is logged in.
pub(crate) struct TestBrowser {
    api: ApiHandle,
    cookie: String,
    csrf: String,
}

impl TestBrowser {
    /// Sets a password and logs in with it.
    pub(crate) fn log_in(cli: &CliFixture) -> Self {
        let dir = cli.home.path();
        let dir = dir.to_str().expect("a path");
        let mut args = vec!["admin", "reset-password", "ada@acme.test", "--json", "--data-dir", dir];
        args.extend(cli.home.database().iter().flat_map(|url| ["--database", url]));
        let link = run(&args).json();
        let (_, token) = link["url"].as_str().and_then(|url| url.split_once('#')).expect("a link");
        let api = cli.server.api.clone();
        let set = json!({ "token": token, "newPassword": PASSWORD });
        assert_eq!(api.post("/api/v1/auth/reset-password", &set).status, 200);
        let body = json!({ "email": "ada@acme.test", "password": PASSWORD });
        let login =
            RawRequest::new("POST", "/api/v1/auth/login").header("User-Agent", "Firefox/140.0 (Linux)");
        let reply = api.send(&login.json(&body));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let cookie =
            reply.header("set-cookie").and_then(|it| it.split(';').next()).expect("a cookie").to_owned();
        let csrf = reply.json()["data"]["csrfToken"].as_str().expect("a token").to_owned();
        Self { api, cookie, csrf }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let request = RawRequest::new("POST", path).header("Cookie", &self.cookie);
        let reply = self.api.send(&request.header("X-Berth-CSRF", &self.csrf).json(body));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["data"].clone()
    }
}

/// A command without the token of the fixture.
fn bare(cli: &CliFixture, words: &[&str]) -> Command {
    let mut command = cli.command(words);
    for name in ["BERTH_TOKEN", "BERTH_SERVER", "BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"] {
        command.env_remove(name);
    }
    command
}

fn server_url(cli: &CliFixture) -> String {
    format!("http://{}", cli.server.address)
}

/// The user code that the command shows.
fn shown_code(process: &BerthProcess) -> String {
    wait_until(PATIENCE, "the code", || {
        let text = process.stderr();
        let is_code = |word: &&str| word.len() == 9 && word.as_bytes()[4] == b'-';
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .flat_map(str::split_whitespace)
            .map(|word| word.trim_end_matches('.'))
            .find(|word| is_code(word))
            .map(str::to_owned)
    })
}

fn saved_token(cli: &CliFixture) -> String {
    let text = std::fs::read_to_string(cli.config.path().join("berth/login.json")).expect("a saved login");
    let login: Value = serde_json::from_str(&text).expect("JSON");
    login["token"].as_str().expect("a token").to_owned()
}

fn is_valid(cli: &CliFixture, token: &str) -> bool {
    ApiHandle { token: token.to_owned(), ..cli.server.api.clone() }.get("/api/v1/me").status == 200
}

#[test]
fn device_login_saves_a_token_that_logout_revokes() {
    let cli = CliFixture::new();
    let browser = TestBrowser::log_in(&cli);
    let process = BerthProcess::start(&mut bare(&cli, &["login", "--device", &server_url(&cli)]));
    let code = shown_code(&process);
    assert!(process.stderr().contains("/device"), "{}", process.stderr());
    browser.post(APPROVE, &json!({ "userCode": code, "expiresInDays": 7 }));
    let ran = process.wait(PATIENCE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("organization acme"), "{ran:?}");

    let token = saved_token(&cli);
    let listed = BerthProcess::start(&mut bare(&cli, &["token", "list"])).wait(PATIENCE);
    assert!(listed.stdout.contains("berth CLI on "), "{listed:?}");
    assert!(is_valid(&cli, &token) && !ran.stdout.contains(&token) && !ran.stderr.contains(&token));
    let out = BerthProcess::start(&mut bare(&cli, &["logout"])).wait(PATIENCE);
    assert_eq!((out.code, out.stdout.trim()), (Some(0), "Logged out."), "{out:?}");
    assert!(!is_valid(&cli, &token), "logout revokes the token");
}

#[test]
fn browser_login_accepts_only_its_own_redirect() {
    let cli = CliFixture::new();
    let browser = TestBrowser::log_in(&cli);
    // Stands in for a browser: it writes the page that it is asked to open to a file.
    let (opened, program) = (cli.config.path().join("opened"), cli.config.path().join("browser"));
    let script = format!("#!/bin/sh\nprintf %s \"$1\" > {0}.new && mv {0}.new {0}\n", opened.display());
    std::fs::write(&program, script).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("its mode");
    let mut command = bare(&cli, &["login", &server_url(&cli)]);
    let process = BerthProcess::start(command.env("BROWSER", &program));
    let page = wait_until(PATIENCE, "the page", || std::fs::read_to_string(&opened).ok());
    let (address, code) = page.split_once("/device#").expect("a page with a code");
    assert_eq!(address, format!("http://berth.localhost:{}", cli.server.address.port()));
    assert_eq!(shown_code(&process), code, "the terminal shows the code to compare");

    let found = browser.post("/api/v1/auth/cli-logins/find", &json!({ "userCode": code }));
    assert_eq!(found["isLocal"], true);
    let approved = browser.post(APPROVE, &json!({ "userCode": code }));
    let url = approved["redirectTo"].as_str().expect("a redirect");
    let (host, path) = url.strip_prefix("http://").and_then(|it| it.split_once('/')).expect("a URL");
    let callback =
        ApiHandle { address: host.parse::<SocketAddr>().expect("an address"), token: String::new() };
    let go = |path: &str| callback.send(&RawRequest::new("GET", path)).status;
    let (start, _) = path.split_once("&state=").expect("a state");
    for wrong in ["/favicon.ico", &format!("/{start}&state=0000000000000000"), &format!("/{start}")] {
        assert_eq!(go(wrong), 404, "{wrong}");
    }
    assert_eq!(go(&format!("/{path}")), 200);
    let ran = process.wait(PATIENCE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(is_valid(&cli, &saved_token(&cli)));
}

#[test]
fn denied_login_fails_and_saves_nothing() {
    let cli = CliFixture::new();
    let browser = TestBrowser::log_in(&cli);
    let process = BerthProcess::start(&mut bare(&cli, &["login", "--device", &server_url(&cli)]));
    browser.post("/api/v1/auth/cli-logins/deny", &json!({ "userCode": shown_code(&process) }));
    let ran = process.wait(PATIENCE);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("denied"), "{ran:?}");
    assert!(!cli.config.path().join("berth/login.json").exists());
}

#[test]
fn login_with_token_reads_standard_input() {
    let cli = CliFixture::new();
    let without_terminal = BerthProcess::start(&mut bare(&cli, &["login", &server_url(&cli)])).wait(PATIENCE);
    assert_eq!(without_terminal.code, Some(2), "{without_terminal:?}");
    assert!(without_terminal.stderr.contains("--with-token"), "{without_terminal:?}");
    let file = cli.config.path().join("token");
    std::fs::write(&file, &cli.home.token).expect("a file");
    let mut command = bare(&cli, &["login", "--with-token", &server_url(&cli)]);
    command.stdin(std::fs::File::open(&file).expect("the file"));
    command.stdout(std::process::Stdio::piped());
    let ran = command.output().expect("it runs");
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let out = BerthProcess::start(&mut bare(&cli, &["logout"])).wait(PATIENCE);
    assert!(out.stdout.contains("The token stays valid"), "{out:?}");
    assert!(is_valid(&cli, &cli.home.token), "a token that was given is not revoked");
}

#[test]
fn logout_everywhere_ends_browsers_and_revokes_tokens() {
    let cli = CliFixture::new();
    let _browser = TestBrowser::log_in(&cli);
    let missing = BerthProcess::start(&mut bare(&cli, &["logout", "--everywhere"])).wait(PATIENCE);
    assert_eq!(missing.code, Some(4), "{missing:?}");
    assert_eq!(cli.run(&format!("login {}", server_url(&cli))).code, Some(0));
    assert!(cli.run("login list").stdout.contains("Firefox on Linux"));
    let out =
        BerthProcess::start(&mut bare(&cli, &["logout", "--everywhere", "--revoke-tokens"])).wait(PATIENCE);
    assert_eq!(out.code, Some(0), "{out:?}");
    assert!(
        out.stdout.contains("Logged out of 1 browsers.") && out.stdout.contains("Revoked 1 API"),
        "{out:?}"
    );
    assert!(!is_valid(&cli, &cli.home.token));
}
