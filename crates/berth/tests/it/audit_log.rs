//! The audit log from an operator's view: export, offline and online verification, and following new events.

use std::io::BufRead as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::HttpConnection;
use crate::harness::{DEFINITION, ProcessOutput, TestHome, TestServer, run};

const EVENTS: &str = "/api/v1/organizations/acme/events";

fn record_events(server: &TestServer) {
    for number in 0..5 {
        let body = json!({"slug": format!("p-{number}"), "definition": DEFINITION});
        assert_eq!(server.api.post("/api/v1/organizations/acme/pipelines", &body).status, 201);
    }
}

pub(crate) fn export(server: &TestServer) -> Vec<u8> {
    let request = server.api.request("GET", &format!("{EVENTS}/export")).header("Connection", "close");
    let answer = server.api.send(&request);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
    decode_chunked(&answer.body)
}

fn decode_chunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").expect("the size of a chunk");
        let size = usize::from_str_radix(&String::from_utf8_lossy(&body[..end]), 16).expect("a number");
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 2 + size + 2..];
    }
}

pub(crate) fn verify(file: &Path, more: &[&str]) -> ProcessOutput {
    run(&[&["event", "verify", file.to_str().expect("a path in UTF-8")], more].concat())
}

/// Runs `event verify --json` and returns exit code and output.
fn verify_json(file: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let ran = verify(file, &[&["--json"], more].concat());
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}")))
}

#[test]
fn export_verified_offline_names_the_line_of_every_fault() {
    let home = TestHome::new();
    let server = home.serve();
    record_events(&server);
    let whole = export(&server);
    server.stop();
    let file = home.path().join("export.jsonl");
    let put = |bytes: &[u8]| std::fs::write(&file, bytes).unwrap();
    put(&whole);

    let (code, good) = verify_json(&file, &[]);
    assert_eq!((code, &good["valid"], &good["checked"]), (Some(0), &json!(true), &json!(8)));
    let head = format!("8:{}", good["head"]["hash"].as_str().unwrap());
    let told = verify(&file, &["--head", &head]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stdout.contains("valid (8 events)") && told.stdout.contains(&head), "{told:?}");

    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let problem = |bytes: &[u8], more: &[&str]| {
        put(bytes);
        let (code, found) = verify_json(&file, more);
        assert_eq!((code, &found["valid"]), (Some(1), &json!(false)), "{found}");
        let first = &found["firstProblem"];
        (first["reason"].as_str().unwrap().to_owned(), first["sequence"].clone(), first["line"].clone())
    };
    let edited = whole.iter().map(|byte| if *byte == b'p' { b'q' } else { *byte }).collect::<Vec<_>>();
    assert_eq!(problem(&[lines[0], &edited[lines[0].len()..]].concat(), &[]).0, "edited");
    let without = |place: usize| [&lines[..place], &lines[place + 1..]].concat().concat();
    assert_eq!(problem(&without(3), &[]), ("missing".into(), json!(4), json!(4)));
    assert_eq!(problem(&without(8), &[]), ("truncated".into(), json!(9), json!(8)));
    let swapped = [lines[0], lines[2], lines[1], &lines[3..].concat()].concat();
    assert_eq!(problem(&swapped, &[]), ("unexpected".into(), json!(2), json!(2)));
    let later = format!("9:{}", &head[2..]);
    assert_eq!(problem(&whole, &["--head", &later]).0, "truncated");
    let other = format!("7:{}", &head[2..]);
    assert_eq!(problem(&whole, &["--head", &other]), ("head_differs".into(), json!(7), json!(7)));
    let told = verify(&file, &["--head", &other]);
    assert!(told.stdout.contains("export.jsonl:7: event 7, head_differs"), "{told:?}");
}

#[test]
fn verify_refuses_a_file_that_is_not_an_export() {
    let home = TestHome::new();
    let file = home.path().join("other.txt");
    verify(&file, &[]).expect_refusal(&["cannot read", "other.txt"]);
    for other in ["", "not an export\n", "{\"data\": []}\n"] {
        std::fs::write(&file, other).unwrap();
        verify(&file, &[]).expect_refusal(&["other.txt", "not an export of events"]);
        verify(&file, &["--json"]).expect_refusal(&["not an export of events"]);
    }
    let ran = verify(&file, &["--head", "7"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn server_detects_a_tampered_database() {
    let home = TestHome::new();
    let server = home.serve();
    record_events(&server);
    let ask = |server: &TestServer, body: &Value| {
        server.api.post(&format!("{EVENTS}/verify"), body).json()["data"].clone()
    };
    let good = ask(&server, &json!({}));
    assert_eq!((&good["valid"], &good["checked"]), (&json!(true), &json!(8)));
    server.stop();

    let db = rusqlite::Connection::open(home.path().join("berth.db")).unwrap();
    db.execute("UPDATE events SET actor = replace(actor, 'ada', 'eve') WHERE sequence = 5", []).unwrap();
    let server = home.serve();
    let found = ask(&server, &json!({}));
    assert_eq!((&found["valid"], &found["checked"]), (&json!(false), &json!(4)));
    assert_eq!(found["firstProblem"]["reason"], "edited");
    assert_eq!(found["firstProblem"]["sequence"], 5);
    server.stop();

    db.execute_batch("DELETE FROM events WHERE sequence > 4").unwrap();
    let hash = "SELECT hash FROM events WHERE events.org_id = event_heads.org_id AND sequence = 4";
    db.execute(&format!("UPDATE event_heads SET sequence = 4, hash = ({hash})"), []).unwrap();
    let server = home.serve();
    assert_eq!(ask(&server, &json!({}))["valid"], true);
    let found = ask(&server, &json!({"head": good["head"]}));
    assert_eq!((&found["valid"], &found["firstProblem"]["reason"]), (&json!(false), &json!("truncated")));
    assert_eq!(found["firstProblem"]["sequence"], 5);
    server.stop();
}

#[test]
fn event_stream_delivers_events_and_does_not_delay_shutdown() {
    let home = TestHome::new();
    let server = home.serve();
    let mut client = HttpConnection::connect(server.address);
    let follow = server.api.request("GET", EVENTS).header("Accept", "text/event-stream");
    client.send(&follow.bytes()).unwrap();
    let mut wait_for = |part: &str| {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(client.stream.read_line(&mut line).unwrap() > 0, "the stream ended before {part}");
        }
    };
    wait_for("id: 3");
    record_events(&server);
    for number in 0..5 {
        wait_for(&format!("\"p-{number}\""));
    }
    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}
