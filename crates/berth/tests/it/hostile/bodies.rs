//! Request bodies that are too large, have the wrong type, or are not the expected JSON.

use berth_server::limits::{IDEMPOTENCY_KEY_BYTES_MAX, JSON_BODY_BYTES_MAX, JSON_DEPTH_MAX};

use super::{HostileTarget, pointers};
use crate::client::RawRequest;

const STOP: &str = "/api/v1/organizations/acme/pipelines/shop/stop";
const RESUME: &str = "/api/v1/organizations/acme/pipelines/shop/resume";
const CREATE: &str = "/api/v1/organizations/acme/pipelines";

fn post(target: &HostileTarget, path: &str, body: impl Into<Vec<u8>>) -> RawRequest {
    target.api().request("POST", path).header("Content-Type", "application/json").body(body)
}

/// Returns the same request with chunked transfer encoding.
fn encode_chunked(mut request: RawRequest) -> Vec<u8> {
    let body = request.body.take().expect("a body");
    let mut bytes = request.header("Transfer-Encoding", "chunked").bytes();
    for chunk in body.chunks(100_000) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

#[test]
fn body_is_limited_to_one_mebibyte() {
    let target = HostileTarget::new();
    for (size, status) in
        [(JSON_BODY_BYTES_MAX, 200), (JSON_BODY_BYTES_MAX + 1, 413), (3 * JSON_BODY_BYTES_MAX, 413)]
    {
        let mut body = b"{\"reason\": \"still short\"}".to_vec();
        body.resize(size, b' ');
        let request = post(&target, RESUME, body);
        let sized = target.api().send(&request);
        let mut client = crate::client::HttpConnection::connect(target.server.address);
        let _ = client.send(&encode_chunked(request.clone()));
        let chunked = client.receive().unwrap_or_else(|error| panic!("{size} bytes in chunks: {error}"));
        for answer in [sized, chunked] {
            assert_eq!(answer.status, status, "{size} bytes: {}", answer.text());
            if status == 413 {
                super::check_problem(&request, &answer, 413, "body_too_large");
                assert!(answer.text().contains(&JSON_BODY_BYTES_MAX.to_string()), "{}", answer.text());
            }
        }
    }
    target.check_unharmed();
}

#[test]
fn body_without_json_content_type_is_refused() {
    let target = HostileTarget::new();
    let typed = |media_type: &str, body: &str| {
        target.api().request("POST", RESUME).header("Content-Type", media_type).body(body)
    };
    for media_type in [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "application",
        "json",
        "",
        "text/html, application/json",
        "\u{e4}",
    ] {
        target.expect_refusal(&typed(media_type, "{}"), 415, "unsupported_media_type");
        assert_eq!(target.api().send(&typed(media_type, "")).status, 200, "{media_type:?} of nothing");
    }
    for media_type in ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"]
    {
        assert_eq!(target.api().send(&typed(media_type, "{}")).status, 200, "{media_type:?}");
    }
    assert_eq!(target.api().send(&target.api().request("POST", RESUME).body("{}")).status, 200, "no type");
    target.check_unharmed();
}

#[test]
fn body_that_is_not_json_is_invalid_json() {
    let target = HostileTarget::new();
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = [nested(JSON_DEPTH_MAX + 1), nested(500_000), "[".repeat(500_000), "{\"a\":".repeat(100_000)];
    let broken: [&[u8]; 17] = [
        b"{",
        b"}",
        b"nope",
        b"{\"reason\": \"x\"",
        b"{\"reason\": 'x'}",
        b"{\"reason\": \"x\",}",
        b"{reason: \"x\"}",
        b"{\"reason\": \"x\"} {}",
        b"{\"reason\": \"x\"}\0",
        b"\0",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\0}\0",
        b"{\"reason\": \"\xff\"}",
        b"{\"reason\": \"\xed\xa0\x80\"}",
        b"{\"reason\": \"\\ud800\"}",
        b"{\"reason\": \"line\nbreak\"}",
        b"reason=x",
    ];
    for body in broken.into_iter().chain(deep.iter().map(String::as_bytes)) {
        for path in [STOP, CREATE] {
            target.expect_refusal(&post(&target, path, body), 400, "invalid_json");
        }
    }
    target.check_unharmed();
}

