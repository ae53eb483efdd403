//! The scripted scenario that fills the demo, played through the public API.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::organizations::PLAYGROUND;
use super::repository::SampleRepository;
use super::sites::DemoSites;
use crate::client::ApiClient;

const ENVIRONMENTS: &str = "/pipelines/shop/ephemeral-environments";
/// Timeout for a build, a deployment or a sync.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Number of deployments in Grace's load test. Each takes 90 seconds. During all of that time she holds an environment
/// that visitors can take over.
const ROUNDS_MAX: u32 = 40;
/// The load test stops after this many consecutive failed calls. Calls fail while the server restarts, for example.
const FAILURES_MAX: u32 = 30;
const ROUND_PAUSE: Duration = Duration::from_secs(2);
const LINUS_WAITS_S: u32 = 8 * 60 * 60;

/// API clients of the demo's members.
pub(super) struct DemoClients {
    pub(super) ada: ApiClient,
    pub(super) grace: ApiClient,
    pub(super) linus: ApiClient,
    pub(super) ci: ApiClient,
}

/// Creates the webhook, the repository and the playground. Returns the pipelines as JSON, the playground first.
pub(super) fn prepare_demo(
    cast: &DemoClients,
    sample: &SampleRepository,
    sites: &DemoSites,
) -> anyhow::Result<Vec<Value>> {
    let webhook = json!({ "name": "sites", "url": sites.webhook_url(), "kinds": ["session_claimed"] });
    cast.ada.post::<Value>("/webhooks", &webhook)?;
    let url = sample.dir.to_str().context("the demo's data directory is not valid UTF-8")?;
    cast.ada.post::<Value>("/repositories", &json!({ "url": url, "pollSeconds": 10 }))?;
    let pipeline = poll_until("the pipeline of the repository", || {
        let all = cast.ada.get::<Value>("/pipelines")?.data;
        Ok(all.as_array().into_iter().flatten().find(|it| it["slug"] == "shop").cloned())
    })?;
    let playground = json!({ "slug": "playground", "definition": PLAYGROUND });
    let playground = cast.ada.post::<Value>("/pipelines", &playground)?.data;
    [playground, pipeline].iter().map(|it| pipeline_json(&cast.ada, it)).collect()
}

/// Formats a pipeline for the demo's `--json` output.
fn pipeline_json(client: &ApiClient, pipeline: &Value) -> anyhow::Result<Value> {
    let (id, slug) = (&pipeline["id"], json_str(&pipeline["slug"])?);
    let environments = client.get::<Value>(&format!("/pipelines/{slug}/ephemeral-environments"))?.data;
    let names = environments.as_array().into_iter().flatten().map(|it| it["envName"].clone());
    Ok(json!({ "id": id, "slug": slug, "environments": names.collect::<Vec<_>>() }))
}

/// Plays the scenario, then keeps Grace's load test running. If a call fails, reports the error and stops.
pub(super) fn run_scenario(
    cast: &DemoClients,
    sample: &SampleRepository,
    sites: &DemoSites,
    say: &dyn Fn(&str),
) {
    let begin = Instant::now();
    let step = |text: &str| {
        say(&format!("  {:>3} s  {text}", begin.elapsed().as_secs()));
        sites.update_progress(|story| story.steps.push(text.to_owned()));
    };
    say("\nSetting up the demo:");
    match play_scenario(cast, sample, &step) {
        Ok(session) => {
            step("ready: log in and look around");
            sites.update_progress(|story| story.done = true);
            repeat_load_test(&cast.grace, &session);
        }
        Err(error) => {
            say(&format!("Cannot finish setting up the demo: {error:#}"));
            sites.update_progress(|story| story.failed = Some(format!("{error:#}")));
        }
    }
}

