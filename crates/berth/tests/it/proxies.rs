//! nginx and HAProxy in front of the server, configured as documented: keep-alive connections do not break during a
//! request, and event streams and long polls work.

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use berth_server::limits::{
    HEADER_READ_MAX, JSON_BODY_BYTES_MAX, KEEP_ALIVE_S_DEFAULT, KEEP_ALIVE_S_MAX, STREAM_CHECK_EVERY,
    WAIT_S_MAX,
};
use berth_testkit::outcome;
use serde_json::json;
use tempfile::TempDir;

use crate::client::{ApiHandle, HttpConnection, RawRequest};
use crate::harness::{BerthProcess, TestHome, TestServer, berth, wait_until};

const ORGANIZATION: &str = "/api/v1/organizations/acme";
const ENVIRONMENT: &str = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/load-balancers.md");
const DEFINITION: &str = "version: 1\npipeline:\n  name: Shop\n  stages:\n    - name: staging\n  steps:\n    \
    - name: Pretend\n      type: dummy\n  ephemeral_environments:\n    qa-1: {}\n";
const REQUESTS: usize = 10_000;
const CLIENTS: usize = 8;
/// Too large to fit into one packet with the header block.
const REFUSED_BODY_BYTES: usize = 64 * 1024;
const PATIENCE: Duration = Duration::from_secs(60);
const START_MAX: Duration = Duration::from_secs(60);
const REFUSAL_MAX: Duration = Duration::from_secs(60);
/// Idle timeout of nginx and of AWS load balancers.
const PROXY_IDLE_MAX: Duration = Duration::from_secs(60);

/// A server behind a proxy.
struct ProxiedServer {
    proxy: BerthProcess,
    dir: TempDir,
    api: ApiHandle,
    server: TestServer,
    _home: TestHome,
}

impl ProxiedServer {
    /// Returns `None` if the proxy is not installed.
    fn start(
        program: &str,
        package: &str,
        command: impl Fn(&Path, SocketAddr, SocketAddr) -> Command,
    ) -> Option<Self> {
        if !Path::new(program).exists() {
            outcome::skip(program, &format!("apt-get install {package}"));
            return None;
        }
        let home = TestHome::new();
        // Start the server without `--local`, as in production, because `--local` does not trust proxies.
        let mut serve =
            berth(&["serve", "--listen", "127.0.0.1:0", "--rate-limit", "off", "--no-runner", "--data-dir"]);
        serve.arg(home.path()).env("BERTH_TRUSTED_PROXIES", "127.0.0.1");
        if let Some(url) = home.database() {
            serve.args(["--database", url]);
        }
        let server = TestServer::start(&mut serve, &home.token);
        let made = server
            .api
            .post(&format!("{ORGANIZATION}/pipelines"), &json!({"slug": "shop", "definition": DEFINITION}));
        assert_eq!(made.status, 201, "{}", made.text());
        let dir = tempfile::tempdir().expect("a temporary directory");
        let address = free_address();
        let mut proxy = BerthProcess::start(&mut command(dir.path(), address, server.address));
        wait_until(START_MAX, "proxy", || {
            assert!(!proxy.has_ended(), "the proxy ended: {}", proxy.stderr());
            TcpStream::connect(address).ok()
        });
        let api = ApiHandle { address, token: home.token.clone() };
        Some(Self { proxy, dir, api, server, _home: home })
    }
}

fn nginx() -> Option<ProxiedServer> {
    ProxiedServer::start("/usr/sbin/nginx", "nginx-light", |dir, listen, server| {
        let site = configuration("nginx", server)
            .replace("listen 443 ssl;", &format!("listen {listen};"))
            .lines()
            .filter(|line| !line.contains("ssl_certificate"))
            .collect::<Vec<_>>()
            .join("\n");
        let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path temp;\n"))
            .concat();
        let text = format!(
            "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temp}{site}\n}}\n"
        );
        std::fs::write(dir.join("nginx.conf"), text).expect("a configuration");
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-p").arg(dir).args(["-e", "stderr", "-c", "nginx.conf"]);
        command
    })
}

