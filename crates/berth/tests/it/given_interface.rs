//! Tests every statement of the API specification, in order, against a real server with a working pipeline. Where the
//! specification leaves details open, openapi.json defines them.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{ApiHandle, RawRequest, RawResponse};
use crate::harness::{TestHome, TestServer, wait_until};
use crate::linear::accounts::create_accounts;

const ORG: &str = "/api/v1/organizations/acme";
const ENVIRONMENTS: &str = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments";
const PATIENCE: Duration = Duration::from_secs(120);
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  stages: [{ name: staging }]
  steps:
    - { name: Deploy, type: script, params: { run: './deploy.sh' } }
  ephemeral_environments: { qa-1: {}, qa-2: {} }
";
const ASKS: &str = "version: 1
pipeline:
  name: Site
  stages: [{ name: production }]
  steps:
    - { name: Ask, type: approval }
";

/// A repository whose deployment fails because its script is not executable.
fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join(".berth/shop")).expect("a directory");
    std::fs::write(dir.path().join(".berth/shop/pipeline.yaml"), DEFINITION).expect("written");
    std::fs::write(dir.path().join("deploy.sh"), "#!/bin/sh\necho deployed\n").expect("written");
    git(dir.path(), &["init", "--quiet", "--initial-branch=main"]);
    git(dir.path(), &["add", "--all"]);
    git(dir.path(), &["commit", "--quiet", "-m", "first"]);
    dir
}

fn git(dir: &std::path::Path, args: &[&str]) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@acme.test", "-c", "commit.gpgSign=false"])
        .args(args)
        .current_dir(dir)
        .output()
        .expect("git");
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text").trim().to_owned()
}

fn data(response: &RawResponse, status: u16) -> Value {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/json"), "all responses are JSON");
    response.json()["data"].clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text is missing: {value}")).to_owned()
}

fn count(value: &Value) -> usize {
    value.as_array().unwrap_or_else(|| panic!("a list is missing: {value}")).len()
}

fn get_data(api: &ApiHandle, path: &str) -> Value {
    data(&api.get(path), 200)
}

fn delete(api: &ApiHandle, path: &str) -> RawResponse {
    api.send(&api.request("DELETE", path))
}

fn wait_for_end(api: &ApiHandle, deployment: &str) -> Value {
    wait_until(PATIENCE, "end of a deployment", || {
        let seen = get_data(api, &format!("{ORG}/deployments/{deployment}"));
        seen["finishedAt"].is_string().then_some(seen)
    })
}

struct ShopFixture {
    home: TestHome,
    server: TestServer,
    source: tempfile::TempDir,
    /// The deployment of the first pushed commit, which fails.
    first: Value,
}

fn start_shop() -> ShopFixture {
    let (home, source) = (TestHome::new(), repository());
    let server = home.serve();
    let url = source.path().display().to_string();
    data(&server.api.post(&format!("{ORG}/repositories"), &json!({"url": url})), 201);
    let first = wait_until(PATIENCE, "first deployment", || {
        let list = server.api.get(&format!("{ORG}/deployments")).json();
        list["data"][0]["id"].as_str().map(str::to_owned)
    });
    let first = wait_for_end(&server.api, &first);
    assert_eq!(first["status"], "failed", "{first}");
    ShopFixture { home, server, source, first }
}

#[test]
fn given_interface_is_implemented_in_full() {
    let shop = start_shop();
    let api = &shop.server.api;
    check_pipelines(api);
    check_deployments(api, &shop);
    check_approvals(api);
    check_secrets(api);
    check_events(api);
    check_step_registries(api, &shop);
    check_analysis(api, &shop);
    check_fields(api);
    check_lock_states(api);
    check_pagination(api);
    check_environments(api, &shop);
    check_authentication(api, &shop);
    let ShopFixture { home, server, .. } = shop;
    server.stop();
    drop(home);
}

/// Pipelines: list, view, stop, resume.
fn check_pipelines(api: &ApiHandle) {
    let list = get_data(api, &format!("{ORG}/pipelines"));
    let id = text(&list[0]["id"]);
    assert_eq!(get_data(api, &format!("{ORG}/pipelines/{id}"))["slug"], "shop");
    let stopped = data(&api.post(&format!("{ORG}/pipelines/{id}/stop"), &json!({})), 200);
    assert_eq!(stopped["status"], "stopped");
    let resumed = data(&api.post(&format!("{ORG}/pipelines/{id}/resume"), &json!({})), 200);
    assert_eq!(resumed["status"], "active");
}

