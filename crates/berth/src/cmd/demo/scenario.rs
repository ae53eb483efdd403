//! The scripted scenario that fills the demo, played through the public API.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::organizations::PLAYGROUND;
use super::repository::Sample;
use super::sites::Sites;
use crate::client::Client;

const ENVIRONMENTS: &str = "/pipelines/shop/ephemeral-environments";
/// Timeout for a build, a deployment or a sync.
const WAIT_MAX: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Deployments of Grace's load test, 90 seconds each, so that there is something to take over.
const ROUNDS_MAX: u32 = 40;
/// Failed calls in a row, for example while the server is restarted.
const MISSES_MAX: u32 = 30;
const MISS_PAUSE: Duration = Duration::from_secs(2);
const LINUS_WAITS_S: u32 = 8 * 60 * 60;

/// API clients of the demo's members.
pub(super) struct Cast {
    pub(super) ada: Client,
    pub(super) grace: Client,
    pub(super) linus: Client,
    pub(super) ci: Client,
}

/// Creates the webhook, the repository and the playground. Returns the pipelines as JSON, the playground first.
pub(super) fn prepare(cast: &Cast, sample: &Sample, sites: &Sites) -> anyhow::Result<Vec<Value>> {
    let webhook = json!({ "name": "sites", "url": sites.webhook(), "kinds": ["session_claimed"] });
    cast.ada.post::<Value>("/webhooks", &webhook)?;
    let url = sample.dir.to_str().context("the demo's data directory is not valid UTF-8")?;
    cast.ada.post::<Value>("/repositories", &json!({ "url": url, "pollSeconds": 10 }))?;
    let pipeline = until("the pipeline of the repository", || {
        let all = cast.ada.get::<Value>("/pipelines")?.data;
        Ok(all.as_array().into_iter().flatten().find(|it| it["slug"] == "shop").cloned())
    })?;
    let playground = json!({ "slug": "playground", "definition": PLAYGROUND });
    let playground = cast.ada.post::<Value>("/pipelines", &playground)?.data;
    [playground, pipeline].iter().map(|it| shown(&cast.ada, it)).collect()
}

/// Formats a pipeline for `--json`.
fn shown(client: &Client, pipeline: &Value) -> anyhow::Result<Value> {
    let (id, slug) = (&pipeline["id"], text(&pipeline["slug"])?);
    let environments = client.get::<Value>(&format!("/pipelines/{slug}/ephemeral-environments"))?.data;
    let names = environments.as_array().into_iter().flatten().map(|it| it["envName"].clone());
    Ok(json!({ "id": id, "slug": slug, "environments": names.collect::<Vec<_>>() }))
}

/// Plays the scenario, then keeps Grace's load test running. Reports an error and stops if a call fails.
pub(super) fn play(cast: &Cast, sample: &Sample, sites: &Sites, say: &dyn Fn(&str)) {
    let begin = Instant::now();
    let step = |text: &str| {
        say(&format!("  {:>3} s  {text}", begin.elapsed().as_secs()));
        sites.tell(|story| story.steps.push(text.to_owned()));
    };
    say("\nSetting up the demo:");
    match set_up(cast, sample, &step) {
        Ok(session) => {
            step("ready: log in and look around");
            sites.tell(|story| story.done = true);
            go_on(&cast.grace, &session);
        }
        Err(error) => {
            say(&format!("Cannot finish setting up the demo: {error:#}"));
            sites.tell(|story| story.failed = Some(format!("{error:#}")));
        }
    }
}

