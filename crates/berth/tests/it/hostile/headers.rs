//! Header blocks that are too long, contain too many headers, or are not HTTP.

use std::io::ErrorKind;

use berth_server::limits::{HEADER_BYTES_MAX, HEADERS_MAX};

use super::HostileTarget;
use crate::client::{HttpConnection, RawRequest, RawResponse};

/// Returns the response; `None` if the connection was closed.
fn send_raw(target: &HostileTarget, bytes: &[u8]) -> Option<RawResponse> {
    let mut client = HttpConnection::connect(target.server.address);
    let _ = client.send(bytes);
    let silent = |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    let answer = client.receive();
    assert!(!answer.as_ref().is_err_and(silent), "neither an answer nor a close");
    answer.ok()
}

/// Expects a refusal by the HTTP layer, before routing.
fn check_refused(target: &HostileTarget, what: &str, bytes: &[u8], status: u16) {
    if let Some(answer) = send_raw(target, bytes) {
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        assert!(!answer.text().contains('<'), "{what}: {}", answer.text());
    }
}

#[test]
fn header_block_is_limited_to_16_kib() {
    let target = HostileTarget::new();
    let padded = |size: usize| {
        let bare = RawRequest::new("GET", "/healthz").header("X-Padding", "").bytes().len();
        let bytes = RawRequest::new("GET", "/healthz").header("X-Padding", &"x".repeat(size - bare)).bytes();
        assert_eq!(bytes.len(), size);
        bytes
    };
    assert_eq!(send_raw(&target, &padded(HEADER_BYTES_MAX)).map(|answer| answer.status), Some(200));
    for size in [HEADER_BYTES_MAX + 1, 2 * HEADER_BYTES_MAX, 64 * HEADER_BYTES_MAX] {
        check_refused(&target, &format!("{size} bytes"), &padded(size), 431);
    }
    // The server must refuse the header block as soon as it is too long, without waiting for its end.
    let endless = padded(64 * HEADER_BYTES_MAX);
    for size in [HEADER_BYTES_MAX + 1, 60 * HEADER_BYTES_MAX] {
        check_refused(&target, "a head without end", &endless[..size], 431);
    }
    target.check_unharmed();
}

#[test]
fn request_needs_exactly_one_host() {
    let target = HostileTarget::new();
    for head in ["GET /healthz HTTP/1.1\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"] {
        assert_eq!(send_raw(&target, head.as_bytes()).map(|answer| answer.status), Some(400), "{head}");
    }
    target.check_unharmed();
}

#[test]
fn header_count_is_limited_to_100() {
    let target = HostileTarget::new();
    // `Host`, which is always sent, is one of the 100.
    let with = |count: usize| {
        let request = RawRequest::new("GET", "/healthz");
        (1..count).fold(request, |request, number| request.header(&format!("X-{number}"), "x")).bytes()
    };
    assert_eq!(send_raw(&target, &with(HEADERS_MAX)).map(|answer| answer.status), Some(200));
    for count in [HEADERS_MAX + 1, 1_000] {
        check_refused(&target, &format!("{count} headers"), &with(count), 431);
    }
    target.check_unharmed();
}

#[test]
fn non_http_bytes_are_refused() {
    let target = HostileTarget::new();
    let post = |headers: &str| {
        let token = &target.api().token;
        let path = "/api/v1/organizations/acme/pipelines/shop/stop";
        format!("POST {path} HTTP/1.1\r\nHost: berth\r\nAuthorization: Bearer {token}\r\n{headers}\r\n")
            .into_bytes()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20)),
        ("an HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("zeroes", vec![0; 4096]),
        ("another version", b"GET /healthz HTTP/9.9\r\n\r\n".to_vec()),
        ("no version", b"GET /healthz\r\n\r\n".to_vec()),
        ("no path", b"GET HTTP/1.1\r\n\r\n".to_vec()),
        ("a space in the path", b"GET /heal thz HTTP/1.1\r\n\r\n".to_vec()),
        ("a zero in the path", b"GET /healthz\0 HTTP/1.1\r\n\r\n".to_vec()),
        ("a space before the colon", b"GET /healthz HTTP/1.1\r\nHost : berth\r\n\r\n".to_vec()),
        ("a zero in a header", b"GET /healthz HTTP/1.1\r\nHost: be\0rth\r\n\r\n".to_vec()),
        ("a header without a colon", b"GET /healthz HTTP/1.1\r\nHost\r\n\r\n".to_vec()),
        ("two lengths", [&post("Content-Length: 2\r\nContent-Length: 3\r\n")[..], b"{} "].concat()),
        ("a list of lengths", [&post("Content-Length: 2, 3\r\n")[..], b"{} "].concat()),
        ("a negative length", post("Content-Length: -1\r\n")),
        ("a length with a sign", [&post("Content-Length: +2\r\n")[..], b"{}"].concat()),
        ("a length beyond numbers", post("Content-Length: 99999999999999999999\r\n")),
        ("an unknown coding", [&post("Transfer-Encoding: gzip\r\n")[..], b"{}"].concat()),
        ("chunked, but not last", [&post("Transfer-Encoding: chunked, gzip\r\n")[..], b"0\r\n\r\n"].concat()),
        (
            "a chunk of no size",
            [&post("Transfer-Encoding: chunked\r\n")[..], b"zz\r\n{}\r\n0\r\n\r\n"].concat(),
        ),
        (
            "a chunk of a negative size",
            [&post("Transfer-Encoding: chunked\r\n")[..], b"-2\r\n{}\r\n0\r\n\r\n"].concat(),
        ),
        (
            "a chunk beyond numbers",
            [&post("Transfer-Encoding: chunked\r\n")[..], b"fffffffffffffffff2\r\n{}"].concat(),
        ),
        (
            "a chunk longer than it says",
            [&post("Transfer-Encoding: chunked\r\n")[..], b"1\r\n{}\r\n0\r\n\r\n"].concat(),
        ),
    ];
    for (what, bytes) in &cases {
        check_refused(&target, what, bytes, 400);
    }
    target.check_unharmed();
}

#[test]
fn conflicting_lengths_close_the_connection() {
    let target = HostileTarget::new();
    let request = target.api().request("POST", "/api/v1/organizations/acme/pipelines/shop/resume");
    let request = request.header("Content-Length", "4").header("Transfer-Encoding", "chunked");
    let smuggled = target.api().request("POST", "/api/v1/organizations/acme/pipelines/shop/stop");
    let mut client = HttpConnection::connect(target.server.address);
    client.send(&[&request.bytes()[..], b"0\r\n\r\n", &smuggled.bytes()].concat()).unwrap();
    if let Ok(answer) = client.receive() {
        assert!([200, 400].contains(&answer.status), "{}", answer.text());
        assert!(client.is_closed(), "what follows was taken for a request");
    }
    target.check_unharmed();
}
