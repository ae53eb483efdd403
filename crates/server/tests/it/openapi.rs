//! Checks that the committed OpenAPI documents and the generated tables in the docs match the code.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use berth_api::problem::Code;
use berth_core::access::{Action, Role};
use berth_server::http::{RouteAccess, is_foreign_protocol};
use expect_test::expect_file;
use serde_json::{Value, json};

use super::world::{DEFINITION, TestWorld, call, get};

const DOCUMENTS: [&str; 2] = ["/api/v1/openapi.json", "/api/v1/openapi-runner.json"];

/// Method, path and description of every operation.
fn list_operations(document: &Value) -> Vec<(String, String, &Value)> {
    let items = document["paths"].as_object().unwrap().iter();
    let operations =
        items.flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |it| (path, it)));
    operations.map(|(path, (method, operation))| (method.to_uppercase(), path.clone(), operation)).collect()
}

/// Calls `work` with every object inside a value, and with the name of the member in which the object is.
fn visit_objects<'a>(name: &'a str, value: &'a Value, work: &mut impl FnMut(&'a str, &'a Value)) {
    match value {
        Value::Object(members) => {
            work(name, value);
            members.iter().for_each(|(name, member)| visit_objects(name, member, work));
        }
        Value::Array(items) => items.iter().for_each(|item| visit_objects(name, item, work)),
        _ => {}
    }
}

#[tokio::test]
async fn openapi_json_is_generated_from_the_handlers() {
    let world = TestWorld::new().await;
    let documents = berth_server::http::openapi::documents(&world.app);
    let pretty = |document: &Value| serde_json::to_string_pretty(document).unwrap() + "\n";
    expect_file!["../../../../openapi.json"].assert_eq(&pretty(&documents.api));
    expect_file!["../../../../openapi-runner.json"].assert_eq(&pretty(&documents.runner));
    let mut described = BTreeSet::new();
    for (path, document) in DOCUMENTS.into_iter().zip([&documents.api, &documents.runner]) {
        assert_eq!(world.send(get(path)).await.body, *document, "{path}");
        assert_eq!(document["openapi"], "3.1.0");
        described.extend(list_operations(document).into_iter().map(|(method, path, _)| (method, path)));
    }
    // Other protocols have descriptions of their own.
    let in_document = world.edge.routes().iter().filter(|route| !is_foreign_protocol(&route.path));
    let routed = in_document.map(|route| (route.method.clone(), route.path.clone()));
    assert_eq!(described, routed.collect());
    let is_of_runners = |path: &str| path.starts_with("/api/v1/runner/");
    assert!(list_operations(&documents.api).iter().all(|(_, path, _)| !is_of_runners(path)));
    assert!(list_operations(&documents.runner).iter().all(|(_, path, _)| is_of_runners(path)));
}

#[tokio::test]
async fn openapi_operations_have_unique_ids_summaries_and_descriptions() {
    let world = TestWorld::new().await;
    for path in DOCUMENTS {
        let document = world.send(get(path)).await.body;
        let tags: BTreeSet<_> =
            document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].clone().to_string()).collect();
        let mut ids = BTreeSet::new();
        for (method, path, operation) in list_operations(&document) {
            let text =
                |name: &str| operation[name].as_str().unwrap_or_else(|| panic!("{method} {path}: {name}"));
            let id = text("operationId");
            assert!(
                id.chars().all(|c| c.is_ascii_alphanumeric()) && id.starts_with(|c: char| c.is_lowercase()),
                "{id}"
            );
            assert!(ids.insert(id.to_owned()), "{id} is there twice");
            assert!(!text("summary").is_empty() && text("description").ends_with(['.', '`']), "{id}");
            assert!(tags.contains(&operation["tags"][0].to_string()), "{id}");
        }
    }
}

#[tokio::test]
async fn openapi_schemas_have_formats_limits_and_members() {
    let world = TestWorld::new().await;
    let document = world.send(get(DOCUMENTS[0])).await.body;
    let (mut times, mut lists) = (0, 0);
    visit_objects("", &document["components"]["schemas"], &mut |name, schema| {
        let is_text = schema["type"] == "string" || schema["type"] == json!(["string", "null"]);
        if is_text && name.ends_with("At") {
            assert_eq!(schema["format"], "date-time", "{name}: {schema}");
            times += 1;
        }
    });
    for (_, path, operation) in list_operations(&document) {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        for parameter in &parameters {
            let schema = &parameter["schema"];
            let is_closed =
                ["pattern", "minimum", "enum", "$ref"].iter().any(|rule| schema.get(rule).is_some());
            assert!(parameter["in"] != "path" || is_closed, "{path}: {parameter}");
            if parameter["name"] == "limit" && parameters.iter().any(|it| it["name"] == "cursor") {
                assert_eq!(schema["maximum"], 1_000, "{path}");
                lists += 1;
            }
        }
    }
    assert!(times > 70 && lists > 15, "{times} times, {lists} lists");
    for name in ["ProblemCode", "EventKind", "EventKindOrAll", "Permission", "DeploymentStatus"] {
        let words = document["components"]["schemas"][name]["enum"].as_array();
        assert!(words.is_some_and(|words| words.len() > 5), "{name}");
    }
}