/// Plays the scenario and returns the id of Grace's session in qa-1.
fn play_scenario(
    cast: &DemoClients,
    sample: &SampleRepository,
    step: &dyn Fn(&str),
) -> anyhow::Result<String> {
    let qa_1 = format!("{ENVIRONMENTS}/qa-1/sessions");
    let held: Value = cast.grace.post(&qa_1, &json!({ "commitId": "slow", "context": "load test" }))?.data;
    step("Grace claims qa-1 for a load test and deploys the branch slow");
    let wish = json!({ "queue": true, "commitId": "main", "context": "checking the prices", "waitSeconds": LINUS_WAITS_S });
    cast.linus.post::<Value>(&qa_1, &wish)?;
    step("Linus joins the queue for qa-1");

    let qa_2 = format!("{ENVIRONMENTS}/qa-2/sessions");
    let nightly: Value =
        cast.ci.post(&qa_2, &json!({ "commitId": "broken", "context": "nightly check" }))?.data;
    wait_for_end(&cast.ci, json_str(&nightly["deploymentId"])?)?;
    cast.ci.delete::<Value>(&format!("{qa_2}/{}", json_str(&nightly["sessionId"])?))?;
    step("ci deploys the branch broken to qa-2; its check fails");

    let first = wait_for_push_deployment(&cast.ada, 1)?;
    wait_for_approval_request(&cast.ada, &first)?;
    step("the new prices are deployed to staging");
    let asked: Value = cast.grace.get(&format!("/approvals?deployment={first}"))?.data;
    let approval = json_str(&asked[0]["id"])?;
    cast.grace.post::<Value>(
        &format!("/approvals/{approval}/approve"),
        &json!({ "comment": "prices are right" }),
    )?;
    wait_for_end(&cast.ada, &first)?;
    step("Grace approves them; they are deployed to production");

    sample.push_green()?;
    let repositories: Value = cast.ada.get("/repositories")?.data;
    let repository = json_str(&repositories[0]["id"])?;
    cast.ada.post::<Value>(&format!("/repositories/{repository}/sync"), &json!({}))?;
    let second = wait_for_push_deployment(&cast.ada, 2)?;
    wait_for_approval_request(&cast.ada, &second)?;
    step("a green shop is pushed; it is in staging and waits for your approval");
    Ok(json_str(&held["sessionId"])?.to_owned())
}

/// Keeps deploying for as long as Grace holds qa-1.
fn repeat_load_test(grace: &ApiClient, session: &str) {
    let session = format!("{ENVIRONMENTS}/qa-1/sessions/{session}");
    let mut misses = 0;
    let mut rounds = 0;
    while rounds < ROUNDS_MAX && misses < FAILURES_MAX {
        let Ok(found) = grace.get::<Value>(&session) else {
            misses += 1;
            std::thread::sleep(ROUND_PAUSE);
            continue;
        };
        misses = 0;
        if found.data["status"] != "active" {
            return;
        }
        if is_finished(&found.data["deployments"][0]) {
            rounds += 1;
            let again = grace.post::<Value>(&format!("{session}/deploy"), &json!({ "commitId": "slow" }));
            misses += u32::from(again.is_err());
        }
        std::thread::sleep(ROUND_PAUSE);
    }
}

/// Waits for the deployment with this number, which a push starts, and returns its id.
fn wait_for_push_deployment(client: &ApiClient, number: u64) -> anyhow::Result<String> {
    poll_until("the deployment of a push", || {
        let all = client.get::<Value>("/pipelines/shop/deployments")?.data;
        let found =
            all.as_array().into_iter().flatten().find(|it| it["number"] == number && it["trigger"] == "push");
        found.map(|it| json_str(&it["id"]).map(str::to_owned)).transpose()
    })
}

fn wait_for_approval_request(client: &ApiClient, deployment: &str) -> anyhow::Result<()> {
    poll_until("a pending approval", || {
        let found = client.get::<Value>(&format!("/deployments/{deployment}"))?.data;
        anyhow::ensure!(!is_finished(&found), "deployment {deployment} ended: {}", found["detail"]);
        Ok((found["status"] == "waiting").then_some(()))
    })
}

fn wait_for_end(client: &ApiClient, deployment: &str) -> anyhow::Result<Value> {
    poll_until("the end of a deployment", || {
        let found = client.get::<Value>(&format!("/deployments/{deployment}"))?.data;
        Ok(is_finished(&found).then_some(found))
    })
}

pub(super) fn is_finished(deployment: &Value) -> bool {
    let status = deployment["status"].as_str().unwrap_or_default();
    ["succeeded", "failed", "cancelled", "superseded"].contains(&status)
}

pub(super) fn json_str(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("unexpected response from the server")
}

/// Polls until `look` returns a value; fails after [`WAIT_TIMEOUT`].
pub(super) fn poll_until<T>(
    what: &str,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "timed out after {} s waiting for {what}",
            WAIT_TIMEOUT.as_secs()
        );
        std::thread::sleep(POLL_INTERVAL);
    }
}
