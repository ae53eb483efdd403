//! Tools for deployments.

use std::time::Duration;

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{EnvironmentName, check_wait, parse_arguments};
use super::{ToolContext, ToolOutput, ToolResult};
use crate::failure::ToolFailure;
use crate::rest::{RestApi, RestRequest, RestResponse, percent_encode};
use crate::text::{describe_deployment, describe_deployment_progress, is_deployment_finished};

/// How long `deploy_commit` waits by default, in seconds.
const DEPLOY_WAIT_S: u64 = 300;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct DeployCommit {
    /// The environment as pipeline/environment, such as shop/qa-1.
    #[schemars(with = "String", extend("pattern" = "^[^/]+/[^/]+$"))]
    environment: EnvironmentName,
    /// The session that claim_environment returned.
    session_id: String,
    /// Commit, branch or tag to deploy.
    #[schemars(length(max = 255))]
    commit_id: String,
    /// What the deployment is for. Visible to all members.
    #[schemars(length(max = 4000))]
    context: Option<String>,
    /// Wait until the deployment has finished. Without it, call deployment_status later.
    wait: Option<bool>,
    /// With wait: for how long. Defaults to 300. The deployment continues afterwards.
    #[schemars(range(min = 0, max = 600))]
    wait_seconds: Option<u64>,
}

pub(super) async fn deploy_commit<A: RestApi>(context: &ToolContext<A>, arguments: JsonObject) -> ToolResult {
    let asked: DeployCommit = parse_arguments(arguments)?;
    let limit = check_wait(asked.wait_seconds)?;
    let path = format!("{}/deploy", asked.environment.item_path("sessions", &asked.session_id));
    let mut body = json!({"commitId": asked.commit_id});
    if let Some(context) = asked.context {
        body["context"] = context.into();
    }
    let mut seen = context.send(RestRequest::post(path, body)).await?;
    if asked.wait.unwrap_or(false)
        && let Some(id) = seen.body["data"]["id"].as_str()
    {
        seen = wait_until_finished(context, id, limit.unwrap_or(DEPLOY_WAIT_S)).await?;
    }
    Ok(ToolOutput { text: describe_deployment(&seen.body["data"]), content: seen.body })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct DeploymentStatus {
    deployment_id: String,
    /// Seconds to wait until the deployment has finished.
    #[schemars(range(min = 0, max = 600))]
    wait_seconds: Option<u64>,
}

pub(super) async fn deployment_status<A: RestApi>(
    context: &ToolContext<A>,
    arguments: JsonObject,
) -> ToolResult {
    let asked: DeploymentStatus = parse_arguments(arguments)?;
    let wait = check_wait(asked.wait_seconds)?;
    let seen = wait_until_finished(context, &asked.deployment_id, wait.unwrap_or(0)).await?;
    Ok(ToolOutput { text: describe_deployment(&seen.body["data"]), content: seen.body })
}

async fn wait_until_finished<A: RestApi>(
    context: &ToolContext<A>,
    id: &str,
    seconds: u64,
) -> Result<RestResponse, ToolFailure> {
    let path = format!("/deployments/{}", percent_encode(id));
    let is_finished = |seen: &RestResponse| is_deployment_finished(&seen.body["data"]);
    let describe = |seen: &RestResponse| describe_deployment_progress(&seen.body["data"]);
    context.wait_for(&path, Duration::from_secs(seconds), is_finished, describe).await
}
