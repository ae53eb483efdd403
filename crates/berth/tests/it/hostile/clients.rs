//! HTTP/1.0 clients, pipelining clients, and clients that disconnect early.

use std::time::Duration;

use serde_json::json;

use super::HostileTarget;
use crate::client::{HttpConnection, RawRequest};
use crate::harness::DEFINITION;

const CREATE: &str = "/api/v1/organizations/acme/pipelines";

#[test]
fn http_1_0_client_gets_a_response_and_a_close() {
    let target = HostileTarget::new();
    let mut client = HttpConnection::connect(target.server.address);
    client.send(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(client.receive().unwrap().status, 200);
    assert!(client.is_closed());

    let authorization = format!("Authorization: Bearer {}", target.api().token);
    let mut client = HttpConnection::connect(target.server.address);
    client
        .send(format!("GET /organizations/acme/pipelines HTTP/1.0\r\n{authorization}\r\n\r\n").as_bytes())
        .unwrap();
    assert_eq!(client.receive().unwrap().json()["data"][0]["slug"], "shop");
    assert!(client.is_closed());
    target.check_unharmed();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let target = HostileTarget::new();
    let mut client = HttpConnection::connect(target.server.address);
    let verb = |number: usize| if number.is_multiple_of(2) { "stop" } else { "resume" };
    let request = |number: usize| {
        let path = format!("{CREATE}/shop/{}", verb(number));
        target
            .api()
            .request("POST", &path)
            .header("X-Request-Id", &format!("no-{number}"))
            .json(&json!({}))
            .bytes()
    };
    client.send(&(0..100).flat_map(request).collect::<Vec<_>>()).unwrap();
    for number in 0..100 {
        let answer = client.receive().unwrap();
        assert_eq!(answer.header("x-request-id"), Some(format!("no-{number}").as_str()));
        let status = if verb(number) == "stop" { "stopped" } else { "active" };
        assert_eq!(answer.json()["data"]["status"], status, "no-{number}");
    }
    // After a refused request, the following responses on the connection still match their requests.
    let refused = target.api().request("POST", CREATE).json(&json!({ "slug": 7 })).bytes();
    let healthy = RawRequest::new("GET", "/healthz").bytes();
    client.send(&[refused, healthy].concat()).unwrap();
    assert_eq!([client.receive().unwrap().status, client.receive().unwrap().status], [400, 200]);
    target.check_unharmed();
}

#[test]
fn partial_body_has_no_effect() {
    let target = HostileTarget::new();
    let body = json!({ "slug": "half", "definition": DEFINITION });
    let whole = target.api().request("POST", CREATE).json(&body).bytes();
    let chunked = target.api().request("POST", CREATE).header("Transfer-Encoding", "chunked").bytes();
    let text = body.to_string();
    let chunk = [&chunked[..], format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()].concat();
    for round in 0..50 {
        // The request without its last byte, without half of its body, or without its terminating chunk.
        let cuts = [&whole[..whole.len() - 1], &whole[..whole.len() - text.len() / 2], &chunk];
        let mut client = HttpConnection::connect(target.server.address);
        client.send(cuts[round % cuts.len()]).unwrap();
    }
    target.check_unharmed();
}

#[test]
fn client_that_never_reads_does_not_block_others() {
    let target = HostileTarget::new();
    let mut clients: Vec<_> = (0..4).map(|_| HttpConnection::connect(target.server.address)).collect();
    let requests = target.api().request("GET", "/organizations/acme/events").bytes().repeat(200);
    for client in &mut clients {
        // Send requests until the socket buffers are full.
        client.stream.get_mut().set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        while client.send(&requests).is_ok() {}
        target.server.check_healthy();
    }
    drop(clients);
    target.check_unharmed();
}