#[tokio::test]
async fn openapi_request_bodies_refuse_unknown_members() {
    let world = TestWorld::new().await;
    let document = world.send(get(DOCUMENTS[0])).await.body;
    for (_, path, operation) in list_operations(&document) {
        let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") else {
            continue;
        };
        let (mut seen, mut rest) = (BTreeSet::new(), vec![schema]);
        while let Some(schema) = rest.pop() {
            if let Some(reference) = schema["$ref"].as_str() {
                let is_free = reference.ends_with("/DefinitionText");
                if !is_free && seen.insert(reference) {
                    rest.push(document.pointer(&reference[1..]).unwrap());
                }
            }
            if schema["properties"].is_object() {
                assert_eq!(schema["additionalProperties"], false, "{path}: {schema}");
            }
            let members = schema["properties"].as_object().into_iter().flat_map(|all| all.values());
            let choices = schema["oneOf"].as_array().into_iter().flatten();
            rest.extend(members.chain(choices));
        }
        assert!(!seen.is_empty(), "{path} has a body without a name");
    }
}

#[tokio::test]
async fn openapi_request_headers_are_described_where_they_are_read() {
    let world = TestWorld::new().await;
    let document = world.send(get(DOCUMENTS[0])).await.body;
    let mut read = 0;
    for (method, path, operation) in list_operations(&document) {
        let route =
            world.edge.routes().iter().find(|route| route.method == method && route.path == path).unwrap();
        if route.access == RouteAccess::Open {
            continue;
        }
        let address = path.replace("{orgId}", "acme").replace(['{', '}'], "");
        for (name, value) in [("If-Match", "\"no number\""), ("Idempotency-Key", &*"x".repeat(256))] {
            let asked = call(&method, &address).with_account(&world.ada).header(name, value);
            let reply = world.send(asked.json(&json!({}))).await;
            let is_read =
                reply.problem_code() == "invalid_parameter" && reply.body["errors"][0]["pointer"] == name;
            let parameters = operation["parameters"].as_array();
            let is_described = parameters.is_some_and(|all| all.iter().any(|it| it["name"] == name));
            assert_eq!(is_read, is_described, "{method} {path}: {name}: {}", reply.text);
            read += usize::from(is_read);
        }
    }
    assert!(read > 40, "{read}");
}

#[tokio::test]
async fn openapi_examples_of_requests_are_accepted() {
    let world = TestWorld::new().await;
    let definition = DEFINITION.replace("qa-1: {}", "qa-1: { labels: [small] }");
    let shop = json!({"slug": "shop", "definition": definition});
    let made = world
        .send(call("POST", "/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&shop))
        .await;
    assert_eq!(made.status, 201, "{}", made.text);
    let team = call("POST", "/api/v1/organizations/acme/teams").with_account(&world.ada);
    assert_eq!(world.send(team.json(&json!({"slug": "qa"}))).await.status, 201);
    let document = world.send(get(DOCUMENTS[0])).await.body;
    for (method, path, operation) in list_operations(&document) {
        let Some(example) = operation.pointer("/requestBody/content/application~1json/example") else {
            continue;
        };
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let address =
            parameters.iter().filter(|it| it["in"] == "path").fold(path.clone(), |address, parameter| {
                let name = format!("{{{}}}", parameter["name"].as_str().unwrap());
                address.replace(&name, parameter["schema"]["example"].as_str().unwrap_or("1"))
            });
        let reply = world.send(call(&method, &address).with_account(&world.ada).json(example)).await;
        // The resource may be missing or in another state, but the example itself must be a valid request.
        let is_wrong = ["invalid_request", "unknown_member", "invalid_json"].contains(&reply.problem_code());
        let is_password = path.contains("/password") || path.contains("/auth/");
        assert!(!is_wrong || is_password, "{method} {path}: {example}: {}", reply.text);
    }
}

#[test]
fn openapi_docs_of_roles_are_generated_from_the_table() {
    let mut page = format!(
        "# Roles and permissions\n\nGenerated from the code by `cargo xtask openapi`.\n\n\
         | permission | what it allows | {} |\n|---|---|{}\n",
        Role::ALL.map(Role::as_str).join(" | "),
        "---|".repeat(Role::ALL.len())
    );
    for action in Action::ALL {
        let marks = Role::ALL.map(|role| if role.may(*action) { "yes" } else { "" }).join(" | ");
        writeln!(page, "| `{action}` | {} | {marks} |", action.summary()).unwrap();
    }
    expect_file!["../../../../docs/permissions.md"].assert_eq(&page);
}

#[test]
fn openapi_docs_of_problems_are_generated_from_the_codes() {
    let mut page = String::from(
        "# Problem codes\n\nGenerated from the code by `cargo xtask openapi`. Codes are only ever added.\n\n\
         | status | code | meaning |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        writeln!(page, "| {} | `{}` | {} |", code.status(), code.as_str(), code.explanation()).unwrap();
    }
    expect_file!["../../../../docs/errors.md"].assert_eq(&page);
}