/// Deployments: view deployment state, cancel stages, retry failed stages.
fn check_deployments(api: &ApiHandle, shop: &ShopFixture) {
    let failed = text(&shop.first["id"]);
    assert_eq!(get_data(api, &format!("{ORG}/deployments/{failed}"))["stages"][0]["status"], "failed");
    let retried = api.post(&format!("{ORG}/deployments/{failed}/stages/staging/retry"), &json!({}));
    assert_eq!(data(&retried, 200)["id"], failed.as_str());
    assert_eq!(wait_for_end(api, &failed)["stages"][0]["tries"], 2);

    data(&api.post(&format!("{ORG}/pipelines"), &json!({"slug": "site", "definition": ASKS})), 201);
    let path = format!("{ORG}/pipelines/site/deployments");
    let started = text(&data(&api.post(&path, &json!({"commitId": "9fceb02"})), 202)["id"]);
    let cancelled = api.post(&format!("{ORG}/deployments/{started}/stages/production/cancel"), &json!({}));
    assert!([200, 409].contains(&cancelled.status), "{}", cancelled.text());
    if cancelled.status == 409 {
        // The request was refused because the deployment had not been planned yet.
        wait_for_approval(api, &started);
        data(&api.post(&format!("{ORG}/deployments/{started}/stages/production/cancel"), &json!({})), 200);
    }
    assert_eq!(wait_for_end(api, &started)["status"], "cancelled");
}

fn wait_for_approval(api: &ApiHandle, deployment: &str) {
    wait_until(PATIENCE, "question", || {
        (get_data(api, &format!("{ORG}/deployments/{deployment}"))["status"] == "waiting").then_some(())
    });
}

/// Approvals: list pending approvals, approve or reject.
fn check_approvals(api: &ApiHandle) {
    for (verb, status) in [("approve", "succeeded"), ("reject", "failed")] {
        let path = format!("{ORG}/pipelines/site/deployments");
        let started = text(&data(&api.post(&path, &json!({"commitId": "9fceb02"})), 202)["id"]);
        wait_for_approval(api, &started);
        let pending = get_data(api, &format!("{ORG}/approvals"));
        assert_eq!(count(&pending), 1, "{pending}");
        let path = format!("{ORG}/approvals/{}/{verb}", text(&pending[0]["id"]));
        data(&api.post(&path, &json!({})), 200);
        assert_eq!(wait_for_end(api, &started)["status"], status);
        assert_eq!(count(&get_data(api, &format!("{ORG}/approvals"))), 0);
    }
}

/// Secrets: create, update, delete.
fn check_secrets(api: &ApiHandle) {
    let body = json!({"name": "DEPLOY_TOKEN", "value": "first-value"});
    let made = data(&api.post(&format!("{ORG}/secrets"), &body), 201);
    let path = format!("{ORG}/secrets/{}", text(&made["id"]));
    let put = api.request("PUT", &path).json(&json!({"value": "second-value"}));
    let changed = api.send(&put);
    assert_eq!(data(&changed, 200)["name"], "DEPLOY_TOKEN");
    assert!(!changed.text().contains("second-value"), "a value is never shown");
    assert!([200, 204].contains(&delete(api, &path).status));
    assert_eq!(api.get(&path).status, 404);
}

/// Events: view audit history and deployment events.
fn check_events(api: &ApiHandle) {
    let kinds: Vec<_> = {
        let list = get_data(api, &format!("{ORG}/events?limit=1000"));
        list.as_array().expect("events").iter().map(|it| text(&it["kind"])).collect()
    };
    for kind in ["pipeline_stopped", "secret_deleted", "deployment_failed", "deployment_cancelled"] {
        assert!(kinds.iter().any(|it| it == kind), "{kind} is not in {kinds:?}");
    }
}