#[test]
fn body_errors_name_every_invalid_member() {
    let target = HostileTarget::new();
    let check_code = |code: &str, path: &str, body: &str, expected: &[&str]| {
        let answer = target.expect_refusal(&post(&target, path, body), 400, code);
        assert_eq!(pointers(&answer), expected, "{body}");
    };
    let unknown = |body: &str, expected: &[&str]| check_code("unknown_member", STOP, body, expected);
    unknown(r#"{"reason": "x", "a": 1, "b": {"c": 2}, "d/e~": null}"#, &["/a", "/b", "/d~1e~0"]);
    unknown(r#"{"Reason": "x", "REASON": "x"}"#, &["/Reason", "/REASON"]);
    unknown(r#"{"\u0000": 1}"#, &["/\0"]);
    let check =
        |path: &str, body: &str, expected: &[&str]| check_code("invalid_request", path, body, expected);
    check(STOP, r#"{"reason": ["x"]}"#, &["/reason"]);
    check(STOP, r#"{"reason": {"x": 1}}"#, &["/reason"]);
    check(STOP, r#"{"reason": 7}"#, &["/reason"]);
    check(STOP, r#"{"reason": true}"#, &["/reason"]);
    check(STOP, r#"{"reason": "a\u0000b"}"#, &["/reason"]);
    check(STOP, r#"{"reason": "a\u001b[31mb"}"#, &["/reason"]);
    check(STOP, &format!(r#"{{"reason": "{}"}}"#, "x".repeat(4001)), &["/reason"]);
    check(CREATE, r#"{"slug": ["shop"], "definition": "x"}"#, &["/slug"]);
    check(CREATE, r#"{"slug": "x", "definition": ["x"]}"#, &["/definition"]);
    check(CREATE, r#"{"slug": "x", "definition": 7}"#, &["/definition"]);
    check(CREATE, r#"{"slug": null, "definition": "x"}"#, &["/slug"]);
    check(CREATE, r#"{"slug": "a\u0000b", "name": "a\u0000b", "definition": "x"}"#, &["/slug", "/name"]);
    check(CREATE, r#"{"slug": "Shop", "definition": "x"}"#, &["/slug"]);
    check(CREATE, r#"{"slug": "../etc", "name": "\u0007", "definition": "x"}"#, &["/slug", "/name"]);
    for body in ["", "{}", r#"{"slug": "x"}"#, r#"{"definition": "x"}"#] {
        target.expect_refusal(&post(&target, CREATE, body), 400, "invalid_request");
    }
    for body in ["null", "7", "true", "\"x\"", "[]", "[\"x\"]", "[[]]", r#"{"reason": "a", "reason": "b"}"#] {
        target.expect_refusal(&post(&target, STOP, body), 400, "invalid_request");
    }
    target.check_unharmed();
}

#[test]
fn invalid_definition_is_refused_with_diagnostics() {
    let target = HostileTarget::new();
    for definition in [
        r#""""#,
        r#""\u0000""#,
        r#"": : :""#,
        r#""a: &a [*a]""#,
        r#""version: 1\nversion: 1""#,
        r#"{}"#,
        r#"{"version": "1"}"#,
        r#""!!python/object:os.system x""#,
    ] {
        let body = format!(r#"{{"slug": "bad", "definition": {definition}}}"#);
        let answer = target.expect_refusal(&post(&target, CREATE, body), 422, "pipeline_invalid");
        let diagnostics = answer.json()["diagnostics"].as_array().map_or(0, Vec::len);
        assert!(diagnostics > 0, "{definition}: {}", answer.text());
    }
    target.check_unharmed();
}

#[test]
fn idempotency_key_must_be_short_printable_and_single() {
    let target = HostileTarget::new();
    let keyed = |keys: &[&str]| {
        let request = target.api().request("POST", RESUME);
        keys.iter().fold(request, |request, key| request.header("Idempotency-Key", key))
    };
    let (longest, longer) =
        ("k".repeat(IDEMPOTENCY_KEY_BYTES_MAX), "k".repeat(IDEMPOTENCY_KEY_BYTES_MAX + 1));
    assert_eq!(target.api().send(&keyed(&[&longest])).status, 200);
    for keys in [&[""][..], &[&longer], &["a", "b"], &["a", "a"], &["sm\u{f8}rrebr\u{f8}d"]] {
        let answer = target.expect_refusal(&keyed(keys), 400, "invalid_parameter");
        assert_eq!(pointers(&answer), ["Idempotency-Key"]);
    }
    let other = keyed(&[&longest]).header("Content-Type", "application/json").body("{\"reason\": \"other\"}");
    target.expect_refusal(&other, 422, "idempotency_key_reused");
    target.check_unharmed();
}
