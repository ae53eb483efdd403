//! An emulated GitHub, and a mock that checks requests against GitHub's OpenAPI description.

use berth_core::forge::PullRequestStatus;
use berth_core::forge::progress::DeploymentProgress;
use berth_server::integrations::forges::{
    CommitState, CommitStatus, DeploymentDraft, DeploymentUpdate, ForgeError, ForgePullRequestState,
};
use serde_json::{Value, json};

use super::{BRANCHES, DRAFT, TIMEOUT, forge_client};
use crate::npm::{NodeServer, package_file};

/// A token that is built into the emulator.
pub(crate) const TOKEN: &str = "test_token_admin";

/// Starts an emulated GitHub with the repository `admin/shop`.
pub(crate) fn start_github() -> Option<NodeServer> {
    let program = package_file("emulate/dist/index.js")?;
    let served = NodeServer::start(&program, &["start", "--service", "github", "--port", "PORT"]);
    let made = call_emulator(&served.url, "/user/repos", Some(&json!({"name": "shop", "auto_init": true})));
    assert_eq!(made["full_name"], "admin/shop", "{made}");
    Some(served)
}

/// Sends a request to the emulator, as a user would. It is a POST if there is a body, otherwise a GET.
pub(crate) fn call_emulator(url: &str, path: &str, body: Option<&Value>) -> Value {
    let method = if body.is_some() { "POST" } else { "GET" };
    call_emulator_with(url, method, path, body)
}

/// Like [`call_emulator`], but with any HTTP method.
pub(crate) fn call_emulator_with(url: &str, method: &str, path: &str, body: Option<&Value>) -> Value {
    let mut command = std::process::Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "30", "--request", method, "--header"]);
    command.arg(format!("Authorization: Bearer {TOKEN}")).arg(format!("{url}{path}"));
    if let Some(body) = body {
        command.args(["--header", "Content-Type: application/json", "--data", &body.to_string()]);
    }
    let ran = command.output().unwrap();
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
}

fn admin_client(url: &str, token: &str) -> berth_server::integrations::forges::ForgeClient {
    let mut client = forge_client("github", url, token, TIMEOUT);
    "admin/shop".clone_into(&mut client.at.path);
    client
}

#[test]
fn github_pull_request_is_opened_once_and_found_again() {
    let Some(github) = start_github() else { return };
    let client = admin_client(&github.url, TOKEN);
    assert_eq!(client.find(BRANCHES), Ok(None));
    let opened = client.open(DRAFT).unwrap();
    assert_eq!(client.find(BRANCHES), Ok(Some(opened.clone())));
    assert!(opened.url.ends_with(&format!("/admin/shop/pull/{}", opened.number)), "{}", opened.url);
    let seen = call_emulator(&github.url, &format!("/repos/admin/shop/pulls/{}", opened.number), None);
    assert_eq!((&seen["title"], &seen["body"]), (&json!(DRAFT.title), &json!(DRAFT.body)));
    assert_eq!((&seen["head"]["ref"], &seen["base"]["ref"]), (&json!(BRANCHES.head), &json!("main")));
    let elsewhere = missing_repository_client(&github.url);
    assert_eq!(elsewhere.open(DRAFT), Err(ForgeError::NotFound));
    assert_eq!(elsewhere.get(opened.number), Err(ForgeError::NotFound));
}

#[test]
fn github_pull_request_state_is_read() {
    let Some(github) = start_github() else { return };
    let client = admin_client(&github.url, TOKEN);
    let opened = client.open(DRAFT).unwrap();
    assert_eq!(client.get(opened.number), Ok(ForgePullRequestState::Open));
    let path = format!("/repos/admin/shop/pulls/{}", opened.number);
    call_emulator_with(&github.url, "PATCH", &path, Some(&json!({"state": "closed"})));
    assert!(
        matches!(client.get(opened.number), Ok(ForgePullRequestState::Closed(Some(_)))),
        "{:?}",
        client.get(opened.number)
    );
    let another = client.open(DRAFT).unwrap();
    assert_ne!(another.number, opened.number);
    let path = format!("/repos/admin/shop/pulls/{}/merge", another.number);
    let merged = call_emulator_with(&github.url, "PUT", &path, Some(&json!({})));
    assert_eq!(merged["merged"], true, "{merged}");
    assert!(matches!(client.get(another.number), Ok(ForgePullRequestState::Merged(Some(_)))));
}

