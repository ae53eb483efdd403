//! `berth demo crash`: kills the demo's server during a deployment and shows that it recovers.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::running::RunningDemo;
use super::scenario::{is_finished, json_str, poll_until};
use crate::client::ApiClient;
use crate::output::{dim, print_line};

const ENVIRONMENT: &str = "/pipelines/shop/ephemeral-environments/qa-2";
const BRANCH: &str = "feature/dark";
/// The server is killed after the step has printed this many log lines. The step prints one line per second.
const LINES_BEFORE: usize = 2;

#[derive(clap::Args)]
pub(crate) struct CrashArgs {
    /// Server URL, if several demos are running
    #[arg(long, env = "BERTH_SERVER", value_name = "URL")]
    server: Option<String>,
}

pub(super) fn run(args: &CrashArgs) -> anyhow::Result<ExitCode> {
    let known = RunningDemo::find(args.server.as_deref())?;
    let client = known.client();
    let (session, deployment) = start_deployment(&client)?;
    let page = client.dashboard_url(&format!("/deployments/{deployment}"));
    print_line(&format!("Deploying {BRANCH} to qa-2\n{}", dim(&page)))?;
    let before = poll_until("two lines of the deployment's log", || {
        let lines = log_lines(&client, &deployment)?;
        Ok((lines.len() >= LINES_BEFORE).then_some(lines))
    })?;

    let server = known.server_pid()?;
    let killed = Instant::now();
    kill_process(server, Signal::KILL).context("cannot kill the server")?;
    print_line(&format!("Killed the server (kill -9 {}) during the deployment", server.as_raw_pid()))?;
    poll_until("a new server", || Ok(known.server_pid().ok().filter(|it| *it != server)))?;
    let held: Value = poll_until("a response from the new server", || Ok(client.get(ENVIRONMENT).ok()))?.data;
    let pid = known.server_pid()?.as_raw_pid();
    print_line(&format!(
        "A new server (process {pid}) responded after {:.1} s with the same data",
        killed.elapsed().as_secs_f64()
    ))?;

    anyhow::ensure!(held["lock"]["sessionId"] == session, "qa-2 is no longer held by the same session");
    print_line("You still hold qa-2 in the same session")?;
    let end = poll_until("the end of the deployment", || {
        let found: Value = client.get(&format!("/deployments/{deployment}"))?.data;
        Ok(is_finished(&found).then_some(found))
    })?;
    let after: BTreeSet<_> = log_lines(&client, &deployment)?.into_iter().collect();
    let lost = before.iter().filter(|line| !after.contains(*line)).count();
    anyhow::ensure!(lost == 0, "{lost} log lines were lost");
    print_line(&format!("The log still has all {} lines from before the crash", before.len()))?;
    let status = json_str(&end["status"])?;
    anyhow::ensure!(status == "succeeded", "the deployment {status}: {}", end["detail"]);
    print_line(&format!("The interrupted step ran again and the deployment succeeded\n{}", dim(&page)))?;
    print_line("Next: run `berth repo add .` in your own repository with a .berth/NAME/pipeline.yaml.")?;
    Ok(ExitCode::SUCCESS)
}

/// Claims qa-2, or uses the caller's existing session there, and starts a deployment.
fn start_deployment(client: &ApiClient) -> anyhow::Result<(String, String)> {
    let found: Value = client.get(ENVIRONMENT)?.data;
    let made: Value = if found["lock"].is_null() {
        let wish = json!({ "commitId": BRANCH, "context": "a crash" });
        client.post(&format!("{ENVIRONMENT}/sessions"), &wish)?.data
    } else {
        let session = json_str(&found["lock"]["sessionId"])?;
        let deploy = json!({ "commitId": BRANCH });
        let made = client.post::<Value>(&format!("{ENVIRONMENT}/sessions/{session}/deploy"), &deploy);
        let mut made =
            made.context("another user holds qa-2, or a deployment is running there; try again later")?.data;
        made["deploymentId"] = made["id"].take();
        made["sessionId"] = json!(session);
        made
    };
    Ok((json_str(&made["sessionId"])?.to_owned(), json_str(&made["deploymentId"])?.to_owned()))
}

/// Returns the log lines of the step `deploy`, from all of its attempts.
fn log_lines(client: &ApiClient, deployment: &str) -> anyhow::Result<Vec<String>> {
    let found: Value = client.get(&format!("/deployments/{deployment}"))?.data;
    let stages = found["stages"].as_array().into_iter().flatten();
    let mut steps = stages.flat_map(|it| it["steps"].as_array().into_iter().flatten());
    let Some(step) = steps.rfind(|it| it["step"] == "deploy") else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    for attempt in step["attempts"].as_array().into_iter().flatten() {
        let path = format!(
            "/deployments/{deployment}/steps/{}/logs?attempt={}",
            json_str(&step["id"])?,
            attempt["number"]
        );
        let log: Value = client.get(&path)?.data;
        let texts = log["entries"].as_array().into_iter().flatten().filter_map(|it| it["text"].as_str());
        lines.extend(texts.map(|it| format!("{}: {it}", attempt["number"])));
    }
    Ok(lines)
}
