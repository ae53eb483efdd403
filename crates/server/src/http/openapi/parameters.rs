//! Parameters that many operations share: path parameters, paging and request headers.

use berth_api::page::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX};
use berth_core::id::{
    AnalysisId, ApprovalId, ChatDestinationId, DeliveryId, DeploymentId, EventId, ForgeAppId, GrantId,
    HookId, IdentityId, InvitationId, NotificationId, OrgId, PipelineId, RegistryId, RepositoryId, RunnerId,
    SecretId, SessionId, SignInId, StepRunId, TeamId, TicketId, TokenId, UserId, WebhookId,
};
use serde_json::{Value, json};

use super::headers::is_tagged;
use super::schemas::{is_list, remove_null};
use crate::http::route_builder::{RouteAccess, RouteInfo};
use crate::limits::{IDEMPOTENCY_KEY_BYTES_MAX, OFFSET_MAX};

/// Pattern of an id after its prefix: 128 bits in Crockford base 32.
const ID_DIGITS: &str = "[0-7][0-9a-hjkmnp-tv-z]{25}";
const ID_EXAMPLE: &str = "01k9x8s6q0e3v8n5j2m4t7w9yb";
const SLUG: &str = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";
const STEP: &str = "[a-z0-9][a-z0-9_-]{0,62}";
const REGISTRY: &str = "[a-z0-9][a-z0-9-]{0,62}";
const SECRET: &str = "[A-Za-z_][A-Za-z0-9_]{0,127}";

const ARTIFACT: &str = "[A-Za-z_][A-Za-z0-9_-]{0,62}";
const HOST: &str = "[a-z0-9][a-z0-9.:-]{0,252}";
const FORGE_ACCOUNT: &str = "[A-Za-z0-9._-]{1,100}";

