//! Adds an example to each request and response, composed from the examples of its members.

use serde_json::{Map, Value, json};

use super::document::members;
use super::schemas::is_nullable;

/// Maximum recursion through schema references.
const DEPTH_MAX: usize = 12;
const TIME: &str = "2026-11-15T09:30:00.000Z";
const ID_DIGITS: &str = "01k9x8s6q0e3v8n5j2m4t7w9yb";

/// Members whose value is an id, with the prefix of that id.
const IDS: &[(&str, &str)] = &[
    ("analysisId", "anl"),
    ("deploymentId", "dep"),
    ("environmentId", "env"),
    ("eventId", "evt"),
    ("organizationId", "org"),
    ("ownerId", "usr"),
    ("pipelineId", "pl"),
    ("repositoryId", "rep"),
    ("runnerId", "run"),
    ("sessionId", "ses"),
    ("stepId", "stp"),
    ("ticketId", "tkt"),
    ("webhookId", "whk"),
];
/// Arrays that get one item in examples, although their schemas allow them to be empty.
const FILLED: &[&str] = &["data", "days", "entries", "organizations", "stages"];
/// Numeric members whose value is at least 1 in examples.
const FROM_ONE: &[&str] =
    &["approvals", "attempt", "build", "fence", "number", "page", "required", "sequence", "version"];

pub(super) fn add(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    for (_, item) in members(&mut document["paths"]) {
        for (_, operation) in members(item) {
            let body = operation.pointer_mut("/requestBody/content/application~1json");
            body.into_iter().for_each(|body| fill(body, &schemas, BodyDirection::Request));
            let responses =
                members(&mut operation["responses"]).filter(|(status, _)| status.starts_with('2'));
            for (_, response) in responses {
                let content = response.pointer_mut("/content/application~1json");
                content.into_iter().for_each(|content| fill(content, &schemas, BodyDirection::Response));
            }
        }
    }
}

/// Determines which members an example includes. Requests include required members and members that define an example;
/// responses include only required members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyDirection {
    Request,
    Response,
}

fn fill(content: &mut Value, schemas: &Value, direction: BodyDirection) {
    if content["schema"].is_object() {
        let maker = ExampleBuilder { schemas, direction };
        content["example"] = maker.example("", "", &content["schema"], DEPTH_MAX);
    }
}

struct ExampleBuilder<'a> {
    schemas: &'a Value,
    direction: BodyDirection,
}