/// Returns Grace's session in qa-1.
fn set_up(cast: &Cast, sample: &Sample, step: &dyn Fn(&str)) -> anyhow::Result<String> {
    let qa_1 = format!("{ENVIRONMENTS}/qa-1/sessions");
    let held: Value = cast.grace.post(&qa_1, &json!({ "commitId": "slow", "context": "load test" }))?.data;
    step("Grace claims qa-1 for a load test and deploys the branch slow");
    let wish = json!({ "queue": true, "commitId": "main", "context": "checking the prices", "waitSeconds": LINUS_WAITS_S });
    cast.linus.post::<Value>(&qa_1, &wish)?;
    step("Linus joins the queue for qa-1");

    let qa_2 = format!("{ENVIRONMENTS}/qa-2/sessions");
    let nightly: Value =
        cast.ci.post(&qa_2, &json!({ "commitId": "broken", "context": "nightly check" }))?.data;
    ended(&cast.ci, text(&nightly["deploymentId"])?)?;
    cast.ci.delete::<Value>(&format!("{qa_2}/{}", text(&nightly["sessionId"])?))?;
    step("ci deploys the branch broken to qa-2; its check fails");

    let first = rollout(&cast.ada, 1)?;
    waiting(&cast.ada, &first)?;
    step("the new prices are deployed to staging");
    let asked: Value = cast.grace.get(&format!("/approvals?deployment={first}"))?.data;
    let approval = text(&asked[0]["id"])?;
    cast.grace.post::<Value>(
        &format!("/approvals/{approval}/approve"),
        &json!({ "comment": "prices are right" }),
    )?;
    ended(&cast.ada, &first)?;
    step("Grace approves them; they are deployed to production");

    sample.push_green()?;
    let repositories: Value = cast.ada.get("/repositories")?.data;
    let repository = text(&repositories[0]["id"])?;
    cast.ada.post::<Value>(&format!("/repositories/{repository}/sync"), &json!({}))?;
    let second = rollout(&cast.ada, 2)?;
    waiting(&cast.ada, &second)?;
    step("a green shop is pushed; it is in staging and waits for your approval");
    Ok(text(&held["sessionId"])?.to_owned())
}

/// Deploys again and again while Grace holds qa-1.
fn go_on(grace: &Client, session: &str) {
    let session = format!("{ENVIRONMENTS}/qa-1/sessions/{session}");
    let mut misses = 0;
    let mut rounds = 0;
    while rounds < ROUNDS_MAX && misses < MISSES_MAX {
        let Ok(found) = grace.get::<Value>(&session) else {
            misses += 1;
            std::thread::sleep(MISS_PAUSE);
            continue;
        };
        misses = 0;
        if found.data["status"] != "active" {
            return;
        }
        if is_ended(&found.data["deployments"][0]) {
            rounds += 1;
            let again = grace.post::<Value>(&format!("{session}/deploy"), &json!({ "commitId": "slow" }));
            misses += u32::from(again.is_err());
        }
        std::thread::sleep(MISS_PAUSE);
    }
}

/// Waits for the pushed deployment with this number.
fn rollout(client: &Client, number: u64) -> anyhow::Result<String> {
    until("the deployment of a push", || {
        let all = client.get::<Value>("/pipelines/shop/deployments")?.data;
        let found =
            all.as_array().into_iter().flatten().find(|it| it["number"] == number && it["trigger"] == "push");
        found.map(|it| text(&it["id"]).map(str::to_owned)).transpose()
    })
}

fn waiting(client: &Client, deployment: &str) -> anyhow::Result<()> {
    until("a pending approval", || {
        let found = client.get::<Value>(&format!("/deployments/{deployment}"))?.data;
        anyhow::ensure!(!is_ended(&found), "deployment {deployment} ended: {}", found["detail"]);
        Ok((found["status"] == "waiting").then_some(()))
    })
}

fn ended(client: &Client, deployment: &str) -> anyhow::Result<Value> {
    until("the end of a deployment", || {
        let found = client.get::<Value>(&format!("/deployments/{deployment}"))?.data;
        Ok(is_ended(&found).then_some(found))
    })
}

pub(super) fn is_ended(deployment: &Value) -> bool {
    let status = deployment["status"].as_str().unwrap_or_default();
    ["succeeded", "failed", "cancelled", "superseded"].contains(&status)
}

pub(super) fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("unexpected response from the server")
}

/// Polls until `look` returns a value; fails after [`WAIT_MAX`].
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "timed out after {} s waiting for {what}",
            WAIT_MAX.as_secs()
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}
