//! Lists of environments are limited in size.

use berth_mcp::{RestApi, RestRequest, RestResponse, respond_over_http};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

const PIPELINES: usize = 20;
/// Size of an environment. Eight of them fit into the limit.
const ENVIRONMENT_BYTES: usize = 1_000_000;

/// An API with many pipelines, each of which has one large environment.
#[derive(Clone)]
struct LargeApi;

impl RestApi for LargeApi {
    async fn send(&self, request: RestRequest) -> Result<RestResponse, String> {
        let data: Vec<Value> = if request.path.starts_with("/pipelines?") {
            let slugs = (0..PIPELINES).map(|number| format!("p-{number}"));
            slugs.map(|slug| json!({"slug": slug, "environments": ["qa-1"]})).collect()
        } else if request.path.starts_with("/pipelines/") {
            vec![json!({"envName": "qa-1", "state": "x".repeat(ENVIRONMENT_BYTES)})]
        } else {
            Vec::new()
        };
        Ok(RestResponse { status: 200, etag: None, body: json!({ "data": data }) })
    }
}

async fn request(method: &str, params: &Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = Request::post("/mcp")
        .header("host", "berth")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(message.to_string())))
        .expect("a request");
    let response = Box::pin(respond_over_http(LargeApi, request, CancellationToken::new())).await;
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let text = String::from_utf8_lossy(&body);
    let data =
        text.lines().filter_map(|line| line.strip_prefix("data:")).find(|data| data.contains("jsonrpc"));
    serde_json::from_str::<Value>(data.expect("an event")).expect("JSON")["result"].clone()
}

#[tokio::test]
async fn list_of_environments_stops_at_its_size_limit_and_says_so() {
    let listed = request("tools/call", &json!({"name": "list_environments", "arguments": {}})).await;
    let content = &listed["structuredContent"];
    assert_eq!(content["hasMore"], true);
    assert_eq!(content["data"].as_array().map(Vec::len), Some(8));
    let text = listed["content"][0]["text"].as_str().expect("a text");
    assert!(text.ends_with("pass pipeline to list the environments of another one."));
}

#[tokio::test]
async fn environments_as_resources_keep_only_their_names() {
    let listed = request("resources/list", &json!({})).await;
    let resources = listed["resources"].as_array().expect("resources");
    assert_eq!(resources.len(), PIPELINES);
    assert_eq!(resources[0]["uri"], "berth://environments/p-0/qa-1");
}
