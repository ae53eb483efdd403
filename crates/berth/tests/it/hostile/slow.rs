//! Slow clients are disconnected at their timeout while other clients are served normally. The timeouts are those of
//! production, so all cases run concurrently.

use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};

use berth_server::limits::{BODY_IDLE_MAX, HEADER_READ_MAX};

use super::HostileTarget;
use crate::client::HttpConnection;

const GRACE: Duration = Duration::from_secs(2);
const HALF_OPEN: usize = 500;
/// Maximum latency for other clients.
const ANSWER_MAX: Duration = Duration::from_secs(2);
const PACE: Duration = Duration::from_millis(200);

/// Sends one byte at a time until the connection is closed; returns how long that took and the response.
fn send_slowly(mut client: HttpConnection, mut bytes: impl Iterator<Item = u8>) -> (Duration, String) {
    let started = Instant::now();
    let stream = client.stream.get_mut();
    stream.set_read_timeout(Some(PACE)).expect("a read timeout");
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let sent = bytes.next().map_or(Ok(()), |byte| std::io::Write::write_all(stream, &[byte]));
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && sent.is_ok() => {}
            Err(_) => break,
        }
        assert!(started.elapsed() < 2 * BODY_IDLE_MAX, "the connection is still open");
    }
    (started.elapsed(), String::from_utf8_lossy(&answer).into_owned())
}

/// Checks when the connection was closed, and the response's status line. An empty status stands for a close without a
/// response.
fn check_timeout(what: &str, limit: Duration, statuses: &[&str], (took, answer): &(Duration, String)) {
    let status = answer.split("\r\n").next().unwrap_or_default();
    assert!(statuses.contains(&status), "{what}: {answer}");
    assert!(*took < limit + GRACE, "{what}: closed after {took:?}, the limit is {limit:?}");
    assert!(*took > limit / 2, "{what}: closed after {took:?} already");
}

#[test]
fn slow_clients_time_out_and_do_not_block_others() {
    let target = HostileTarget::new();
    let address = target.server.address;
    let connected = |first: &[u8]| {
        let mut client = HttpConnection::connect(address);
        client.send(first).expect("the first bytes are taken");
        client
    };
    let post = target.api().request("POST", "/api/v1/organizations/acme/pipelines/shop/stop");
    let body = post.clone().body(vec![b' '; 1000]).bytes();
    let chunk = [&post.header("Transfer-Encoding", "chunked").bytes()[..], b"40\r\n{"].concat();
    let endless = b"GET /healthz HTTP/1.1\r\nX-Slow: ".iter().copied().chain(std::iter::repeat(b'x'));
    let timeout = ["", "HTTP/1.1 408 Request Timeout"];

    std::thread::scope(|scope| {
        let slow_head = scope.spawn(|| send_slowly(connected(b""), endless));
        let silence = scope.spawn(|| send_slowly(connected(b""), std::iter::empty()));
        let slow_body = scope.spawn(|| send_slowly(connected(&body[..500]), std::iter::empty()));
        let slow_chunk = scope.spawn(|| send_slowly(connected(&chunk), std::iter::empty()));
        let crowd: Vec<_> = (0..HALF_OPEN).map(|_| connected(b"")).collect();
        let started = Instant::now();
        while started.elapsed() < HEADER_READ_MAX / 4 {
            let asked = Instant::now();
            assert_eq!(target.api().get("/organizations/acme/pipelines").status, 200);
            assert!(
                asked.elapsed() < ANSWER_MAX,
                "with {HALF_OPEN} half-open connections: {:?}",
                asked.elapsed()
            );
        }
        for (number, mut client) in crowd.into_iter().enumerate() {
            assert!(client.is_closed(), "silent connection {number} was not closed");
        }
        check_timeout("a slow head", HEADER_READ_MAX, &timeout, &slow_head.join().expect("an end"));
        check_timeout("silence", HEADER_READ_MAX, &timeout, &silence.join().expect("an end"));
        for (what, slow) in [("a slow body", slow_body), ("a slow chunk", slow_chunk)] {
            let ended = slow.join().expect("an end");
            check_timeout(what, BODY_IDLE_MAX, &timeout, &ended);
            assert!(
                ended.1.is_empty() || ended.1.contains("\"code\":\"request_timeout\""),
                "{what}: {}",
                ended.1
            );
        }
    });
    target.check_unharmed();
}