fn haproxy() -> Option<ProxiedServer> {
    ProxiedServer::start("/usr/sbin/haproxy", "haproxy", |dir, listen, server| {
        let site = configuration("haproxy", server)
            .replace("bind :443 ssl crt /etc/haproxy/berth.pem", &format!("bind {listen}"));
        let text = format!("global\n    stats socket {}\n{site}\n", dir.join("stats").display());
        std::fs::write(dir.join("haproxy.cfg"), text).expect("a configuration");
        let mut command = Command::new("/usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(dir.join("haproxy.cfg"));
        command
    })
}

/// The configuration from the documentation, adapted to this server.
fn configuration(language: &str, server: SocketAddr) -> String {
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let block = page.split(&format!("```{language}\n")).nth(1).and_then(|rest| rest.split("```").next());
    block.expect("a block").replace("127.0.0.1:8080", &server.to_string())
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Returns requests with their expected statuses: reads, changes, and refused requests whose body the server does not
/// read.
fn sample_requests(api: &ApiHandle) -> Vec<(RawRequest, u16)> {
    let refused =
        RawRequest::new("POST", &format!("{ENVIRONMENT}/sessions")).header("Authorization", "Bearer wrong");
    let large = vec![b' '; REFUSED_BODY_BYTES];
    vec![
        (api.request("GET", ENVIRONMENT), 200),
        (api.request("GET", &format!("{ORGANIZATION}/pipelines")), 200),
        (api.request("GET", &format!("{ORGANIZATION}/pipelines/none")), 404),
        (api.request("POST", &format!("{ORGANIZATION}/pipelines")).json(&json!({"slug": "shop"})), 400),
        (api.request("GET", "/healthz"), 200),
        (refused.clone().body(large.clone()), 401),
        (api.request("POST", "/api/v1/nothing").body(large), 404),
        (refused.json(&json!({"commitId": "abc"})), 401),
        (api.request("GET", &format!("{ORGANIZATION}/events?limit=1")), 200),
        (api.request("DELETE", ENVIRONMENT).body(*b"{}"), 405),
    ]
}

/// Sends one client's share of the requests on a keep-alive connection.
fn send_share(api: &ApiHandle, client_number: usize) {
    let requests = sample_requests(api);
    let mut client = HttpConnection::connect(api.address);
    for number in 0..REQUESTS / CLIENTS {
        let (request, status) = &requests[(client_number + number) % requests.len()];
        let what =
            || format!("request {number} of client {client_number}, {} {}", request.method, request.path);
        let response = client.send_request(request).unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert_eq!(response.status, *status, "{}: {}", what(), response.text());
        // nginx closes a client's connection after 1,000 requests.
        if response.header("connection") == Some("close") {
            client = HttpConnection::connect(api.address);
        }
    }
}

/// Follows events through the proxy and checks that events and heartbeats arrive without delay.
fn follow_events(proxied: &ProxiedServer) {
    let mut client = HttpConnection::connect(proxied.api.address);
    let path = format!("{ORGANIZATION}/events");
    let follow = proxied.api.request("GET", &path).header("Accept", "text/event-stream");
    client.send(&follow.bytes()).expect("sent");
    let mut wait_for = |wanted: &dyn Fn(&str) -> bool, within: Duration| {
        let (started, mut line) = (Instant::now(), String::new());
        while !wanted(&line) {
            line.clear();
            assert!(client.stream.read_line(&mut line).expect("a line") > 0, "the stream ended");
            assert!(started.elapsed() < within, "waited {:?}", started.elapsed());
        }
    };
    wait_for(&|line| line.starts_with("id:"), PATIENCE);
    let stop = format!("{ORGANIZATION}/pipelines/shop/stop");
    assert_eq!(proxied.server.api.post(&stop, &json!({"reason": "a sign through the proxy"})).status, 200);
    wait_for(&|line| line.contains("a sign through the proxy"), PATIENCE);
    wait_for(&|line| line.starts_with(':'), STREAM_CHECK_EVERY + PATIENCE);
}

/// Long-polls through the proxy, for a queue ticket and for a change that does not happen.
fn long_poll(proxied: &ProxiedServer) {
    let (near, far) = (&proxied.server.api, &proxied.api);
    let sessions = format!("{ENVIRONMENT}/sessions");
    let held = near.post(&sessions, &json!({}));
    assert_eq!(held.status, 201, "{}", held.text());
    let session = held.json()["data"]["sessionId"].as_str().expect("a session").to_owned();
    let waits = near.post(&sessions, &json!({"queue": true}));
    let ticket = waits.json()["data"]["ticketId"].as_str().expect("a ticket").to_owned();

    let seconds = HEADER_READ_MAX.as_secs() + 2;
    let started = Instant::now();
    let unchanged = far.get(&format!("{ENVIRONMENT}/queue/{ticket}?wait={seconds}"));
    assert_eq!(unchanged.status, 200, "{}", unchanged.text());
    assert!(started.elapsed() >= Duration::from_secs(seconds), "answered after {:?}", started.elapsed());

    std::thread::scope(|scope| {
        let granted = scope.spawn(|| far.get(&format!("{ENVIRONMENT}/queue/{ticket}?wait={WAIT_S_MAX}")));
        std::thread::sleep(Duration::from_millis(300));
        let released = near.send(&near.request("DELETE", &format!("{sessions}/{session}")));
        assert!(released.status < 300, "{}", released.text());
        let granted = granted.join().expect("an answer");
        assert_eq!(
            (granted.status, &granted.json()["data"]["status"]),
            (200, &json!("granted")),
            "{}",
            granted.text()
        );
    });
}

/// Sends requests, follows events and long-polls, all at the same time.
fn check_proxy(proxied: &ProxiedServer) {
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            scope.spawn(move || send_share(&proxied.api, number));
        }
        scope.spawn(|| follow_events(proxied));
        scope.spawn(|| long_poll(proxied));
    });
    outcome::report_coverage(&format!("{} requests through a proxy", outcome::group_digits(REQUESTS)));
}

