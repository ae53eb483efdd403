//! `berth demo crash`: what happens to a deployment when its server dies in the middle of it.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::running::Known;
use super::scenario::{is_ended, text, until};
use crate::client::Client;
use crate::output::{dim, say};

const ENVIRONMENT: &str = "/pipelines/shop/ephemeral-environments/qa-2";
const BRANCH: &str = "feature/dark";
/// It prints one a second, and then is done.
const LINES_BEFORE: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address of the demo, where several are running
    #[arg(long, env = "BERTH_SERVER", value_name = "URL")]
    server: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let known = Known::find(args.server.as_deref())?;
    let client = known.client();
    let (session, deployment) = begun(&client)?;
    let page = client.page(&format!("/deployments/{deployment}"));
    say(&format!("{BRANCH} is being deployed in qa-2\n{}", dim(&page)))?;
    let before = until("two lines of the deployment's log", || {
        let lines = lines(&client, &deployment)?;
        Ok((lines.len() >= LINES_BEFORE).then_some(lines))
    })?;

    let server = known.server()?;
    let killed = Instant::now();
    kill_process(server, Signal::KILL).context("the server cannot be killed")?;
    say(&format!("killed the server (kill -9 {}) in the middle of it", server.as_raw_pid()))?;
    until("a new server", || Ok(known.server().ok().filter(|it| *it != server)))?;
    let held: Value = until("an answer of the new server", || Ok(client.get(ENVIRONMENT).ok()))?.data;
    let pid = known.server()?.as_raw_pid();
    say(&format!(
        "a new server (process {pid}) answers after {:.1} s, from the same data",
        killed.elapsed().as_secs_f64()
    ))?;

    anyhow::ensure!(held["lock"]["sessionId"] == session, "qa-2 is not held by the same session any more");
    say("qa-2 is still yours, by the same session")?;
    let end = until("the end of the deployment", || {
        let found: Value = client.get(&format!("/deployments/{deployment}"))?.data;
        Ok(is_ended(&found).then_some(found))
    })?;
    let after: BTreeSet<_> = lines(&client, &deployment)?.into_iter().collect();
    let lost = before.iter().filter(|line| !after.contains(*line)).count();
    anyhow::ensure!(lost == 0, "{lost} lines of the log are gone");
    say(&format!("the log still has all {} lines from before the crash", before.len()))?;
    let status = text(&end["status"])?;
    anyhow::ensure!(status == "succeeded", "the deployment has {status}: {}", end["detail"]);
    say(&format!("the step that was cut off ran again, and the deployment has succeeded\n{}", dim(&page)))?;
    say("Now your own repository: `berth repo add .` in it, with a .berth/NAME/pipeline.yaml.")?;
    Ok(ExitCode::SUCCESS)
}

/// A session in qa-2 with a deployment that has just begun.
fn begun(client: &Client) -> anyhow::Result<(String, String)> {
    let found: Value = client.get(ENVIRONMENT)?.data;
    let made: Value = if found["lock"].is_null() {
        let wish = json!({ "commitId": BRANCH, "context": "a crash" });
        client.post(&format!("{ENVIRONMENT}/sessions"), &wish)?.data
    } else {
        let session = text(&found["lock"]["sessionId"])?;
        let deploy = json!({ "commitId": BRANCH });
        let made = client.post::<Value>(&format!("{ENVIRONMENT}/sessions/{session}/deploy"), &deploy);
        let mut made =
            made.context("somebody else holds qa-2, or something is being deployed there; wait for it")?.data;
        made["deploymentId"] = made["id"].take();
        made["sessionId"] = json!(session);
        made
    };
    Ok((text(&made["sessionId"])?.to_owned(), text(&made["deploymentId"])?.to_owned()))
}

/// What the step `deploy` has printed, in all of its attempts.
fn lines(client: &Client, deployment: &str) -> anyhow::Result<Vec<String>> {
    let found: Value = client.get(&format!("/deployments/{deployment}"))?.data;
    let stages = found["stages"].as_array().into_iter().flatten();
    let mut steps = stages.flat_map(|it| it["steps"].as_array().into_iter().flatten());
    let Some(step) = steps.rfind(|it| it["step"] == "deploy") else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    for attempt in step["attempts"].as_array().into_iter().flatten() {
        let path = format!(
            "/deployments/{deployment}/steps/{}/logs?attempt={}",
            text(&step["id"])?,
            attempt["number"]
        );
        let log: Value = client.get(&path)?.data;
        let texts = log["entries"].as_array().into_iter().flatten().filter_map(|it| it["text"].as_str());
        lines.extend(texts.map(|it| format!("{}: {it}", attempt["number"])));
    }
    Ok(lines)
}