/// Step registries: manage custom step registries.
fn check_step_registries(api: &ApiHandle, shop: &ShopFixture) {
    let url = shop.source.path().display().to_string();
    let made = data(&api.post(&format!("{ORG}/step-registries"), &json!({"name": "tools", "url": url})), 201);
    let path = format!("{ORG}/step-registries/{}", text(&made["id"]));
    assert_eq!(get_data(api, &path)["name"], "tools");
    assert_eq!(count(&get_data(api, &format!("{ORG}/step-registries"))), 1);
    assert!([200, 204].contains(&delete(api, &path).status));
    assert_eq!(count(&get_data(api, &format!("{ORG}/step-registries"))), 0);
}

/// Analysis: trigger AI failure analysis and create fix pull requests. Without a configured model the built-in rules
/// produce the analysis; without a forge the fix is pushed as a branch.
fn check_analysis(api: &ApiHandle, shop: &ShopFixture) {
    let path = format!("{ORG}/deployments/{}/analyses", text(&shop.first["id"]));
    let asked = api.post(&path, &json!({}));
    assert!([200, 201, 202].contains(&asked.status), "{}", asked.text());
    let id = text(&asked.json()["data"]["id"]);
    let analysed = wait_until(PATIENCE, "analysis", || {
        let seen = get_data(api, &format!("{ORG}/analyses/{id}"));
        seen["finishedAt"].is_string().then_some(seen)
    });
    assert!(analysed.to_string().contains("deploy.sh"), "{analysed}");
    let path = format!("{ORG}/analyses/{id}/pull-request");
    let asked = api.post(&path, &json!({}));
    assert!([200, 202].contains(&asked.status), "{}", asked.text());
    let fix = wait_until(PATIENCE, "fix", || {
        let seen = get_data(api, &path);
        (seen["state"] != "opening").then_some(seen)
    });
    let branch = text(&fix["branch"]);
    assert!(git(shop.source.path(), &["ls-tree", &branch, "deploy.sh"]).starts_with("100755 "), "{fix}");
    git(shop.source.path(), &["merge", "--quiet", "--ff-only", &branch]);
}

/// Resources and their fields; the envelope of a single record.
fn check_fields(api: &ApiHandle) {
    let pipeline = get_data(api, &format!("{ORG}/pipelines/shop"));
    for member in ["id", "name", "slug"] {
        assert!(pipeline[member].is_string(), "{member} of {pipeline}");
    }
    let environment = get_data(api, &format!("{ENVIRONMENTS}/qa-1"));
    assert!(environment["configuration"].is_object(), "{environment}");
    assert_eq!((&environment["envName"], &environment["lockStatus"]), (&json!("qa-1"), &json!("unlocked")));
    let list = get_data(api, ENVIRONMENTS);
    assert!(list.as_array().expect("a list").iter().all(|it| it["lockStatus"] == "unlocked"), "{list}");
}

/// The five rules that follow from the operations.
fn check_lock_states(api: &ApiHandle) {
    // 1. Claim Session acquires the lock for the caller and returns a session identifier.
    let claimed = data(&api.post(&format!("{ENVIRONMENTS}/qa-2/sessions"), &json!({})), 201);
    let session = format!("{ENVIRONMENTS}/qa-2/sessions/{}", text(&claimed["sessionId"]));
    assert_eq!(get_data(api, &format!("{ENVIRONMENTS}/qa-2"))["lockStatus"], "locked");
    // 2. Deploy Commit is valid within an active session.
    data(&api.post(&format!("{session}/deploy"), &json!({"commitId": "main"})), 202);
    // 4. Force Claim releases any existing lock on the environment and claims it for the caller.
    let forced = data(&api.post(&format!("{ENVIRONMENTS}/qa-2/force-claim"), &json!({})), 201);
    // 5. Get Session Status reports whether the session was overridden.
    let loser = get_data(api, &session);
    assert_eq!((&loser["overridden"], &loser["lockStatus"]), (&json!(true), &json!("unlocked")));
    let late = api.post(&format!("{session}/deploy"), &json!({"commitId": "main"}));
    assert_eq!(late.status, 409, "{}", late.text());
    // 3. Release Session releases the lock held by the session.
    let session = format!("{ENVIRONMENTS}/qa-2/sessions/{}", text(&forced["sessionId"]));
    assert_eq!(data(&delete(api, &session), 200)["status"], "released");
    assert_eq!(get_data(api, &format!("{ENVIRONMENTS}/qa-2"))["lockStatus"], "unlocked");
}

