//! Deployments on a forge that follow real deployments.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use super::commit_statuses::{HostedRepository, is_status};
use super::{PATIENCE, fixes::run_git};
use crate::forge::{FakeResponse, RecordedRequest};
use crate::world::POLL_EVERY;

const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  stages:
    - name: staging
    - name: production
      requires: { approvals: 1 }
  ephemeral_environments:
    qa-1: {}
  steps:
    - { name: Deploy, type: dummy }
";

/// A deployment on the double: what it was created with, and its states in order.
#[derive(Debug, Clone)]
struct ShownDeployment {
    created: Value,
    states: Vec<String>,
}

type ShownDeployments = Arc<Mutex<Vec<ShownDeployment>>>;

/// Responds like GitHub to requests about deployments, and accepts everything else.
fn respond(shown: &ShownDeployments, request: &RecordedRequest) -> FakeResponse {
    let mut shown = shown.lock().unwrap();
    let (method, target) = request.line.split_once(' ').unwrap();
    let path = target.split('?').next().unwrap().strip_prefix("/repos/admin/shop/").unwrap_or_default();
    let parts: Vec<_> = path.split('/').collect();
    let (status, body) = match (method, parts.as_slice()) {
        ("GET", ["deployments"]) => {
            let render = |(at, it): (usize, &ShownDeployment)| json!({"id": at + 1, "payload": it.created["payload"], "environment": it.created["environment"]});
            let all = shown.iter().enumerate().map(render);
            (200, Value::Array(all.collect()))
        }
        ("POST", ["deployments"]) => {
            shown.push(ShownDeployment { created: request.body.clone(), states: Vec::new() });
            (201, json!({"id": shown.len()}))
        }
        ("POST", ["deployments", id, "statuses"]) => {
            let state = request.body["state"].as_str().unwrap().to_owned();
            shown[id.parse::<usize>().unwrap() - 1].states.push(state);
            (201, json!({"id": 1}))
        }
        _ => (201, json!({})),
    };
    (status, body.to_string()).into()
}

/// Waits until the environment, commit and last state of all deployments are as expected, in any order.
async fn wait_for_deployments(shown: &ShownDeployments, expected: &[(&str, &str, &str)]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = shown.lock().unwrap().clone();
        let text = |it: &ShownDeployment, name: &str| it.created[name].as_str().unwrap().to_owned();
        let last = |it: &ShownDeployment| it.states.last().cloned().unwrap_or_default();
        let mut found: Vec<_> =
            all.iter().map(|it| (text(it, "environment"), text(it, "ref"), last(it))).collect();
        let mut wanted: Vec<_> = expected
            .iter()
            .map(|(name, commit, state)| (name.to_string(), commit.to_string(), state.to_string()))
            .collect();
        found.sort();
        wanted.sort();
        if found == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{all:?} instead of {expected:?}");
        tokio::time::sleep(POLL_EVERY).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forge_deployments_follow_stages_and_environments_until_they_are_replaced() {
    let shown = ShownDeployments::default();
    let known = shown.clone();
    let hosted =
        HostedRepository::start_on("github", DEFINITION, move |request| respond(&known, request)).await;
    let (fixture, first) = (&hosted.fixture, hosted.head.as_str());
    let asked = fixture.wait_for_approval(&hosted.deployment).await;
    wait_for_deployments(&shown, &[("staging", first, "success"), ("production", first, "queued")]).await;
    assert_eq!(fixture.approve(&asked, fixture.ada()).await.status, 200);
    let stages = [("staging", first, "success"), ("production", first, "success")];
    wait_for_deployments(&shown, &stages).await;

    let (session, _) = fixture.claim(first).await;
    wait_for_deployments(&shown, &[stages[0], stages[1], ("qa-1", first, "success")]).await;
    let held = format!("/pipelines/shop/ephemeral-environments/qa-1/sessions/{session}");
    let released = fixture.delete(&held).await;
    assert!(released.status.is_success(), "{}", released.text);
    wait_for_deployments(&shown, &[stages[0], stages[1], ("qa-1", first, "inactive")]).await;
    let transient: Vec<_> =
        shown.lock().unwrap().iter().map(|it| it.created["transient_environment"].clone()).collect();
    assert_eq!(transient, [json!(false), json!(false), json!(true)]);

    hosted.origin.write("version.txt", "two\n");
    let second = hosted.origin.commit("second").to_string();
    hosted.origin.git(&["push", "--quiet", &hosted.bare.display().to_string(), "HEAD:refs/heads/main"]);
    assert_eq!(run_git(&hosted.bare, &["rev-parse", "main"]), second);
    let synced = fixture.post(&format!("/repositories/{}/sync", hosted.repository), &json!({})).await;
    assert_eq!(synced.status, 202, "{}", synced.text);
    let expected = [
        ("staging", first, "inactive"),
        stages[1],
        ("qa-1", first, "inactive"),
        ("staging", second.as_str(), "success"),
        ("production", second.as_str(), "queued"),
    ];
    wait_for_deployments(&shown, &expected).await;
    let of_first_staging =
        |it: &&ShownDeployment| it.created["environment"] == "staging" && it.created["ref"] == first;
    let states = shown.lock().unwrap().iter().find(of_first_staging).unwrap().states.clone();
    assert_eq!(states.last().map(String::as_str), Some("inactive"), "{states:?}");
    let repeated = states.windows(2).any(|pair| pair[0] == pair[1] && pair[0] != "in_progress");
    assert!(!repeated, "{states:?}");
    hosted.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forge_deployments_that_are_not_permitted_give_one_reason_and_statuses_go_on() {
    let definition = DEFINITION.replace("      requires: { approvals: 1 }\n", "");
    let hosted = HostedRepository::start_on("github", &definition, |request| match is_status(request) {
        true => (201, "{}".to_owned()).into(),
        false => {
            (403, json!({"message": "Resource not accessible by personal access token"}).to_string()).into()
        }
    })
    .await;
    let done =
        [("berth/shop/staging", "success", "deployed"), ("berth/shop/production", "success", "deployed")];
    hosted.wait_for_statuses(&done).await;
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        let repository = hosted.fixture.fetch(&format!("/repositories/{}", hosted.repository)).await;
        if let Some(error) = repository["forgeError"].as_str() {
            break error.to_owned();
        }
        assert!(Instant::now() < deadline, "{repository}");
        tokio::time::sleep(POLL_EVERY).await;
    };
    assert!(error.contains("does not accept deployments") && error.contains("repo_deployment"), "{error}");
    let asked = hosted.forge.request_lines().iter().filter(|line| line.contains("/deployments")).count();
    assert_eq!(asked, 1, "{:?}", hosted.forge.request_lines());
    hosted.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forge_deployments_are_not_sent_to_forges_without_them() {
    let definition = DEFINITION.replace("      requires: { approvals: 1 }\n", "");
    let hosted = HostedRepository::start_on("gitea", &definition, |_| (201, "{}".to_owned()).into()).await;
    hosted.fixture.wait_for_end(&hosted.deployment).await;
    let deadline = Instant::now() + PATIENCE;
    while hosted.forge.requests().iter().filter(|it| it.body["state"] == "success").count() < 2 {
        assert!(Instant::now() < deadline, "{:?}", hosted.forge.request_lines());
        tokio::time::sleep(POLL_EVERY).await;
    }
    assert!(hosted.forge.requests().iter().all(is_status), "{:?}", hosted.forge.request_lines());
    hosted.fixture.shut_down().await;
}
