//! Tools for sessions.

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{EnvironmentName, parse_arguments};
use super::{ToolContext, ToolOutput, ToolResult};
use crate::rest::{RestApi, RestRequest};
use crate::text::describe_session;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ExtendSession {
    /// The environment as pipeline/environment, such as shop/qa-1.
    #[schemars(with = "String", extend("pattern" = "^[^/]+/[^/]+$"))]
    environment: EnvironmentName,
    /// The session that claim_environment returned.
    session_id: String,
    /// New time until the session expires, from now. Defaults to the session's original length. Never shortens it.
    #[schemars(range(min = 60, max = 2_592_000))]
    ttl_seconds: Option<i64>,
}

pub(super) async fn extend_session<A: RestApi>(
    context: &ToolContext<A>,
    arguments: JsonObject,
) -> ToolResult {
    let asked: ExtendSession = parse_arguments(arguments)?;
    let path = format!("{}/extend", asked.environment.item_path("sessions", &asked.session_id));
    let body = asked.ttl_seconds.map_or_else(|| json!({}), |seconds| json!({"ttlSeconds": seconds}));
    let extended = context.send(RestRequest::post(path, body)).await?;
    let text = describe_session(&asked.environment.to_string(), &extended.body["data"]);
    Ok(ToolOutput { text, content: extended.body })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ReleaseSession {
    /// The environment as pipeline/environment, such as shop/qa-1.
    #[schemars(with = "String", extend("pattern" = "^[^/]+/[^/]+$"))]
    environment: EnvironmentName,
    /// The session that claim_environment returned.
    session_id: String,
}

pub(super) async fn release_session<A: RestApi>(
    context: &ToolContext<A>,
    arguments: JsonObject,
) -> ToolResult {
    let asked: ReleaseSession = parse_arguments(arguments)?;
    let path = asked.environment.item_path("sessions", &asked.session_id);
    let released = context.send(RestRequest::delete(path)).await?;
    let text = describe_session(&asked.environment.to_string(), &released.body["data"]);
    Ok(ToolOutput { text, content: released.body })
}
