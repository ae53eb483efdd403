//! Ambiguous paths are refused before routing, with a JSON problem and never with an HTML page.

use berth_server::limits::URI_BYTES_MAX;

use super::{HostileTarget, check_problem};
use crate::client::RawRequest;

/// Ambiguous paths, which must be refused.
const TRICKS: &[&str] = &[
    "/api/v1/organizations/acme/../acme/pipelines",
    "/api/v1/organizations/acme/./pipelines",
    "/api/v1/organizations/acme/pipelines/..",
    "/api/v1/organizations/acme/pipelines/.",
    "/api/v1/organizations/acme/pipelines/../",
    "/api/v1/../v1/organizations/acme/pipelines",
    "/docs/../api/v1/organizations/acme/pipelines",
    "/organizations/../organizations/acme/pipelines",
    "/api/v1/organizations/acme/%2e%2e/acme/pipelines",
    "/api/v1/organizations/acme/%2E%2e/acme/pipelines",
    "/api/v1/organizations/acme/.%2e/acme/pipelines",
    "/api/v1/organizations/acme/%2e/pipelines",
    "/api/v1/organizations/acme%2fpipelines",
    "/api/v1/organizations/acme%2Fpipelines",
    "/api/v1/organizations/acme/pipelines%2f",
    "/api/v1/organizations/acme/pipelines/shop%2f..%2fshop",
    "/api/v1/organizations/acme/pipelines/..%2fpipelines",
    "/api/v1/organizations/acme;x=1/pipelines",
    "/api/v1/organizations/acme/pipelines;jsessionid=1",
    "/api/v1/organizations/acme/pipelines/;",
    "/api/v1/organizations/acme%3bx/pipelines",
    "/api/v1/organizations/acme%00/pipelines",
    "/api/v1/organizations/acme/pipelines%00.html",
    "/api/v1/organizations/acme/pipelines/shop%00",
    "/api/v1/organizations/acme/pipelines/shop%0d%0aX-Evil:%20yes",
    "/api/v1/organizations/acme/pipelines/shop%7f",
    "/api/v1/organizations/acme\\pipelines",
    "/api/v1/organizations/acme/pipelines\\..\\shop",
    "/api/v1/organizations/acme%5cpipelines",
    "/api/v1\\organizations/acme/pipelines",
    "/api/v1/organizations/acme/pipelines/%",
    "/api/v1/organizations/acme/pipelines/%2",
    "/api/v1/organizations/acme/pipelines/%zz",
    "/api/v1/organizations/acme/pipelines/%ff",
    "/api/v1/organizations/acme/pipelines/%c0%af",
    "/api/v1/organizations/acme/pipelines/%ed%a0%80",
    "/api/v1///organizations/acme/pipelines",
    "/api/v1/organizations//acme/pipelines",
    "/api/v1/organizations/acme//pipelines",
    "/api/v1/organizations/acme/pipelines//",
    "/api//v1/organizations/acme/pipelines",
    "///organizations/acme/pipelines",
    "/organizations//acme/pipelines",
];

/// Well-formed paths that do not exist.
const NOWHERE: &[&str] = &[
    "/api",
    "/api/v1",
    "/api/v1/nothing",
    "/api/v2/organizations/acme/pipelines",
    "/API/v1/organizations/acme/pipelines",
    "/api/v1/Organizations/acme/pipelines",
    "/api/v1/api/v1/organizations/acme/pipelines",
    "/api/v1/organizations/acme/nothing",
    "/api/v1/organizations/ACME/pipelines",
    "/api/v1/organizations/acme%20/pipelines",
    "/api/v1/organizations/%252e%252e/pipelines",
    "/api/v1/organizations/*/pipelines",
    "/api/v1/organizations/acme'--/pipelines",
    "/api/v1/organizations/acme/pipelines/%25",
    "/api/v1/organizations/acme/pipelines/shop%20",
    "/api/v1/organizations/acme/pipelines/%F0%9F%9A%A2",
    "/api/v1/organizations/acme/pipelines/shop/nothing",
    "/api/v1/organizations/acme/pipelines/shop/stop/now",
    "/api/v1/organizations/acme/pipelines/pl_00000000000000000000000000",
    "/api/v1/organizations/acme/events/evt_x",
    "/organizations/acme/nothing",
];

#[test]
fn ambiguous_path_is_refused() {
    let target = HostileTarget::new();
    for path in TRICKS {
        for method in ["GET", "POST", "DELETE"] {
            target.expect_refusal(&target.api().request(method, path), 400, "invalid_request");
        }
        target.expect_refusal(&RawRequest::new("GET", path), 400, "invalid_request");
        let stop = format!("{}/stop", path.trim_end_matches("/pipelines").to_owned() + "/pipelines/shop");
        target.expect_refusal(&target.api().request("POST", &stop), 400, "invalid_request");
    }
    target.check_unharmed();
}

#[test]
fn unknown_path_is_a_json_404() {
    let target = HostileTarget::new();
    for path in NOWHERE {
        let answer = target.expect_refusal(
            &target.api().request("GET", path).header("Accept", "text/html"),
            404,
            "not_found",
        );
        assert!(!answer.text().contains('<'), "{path}: {}", answer.text());
    }
    target.check_unharmed();
}

#[test]
fn unsupported_method_is_refused_with_allow() {
    let target = HostileTarget::new();
    for (method, path, allowed) in [
        ("PUT", "/api/v1/organizations/acme/pipelines", "GET"),
        ("TRACE", "/api/v1/organizations/acme/pipelines", "POST"),
        ("BREW", "/organizations/acme/pipelines", "GET"),
        ("GET", "/api/v1/organizations/acme/pipelines/shop/stop", "POST"),
        ("DELETE", "/healthz", "GET"),
    ] {
        let answer = target.expect_refusal(&target.api().request(method, path), 405, "method_not_allowed");
        assert!(
            answer.header("allow").is_some_and(|allow| allow.contains(allowed)),
            "{method} {path}: {answer:?}"
        );
    }
    target.check_unharmed();
}

#[test]
fn absolute_and_asterisk_targets_are_refused_or_read_as_paths() {
    let target = HostileTarget::new();
    let absolute = |path: &str| target.api().request("GET", &format!("http://elsewhere.test{path}"));
    assert_eq!(target.api().send(&absolute("/api/v1/organizations/acme/pipelines")).status, 200);
    for (request, path) in [
        (absolute("/api/v1/organizations/acme/../acme"), "/api/v1/organizations/acme/../acme"),
        (target.api().request("OPTIONS", "*"), "*"),
        (target.api().request("CONNECT", "elsewhere.test:443"), ""),
    ] {
        let answer = target.api().send(&request);
        check_problem(&RawRequest { path: path.to_owned(), ..request }, &answer, 400, "invalid_request");
    }
    target.check_unharmed();
}

#[test]
fn request_target_is_limited_to_8_kib() {
    let target = HostileTarget::new();
    let fill = |path: &str| format!("{path}{}", "x".repeat(URI_BYTES_MAX - path.len()));
    let in_query = fill("/api/v1/organizations/acme/pipelines?unknown=");
    let in_path = fill("/api/v1/organizations/acme/pipelines/");
    assert_eq!(target.api().get(&in_query).status, 200);
    target.expect_refusal(&target.api().request("GET", &in_path), 404, "not_found");
    for longest in [in_query, in_path] {
        let request = target.api().request("GET", &(longest + "x"));
        let answer = target.expect_refusal(&request, 400, "invalid_request");
        assert!(answer.text().contains(&URI_BYTES_MAX.to_string()));
    }
    target.check_unharmed();
}