impl ExampleBuilder<'_> {
    /// Returns an example value for the member `name` of the schema `owner`.
    fn example(&self, owner: &str, name: &str, schema: &Value, depth: usize) -> Value {
        let Some(depth) = depth.checked_sub(1) else { return Value::Null };
        if let Some(example) = schema.get("example").or_else(|| schema.get("default")) {
            return example.clone();
        }
        if let Some(target) = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next()) {
            return self.example(target, name, &self.schemas[target], depth);
        }
        if is_nullable(schema) {
            return Value::Null;
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let parts = parts.iter().filter_map(|part| match self.example(owner, name, part, depth) {
                Value::Object(members) => Some(members),
                _ => None,
            });
            return Value::Object(parts.flatten().collect());
        }
        if let Some(first) = schema["enum"].get(0) {
            return first.clone();
        }
        if let Some(first) = schema["oneOf"].get(0) {
            return self.example(owner, name, first, depth);
        }
        match schema["type"].as_str().unwrap_or_default() {
            "object" => Value::Object(self.object(owner, schema, depth)),
            "array" if FILLED.contains(&name) || schema["minItems"].as_u64() > Some(0) => {
                json!([self.example(owner, name, &schema["items"], depth)])
            }
            "array" => json!([]),
            "boolean" => json!(false),
            "integer" | "number" => {
                json!(schema["minimum"].as_i64().unwrap_or(0).max(FROM_ONE.contains(&name).into()))
            }
            "string" => json!(text(name, schema["format"].as_str())),
            _ => json!({}),
        }
    }

    fn object(&self, owner: &str, schema: &Value, depth: usize) -> Map<String, Value> {
        let required = schema["required"].as_array();
        let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|it| it == name));
        let is_request = self.direction == BodyDirection::Request;
        let members = schema["properties"].as_object().into_iter().flatten();
        let examples = members.filter_map(|(name, member)| {
            let fitting = self.in_context(owner, name, depth);
            let is_shown = is_request && (fitting.is_some() || member.get("example").is_some());
            let example = || self.example(owner, name, member, depth);
            (is_shown || is_required(name)).then(|| (name.clone(), fitting.unwrap_or_else(example)))
        });
        examples.collect()
    }

    /// Returns values that must be consistent with the rest of the example, such as an active session that holds the
    /// lock.
    fn in_context(&self, owner: &str, name: &str, depth: usize) -> Option<Value> {
        let id = |prefix: &str| json!(format!("{prefix}_{ID_DIGITS}"));
        let of = |schema: &str| self.example(schema, "", &self.schemas[schema], depth);
        Some(match (owner, name) {
            ("Session", "id") => id("ses"),
            ("Ticket", "id") => id("tkt"),
            ("Actor" | "Holder" | "HolderOwner" | "Inviter" | "User", "id") => id("usr"),
            ("ClaimedPipeline" | "RepositoryPipeline" | "StepUser", "id") => id("pl"),
            ("PullRequestClaim", "state") => json!("held"),
            ("PullRequestClaim", "sessionId") => id("ses"),
            ("PipelineOrigin", "id") => id("rep"),
            ("Deployment", "deploymentId") => id("dep"),
            ("Actor" | "Inviter" | "Member" | "User", "name") | ("InvitationOffer", "invitedBy") => {
                json!("Ada")
            }
            ("ApiToken", "name") => json!("laptop"),
            ("DeploymentStage" | "Stage", "name") => json!("staging"),
            ("DeploymentStage", "kind") => json!("stage"),
            ("Deployment", "trigger") => json!("api"),
            ("Environment", "name") => json!("qa-1"),
            ("Lock", "status") | ("Session" | "SessionEnvironment", "lockStatus") => json!("locked"),
            ("SessionEnvironment", "lock") => of("Lock"),
            ("Lock" | "Session" | "Ticket", "commitId") => json!("9fceb02"),
            ("Lock" | "Session" | "Ticket", "context") => json!("checkout tests"),
            ("Session", "deploymentHistory" | "deployments") => json!([in_session(of("Deployment"))]),
            ("Ticket", "position")
            | ("PageNumbers", "total" | "totalPages")
            | ("Verification", "checked") => json!(1),
            ("Ticket", "expiresAt") => json!("2026-11-15T10:30:00.000Z"),
            ("Invitation" | "InvitationOffer", "expiresAt") => json!("2026-11-22T09:30:00.000Z"),
            ("DeliveryInsights" | "Insights", "from") => json!("2026-10-16T09:30:00.000Z"),
            ("AnalysisSettings", "outputTokensMax") => json!(4_096),
            ("AnalysisSettings", "monthlyTokensMax") => json!(1_000_000),
            ("AnalysisSettings", "timeoutSeconds") => json!(60),
            ("Repository", "pollSeconds") => json!(60),
            ("Definition", "source") => json!("version: 1\npipeline:\n  name: Shop\n"),
            ("Health", "status") => json!("ok"),
            ("WebhookPing", "status") => json!(200),
            ("AnalysisPreview", "analyser") => json!("rules"),
            ("AnalysisSettingsPut", "provider") => json!("openai"),
            ("AnalysisSettingsPut", "baseUrl") => json!("https://models.acme.test/v1"),
            ("AnalysisSettingsPut", "model") => json!("qwen3-coder"),
            ("ApprovalApprove", "comment") => json!("checked on staging"),
            ("Because", "reason") => json!("the payment provider is down"),
            ("EventsVerify", "head") => of("ChainHead"),
            ("Extend", "ttlSeconds") => json!(3_600),
            ("ForceClaim", "commitId") => json!("9fceb02"),
            ("ForceClaim", "reason") => json!("hotfix for the checkout"),
            ("GrantNew", "role") => json!("tester"),
            ("InvitationToken" | "SignUp", "token") => json!("berth_invite_…"),
            ("PasswordReset", "token") => json!("berth_reset_…"),
            ("MemberNew", "kind") => json!("service"),
            ("MemberNew", "role") => json!("deployer"),
            ("MemberPatch", "role") => json!("deployer"),
            ("OrganizationPatch", "name") => json!("Acme"),
            ("PasswordChange", "newPassword") => json!("a quiet harbour at dawn"),
            ("PlanNew", "pipelineId") => json!("shop"),
            ("RepositoryPatch", "pollSeconds") => json!(300),
            ("SecretNew" | "SecretPatch" | "SecretPut", "value") => json!("a-token-for-deploys"),
            ("StageRetry", "from") => json!("failed"),
            ("StepRegistryPatch", "ref") => json!("v2"),
            ("WebhookPatch", "isActive") => json!(false),
            ("Session", "holdsLock")
            | ("SignedOut", "signedOut")
            | ("Validation" | "Verification", "valid")
            | ("Webhook", "isActive")
            | ("WebhookPing", "isAccepted") => json!(true),
            _ => return None,
        })
    }
}

/// Changes an example deployment into one that was started by a claim with a commit.
fn in_session(mut deployment: Value) -> Value {
    for (name, value) in [
        ("trigger", json!("session")),
        ("envName", json!("qa-1")),
        ("environmentId", json!(format!("env_{ID_DIGITS}"))),
        ("sessionId", json!(format!("ses_{ID_DIGITS}"))),
        ("fence", json!(1)),
        ("commitId", json!("9fceb02")),
    ] {
        deployment[name] = value;
    }
    deployment["stages"][0]["name"] = json!("qa-1");
    deployment["stages"][0]["kind"] = json!("environment");
    deployment
}

fn text(name: &str, format: Option<&str>) -> String {
    if let Some((_, prefix)) = IDS.iter().find(|(id, _)| *id == name) {
        return format!("{prefix}_{ID_DIGITS}");
    }
    let text = match (format, name) {
        (Some("date-time"), _) => TIME,
        (Some("date"), _) => "2026-11-15",
        (Some("email"), _) | (_, "email") => "ada@acme.test",
        (Some("password"), _) => "correct horse battery staple",
        (_, "commitId" | "commit") => "9fceb02d0ae598e95dc970b74767f19372d61af8",
        (_, "hash" | "digest" | "definitionHash" | "previousHash") => {
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        }
        (_, "name") => "Shop",
        (_, "envName") => "qa-1",
        (_, "slug") => "shop",
        (_, "stage") => "staging",
        (_, "step") => "deploy",
        (_, "version") => env!("CARGO_PKG_VERSION"),
        (_, "reason") => "the last one breaks the checkout",
        (_, "definition") => {
            "version: 1\npipeline:\n  name: Shop\n  stages:\n    - name: staging\n  steps:\n    - name: Deploy\n      type: script\n      params: { run: ./deploy.sh }\n"
        }
        _ => "example",
    };
    text.to_owned()
}
