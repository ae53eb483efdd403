//! Sets up pipelines, held environments, and waiting deployments.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::ManyOptions;
use crate::bench_server::{JsonApiClient, ORGANIZATION, PIPELINES};
use crate::load::{LoadConnection, ServerTarget};

/// Maximum number of environments per pipeline.
const PER_PIPELINE: usize = 200;
const STEPS_PER_DEPLOYMENT: usize = 100;
const HOLDERS: usize = 8;
const BEGIN_MAX: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct CrowdedSite {
    /// Number of environments with waiting deployments.
    working: usize,
    /// Number of environments that are held but have no deployments.
    quiet: usize,
}

impl CrowdedSite {
    pub(super) async fn build(api: &mut JsonApiClient, options: &ManyOptions) -> anyhow::Result<Self> {
        let working = options.steps.div_ceil(STEPS_PER_DEPLOYMENT).min(options.sessions);
        let site = Self { working, quiet: options.sessions - working };
        let waits = "    - { name: First, type: dummy, runs_on: [missing] }\n".to_owned();
        let rest =
            (1..STEPS_PER_DEPLOYMENT).map(|number| format!("    - {{ name: S{number}, type: dummy }}\n"));
        let steps = waits.clone() + &rest.collect::<String>();
        create_pipeline(api, "measured", options.clients, &waits).await?;
        for number in 0..site.working.div_ceil(PER_PIPELINE) {
            create_pipeline(api, &format!("w{number}"), PER_PIPELINE, &steps).await?;
        }
        for number in 0..site.quiet.div_ceil(PER_PIPELINE) {
            create_pipeline(api, &format!("q{number}"), PER_PIPELINE, &waits).await?;
        }
        Ok(site)
    }

    /// Claims every environment.
    pub(super) async fn claim_all(&self, target: &ServerTarget, options: &ManyOptions) -> anyhow::Result<()> {
        eprintln!("holding {} environments", options.sessions);
        let working = (0..self.working).map(|number| environment_path("w", number));
        let all: Vec<String> =
            working.chain((0..self.quiet).map(|number| environment_path("q", number))).collect();
        let mut holders = Vec::new();
        for number in 0..HOLDERS {
            let own: Vec<_> = all.iter().skip(number).step_by(HOLDERS).cloned().collect();
            let target = target.clone();
            holders.push(tokio::task::spawn_local(async move {
                let mut connection = LoadConnection::open(&target).await?;
                for environment in own {
                    claim(&mut connection, &target, &format!("{environment}/sessions"), "{}").await?;
                }
                Ok::<_, anyhow::Error>(())
            }));
        }
        for holder in holders {
            holder.await??;
        }
        Ok(())
    }

    /// Starts the deployments, waits until all of them are waiting for a runner, and returns the number of their steps.
    pub(super) async fn queue_deployments(&self, api: &mut JsonApiClient) -> anyhow::Result<usize> {
        eprintln!("starting {} deployments of {STEPS_PER_DEPLOYMENT} steps", self.working);
        for number in 0..self.working {
            let environment = environment_path("w", number);
            let seen = api.get(&environment).await?;
            let session = seen["lock"]["sessionId"].as_str().context("a held environment")?.to_owned();
            let deploy = format!("{environment}/sessions/{session}/deploy");
            api.post(&deploy, &json!({ "commitId": "4f2a1c9" })).await?;
        }
        let deadline = Instant::now() + BEGIN_MAX;
        loop {
            let waiting = api.get(&format!("{ORGANIZATION}/deployments?status=queued&limit=1")).await?;
            if waiting.as_array().is_some_and(Vec::is_empty) {
                return Ok(self.working * STEPS_PER_DEPLOYMENT);
            }
            ensure!(Instant::now() < deadline, "deployments have not begun within {BEGIN_MAX:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn environment_path(kind: &str, number: usize) -> String {
    let (pipeline, environment) = (number / PER_PIPELINE, number % PER_PIPELINE);
    format!("{PIPELINES}/{kind}{pipeline}/ephemeral-environments/e{environment}")
}

async fn create_pipeline(
    api: &mut JsonApiClient,
    slug: &str,
    environments: usize,
    steps: &str,
) -> anyhow::Result<()> {
    let environments: String = (0..environments).map(|number| format!("    e{number}: {{}}\n")).collect();
    let definition = format!(
        "version: 1\npipeline:\n  name: Many\n  stages: [{{ name: staging }}]\n  ephemeral_environments:\n{environments}  steps:\n{steps}"
    );
    api.post(PIPELINES, &json!({ "slug": slug, "definition": definition })).await.map(drop)
}

/// Claims an environment and returns the id of the new session.
pub(super) async fn claim(
    connection: &mut LoadConnection,
    target: &ServerTarget,
    path: &str,
    body: &str,
) -> anyhow::Result<String> {
    let made = send_request(connection, target, "POST", path, body).await?;
    Ok(made["sessionId"].as_str().context("a session without an id")?.to_owned())
}

/// Sends a request and returns `data` of the successful response.
pub(super) async fn send_request(
    connection: &mut LoadConnection,
    ServerTarget { address, token }: &ServerTarget,
    method: &str,
    path: &str,
    body: &str,
) -> anyhow::Result<Value> {
    let mut request = Vec::new();
    write!(
        request,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let (status, answer) = connection.send_request(&request).await?;
    ensure!((200..300).contains(&status), "{method} {path}: {status} {}", String::from_utf8_lossy(answer));
    let mut answer: Value = serde_json::from_slice(answer)?;
    Ok(answer["data"].take())
}
