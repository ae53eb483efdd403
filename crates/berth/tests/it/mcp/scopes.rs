//! A client can do what its token may do, and nothing else.

use serde_json::{Value, json};

use super::client::McpClient;
use super::{McpFixture, McpTransport};

fn names(list: &Value) -> Vec<String> {
    list["data"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| it["envName"].as_str().expect("a name").to_owned())
        .collect()
}

fn check_scope(transport: McpTransport) {
    let fixture = McpFixture::new();
    // As in docs/mcp.md.
    let permissions = [
        "pipelines:read",
        "environments:read",
        "environments:claim",
        "deployments:read",
        "analysis:read",
        "analysis:run",
    ];
    let restriction = json!([{"permissions": permissions, "scope": "environment:shop/qa-*"}]);
    let (token, _) = fixture.create_token("agent@acme.test", "deployer", Some(restriction));
    let Some(mut owner) = McpClient::connect(&fixture, transport, "auto", &fixture.home.token) else {
        return;
    };
    let Some(mut agent) = McpClient::connect(&fixture, transport, "auto", &token) else { return };

    let claimed = owner.call_ok("claim_environment", &json!({"environment": "shop/perf"}));
    let session = claimed["sessionId"].clone();
    let deploy = json!({"environment": "shop/perf", "sessionId": session, "commitId": "good", "wait": true});
    let deployment = owner.call_ok("deploy_commit", &deploy)["id"].clone();

    let listed = agent.call("list_environments", &json!({}));
    assert_eq!(names(listed.content()), ["qa-1", "qa-2"], "{}", listed.result);
    assert!(!listed.text().contains("perf"), "{}", listed.text());
    assert_eq!(listed.content()["hasMore"], false, "{}", listed.result);
    let resources = agent.request(&json!({"method": "resources/list"}));
    let uris: Vec<&str> =
        resources["resources"].as_array().into_iter().flatten().filter_map(|it| it["uri"].as_str()).collect();
    assert_eq!(uris, ["berth://environments/shop/qa-1", "berth://environments/shop/qa-2"], "{resources}");
    for uri in [
        "berth://environments/shop/perf".to_owned(),
        format!("berth://deployments/{}", deployment.as_str().expect("an id")),
    ] {
        let read = agent.request(&json!({"method": "resources/read", "uri": uri}));
        assert!(
            read["error"]["message"].as_str().is_some_and(|text| text.starts_with("not_found")),
            "{uri}: {read}"
        );
        let read = owner.request(&json!({"method": "resources/read", "uri": uri}));
        let text = read["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
        assert!(serde_json::from_str::<Value>(text).is_ok_and(|body| body["data"].is_object()), "{text}");
    }

    let perf = json!({"environment": "shop/perf"});
    let at_perf = |more: Value| {
        let mut arguments = perf.clone();
        for (name, value) in more.as_object().into_iter().flatten() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let of_deployment = json!({"deploymentId": deployment, "stepId": "deploy"});
    let hidden = [
        ("claim_environment", perf.clone()),
        ("queue_status", perf.clone()),
        ("deploy_commit", at_perf(json!({"sessionId": session, "commitId": "good"}))),
        ("extend_session", at_perf(json!({"sessionId": session}))),
        ("release_session", at_perf(json!({"sessionId": session}))),
        ("deployment_status", json!({"deploymentId": deployment})),
        ("read_log", of_deployment.clone()),
        ("analyze_failure", of_deployment),
    ];
    for (tool, arguments) in hidden {
        let error = agent.call_err(tool, &arguments, "not_found");
        let next =
            if arguments.get("environment").is_some() { json!("list_environments") } else { Value::Null };
        assert_eq!(error["next"]["tool"], next, "{tool}: {error}");
    }
    let takeover = at_perf(json!({"reason": "urgent"}));
    agent.call_err("request_takeover", &takeover, "forbidden");
    assert_eq!(fixture.environment("perf")["lock"]["sessionId"], session, "nothing has changed");
    agent.call_ok("claim_environment", &json!({"environment": "shop/qa-2"}));
}

#[test]
fn restricted_token_sees_and_does_nothing_else_over_stdio() {
    check_scope(McpTransport::Stdio);
}

#[test]
fn restricted_token_sees_and_does_nothing_else_over_http() {
    check_scope(McpTransport::Http);
}

#[test]
fn revoked_token_ends_access() {
    let fixture = McpFixture::new();
    let (token, id) = fixture.create_token("agent@acme.test", "tester", None);
    let Some(mut client) = McpClient::connect(&fixture, McpTransport::Stdio, "auto", &token) else { return };
    client.call_ok("list_environments", &json!({}));
    let path = format!("/api/v1/organizations/acme/api-tokens/{id}");
    assert_eq!(fixture.server.api.send(&fixture.server.api.request("DELETE", &path)).status, 200);
    let error = client.call_err("list_environments", &json!({}), "unauthenticated");
    assert_eq!(error["next"], Value::Null);
}