#[test]
fn github_comments_and_webhooks_are_written() {
    let Some(github) = start_github() else { return };
    let client = admin_client(&github.url, TOKEN);
    let number = client.open(DRAFT).unwrap().number;
    let seen = client.pull_request(number).unwrap();
    assert_eq!((seen.title.as_str(), seen.status), (DRAFT.title, PullRequestStatus::Open));
    assert!(!seen.is_fork && seen.head_branch == BRANCHES.head && seen.base_branch == "main", "{seen:?}");
    let open = client.open_pull_requests().unwrap();
    assert_eq!(open, [(number, seen)]);
    client.changed_files(number).unwrap();

    let id = client.upsert_comment(number, None, "queued").unwrap();
    assert_eq!(client.upsert_comment(number, Some(&id), "deployed"), Ok(id.clone()));
    let path = format!("/repos/admin/shop/issues/{number}/comments");
    let comments = || call_emulator(&github.url, &path, None).as_array().cloned().unwrap();
    assert_eq!((comments().len(), &comments()[0]["body"]), (1, &json!("deployed")));
    assert_eq!(client.find_comment(number, "deployed"), Ok(Some(id.clone())));
    delete_comment(&github.url, &id);
    assert_ne!(client.upsert_comment(number, Some(&id), "again"), Ok(id));
    assert_eq!((comments().len(), &comments()[0]["body"]), (1, &json!("again")));

    let hook = client.create_hook("http://127.0.0.1:1/hooks/x", "hook-secret").unwrap();
    let hooks = || call_emulator(&github.url, "/repos/admin/shop/hooks", None);
    assert_eq!(hooks()[0]["config"]["url"], "http://127.0.0.1:1/hooks/x");
    assert_eq!(client.test_hook(&hook), Ok(true));
    assert_eq!(client.delete_hook(&hook), Ok(()));
    assert_eq!(hooks(), json!([]));
}

fn delete_comment(url: &str, id: &str) {
    let header = format!("Authorization: Bearer {TOKEN}");
    let mut command = std::process::Command::new("curl");
    command.args(["--silent", "--fail", "--max-time", "30", "--request", "DELETE", "--header", &header]);
    let ran = command.arg(format!("{url}/repos/admin/shop/issues/comments/{id}")).status();
    assert!(ran.unwrap().success());
}

fn missing_repository_client(url: &str) -> berth_server::integrations::forges::ForgeClient {
    let mut client = admin_client(url, TOKEN);
    "admin/nothing".clone_into(&mut client.at.path);
    client
}

#[test]
fn github_requests_match_the_openapi_description() {
    let Some(prism) = package_file("@stoplight/prism-cli/dist/index.js") else { return };
    let Some(described) = package_file("@octokit/openapi/generated/api.github.com.json") else { return };
    let described = described.display().to_string();
    let served = NodeServer::start(&prism, &["mock", "--port", "PORT", "--host", "127.0.0.1", &described]);
    let client = admin_client(&served.url, TOKEN);
    client.find(BRANCHES).unwrap();
    let opened = client.open(DRAFT).unwrap();
    client.get(opened.number).unwrap();
    // The mock responds with the same example for every number and page.
    for read in [client.pull_request(opened.number).map(drop), client.open_pull_requests().map(drop)] {
        assert!(matches!(read, Ok(()) | Err(ForgeError::Odd)), "{read:?}");
    }
    client.find_comment(opened.number, "[//]: # (berth)").unwrap();
    client.upsert_comment(opened.number, None, "queued").unwrap();
    client.upsert_comment(opened.number, Some("1"), "deployed").unwrap();
    client.changed_files(opened.number).unwrap();
    for state in CommitState::ALL {
        let status = CommitStatus {
            context: "berth/shop/production".into(),
            state: *state,
            description: "deployed".into(),
            target_url: Some("https://berth.acme.test/d".into()),
        };
        client.set_status("4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe", &status).unwrap();
    }
    let draft = DeploymentDraft {
        deployment: "dep_1".into(),
        environment: "shop/qa-1".into(),
        commit: "4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe".into(),
        is_transient: true,
    };
    let deployment = client.open_deployment(&draft, DeploymentProgress::Queued).unwrap().unwrap();
    for progress in DeploymentProgress::ALL.iter().copied().filter(|it| *it != DeploymentProgress::Planned) {
        let update = DeploymentUpdate {
            progress,
            description: "deployed".into(),
            log_url: Some("https://berth.acme.test/d".into()),
            environment_url: Some("https://berth.acme.test/e".into()),
        };
        client.set_deployment_state(&deployment, &update).unwrap();
    }
    let hook = client.create_hook("https://berth.acme.test/hooks/x", "hook-secret").unwrap();
    assert_eq!(client.test_hook(&hook), Ok(true));
    assert_eq!(client.delete_hook(&hook), Ok(()));
    // The mock refuses an invalid request, which shows that it really checked those above.
    let wrong = call_emulator(&served.url, "/repos/admin/shop/pulls", Some(&json!({"title": 1})));
    assert!(wrong["errors"].is_array() && wrong["number"].is_null(), "{wrong}");
}