/// General lists: `limit` is the number of records to return, `offset` the number to skip.
fn check_pagination(api: &ApiHandle) {
    let path = format!("{ORG}/pipelines");
    let all = get_data(api, &format!("{path}?limit=10&offset=0"));
    assert_eq!(count(&all), 2);
    let second = get_data(api, &format!("{path}?limit=1&offset=1"));
    assert_eq!((count(&second), &second[0]["id"]), (1, &all[1]["id"]));
    assert_eq!(count(&get_data(api, &format!("{path}?offset=2"))), 0);
    for wrong in ["limit=0", "limit=1001", "limit=ten", "offset=-1"] {
        let refused = api.get(&format!("{path}?{wrong}"));
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text());
    }
}

/// The environment operations, with and without the version in the path, and with a trailing slash where the
/// specification has one.
fn check_environments(api: &ApiHandle, shop: &ShopFixture) {
    let head = git(shop.source.path(), &["rev-parse", "main"]);
    let base = "/organizations/acme/pipelines/shop/ephemeral-environments";
    for base in [base.to_owned(), format!("/api/v1{base}")] {
        assert_eq!(count(&get_data(api, &format!("{base}/"))), 2);
        assert!(get_data(api, &format!("{base}/qa-1"))["configuration"].is_object());
        // Claim Session claims a lock and may trigger an initial deployment of the given commit.
        let body = json!({"commitId": head, "context": "a look"});
        let session = data(&api.post(&format!("{base}/qa-1/sessions"), &body), 201);
        let path = format!("{base}/qa-1/sessions/{}", text(&session["sessionId"]));
        assert_eq!(wait_for_end(api, &text(&session["deploymentId"]))["status"], "succeeded");
        let deployed = data(&api.post(&format!("{path}/deploy"), &json!({"commitId": "main"})), 202);
        assert_eq!(wait_for_end(api, &text(&deployed["id"]))["status"], "succeeded");
        let status = get_data(api, &path);
        assert_eq!((&status["lockStatus"], &status["overridden"]), (&json!("locked"), &json!(false)));
        assert_eq!((&status["context"], count(&status["deploymentHistory"])), (&json!("a look"), 2));
        let forced = data(&api.post(&format!("{base}/qa-1/force-claim"), &body), 201);
        assert_eq!(get_data(api, &path)["overridden"], true);
        data(&delete(api, &format!("{base}/qa-1/sessions/{}", text(&forced["sessionId"]))), 200);
    }
    // Get History uses `page` and `limit`, not `offset`.
    let history = |query: &str| api.get(&format!("{base}/qa-1/history?{query}")).json();
    let pages: Vec<_> =
        (1..=4).map(|page| text(&history(&format!("page={page}&limit=1"))["data"][0]["sessionId"])).collect();
    assert_eq!(pages.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{pages:?}");
    assert_eq!(count(&history("page=5&limit=1")["data"]), 0);
    assert_eq!(history("offset=3&limit=1")["data"][0]["sessionId"], pages[0].as_str());
}

/// A bearer token belongs to one organization and has the permissions of its user.
fn check_authentication(api: &ApiHandle, shop: &ShopFixture) {
    let path = format!("{ORG}/pipelines");
    for header in [None, Some("Bearer "), Some("Bearer berth_api_wrong"), Some("Basic YWRhOnB3")] {
        let request =
            header.iter().fold(RawRequest::new("GET", &path), |it, value| it.header("Authorization", value));
        let refused = api.send(&request);
        assert_eq!((refused.status, &refused.json()["code"]), (401, &json!("unauthenticated")), "{header:?}");
    }
    assert_eq!(api.get("/api/v1/organizations/globex/pipelines").status, 404, "of one organization");
    let deployer = create_accounts(api, 1).remove(0).api(&shop.server);
    let claimed = data(&deployer.post(&format!("{ENVIRONMENTS}/qa-1/sessions"), &json!({})), 201);
    assert!(claimed["sessionId"].is_string());
    let refused = deployer.post(&format!("{ORG}/secrets"), &json!({"name": "A", "value": "first-value"}));
    assert_eq!(refused.status, 403, "{}", refused.text());
}
