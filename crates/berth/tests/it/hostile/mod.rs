//! Broken and malicious clients: each gets the documented problem or a closed connection, and other clients are
//! unaffected.

mod bodies;
mod clients;
mod headers;
mod paging;
mod paths;
mod slow;

use serde_json::json;

use crate::client::{ApiHandle, RawRequest, RawResponse};
use crate::harness::{DEFINITION, TestHome, TestServer};

/// A server with the pipeline `shop`.
struct HostileTarget {
    server: TestServer,
    _home: TestHome,
}

impl HostileTarget {
    fn new() -> Self {
        let home = TestHome::new();
        let server = home.serve();
        let made = server.api.post(
            "/api/v1/organizations/acme/pipelines",
            &json!({ "slug": "shop", "definition": DEFINITION }),
        );
        assert_eq!(made.status, 201, "{}", made.text());
        Self { server, _home: home }
    }

    fn api(&self) -> &ApiHandle {
        &self.server.api
    }

    /// Sends the request and expects this refusal.
    fn expect_refusal(&self, request: &RawRequest, status: u16, code: &str) -> RawResponse {
        let answer = self.api().send(request);
        check_problem(request, &answer, status, code);
        answer
    }

    /// Checks that no refused request had an effect and the server is healthy.
    fn check_unharmed(self) {
        let (pipelines, _) = self.api().list_all("/api/v1/organizations/acme/pipelines");
        let found: Vec<_> = pipelines.iter().map(|found| (&found["slug"], &found["status"])).collect();
        assert_eq!(found, [(&json!("shop"), &json!("active"))]);
        self.server.check_healthy();
        self.server.stop();
    }
}

/// Checks every documented member of a problem.
fn check_problem(request: &RawRequest, answer: &RawResponse, status: u16, code: &str) {
    let body = request.body.as_deref().unwrap_or_default();
    let body = String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
    let path = &request.path[..request.path.len().min(200)];
    let what = format!("{} {path} {body:?}: {} {}", request.method, answer.status, answer.text());
    assert_eq!(answer.status, status, "{what}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{what}");
    let problem = answer.json();
    assert_eq!(problem["type"], format!("/docs/errors/{code}"), "{what}");
    assert_eq!((&problem["status"], &problem["code"]), (&json!(status), &json!(code)), "{what}");
    for member in ["title", "detail"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {what}");
    }
    let asked = request.path.split('?').next().expect("a path");
    assert_eq!(problem["instance"], asked, "{what}");
    assert_eq!(problem["requestId"].as_str(), answer.header("x-request-id"), "{what}");
}

/// Returns the JSON pointers of all errors in a problem.
fn pointers(answer: &RawResponse) -> Vec<String> {
    let problem = answer.json();
    let errors = problem["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
}
