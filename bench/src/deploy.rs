//! Creates deployments in an environment, waits for them and measures how long they take.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use berth_core::time::Timestamp;
use serde_json::{Value, json};

use crate::bench_server::{JsonApiClient, ORGANIZATION, PIPELINES};

/// A deployment that takes longer than this has hung.
const HANGS_AFTER: Duration = Duration::from_secs(300);
const ENVIRONMENT: &str = "qa";

/// A pipeline with one environment. Its script steps run in sequence.
pub(crate) struct BenchPipeline {
    sessions: String,
    commit: String,
}

pub(crate) struct StartedDeployment {
    /// Time just before the request was sent.
    pub(crate) sent: SystemTime,
    pub(crate) id: String,
    session: String,
}

impl BenchPipeline {
    pub(crate) async fn create(
        api: &mut JsonApiClient,
        slug: &str,
        steps: Vec<Value>,
    ) -> anyhow::Result<Self> {
        let definition = json!({ "version": 1, "pipeline": {
            "name": slug, "steps": steps, "ephemeral_environments": { ENVIRONMENT: {} },
        }});
        api.post(PIPELINES, &json!({ "slug": slug, "definition": definition.to_string() })).await?;
        Ok(Self::of_commit(slug, "9fceb02"))
    }

    /// An existing pipeline, of which this commit is deployed.
    pub(crate) fn of_commit(slug: &str, commit: &str) -> Self {
        let sessions = format!("{PIPELINES}/{slug}/ephemeral-environments/{ENVIRONMENT}/sessions");
        Self { sessions, commit: commit.to_owned() }
    }

    /// Claims the environment with a commit, which starts a deployment.
    pub(crate) async fn deploy(&self, api: &mut JsonApiClient) -> anyhow::Result<StartedDeployment> {
        let sent = SystemTime::now();
        let session = api.post(&self.sessions, &json!({ "commitId": self.commit })).await?;
        Ok(StartedDeployment {
            sent,
            id: text_member(&session, "deploymentId")?,
            session: text_member(&session, "sessionId")?,
        })
    }

    /// Polls until the deployment has succeeded, then releases the environment.
    pub(crate) async fn finish(
        &self,
        api: &mut JsonApiClient,
        deployed: &StartedDeployment,
        poll_interval: Duration,
    ) -> anyhow::Result<Value> {
        let (path, began) = (format!("{ORGANIZATION}/deployments/{}", deployed.id), Instant::now());
        let found = loop {
            tokio::time::sleep(poll_interval).await;
            let found = api.get(&path).await?;
            if !found["finishedAt"].is_null() {
                break found;
            }
            ensure!(began.elapsed() < HANGS_AFTER, "a deployment hangs: {found}");
        };
        ensure!(found["status"] == "succeeded", "a deployment has not succeeded: {found}");
        api.delete(&format!("{}/{}", self.sessions, deployed.session)).await?;
        Ok(found)
    }
}

pub(crate) fn script_step(id: &str, run: &str) -> Value {
    json!({ "name": id, "id": id, "type": "script", "params": { "run": run } })
}

pub(crate) fn log_path(deployment: &str, step: &str) -> String {
    format!("{ORGANIZATION}/deployments/{deployment}/steps/{step}/logs")
}

/// Returns the first attempt of the deployment's first step.
pub(crate) fn first_attempt(deployment: &Value) -> &Value {
    &deployment["stages"][0]["steps"][0]["attempts"][0]
}

/// Returns the time between two timestamps in a response. They have millisecond resolution.
pub(crate) fn elapsed_between(from: &Value, to: &Value) -> anyhow::Result<Duration> {
    let time = |value: &Value| Timestamp::parse(value.as_str().unwrap_or_default()).context("no time");
    let micros = time(to)?.as_micros() - time(from)?.as_micros();
    Ok(Duration::from_micros(u64::try_from(micros).context("an end before its beginning")?))
}

fn text_member(value: &Value, name: &str) -> anyhow::Result<String> {
    Ok(value[name].as_str().with_context(|| format!("no {name} in {value}"))?.to_owned())
}