#[test]
fn nginx_passes_ten_thousand_requests_without_a_broken_connection() {
    let Some(proxied) = nginx() else { return };
    check_proxy(&proxied);
    let log = proxied.proxy.stderr();
    assert!(!log.contains("[error]") && !log.contains("[crit]"), "{log}");
    proxied.server.check_healthy();
}

#[test]
fn haproxy_passes_ten_thousand_requests_without_a_broken_connection() {
    let Some(proxied) = haproxy() else { return };
    check_proxy(&proxied);
    let mut socket = UnixStream::connect(proxied.dir.path().join("stats")).expect("the statistics");
    socket.write_all(b"show stat\n").expect("asked");
    let mut table = String::new();
    socket.read_to_string(&mut table).expect("a table");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let server = rows.iter().find(|row| row.get(1) == Some(&"berth1")).expect("the server's row");
    for column in ["econ", "eresp", "wretr", "wredis", "hrsp_5xx"] {
        let at = rows[0].iter().position(|name| *name == column).expect("a column");
        assert_eq!(server[at], "0", "{column}: {table}");
    }
    proxied.server.check_healthy();
}

#[test]
fn idle_connection_outlives_the_header_timeout() {
    let home = TestHome::new();
    let server = home.serve();
    let mut client = HttpConnection::connect(server.address);
    let health = RawRequest::new("GET", "/healthz");
    assert_eq!(client.send_request(&health).expect("an answer").status, 200);
    std::thread::sleep(HEADER_READ_MAX + Duration::from_secs(2));
    assert_eq!(client.send_request(&health).expect("an answer on the kept connection").status, 200);
}