/// The format of a path parameter.
enum PathPart {
    Id(&'static str),
    /// An id or an alternative name: the prefix of the id, the pattern of the name, and an example.
    IdOr(&'static str, &'static str, &'static str),
    Name(&'static str, &'static str),
    Number,
    ProblemCode,
}

use PathPart::{Id, IdOr, Name, Number, ProblemCode};

const PARTS: &[(&str, &str, PathPart)] = &[
    ("orgId", "Id or slug of the organization", IdOr(OrgId::PREFIX, SLUG, "acme")),
    ("pipelineId", "Id or slug of the pipeline", IdOr(PipelineId::PREFIX, SLUG, "shop")),
    ("repositoryId", "Id of the repository", Id(RepositoryId::PREFIX)),
    ("registryId", "Id or name of the step registry", IdOr(RegistryId::PREFIX, REGISTRY, "tools")),
    (
        "runnerId",
        "Id or name of the runner; `embedded` for the embedded runner",
        IdOr(RunnerId::PREFIX, SLUG, "build-1"),
    ),
    ("buildNumber", "Number of the build", Number),
    ("number", "Number of the pull request", Number),
    ("envName", "Name of the environment", Name(SLUG, "qa-1")),
    ("sessionId", "Id of the session", Id(SessionId::PREFIX)),
    ("ticketId", "Id of the ticket", Id(TicketId::PREFIX)),
    ("deploymentId", "Id of the deployment", Id(DeploymentId::PREFIX)),
    ("stepId", "Id of the step, or its id in the definition", IdOr(StepRunId::PREFIX, STEP, "deploy")),
    ("artifactName", "Name of the artifact", Name(ARTIFACT, "site")),
    ("analysisId", "Id of the analysis", Id(AnalysisId::PREFIX)),
    ("approvalId", "Id of the approval", Id(ApprovalId::PREFIX)),
    ("stage", "Name of the stage, or of the environment", Name(SLUG, "staging")),
    ("userId", "Id of the user", Id(UserId::PREFIX)),
    ("teamId", "Id or slug of the team", IdOr(TeamId::PREFIX, SLUG, "sre")),
    ("grantId", "Id of the grant", Id(GrantId::PREFIX)),
    ("tokenId", "Id of the token", Id(TokenId::PREFIX)),
    ("loginId", "Id of the login", Id(SignInId::PREFIX)),
    ("invitationId", "Id of the invitation", Id(InvitationId::PREFIX)),
    (
        "secretId",
        "Id of the secret, or its name if its scope is the organization",
        IdOr(SecretId::PREFIX, SECRET, "DEPLOY_TOKEN"),
    ),
    ("webhookId", "Id or name of the webhook", IdOr(WebhookId::PREFIX, SLUG, "ops")),
    ("destinationId", "Id or name of the chat destination", IdOr(ChatDestinationId::PREFIX, SLUG, "deploys")),
    ("deliveryId", "Id of the delivery", Id(DeliveryId::PREFIX)),
    ("forge", "Kind of the forge", Name("(github|gitlab|gitea|bitbucket)", "github")),
    ("appId", "Id of the GitHub App in Berth", Id(ForgeAppId::PREFIX)),
    ("hookId", "Id of the webhook, from its URL", Id(HookId::PREFIX)),
    ("eventId", "Id of the event", Id(EventId::PREFIX)),
    ("notificationId", "Id of the notification", Id(NotificationId::PREFIX)),
    ("provider", "Name of the identity provider", Name(SLUG, "corp")),
    ("identityId", "Id of the linked account", Id(IdentityId::PREFIX)),
    ("host", "Host of the forge", Name(HOST, "github.com")),
    ("accountId", "The forge's id of the account", Name(FORGE_ACCOUNT, "583231")),
    ("number", "Number of the pull request", Number),
    ("code", "Problem code", ProblemCode),
];

/// Operations that accept `If-Match`.
const CONDITIONAL: &[&str] = &[
    "deleteOrganization",
    "deletePipeline",
    "deleteRepository",
    "deleteRunner",
    "deleteSecret",
    "deleteStepRegistry",
    "deleteTeam",
    "deleteWebhook",
    "deployCommit",
    "disconnectRepository",
    "extendSession",
    "forceClaim",
    "handOverSession",
    "heartbeatSession",
    "putAnalysisSettings",
    "putDefinition",
    "putNotificationRules",
    "putOrganizationNotificationRules",
    "putSecret",
    "putTeamNotificationRules",
    "releaseSession",
    "removeMember",
    "renameOrganization",
    "resumePipeline",
    "revokeApiToken",
    "stopPipeline",
    "updateMember",
    "updateOrganization",
    "updateRepository",
    "updateSecret",
    "updateStepRegistry",
    "updateTeam",
    "updateWebhook",
];

/// POST operations that take no `Idempotency-Key`, because repeating them is harmless.
const UNKEYED: &[&str] = &[
    "approveCliLogin",
    "beginSecondFactor",
    "confirmPassword",
    "confirmSecondFactor",
    "denyCliLogin",
    "disableSecondFactor",
    "findCliLogin",
    "heartbeatSession",
    "joinOrganization",
    "logOutEverywhere",
    "readAllNotifications",
    "readNotification",
    "replaceRecoveryCodes",
    "startProviderConfirmation",
    "startProviderLink",
];

pub(super) fn complete(operation: &mut Value, route: &RouteInfo) {
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    let own = operation["parameters"].as_array().cloned().unwrap_or_default();
    let named = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = named.map(path_parameter).collect();
    let waits = own.iter().any(|parameter| parameter["name"] == "wait");
    all.extend(own.into_iter().map(without_null));
    if is_list(operation) {
        all.extend(paging().map(without_null));
    }
    if waits {
        let text = "`wait=N`, an alternative to the `wait` parameter. Invalid values are ignored (RFC 7240).";
        all.push(header("Prefer", text, &json!({"type": "string", "example": "wait=30"})));
    }
    if is_tagged(operation, "200") && route.method == "GET" {
        let text =
            "ETags of cached responses. If one of them is current, the response is a 304 without a body.";
        all.push(header("If-None-Match", text, &json!({"type": "string", "example": "\"7\""})));
    }
    if CONDITIONAL.contains(&&*id) {
        let text = "ETag of the version to change. If it is not the current one, the response is a 412.";
        let schema =
            json!({"type": "string", "pattern": r#"^(\*|"[0-9]{1,18}(\.[^"]*)?")$"#, "example": "\"7\""});
        all.push(header("If-Match", text, &schema));
    }
    // Runners use nonces instead of idempotency keys.
    let is_for_people =
        matches!(route.access, RouteAccess::Caller | RouteAccess::InstanceAdmin | RouteAccess::Permission(_));
    if route.method == "POST" && is_for_people && !UNKEYED.contains(&&*id) {
        let text = "Unique key of the request. For 7 days, requests with the same key and body are executed once and get the same response.";
        let pattern = format!("^[ -~]{{1,{IDEMPOTENCY_KEY_BYTES_MAX}}}$");
        let schema = json!({"type": "string", "pattern": pattern, "example": "6f1c2a9b-deploy-9fceb02"});
        all.push(header("Idempotency-Key", text, &schema));
    }
    if !all.is_empty() {
        operation["parameters"] = Value::Array(all);
    }
    // An optional body may be absent but must not be `null`.
    if let Some(schema) = operation.pointer_mut("/requestBody/content/application~1json/schema") {
        remove_null(schema);
    }
}

fn path_parameter(name: &str) -> Value {
    let known = PARTS.iter().find(|(known, ..)| *known == name);
    let text = |pattern: String, example: String| json!({"type": "string", "pattern": format!("^{pattern}$"), "example": example});
    let schema = match known.map(|(.., part)| part) {
        Some(Id(prefix)) => text(format!("{prefix}_{ID_DIGITS}"), format!("{prefix}_{ID_EXAMPLE}")),
        Some(IdOr(prefix, name, like)) => text(format!("({prefix}_{ID_DIGITS}|{name})"), (*like).to_owned()),
        Some(Name(name, like)) => text((*name).to_owned(), (*like).to_owned()),
        Some(Number) => json!({"type": "integer", "format": "int64", "minimum": 1, "example": 1}),
        Some(ProblemCode) => json!({"$ref": "#/components/schemas/ProblemCode"}),
        None => json!({"type": "string"}),
    };
    let description = known.map_or("", |(_, text, _)| text);
    json!({"name": name, "in": "path", "description": description, "required": true, "schema": schema})
}

fn paging() -> [Value; 3] {
    let query = |name: &str, description: String, schema: Value| json!({"name": name, "in": "query", "description": description, "required": false, "schema": schema});
    [
        query(
            "limit",
            format!("Page size. Defaults to {PAGE_SIZE_DEFAULT}, at most {PAGE_SIZE_MAX}"),
            json!({"type": "integer", "format": "int64", "minimum": 1, "maximum": PAGE_SIZE_MAX, "default": PAGE_SIZE_DEFAULT}),
        ),
        query(
            "offset",
            "Number of records to skip".to_owned(),
            json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": OFFSET_MAX}),
        ),
        query(
            "cursor",
            "`nextCursor` of the previous page, instead of `offset`".to_owned(),
            json!({"type": "string", "pattern": "^[A-Za-z0-9_-]*$"}),
        ),
    ]
}

fn header(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "header", "description": description, "required": false, "schema": schema})
}

/// Removes `null` from a parameter's types: an optional parameter may be absent or empty, but not `null`.
fn without_null(mut parameter: Value) -> Value {
    remove_null(&mut parameter["schema"]);
    if parameter["in"] == "query" && parameter["required"] != true {
        parameter["allowEmptyValue"] = json!(true);
    }
    parameter
}
