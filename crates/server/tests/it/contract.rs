//! Checks that every response in these tests conforms to the OpenAPI document: its status, headers and body. If the
//! request was accepted, its path and body are checked as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

use axum::body::Body;
use http::Request;
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::world::TestResponse;

/// Headers that must be documented for every response that has them.
const DOCUMENTED_HEADERS: &[&str] = &[
    "etag",
    "idempotent-replayed",
    "link",
    "location",
    "ratelimit",
    "retry-after",
    "set-cookie",
    "www-authenticate",
    "x-request-id",
];

/// The JSON body of a request, kept so that it can be checked later.
#[derive(Clone)]
pub(crate) struct RequestJson(pub(crate) Value);

pub(crate) struct ContractRequest {
    method: String,
    path: String,
    json: Option<Value>,
}

struct ApiContract {
    document: Value,
    /// Path templates, grouped by number of segments for speed: some tests send tens of thousands of requests.
    templates: BTreeMap<usize, Vec<String>>,
    validators: Mutex<BTreeMap<String, Arc<Validator>>>,
}

static CONTRACTS: LazyLock<[ApiContract; 2]> =
    LazyLock::new(|| ["openapi.json", "openapi-runner.json"].map(ApiContract::load));

impl ContractRequest {
    pub(crate) fn from_request(request: &Request<Body>) -> Self {
        Self {
            method: request.method().as_str().to_lowercase(),
            path: request.uri().path().to_owned(),
            json: request.extensions().get::<RequestJson>().map(|sent| sent.0.clone()),
        }
    }

    pub(crate) fn check_response(&self, reply: &TestResponse) {
        for contract in &*CONTRACTS {
            if let Some((template, operation)) = contract.find_operation(&self.method, &self.path) {
                let errors = contract.response_errors(self, operation, template, reply);
                assert!(errors.is_empty(), "{} {}: {}\n{errors:#?}", self.method, self.path, reply.text);
            }
        }
    }
}

impl ApiContract {
    fn load(file: &str) -> Self {
        let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
        let document =
            std::fs::read(&path).map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
        let mut templates: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for path in document["paths"].as_object().into_iter().flat_map(Map::keys) {
            templates.entry(path.split('/').count()).or_default().push(path.clone());
        }
        templates.values_mut().for_each(|paths| paths.sort_by_key(|path| path.matches('{').count()));
        Self { document, templates, validators: Mutex::default() }
    }

    /// Finds the operation for a path. Literal segments take precedence over parameters.
    fn find_operation(&self, method: &str, path: &str) -> Option<(&str, &Value)> {
        let template = self
            .templates
            .get(&path.split('/').count())?
            .iter()
            .find(|template| matches_template(template, path))?;
        Some((template, self.document["paths"][template].get(method)?))
    }

    fn response_errors(
        &self,
        request: &ContractRequest,
        operation: &Value,
        template: &str,
        reply: &TestResponse,
    ) -> Vec<String> {
        let status = reply.status.as_u16().to_string();
        let Some(response) = operation["responses"].get(&status) else {
            return vec![format!("the status {status} is not described")];
        };
        let response = self.resolve(response);
        let mut errors = header_errors(response, reply);
        let media_type = reply.header("content-type").split(';').next().unwrap_or_default();
        match response["content"].as_object() {
            Some(content) if !content.contains_key(media_type) => {
                errors.push(format!("the media type {media_type:?} is not described"));
            }
            Some(content) if matches!(media_type, "application/json" | "application/problem+json") => {
                errors.extend(self.schema_errors(&content[media_type]["schema"], &reply.body));
            }
            _ => {}
        }
        if reply.status.is_success() {
            let schema = operation.pointer("/requestBody/content/application~1json/schema");
            let sent = request.json.as_ref().zip(schema);
            let invalid = sent.map(|(sent, schema)| self.schema_errors(schema, sent)).unwrap_or_default();
            errors.extend(invalid.into_iter().map(|error| format!("accepted, but {error}")));
            errors.extend(self.path_errors(operation, template, &request.path));
        }
        errors
    }

    fn path_errors(&self, operation: &Value, template: &str, path: &str) -> Vec<String> {
        let mut errors = Vec::new();
        for (name, value) in template.split('/').zip(path.split('/')) {
            let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
            // Skips percent-encoded values, because they are not decoded here.
            let Some(name) = name.filter(|_| !value.contains('%')) else { continue };
            let mut parameters = operation["parameters"].as_array().unwrap().iter();
            let schema = &parameters.find(|it| it["in"] == "path" && it["name"] == name).unwrap()["schema"];
            let value =
                if schema["type"] == "integer" { json!(value.parse::<i64>().ok()) } else { json!(value) };
            errors.extend(self.schema_errors(schema, &value));
        }
        errors
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let reference = value["$ref"].as_str();
        reference.map_or(value, |reference| self.document.pointer(&reference[1..]).unwrap())
    }