#[test]
fn keep_alive_timeout_closes_only_idle_connections() {
    const KEEP_ALIVE: Duration = Duration::from_secs(3);
    let home = TestHome::new();
    let mut serve = home.serve_command();
    let server = TestServer::start(serve.env("BERTH_HTTP__KEEP_ALIVE_SECONDS", "3"), &home.token);
    let health = RawRequest::new("GET", "/healthz").bytes();
    let mut client = HttpConnection::connect(server.address);
    for _ in 0..3 {
        client.send(&health).expect("sent");
        assert_eq!(client.receive().expect("an answer").status, 200);
        std::thread::sleep(KEEP_ALIVE / 3);
    }
    // A header block that was started in time may be completed.
    client.send(&health[..10]).expect("sent");
    std::thread::sleep(KEEP_ALIVE + Duration::from_secs(1));
    // The server counts from its response, which is later than the end of the request.
    let sent = Instant::now();
    client.send(&health[10..]).expect("sent");
    assert_eq!(client.receive().expect("an answer").status, 200);
    assert!(client.is_closed());
    let limits = KEEP_ALIVE..HEADER_READ_MAX;
    assert!(limits.contains(&sent.elapsed()), "closed after {:?}", sent.elapsed());

    // The connection is closed if a header block takes too long.
    let mut client = HttpConnection::connect(server.address);
    client.send(&[&health[..], &health[..]].concat()).expect("sent");
    assert_eq!(client.receive().expect("an answer").status, 200);
    assert_eq!(client.receive().expect("an answer").status, 200);
    client.send(&health[..10]).expect("sent");
    let slow = Instant::now();
    assert!(client.is_closed());
    let limits = HEADER_READ_MAX - Duration::from_secs(1)..HEADER_READ_MAX * 2;
    assert!(limits.contains(&slow.elapsed()), "closed after {:?}", slow.elapsed());
}

#[test]
fn connection_with_unread_body_is_kept_or_announced_closed() {
    let home = TestHome::new();
    let server = home.serve();
    let refused =
        |body: usize| RawRequest::new("POST", &format!("{ORGANIZATION}/pipelines")).body(vec![b' '; body]);
    let mut client = HttpConnection::connect(server.address);
    for _ in 0..3 {
        let answer = client.send_request(&refused(REFUSED_BODY_BYTES)).expect("an answer");
        assert_eq!((answer.status, answer.header("connection")), (401, None));
    }
    let too_large = vec![b' '; JSON_BODY_BYTES_MAX + 1];
    let large = server.api.request("POST", &format!("{ORGANIZATION}/pipelines")).body(too_large);
    let large = client.send_request(&large);
    let large = large.expect("an answer");
    assert_eq!((large.status, large.header("connection")), (413, None), "{}", large.text());
    // With `Expect: 100-continue`, a client sends the body only after the server has asked for it. The server does not
    // ask for it here.
    let mut waiting = refused(REFUSED_BODY_BYTES).header("Expect", "100-continue").bytes();
    waiting.truncate(waiting.len() - REFUSED_BODY_BYTES);
    client.send(&waiting).expect("sent");
    let answer = client.receive().expect("an answer");
    assert_eq!((answer.status, answer.header("connection")), (401, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn keep_alive_out_of_range_is_refused_at_start() {
    let home = TestHome::on_sqlite();
    for (bad, says) in [
        ("0", "is 0"),
        ("7201", "is 7201"),
        ("-1", "http.keep_alive_seconds"),
        ("soon", "http.keep_alive_seconds"),
    ] {
        let mut serve = home.serve_command();
        let refused = BerthProcess::start(serve.env("BERTH_HTTP__KEEP_ALIVE_SECONDS", bad)).wait(REFUSAL_MAX);
        refused.expect_refusal(&["keep_alive_seconds", says]);
    }
    let mut serve = home.serve_command();
    TestServer::start(serve.env("BERTH_HTTP__KEEP_ALIVE_SECONDS", KEEP_ALIVE_S_MAX.to_string()), &home.token)
        .stop();
}

#[test]
fn long_polls_are_shorter_and_keep_alive_longer_than_proxy_timeouts() {
    assert!(Duration::from_secs(KEEP_ALIVE_S_DEFAULT) > PROXY_IDLE_MAX);
    assert!(Duration::from_secs(WAIT_S_MAX.unsigned_abs()) < PROXY_IDLE_MAX);
    assert!(STREAM_CHECK_EVERY < PROXY_IDLE_MAX / 2);
}
