//! The HTTP endpoint: authentication, origins, limits, and shutdown with an open stream.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::McpFixture;
use crate::client::{HttpConnection, RawRequest};
use crate::harness::wait_until;

const ACCEPT: &str = "application/json, text/event-stream";
/// Maximum time until the server has stopped while a tool waits.
const STOPPED_MAX: Duration = Duration::from_secs(3);

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}})
}

fn post(token: &str, message: &Value) -> RawRequest {
    // The response has no length, so its end is the end of the connection.
    let request = RawRequest::new("POST", "/mcp").header("Accept", ACCEPT).header("Connection", "close");
    request.header("Authorization", &format!("Bearer {token}")).json(message)
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

/// The result in the only event of the response.
fn result_of(response: &crate::client::RawResponse) -> Value {
    let text = response.text();
    let data =
        text.lines().filter_map(|line| line.strip_prefix("data:")).find(|data| data.contains("jsonrpc"));
    serde_json::from_str::<Value>(data.unwrap_or_else(|| panic!("{text}"))).expect("JSON")["result"].clone()
}

#[test]
fn mcp_endpoint_requires_a_valid_token() {
    let fixture = McpFixture::new();
    let api = &fixture.server.api;
    let initialized = api.send(&post(&fixture.home.token, &initialize()));
    assert_eq!(initialized.status, 200, "{}", initialized.text());
    assert_eq!(result_of(&initialized)["serverInfo"]["name"], "berth");
    let anonymous = RawRequest::new("POST", "/mcp").header("Accept", ACCEPT).json(&initialize());
    let (revoked, id) = fixture.create_token("agent@acme.test", "tester", None);
    assert_eq!(api.send(&post(&revoked, &initialize())).status, 200);
    assert_eq!(
        api.send(&api.request("DELETE", &format!("/api/v1/organizations/acme/api-tokens/{id}"))).status,
        200
    );
    for request in [anonymous, post("berth_api_nonsense", &initialize()), post(&revoked, &initialize())] {
        let response = api.send(&request);
        assert_eq!((response.status, &response.json()["code"]), (401, &json!("unauthenticated")));
        assert_eq!(response.header("www-authenticate"), Some("Bearer"));
    }
    let streamed = api.send(&api.request("GET", "/mcp").header("Accept", "text/event-stream"));
    assert_eq!((streamed.status, streamed.header("allow")), (405, Some("POST")));
}

#[test]
fn mcp_request_from_a_web_page_of_another_origin_is_refused() {
    let fixture = McpFixture::new();
    let api = &fixture.server.api;
    let own = format!("http://{}", fixture.server.address);
    let cases = [
        // The test client sends "Host: berth".
        ("http://evil.test", 403),
        ("null", 403),
        // After DNS rebinding, the host names agree.
        ("http://berth", 403),
        (own.as_str(), 403),
    ];
    for (origin, status) in cases {
        let response = api.send(&post(&fixture.home.token, &initialize()).header("Origin", origin));
        assert_eq!(response.status, status, "{origin}: {}", response.text());
        assert_eq!(response.json()["code"], "forbidden");
    }
    let cross_site = post(&fixture.home.token, &initialize()).header("Sec-Fetch-Site", "cross-site");
    assert_eq!(api.send(&cross_site).status, 403);
    let text = String::from_utf8(post(&fixture.home.token, &initialize()).header("Origin", &own).bytes())
        .expect("text");
    let same_host = text.replace("Host: berth", &format!("Host: {}", fixture.server.address));
    let mut connection = HttpConnection::connect(fixture.server.address);
    connection.send(same_host.as_bytes()).expect("sent");
    assert_eq!(connection.receive().expect("a response").status, 200, "a page of this server");
}

#[test]
fn mcp_request_that_is_malformed_or_too_large_is_refused() {
    let fixture = McpFixture::new();
    let api = &fixture.server.api;
    let token = &fixture.home.token;
    let sized = |bytes: usize| {
        let mut message = call("list_environments", &json!({"pipeline": ""}));
        let rest = bytes - message.to_string().len();
        message["params"]["arguments"]["pipeline"] = "x".repeat(rest).into();
        post(token, &message)
    };
    let largest = api.send(&sized(1024 * 1024));
    assert_eq!(largest.status, 200, "{}", largest.text());
    assert_eq!(result_of(&largest)["structuredContent"]["code"], "invalid_arguments");
    let above = api.send(&sized(1024 * 1024 + 1));
    assert_eq!((above.status, &above.json()["code"]), (413, &json!("body_too_large")));
    let request = |content_type: &str, accept: &str, body: &str| {
        let request = RawRequest::new("POST", "/mcp").header("Authorization", &format!("Bearer {token}"));
        request.header("Accept", accept).header("Content-Type", content_type).body(body.as_bytes())
    };
    let message = initialize().to_string();
    for (request, status) in [
        (request("text/plain", ACCEPT, &message), 415),
        (request("application/json", "application/json", &message), 400),
    ] {
        let response = api.send(&request);
        assert_eq!(response.status, status, "{}", response.text());
        assert!(response.json()["code"].is_string(), "{}", response.text());
    }
    for bad in ["{", "[]", "{}", "null"] {
        let response = api.send(&request("application/json", ACCEPT, bad));
        assert_eq!(response.status, 400, "{bad}: {}", response.text());
    }
    let unknown = api.send(&post(token, &call("drop_database", &json!({}))));
    assert!(unknown.text().contains("there is no tool named"), "{}", unknown.text());
    fixture.server.check_healthy();
}

#[test]
fn shutdown_ends_a_call_that_waits_for_a_deployment() {
    let fixture = McpFixture::new();
    let token = fixture.home.token.clone();
    let claimed = fixture
        .server
        .api
        .send(&post(&token, &call("claim_environment", &json!({"environment": "shop/qa-1"}))));
    let session = result_of(&claimed)["structuredContent"]["data"]["sessionId"].clone();
    let mut deploy = call(
        "deploy_commit",
        &json!({"environment": "shop/qa-1", "sessionId": session, "commitId": "slow", "wait": true, "waitSeconds": 600}),
    );
    deploy["params"]["_meta"] = json!({"progressToken": "p"});
    let mut waiting = HttpConnection::connect(fixture.server.address);
    waiting.send(&post(&token, &deploy).bytes()).expect("sent");
    let deployments = "/api/v1/organizations/acme/deployments?status=running";
    wait_until(Duration::from_secs(20), "running deployment", || {
        let listed = fixture.server.api.get(deployments).json();
        listed["data"].as_array().is_some_and(|it| !it.is_empty()).then_some(())
    });
    let started = Instant::now();
    fixture.server.stop();
    let took = started.elapsed();
    assert!(took < STOPPED_MAX, "{took:?}");
}