    pub(crate) fn schema_errors(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut known = self.validators.lock().unwrap();
        let validator =
            known.entry(schema.to_string()).or_insert_with(|| Arc::new(self.build_validator(schema))).clone();
        drop(known);
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    /// Creates a strict validator, which reports undocumented members as errors.
    fn build_validator(&self, schema: &Value) -> Validator {
        let schemas = self.referenced_schemas(schema);
        let parts: BTreeSet<&str> = schemas
            .values()
            .filter_map(|schema| schema["allOf"].as_array())
            .flatten()
            .filter_map(|part| part["$ref"].as_str())
            .collect();
        let close = |(name, schema): (&String, &Value)| {
            let mut schema = schema.clone();
            let is_part = parts.iter().any(|part| part.ends_with(&format!("/{name}")));
            let has_members = schema["properties"].is_object() || schema["allOf"].is_array();
            if has_members && !is_part && schema.get("additionalProperties").is_none() {
                schema["unevaluatedProperties"] = json!(false);
            }
            (name.clone(), schema)
        };
        let schemas: Map<String, Value> = schemas.iter().map(close).collect();
        let mut root = schema.clone();
        root["components"] = json!({"schemas": schemas});
        jsonschema::options().should_validate_formats(true).build(&root).unwrap()
    }

    /// All component schemas to which a schema refers, directly or indirectly.
    fn referenced_schemas(&self, schema: &Value) -> Map<String, Value> {
        let (mut found, mut rest) = (Map::new(), vec![schema]);
        while let Some(value) = rest.pop() {
            match value {
                Value::Object(members) => rest.extend(members.values()),
                Value::Array(items) => rest.extend(items),
                Value::String(text) => {
                    let name = text.strip_prefix("#/components/schemas/");
                    if let Some(name) = name.filter(|name| !found.contains_key(*name)) {
                        let schema = &self.document["components"]["schemas"][name];
                        assert!(schema.is_object(), "{text} leads nowhere");
                        found.insert(name.to_owned(), schema.clone());
                        rest.push(schema);
                    }
                }
                _ => {}
            }
        }
        found
    }
}

fn matches_template(template: &str, path: &str) -> bool {
    let mut parts = template.split('/').zip(path.split('/'));
    parts.all(|(expected, part)| expected == part || (expected.starts_with('{') && !part.is_empty()))
}

fn header_errors(response: &Value, reply: &TestResponse) -> Vec<String> {
    let described = || response["headers"].as_object().into_iter().flatten();
    let mut errors = Vec::new();
    for (name, header) in described() {
        if header["required"] == true && !reply.headers.contains_key(name.as_str()) {
            errors.push(format!("the header {name} is missing"));
        }
    }
    let is_described = |sent: &str| described().any(|(name, _)| name.eq_ignore_ascii_case(sent));
    let sent = DOCUMENTED_HEADERS.iter().filter(|name| reply.headers.contains_key(**name));
    errors.extend(
        sent.filter(|name| !is_described(name)).map(|name| format!("the header {name} is not described")),
    );
    errors
}

#[test]
fn openapi_examples_match_their_schemas() {
    let mut count = 0;
    for contract in &*CONTRACTS {
        let components = &contract.document["components"];
        let responses = components["responses"].as_object().unwrap().values();
        let operations = contract.document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .iter()
                .map(move |(method, operation)| (format!("{method} {path}"), operation))
        });
        let mut contents: Vec<(String, &Value)> =
            responses.map(|it| ("problem".to_owned(), &it["content"])).collect();
        for (name, operation) in operations {
            contents.extend(
                operation["requestBody"].get("content").map(|content| (format!("{name} request"), content)),
            );
            let answers = operation["responses"].as_object().unwrap().iter();
            contents.extend(
                answers.filter_map(|(status, it)| Some((format!("{name} {status}"), it.get("content")?))),
            );
        }
        for (name, content) in contents {
            let Some(content) = content.get("application/json") else { continue };
            let example = content.get("example").unwrap_or_else(|| panic!("{name} has no example"));
            let errors = contract.schema_errors(&content["schema"], example);
            assert!(errors.is_empty(), "{name}: {errors:#?}\n{example:#}");
            count += 1;
        }
    }
    assert!(count > 150, "{count}");
}
