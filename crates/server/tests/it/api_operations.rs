//! The operations in the OpenAPI document, for tests that call all of them.

use berth_server::http::{RouteAccess, RouteInfo, is_foreign_protocol};
use serde_json::{Map, Value, json};

use super::world::{DEFINITION, TestWorld, get};

pub(crate) struct ApiOperation {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names and types of the query parameters.
    pub(crate) query: Vec<(String, String)>,
    /// Members of the request body with their schemas. `None` if the operation takes no body.
    pub(crate) members: Option<Map<String, Value>>,
    required: Vec<String>,
}

impl ApiOperation {
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// A valid body that has only the required members.
    pub(crate) fn minimal_body(&self) -> Value {
        Value::Object(self.required.iter().map(|name| (name.clone(), sample_value(name))).collect())
    }

    pub(crate) fn path_parameters(&self) -> Vec<String> {
        let named = self.path.split('/').filter(|part| part.starts_with('{'));
        named.map(str::to_owned).collect()
    }
}

/// A valid value for the member with this name.
pub(crate) fn sample_value(member: &str) -> Value {
    match member {
        "definition" => json!(DEFINITION),
        "email" => json!("sample@acme.test"),
        "role" => json!("viewer"),
        "url" => json!("/srv/git/sample.git"),
        "pollSeconds" => json!(60),
        "kind" => json!("person"),
        "type" => json!("slack_webhook"),
        "kinds" => json!(["step_failed"]),
        "format" => json!("standard"),
        "isActive" => json!(true),
        "provider" => json!("none"),
        "baseUrl" => json!("https://models.acme.test/v1"),
        "preview" | "permitDefinition" | "requireSecondFactor" => json!(false),
        "outputTokensMax" | "monthlyTokensMax" => json!(1_000),
        "timeoutSeconds" => json!(60),
        "commit" => json!("9fceb02d0ae598e95dc970b74767f19372d61af8"),
        "slug" => json!("sample"),
        "outcome" => json!("ran"),
        "subject" => json!("team:sre"),
        "scope" => json!("pipeline:sample"),
        "restrictTo" => json!([{"permissions": ["events:read"], "scope": "org"}]),
        "expiresInDays" => json!(7),
        "ttlSeconds" | "waitSeconds" | "graceSeconds" => json!(60),
        "deploy" | "queue" => json!(true),
        "mode" => json!("now"),
        "onConflict" => json!("queue"),
        "overrideDrain" => json!({"reason": "sample"}),
        "currentPassword" | "newPassword" | "password" => json!("a wrong and long enough one"),
        _ => json!("sample"),
    }
}

pub(crate) async fn fetch_openapi(world: &TestWorld) -> Value {
    world.send(get("/api/v1/openapi.json")).await.body
}

pub(crate) async fn list_operations(world: &TestWorld) -> Vec<ApiOperation> {
    let document = fetch_openapi(world).await;
    let mut found = Vec::new();
    // Leaves out runner endpoints, which accept no user tokens, and endpoints of other protocols, which are not part of
    // the API. `matrix` and tests of their own cover them.
    let is_for_people = |route: &&RouteInfo| {
        !matches!(route.access, RouteAccess::Runner | RouteAccess::NewRunner)
            && !is_foreign_protocol(&route.path)
    };
    for route in world.edge.routes().iter().filter(is_for_people) {
        let described = &document["paths"][&route.path][route.method.to_lowercase()];
        assert!(described.is_object(), "{} {} is not described", route.method, route.path);
        let parameters = described["parameters"].as_array().cloned().unwrap_or_default();
        let query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let schema = &described["requestBody"]["content"]["application/json"]["schema"];
        let schema = match schema["$ref"].as_str() {
            Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        };
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        found.push(ApiOperation {
            method: route.method.clone(),
            path: route.path.clone(),
            query: query
                .map(|parameter| {
                    (expect_str(&parameter["name"]), schema_type(&parameter["schema"], &document))
                })
                .collect(),
            members: described["requestBody"].is_object().then(|| {
                let members = schema["properties"].as_object().cloned();
                members.unwrap_or_else(|| panic!("the body of {} has no members", route.path))
            }),
            required: required.iter().map(expect_str).collect(),
        });
    }
    found
}

/// The first type of the schema other than `null`.
fn schema_type(schema: &Value, document: &Value) -> String {
    let referred = schema["$ref"].as_str().and_then(|reference| document.pointer(&reference[1..]));
    let schema = referred.unwrap_or(schema);
    let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    kinds.iter().map(expect_str).find(|kind| kind != "null").unwrap()
}

fn expect_str(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
