//! The server shuts down in time, no matter what its clients do.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{HttpConnection, RawRequest};
use crate::harness::TestHome;

/// Maximum shutdown time when no request is in progress.
const AT_ONCE: Duration = Duration::from_secs(3);

#[test]
fn shutdown_does_not_wait_for_a_partial_request() {
    let home = TestHome::new();
    let server = home.serve();
    let post = server.api.request("POST", "/api/v1/organizations/acme/pipelines");
    let halves: [(&str, Vec<u8>); 4] = [
        ("in the request line", b"GET /heal".to_vec()),
        ("in the headers", b"GET /healthz HTTP/1.1\r\nHost: be".to_vec()),
        ("in the body", post.clone().body(vec![b' '; 1000]).bytes()[..500].to_vec()),
        ("in a chunk", [&post.header("Transfer-Encoding", "chunked").bytes()[..], b"40\r\n{"].concat()),
    ];
    let _held: Vec<_> = halves
        .iter()
        .map(|(what, half)| {
            let mut client = HttpConnection::connect(server.address);
            client.send(half).unwrap_or_else(|error| panic!("{what}: {error}"));
            client
        })
        .collect();
    server.check_healthy();
    server.stop();
}

#[test]
fn shutdown_closes_idle_connections_immediately() {
    let home = TestHome::new();
    let server = home.serve();
    let mut kept = HttpConnection::connect(server.address);
    assert_eq!(kept.send_request(&RawRequest::new("GET", "/healthz")).unwrap().status, 200);
    let mut silent = HttpConnection::connect(server.address);
    // Connections are accepted in order: once this request has been answered, the idle connection has been accepted
    // too.
    server.check_healthy();
    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    assert!(kept.is_closed() && silent.is_closed());
}

#[test]
fn hangup_does_not_stop_the_server() {
    let home = TestHome::new();
    let server = home.serve();
    server.process.signal(Signal::HUP);
    server.check_healthy();
    server.stop();
}
