//! Tools for environments and their queues.

use std::time::Duration;

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::{EnvironmentName, check_wait, parse_arguments};
use super::{ToolContext, ToolOutput, ToolResult};
use crate::failure::ToolFailure;
use crate::rest::{RestApi, RestRequest, percent_encode};
use crate::text::{describe_environment, describe_session, describe_ticket};

/// Maximum number of pipelines whose environments are listed. For more, name the pipeline.
const PIPELINES_MAX: usize = 100;
/// Maximum size of a list of environments as JSON. For more, name the pipeline.
const LISTED_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ListEnvironments {
    /// Only the environments of this pipeline (slug or id).
    pipeline: Option<String>,
}

pub(super) async fn list_environments<A: RestApi>(
    context: &ToolContext<A>,
    arguments: JsonObject,
) -> ToolResult {
    let asked: ListEnvironments = parse_arguments(arguments)?;
    let listed = load_environments(context, asked.pipeline.as_deref(), std::convert::identity).await?;
    let has_more = listed.has_more;
    let environments = listed.environments.iter();
    let mut lines: Vec<String> =
        environments.map(|(pipeline, environment)| describe_environment(pipeline, environment)).collect();
    if lines.is_empty() {
        lines.push("There are no environments that you may see.".to_owned());
    }
    if has_more {
        lines.push(
            "Not all pipelines are listed; pass pipeline to list the environments of another one.".to_owned(),
        );
    }
    let data: Vec<Value> = listed.environments.into_iter().map(|(_, environment)| environment).collect();
    Ok(ToolOutput { text: lines.join("\n"), content: json!({ "data": data, "hasMore": has_more }) })
}

/// Environments, each with the slug of its pipeline.
pub(crate) struct ListedEnvironments {
    pub(crate) environments: Vec<(String, Value)>,
    /// Whether there are more pipelines than were read.
    has_more: bool,
}

