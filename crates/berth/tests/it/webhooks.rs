//! The server is killed between a webhook delivery and the commit that records it: the delivery is repeated with the
//! same id, and none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{DEFINITION, TestHome, TestServer, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";
const WEBHOOK: &str = "/api/v1/organizations/acme/webhooks/ops";

/// A received request that has no response yet.
struct PendingDelivery {
    id: String,
    body: String,
    stream: TcpStream,
}

impl PendingDelivery {
    fn accept(mut self) {
        // Ignore an error: the sender may have been killed.
        let _ = self.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }

    fn sequence(&self) -> i64 {
        let body: Value = serde_json::from_str(&self.body).expect("JSON");
        body["data"]["sequence"].as_i64().expect("a number")
    }
}

/// Receives requests and passes them to the test, which decides when to respond.
fn start_receiver() -> (SocketAddr, Receiver<PendingDelivery>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, arrived) = sync_channel(100);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            std::thread::spawn(move || read_delivery(stream, &tell));
        }
    });
    (address, arrived)
}

fn read_delivery(stream: TcpStream, tell: &SyncSender<PendingDelivery>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        // The sender was killed in the middle of a request.
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.to_owned()),
            None if line == "\r\n" => break,
            None => None,
        };
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let id = headers.get("webhook-id")?.clone();
    tell.send(PendingDelivery { id, body: String::from_utf8(body).ok()?, stream }).ok()
}

fn start(home: &TestHome) -> TestServer {
    let mut command = home.serve_command();
    command.args(["--no-runner", "--egress-allow", "127.0.0.1"]).env("BERTH_LOG__LEVEL", "warn");
    TestServer::start(&mut command, &home.token)
}

fn stop_and_resume(server: &TestServer) {
    for verb in ["stop", "resume"] {
        assert_eq!(server.api.post(&format!("{PIPELINES}/shop/{verb}"), &json!({})).status, 200);
    }
}

#[test]
fn webhook_after_kill_is_redelivered_with_the_same_id() {
    let home = TestHome::new();
    let (address, arrivals) = start_receiver();
    let next = || arrivals.recv_timeout(PATIENCE).expect("a delivery");
    let mut server = start(&home);
    let body = json!({"slug": "shop", "definition": DEFINITION});
    assert_eq!(server.api.post(PIPELINES, &body).status, 201);
    let kinds = ["pipeline_stopped", "pipeline_resumed"];
    let body = json!({"name": "ops", "url": format!("http://{address}/"), "kinds": kinds});
    let made = server.api.post("/api/v1/organizations/acme/webhooks", &body);
    assert_eq!(made.status, 201, "{}", made.text());

    let mut told = BTreeSet::new();
    for _ in 0..4 {
        stop_and_resume(&server);
        // The receiver has the request, but the server is killed before it records the delivery.
        let first = next();
        server.process.kill();
        drop(server);
        server = start(&home);
        let again = next();
        assert_eq!((&again.id, &again.body), (&first.id, &first.body));
        told.insert(again.sequence());
        again.accept();
        let last = next();
        assert_ne!(last.id, first.id);
        told.insert(last.sequence());
        last.accept();
        // Also kill the server just after an event, before it starts the delivery of that event.
        stop_and_resume(&server);
        server.process.kill();
        drop(server);
        server = start(&home);
        while told.len() % 4 != 0 {
            let found = next();
            told.insert(found.sequence());
            found.accept();
        }
    }
    let wanted = events(&server, &kinds);
    assert_eq!((told.len(), &told), (16, &wanted));
    wait_until(PATIENCE, "end of all deliveries", || {
        let seen = server.api.get(WEBHOOK).json();
        (seen["data"]["pending"] == 0).then_some(())
    });
    let log = server.api.get(&format!("{WEBHOOK}/deliveries?limit=200")).json();
    assert_eq!(log["pagination"]["total"], 16, "one delivery for each event: {log}");
    server.stop();
}

fn events(server: &TestServer, kinds: &[&str]) -> BTreeSet<i64> {
    let list = server.api.get("/api/v1/organizations/acme/events?limit=200").json();
    let events = list["data"].as_array().expect("a list").clone();
    let told = events.iter().filter(|event| kinds.iter().any(|kind| event["kind"] == *kind));
    told.map(|event| event["sequence"].as_i64().expect("a number")).collect()
}
