//! Response headers in the OpenAPI document.

use serde_json::{Value, json};

use super::document::members;
use super::schemas::is_list;
use crate::http::route_builder::RouteInfo;

/// Operations whose response has an `ETag`.
const TAGGED: &[&str] = &[
    "addMember",
    "approveApproval",
    "cancelDeployment",
    "cancelStage",
    "claimAnySession",
    "claimSession",
    "connectRepository",
    "createApiToken",
    "createGrant",
    "createInvitation",
    "createOrganization",
    "createPipeline",
    "createRepository",
    "createRunner",
    "createSecret",
    "createStepRegistry",
    "createTeam",
    "createWebhook",
    "deleteOrganization",
    "deletePipeline",
    "deployCommit",
    "endSoak",
    "extendSession",
    "forceClaim",
    "getAnalysis",
    "getAnalysisSettings",
    "getApiToken",
    "getApproval",
    "getConnection",
    "getDefinition",
    "getDeployment",
    "getEnvironment",
    "getEvent",
    "getFixPullRequest",
    "getGrant",
    "getInstanceOrganization",
    "getInvitation",
    "getMember",
    "getNotificationRules",
    "getOrganization",
    "getOrganizationNotificationRules",
    "getPipeline",
    "getPullRequest",
    "getRepository",
    "getRunner",
    "getSecret",
    "getSession",
    "getStepRegistry",
    "getTeam",
    "getTeamNotificationRules",
    "getTicket",
    "getWebhook",
    "handOverSession",
    "heartbeatSession",
    "leaveQueue",
    "putAnalysisSettings",
    "putDefinition",
    "putNotificationRules",
    "putOrganizationNotificationRules",
    "putSecret",
    "putTeamNotificationRules",
    "rejectApproval",
    "rejectSoak",
    "releaseSession",
    "renameOrganization",
    "requestAnalysis",
    "resetSecondFactor",
    "resolveStep",
    "resumePipeline",
    "retryStage",
    "rollbackStage",
    "rotateConnection",
    "rotateWebhook",
    "startDeployment",
    "stopPipeline",
    "syncRepository",
    "syncStepRegistry",
    "updateMember",
    "updateOrganization",
    "updateRepository",
    "updateSecret",
    "updateStepRegistry",
    "updateTeam",
    "updateWebhook",
];

/// Pairs of operation and status whose response contains no record, and therefore has no `ETag`.
const UNTAGGED_STATUSES: &[(&str, &str)] = &[("requestAnalysis", "200")];

/// Operations that set or remove the session cookie.
const COOKIES: &[&str] = &[
    "finishProviderLogin",
    "logIn",
    "logOut",
    "logOutEverywhere",
    "signUp",
    "startProviderConfirmation",
    "startProviderLink",
    "startProviderLogin",
];

pub(super) fn is_tagged(operation: &Value, status: &str) -> bool {
    let id = operation["operationId"].as_str().unwrap_or_default();
    TAGGED.contains(&id) && !UNTAGGED_STATUSES.contains(&(id, status))
}

pub(super) fn complete(operation: &mut Value, route: &RouteInfo) {
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    let lists = is_list(operation) || id == "getEnvironmentHistory";
    let is_keyed = has_parameter(operation, "Idempotency-Key");
    let tagged: Vec<&str> =
        ["200", "201", "202"].into_iter().filter(|status| is_tagged(operation, status)).collect();
    // The embedded dashboard has an `ETag`; the placeholder page of a build without the dashboard does not.
    let is_front_page = id == "getFrontPage";
    if is_front_page || (!tagged.is_empty() && route.method == "GET") {
        operation["responses"]["304"] = json!({"description": "Not modified"});
    }
    for (status, response) in
        members(&mut operation["responses"]).filter(|(status, _)| status.starts_with(['2', '3']))
    {
        if response["description"].as_str().is_none_or(str::is_empty) {
            let text = match &**status {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            response["description"] = json!(text);
        }
        // An event stream has no `ETag`.
        let has_stream = response["content"].get("text/event-stream").is_some();
        let mut add = |name: &str, header: Value| response["headers"][name] = header;
        add("X-Request-Id", request_id());
        if status == "304" || tagged.contains(&&**status) {
            let text = "Version of the record, for use in `If-Match` and `If-None-Match`";
            add("ETag", header(text, &json!({"type": "string", "example": "\"7\""}), !has_stream));
        }
        if is_front_page && status == "200" {
            add("ETag", header("Version of the page", &json!({"type": "string"}), false));
        }
        if lists {
            let text = "Links to the first, previous, next and last page, if known (RFC 8288)";
            add("Link", header(text, &json!({"type": "string"}), false));
        }
        let location = match (&**status, &*id) {
            ("201", _) | ("200", "handOverSession") => Some("Path of the new record"),
            ("202", _) => Some("Path of the record to poll for the result"),
            ("303", _) => Some("Path of the dashboard"),
            ("307", _) => Some("URL of the dashboard"),
            _ => None,
        };
        if let Some(text) = location {
            add("Location", header(text, &json!({"type": "string", "format": "uri-reference"}), true));
        }
        if is_keyed {
            let text = "Present if this is the stored response of an earlier request with the same key";
            add("Idempotent-Replayed", header(text, &json!({"type": "string", "enum": ["true"]}), false));
        }
        if COOKIES.contains(&&*id) {
            let text = "Sets or removes the session cookie";
            add("Set-Cookie", header(text, &json!({"type": "string"}), false));
        }
    }
}

pub(super) fn request_id() -> Value {
    header("Id of the request, as in the server log", &json!({"type": "string"}), true)
}

pub(super) fn header(description: &str, schema: &Value, is_required: bool) -> Value {
    json!({"description": description, "required": is_required, "schema": schema})
}

fn has_parameter(operation: &Value, name: &str) -> bool {
    let mut all = operation["parameters"].as_array().into_iter().flatten();
    all.any(|parameter| parameter["name"] == name)
}
