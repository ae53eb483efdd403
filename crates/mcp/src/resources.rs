//! Resources: environments and deployments, as the API returns them.

use rmcp::ErrorData;
use rmcp::model::{ErrorCode, Resource, ResourceContents, ResourceTemplate};
use serde_json::Value;

use crate::failure::{ToolFailure, describe_problem};
use crate::rest::{RestApi, percent_encode};
use crate::tools::{ToolContext, load_environments};

const ENVIRONMENTS: &str = "berth://environments/";
const DEPLOYMENTS: &str = "berth://deployments/";
const JSON: &str = "application/json";
/// Number of deployments in the list: the newest ones.
const DEPLOYMENTS_LISTED: usize = 20;

/// Returns the environments that the caller may see, and the newest deployments.
pub(crate) async fn list_resources<A: RestApi>(
    context: &ToolContext<A>,
) -> Result<Vec<Resource>, ToolFailure> {
    let mut resources: Vec<Resource> = Vec::new();
    let listed = load_environments(context, None, |environment| environment["envName"].clone()).await?;
    for (pipeline, environment) in listed.environments {
        let name = format!("{pipeline}/{}", environment.as_str().unwrap_or_default());
        let resource = Resource::new(format!("{ENVIRONMENTS}{name}"), name);
        resources
            .push(resource.with_mime_type(JSON).with_description("An environment, its lock and its state"));
    }
    let listed = context.get(format!("/deployments?limit={DEPLOYMENTS_LISTED}")).await?;
    for deployment in listed.body["data"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let part = |name: &str| deployment[name].as_str().unwrap_or_default();
        let description = format!("Deployment of commit {}: {}", part("commitId"), part("status"));
        let resource = Resource::new(format!("{DEPLOYMENTS}{}", part("id")), part("id"));
        resources.push(resource.with_mime_type(JSON).with_description(description));
    }
    Ok(resources)
}

pub(crate) fn list_templates() -> Vec<ResourceTemplate> {
    let template = |uri: String, name: &str, description: &str| {
        ResourceTemplate::new(uri, name).with_mime_type(JSON).with_description(description)
    };
    vec![
        template(
            format!("{ENVIRONMENTS}{{pipeline}}/{{environment}}"),
            "environment",
            "An environment, its lock and its state",
        ),
        template(format!("{DEPLOYMENTS}{{deploymentId}}"), "deployment", "A deployment with its steps"),
    ]
}

/// Returns the API's response as the content of the resource.
pub(crate) async fn read_resource<A: RestApi>(
    context: &ToolContext<A>,
    uri: &str,
) -> Result<ResourceContents, ErrorData> {
    let unknown = || ErrorData::resource_not_found(format!("there is no resource {uri:?}"), None);
    let path = resource_path(uri).ok_or_else(unknown)?;
    let read = context.get(path).await.map_err(to_protocol_error)?;
    let text = serde_json::to_string_pretty(&read.body).unwrap_or_default();
    Ok(ResourceContents::text(text, uri).with_mime_type(JSON))
}

/// Returns the path of a resource in the API.
fn resource_path(uri: &str) -> Option<String> {
    let is_name = |text: &str| !text.is_empty() && !text.contains(['/', '?', '#']);
    if let Some(id) = uri.strip_prefix(DEPLOYMENTS) {
        return is_name(id).then(|| format!("/deployments/{}", percent_encode(id)));
    }
    let (pipeline, environment) = uri.strip_prefix(ENVIRONMENTS)?.split_once('/')?;
    let (pipeline, environment) =
        (is_name(pipeline).then_some(pipeline)?, is_name(environment).then_some(environment)?);
    let (pipeline, environment) = (percent_encode(pipeline), percent_encode(environment));
    Some(format!("/pipelines/{pipeline}/ephemeral-environments/{environment}"))
}

/// Converts a failure into an error of the protocol, which resources have instead of results with errors.
pub(crate) fn to_protocol_error(failure: ToolFailure) -> ErrorData {
    let problem: Value = failure.into_problem();
    let text = describe_problem(&problem);
    match problem["code"].as_str() {
        Some("not_found") => ErrorData::resource_not_found(text, Some(problem)),
        Some("internal" | "unavailable" | "unreachable") => ErrorData::internal_error(text, Some(problem)),
        _ => ErrorData::new(ErrorCode::INVALID_REQUEST, text, Some(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::resource_path;

    #[test]
    fn resource_uri_has_an_api_path() {
        assert_eq!(resource_path("berth://deployments/dep_1").as_deref(), Some("/deployments/dep_1"));
        assert_eq!(
            resource_path("berth://environments/shop/qa-1").as_deref(),
            Some("/pipelines/shop/ephemeral-environments/qa-1")
        );
        for bad in [
            "berth://secrets/x",
            "berth://deployments/",
            "berth://deployments/a/b",
            "berth://environments/shop",
            "file:///etc/passwd",
        ] {
            assert_eq!(resource_path(bad), None, "{bad}");
        }
    }
}