/// Returns the environments of a pipeline, or of as many pipelines as fit into the limits. `keep` reduces an environment to
/// what the caller needs.
pub(crate) async fn load_environments<A: RestApi>(
    context: &ToolContext<A>,
    pipeline: Option<&str>,
    keep: fn(Value) -> Value,
) -> Result<ListedEnvironments, ToolFailure> {
    let mut has_more = false;
    let pipelines = match pipeline {
        Some(pipeline) => vec![pipeline.to_owned()],
        None => {
            let listed = context.get(format!("/pipelines?limit={PIPELINES_MAX}")).await?;
            has_more = listed.body["pagination"]["hasMore"] == true;
            let has_environments = |pipeline: &&Value| {
                pipeline["environments"].as_array().is_some_and(|environments| !environments.is_empty())
            };
            let listed = listed.body["data"].as_array().cloned().unwrap_or_default();
            let slugs = listed.iter().filter(has_environments).filter_map(|it| it["slug"].as_str());
            slugs.map(str::to_owned).collect()
        }
    };
    let (mut environments, mut size) = (Vec::new(), 0);
    for pipeline in pipelines {
        let path = format!("/pipelines/{}/ephemeral-environments", percent_encode(&pipeline));
        let mut listed = context.get(path).await?;
        let Some(Value::Array(found)) = listed.body.get_mut("data").map(Value::take) else { continue };
        let found: Vec<Value> = found.into_iter().map(keep).collect();
        size += found.iter().map(|environment| environment.to_string().len()).sum::<usize>();
        if size > LISTED_BYTES_MAX && !environments.is_empty() {
            has_more = true;
            break;
        }
        environments.extend(found.into_iter().map(|environment| (pipeline.clone(), environment)));
    }
    Ok(ListedEnvironments { environments, has_more })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ClaimEnvironment {
    /// The environment as pipeline/environment, such as shop/qa-1.
    #[schemars(with = "String", extend("pattern" = "^[^/]+/[^/]+$"))]
    environment: EnvironmentName,
    /// Commit, branch or tag to deploy as soon as the environment is yours.
    #[schemars(length(max = 255))]
    commit_id: Option<String>,
    /// What you use the environment for. Visible to all members.
    #[schemars(length(max = 4000))]
    context: Option<String>,
    /// Whom people can ask about this session, for example the e-mail address of the person you work for.
    #[schemars(length(min = 1, max = 200))]
    contact: Option<String>,
    /// Time until the session expires. Defaults to the environment's setting.
    #[schemars(range(min = 60, max = 2_592_000))]
    ttl_seconds: Option<i64>,
    /// If the environment is held, join its queue instead of failing.
    queue: Option<bool>,
    /// With queue: how long to stay in the queue. Defaults to one hour.
    #[schemars(range(min = 1, max = 604_800))]
    wait_seconds: Option<i64>,
}

pub(super) async fn claim_environment<A: RestApi>(
    context: &ToolContext<A>,
    arguments: JsonObject,
) -> ToolResult {
    let asked: ClaimEnvironment = parse_arguments(arguments)?;
    let body = SessionBody {
        commit_id: asked.commit_id,
        context: asked.context,
        contact: asked.contact,
        ttl_seconds: asked.ttl_seconds,
        queue: asked.queue,
        wait_seconds: asked.wait_seconds,
        ..SessionBody::default()
    };
    send_claim(context, &asked.environment, "sessions", &body).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct RequestTakeover {
    /// The environment as pipeline/environment, such as shop/qa-1.
    #[schemars(with = "String", extend("pattern" = "^[^/]+/[^/]+$"))]
    environment: EnvironmentName,
    /// Why the environment cannot wait. Shown to the holder.
    #[schemars(length(min = 1, max = 4000))]
    reason: String,
    /// How long the holder keeps the environment. Defaults to 5 minutes.
    #[schemars(range(min = 1, max = 86_400))]
    grace_seconds: Option<i64>,
    /// Commit, branch or tag to deploy as soon as the environment is yours.
    #[schemars(length(max = 255))]
    commit_id: Option<String>,
    /// Time until your session expires. Defaults to the environment's setting.
    #[schemars(range(min = 60, max = 2_592_000))]
    ttl_seconds: Option<i64>,
}

pub(super) async fn request_takeover<A: RestApi>(
    context: &ToolContext<A>,
    arguments: JsonObject,
) -> ToolResult {
    let asked: RequestTakeover = parse_arguments(arguments)?;
    let body = SessionBody {
        commit_id: asked.commit_id,
        reason: Some(asked.reason),
        mode: Some("grace"),
        grace_seconds: asked.grace_seconds,
        ttl_seconds: asked.ttl_seconds,
        ..SessionBody::default()
    };
    send_claim(context, &asked.environment, "force-claim", &body).await
}

/// Body of a claim or a force-claim.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_seconds: Option<i64>,
}

async fn send_claim<A: RestApi>(
    context: &ToolContext<A>,
    environment: &EnvironmentName,
    operation: &str,
    body: &SessionBody,
) -> ToolResult {
    let body = json!(body);
    let claimed =
        context.send(RestRequest::post(format!("{}/{operation}", environment.path()), body)).await?;
    let data = &claimed.body["data"];
    let text = match data["ticketId"].is_string() {
        true => describe_ticket(&environment.to_string(), data),
        false => describe_session(&environment.to_string(), data),
    };
    Ok(ToolOutput { text, content: claimed.body })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct QueueStatus {
    /// The environment as pipeline/environment, such as shop/qa-1.
    #[schemars(with = "String", extend("pattern" = "^[^/]+/[^/]+$"))]
    environment: EnvironmentName,
    /// The ticket that claim_environment returned. Without it, lists the whole queue.
    ticket_id: Option<String>,
    /// With ticketId: seconds to wait until the ticket is granted or has ended.
    #[schemars(range(min = 0, max = 600))]
    wait_seconds: Option<u64>,
}

pub(super) async fn queue_status<A: RestApi>(context: &ToolContext<A>, arguments: JsonObject) -> ToolResult {
    let asked: QueueStatus = parse_arguments(arguments)?;
    let name = asked.environment.to_string();
    let wait = check_wait(asked.wait_seconds)?;
    let Some(ticket) = asked.ticket_id else {
        let listed = context.get(format!("{}/queue", asked.environment.path())).await?;
        let tickets = listed.body["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut lines: Vec<String> = tickets.iter().map(|ticket| describe_ticket(&name, ticket)).collect();
        if lines.is_empty() {
            lines.push(format!("The queue for {name} is empty."));
        }
        return Ok(ToolOutput { text: lines.join("\n"), content: listed.body });
    };
    let path = asked.environment.item_path("queue", &ticket);
    let seen = context
        .wait_for(
            &path,
            Duration::from_secs(wait.unwrap_or(0)),
            |seen| seen.body["data"]["status"] != "waiting",
            |seen| describe_ticket(&name, &seen.body["data"]),
        )
        .await?;
    Ok(ToolOutput { text: describe_ticket(&name, &seen.body["data"]), content: seen.body })
}
