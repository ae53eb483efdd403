//! Step logs: reading, searching, downloading and following.

use std::time::Duration;

use berth_engine::logs::{LOG_CHUNK_BYTES_MAX, LogKey, LogStore};
use berth_server::config::AppConfig;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::event_streams::EventStream;
use super::step_records::StepRecords;
use super::world::{TestWorld, call, get, post};

struct LogFixture {
    world: TestWorld,
    steps: StepRecords,
    deployment: String,
    /// The log of the step `deploy`.
    key: LogKey,
}

impl LogFixture {
    async fn new() -> Self {
        Self::with_config(AppConfig::local(([127, 0, 0, 1], 8080).into())).await
    }

    /// A server that checks every 50 ms whether the caller is still authorized and whether the attempt has ended.
    async fn with_fast_checks() -> Self {
        let config = AppConfig::local(([127, 0, 0, 1], 8080).into());
        Self::with_config(AppConfig { stream_check_every: Duration::from_millis(50), ..config }).await
    }

    async fn with_config(config: AppConfig) -> Self {
        let world = TestWorld::with_config(config).await;
        world.create_pipeline("shop").await;
        let sessions = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1/sessions";
        let claim = post(sessions).with_account(&world.ada).json(&json!({"commitId": "9fceb02"}));
        let claimed = world.send(claim).await;
        let deployment = claimed.body["data"]["deploymentId"].as_str().unwrap().to_owned();
        let mut steps = StepRecords::new(&world, &deployment).await;
        let key = steps.add_step(0, "deploy");
        steps.start_attempt(&key);
        Self { world, steps, deployment, key }
    }

    fn step_path(&self, rest: &str) -> String {
        format!("/api/v1/organizations/acme/deployments/{}/steps/{rest}", self.deployment)
    }

    fn append(&self, bytes: &[u8]) {
        let logs = self.world.app.logs();
        for chunk in bytes.chunks(LOG_CHUNK_BYTES_MAX) {
            let length = logs.open(&self.key).unwrap().map_or(0, |log| log.length());
            logs.append(&self.key, length, chunk).unwrap();
        }
    }

    fn seal(&self) {
        self.world.app.logs().seal(&self.key).unwrap();
    }

    async fn read_log(&self, rest: &str) -> Value {
        let reply = self.world.send(get(&self.step_path(rest)).with_account(&self.world.ada)).await;
        assert_eq!(reply.status, 200, "{rest}: {}", reply.text);
        reply.body["data"].clone()
    }

    async fn assert_refused(&self, rest: &str, status: u16, code: &str) {
        self.world
            .send(get(&self.step_path(rest)).with_account(&self.world.ada))
            .await
            .assert_problem(status, code);
    }

    async fn follow(&self, rest: &str) -> EventStream {
        EventStream::open(&self.world, get(&self.step_path(rest)).with_account(&self.world.ada)).await
    }
}

fn entry_texts(log: &Value) -> Vec<&str> {
    log["entries"].as_array().unwrap().iter().map(|entry| entry["text"].as_str().unwrap()).collect()
}

/// Returns the id, name and data of the next event, skipping heartbeats.
async fn next_log_event(stream: &mut EventStream) -> Option<(u64, String, Value)> {
    loop {
        let block = stream.next_block().await?;
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let Some(data) = field("data") else { continue };
        let id = field("id").unwrap().parse().unwrap();
        return Some((id, field("event").unwrap().to_owned(), serde_json::from_str(data).unwrap()));
    }
}

#[tokio::test]
async fn log_page_has_totals_and_the_next_position() {
    let case = LogFixture::new().await;
    case.append(b"--- Build\nhello \x1b[31mred\x1b[0m\r\n\xff\n+++ Test\nlast");
    for complete in [false, true] {
        let log = case.read_log("deploy/logs").await;
        let step = case.key.step.to_string();
        assert_eq!(
            log,
            json!({
                "stepId": step, "attempt": 1, "complete": complete, "bytes": 45, "lines": 5,
                "entries": [
                    {"line": 1, "text": "--- Build", "group": {"title": "Build", "state": "closed"}},
                    {"line": 2, "text": "hello \u{1b}[31mred\u{1b}[0m"},
                    {"line": 3, "text": "\u{fffd}"},
                    {"line": 4, "text": "+++ Test", "group": {"title": "Test", "state": "open"}},
                    {"line": 5, "text": "last"},
                ],
            })
        );
        let part = case.read_log("deploy/logs?fromLine=2&toLine=3").await;
        assert_eq!((entry_texts(&part).len(), &part["nextLine"]), (2, &json!(4)));
        let tail = case.read_log("deploy/logs?tail=2").await;
        assert_eq!((entry_texts(&tail), &tail["nextLine"]), (vec!["+++ Test", "last"], &Value::Null));
        assert_eq!(entry_texts(&case.read_log("deploy/logs?fromLine=6").await), Vec::<&str>::new());
        let found = case.read_log("deploy/logs?q=T&limit=1").await;
        assert_eq!((entry_texts(&found), &found["nextOffset"]), (vec!["+++ Test"], &json!(41)));
        assert_eq!(entry_texts(&case.read_log("deploy/logs?q=T&offset=41").await), ["last"]);
        assert_eq!(entry_texts(&case.read_log("deploy/logs?q=T&fromLine=5").await), ["last"]);
        case.seal();
    }
}

#[tokio::test]
async fn log_page_truncates_long_lines() {
    let case = LogFixture::new().await;
    case.append(&b"x".repeat(300_000));
    case.append(b"\nshort\n");
    let log = case.read_log("deploy/logs").await;
    assert_eq!(log["entries"][0]["text"].as_str().unwrap().len(), 65_536);
    assert_eq!(
        (&log["entries"][0]["truncated"], &log["entries"][1]),
        (&json!(true), &json!({"line": 2, "text": "short"}))
    );
}

#[tokio::test]
async fn log_step_is_named_by_its_id_or_definition_id() {
    let mut case = LogFixture::new().await;
    let second = case.steps.add_step(1, "deploy");
    let unique = case.steps.add_step(1, "smoke-test");
    case.append(b"first\n");
    case.world.app.logs().append(&second, 0, b"second\n").unwrap();
    case.steps.start_attempt(&second);
    let again = LogKey { attempt: 2, ..second };
    case.world.app.logs().append(&again, 0, b"again\n").unwrap();
    case.steps.start_attempt(&again);

    assert_eq!(entry_texts(&case.read_log(&format!("{}/logs", case.key.step)).await), ["first"]);
    assert_eq!(entry_texts(&case.read_log("deploy/logs?stage=staging").await), ["first"]);
    assert_eq!(entry_texts(&case.read_log("deploy/logs?stage=production").await), ["again"]);
    assert_eq!(entry_texts(&case.read_log("deploy/logs?stage=production&attempt=1").await), ["second"]);
    assert_eq!(entry_texts(&case.read_log(&format!("{}/logs?attempt=2", second.step)).await), ["again"]);
    let ambiguous = case.world.send(get(&case.step_path("deploy/logs")).with_account(&case.world.ada)).await;
    ambiguous.assert_problem(400, "invalid_parameter");
    assert!(ambiguous.text.contains("staging, production"), "{}", ambiguous.text);

    let waits = case.read_log("smoke-test/logs").await;
    assert_eq!(
        (&waits["attempt"], &waits["complete"], &waits["stepId"]),
        (&Value::Null, &json!(false), &json!(unique.step))
    );
    case.assert_refused("smoke-test/logs?stage=staging", 404, "not_found").await;
    case.assert_refused("smoke-test/logs?attempt=1", 404, "not_found").await;
    case.assert_refused("deploy/logs?stage=production&attempt=3", 404, "not_found").await;
    case.assert_refused("nothing/logs", 404, "not_found").await;
    let elsewhere = format!("/api/v1/organizations/globex/deployments/{}/steps/deploy/logs", case.deployment);
    case.world.send(get(&elsewhere).with_account(&case.world.hank)).await.assert_problem(404, "not_found");
}

#[tokio::test]
async fn log_parameters_that_are_invalid_are_refused_by_name() {
    let case = LogFixture::new().await;
    case.append(b"one\n");
    for bad in [
        "fromLine=0",
        "fromLine=x",
        "fromLine=-1",
        "toLine=0",
        "fromLine=3&toLine=2",
        "tail=0",
        "tail=5001",
        "tail=1&q=x",
        "tail=1&fromLine=1",
        "attempt=0",
        "attempt=4294967296",
        "raw=yes",
        "offset=-1",
        "limit=0",
        "q=x&limit=1001",
        "q=%0a",
        "raw=true&offset=5",
    ] {
        case.assert_refused(&format!("deploy/logs?{bad}"), 400, "invalid_parameter").await;
    }
}

#[tokio::test]
async fn raw_log_has_every_byte_and_is_inert_in_a_browser() {
    let case = LogFixture::new().await;
    let bytes: Vec<u8> = b"<script>alert(1)</script>\n\xff\0\x1b[2J".repeat(30_000);
    case.append(&bytes);
    for _ in 0..2 {
        for offset in [0, 1, 400_000, bytes.len()] {
            let asked = get(&case.step_path(&format!("deploy/logs?raw=true&offset={offset}")))
                .with_account(&case.world.ada);
            let response = case.world.edge.handle_request(asked.0, [127, 0, 0, 1].into()).await;
            let (parts, body) = response.into_parts();
            let header = |name: &str| parts.headers[name].to_str().unwrap().to_owned();
            assert_eq!(header("content-type"), "text/plain; charset=utf-8");
            assert_eq!(
                header("content-disposition"),
                format!("attachment; filename=\"{}.1.log\"", case.key.step)
            );
            assert_eq!(header("content-security-policy"), "sandbox; default-src 'none'");
            assert_eq!(header("x-content-type-options"), "nosniff");
            assert_eq!(header("content-length"), (bytes.len() - offset).to_string());
            let body = body.collect().await.unwrap().to_bytes();
            assert!(body == bytes[offset..], "from {offset}");
        }
        case.seal();
    }
}

#[tokio::test]
async fn log_stream_starts_at_any_byte_and_resumes_exactly() {
    let case = LogFixture::new().await;
    let text = (0..400).map(|number| format!("line {number} äöü\n")).collect::<String>() + "no end";
    let write = async {
        for chunk in text.as_bytes().chunks(97) {
            case.append(chunk);
            tokio::task::yield_now().await;
        }
        case.seal();
    };
    let follow = async |every: usize, start: usize| {
        let (mut seen, mut last, mut ended) = (String::new(), start as u64, false);
        while !ended {
            // A browser reconnects to the original URL with a `Last-Event-ID` header.
            let call =
                get(&case.step_path(&format!("deploy/logs?offset={start}"))).with_account(&case.world.ada);
            let mut stream =
                EventStream::open(&case.world, call.header("last-event-id", &last.to_string())).await;
            for _ in 0..every {
                let (id, name, data) = next_log_event(&mut stream).await.unwrap();
                if name == "end" {
                    assert_eq!(data, json!({"bytes": text.len(), "lines": 401}));
                    assert_eq!(next_log_event(&mut stream).await, None);
                    ended = true;
                    break;
                }
                assert_eq!((name.as_str(), &data["offset"]), ("lines", &json!(last)));
                seen.push_str(data["text"].as_str().unwrap());
                last = id;
            }
        }
        assert!(seen == text[start..], "resumed after every {every}: {seen}");
    };
    tokio::join!(write, follow(1, 0), follow(3, 500), follow(usize::MAX, 0));
    // Follows the log once more, after it was sealed.
    follow(2, 0).await;
    let mut end = case.follow(&format!("deploy/logs?offset={}", text.len())).await;
    assert_eq!(next_log_event(&mut end).await.unwrap().1, "end");
    let beyond = get(&case.step_path("deploy/logs?offset=99999999")).with_account(&case.world.ada);
    case.world
        .send(beyond.header("accept", "text/event-stream"))
        .await
        .assert_problem(400, "invalid_parameter");
}

#[tokio::test]
async fn log_stream_sends_complete_lines_first() {
    let case = LogFixture::new().await;
    case.append(b"one\ntwo\npassword? \xc3");
    let mut stream = case.follow("deploy/logs").await;
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"], "one\ntwo\n");
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"], "password? ");
    // The second byte of a character whose first byte was appended before.
    case.append(b"\xa4\n");
    let (id, _, data) = next_log_event(&mut stream).await.unwrap();
    assert_eq!((id, &data["text"]), (21, &json!("ä\n")));
    let long = b"x".repeat(70_000);
    case.append(&long);
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"].as_str().unwrap().len(), 65_536);
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"].as_str().unwrap().len(), 70_000 - 65_536);
}

#[tokio::test]
async fn log_stream_can_start_before_the_step() {
    let mut case = LogFixture::new().await;
    case.key = case.steps.add_step(1, "later");
    let mut stream = case.follow("later/logs").await;
    case.steps.start_attempt(&case.key);
    case.append(b"here\n");
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"], "here\n");
    case.seal();
    assert_eq!(next_log_event(&mut stream).await.unwrap().1, "end");
}

#[tokio::test]
async fn log_stream_ends_with_an_unsealed_attempt() {
    let case = LogFixture::with_fast_checks().await;
    case.append(b"one\ntw");
    let mut stream = case.follow("deploy/logs").await;
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"], "one\n");
    case.steps.end_attempt(&case.key);
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"], "tw");
    assert_eq!(
        next_log_event(&mut stream).await.unwrap(),
        (6, "end".to_owned(), json!({"bytes": 6, "lines": 2}))
    );
    assert_eq!(next_log_event(&mut stream).await, None);
    assert_eq!(case.read_log("deploy/logs").await["complete"], true);
}

#[tokio::test]
async fn log_stream_ends_after_the_last_output_on_another_server() {
    let case = LogFixture::with_fast_checks().await;
    let other = LogStore::new(case.world.dir.path().join("logs"));
    other.append(&case.key, 0, b"one\n").unwrap();
    let mut stream = case.follow("deploy/logs").await;
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"], "one\n");
    other.append(&case.key, 4, b"two\n").unwrap();
    case.steps.end_attempt(&case.key);
    assert_eq!(next_log_event(&mut stream).await.unwrap().2["text"], "two\n");
    assert_eq!(next_log_event(&mut stream).await.unwrap().1, "end");
}

#[tokio::test]
async fn log_gap_is_reported() {
    let case = LogFixture::new().await;
    case.append(b"one\n");
    case.seal();
    damage_log(&case, 4);
    assert_eq!(case.read_log("deploy/logs").await["gap"], json!({"offset": 4}));
    let mut stream = case.follow("deploy/logs").await;
    for wanted in ["lines", "gap", "end"] {
        assert_eq!(next_log_event(&mut stream).await.unwrap().1, wanted);
    }
}

/// Writes a marker for lost data into a sealed log, as after a disk failure.
fn damage_log(case: &LogFixture, offset: u64) {
    let LogKey { org, deployment, step, attempt, .. } = case.key;
    let file = format!("logs/{org}/{deployment}/{step}.{attempt}.zst");
    let file = case.world.dir.path().join(file);
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 48..end - 40].copy_from_slice(&offset.to_le_bytes());
    let sum = crc32fast::hash(&bytes[end - 72 - 16..end - 8]);
    bytes[end - 8..end - 4].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&file, bytes).unwrap();
    // Evicts the log from the cache, which still contains the undamaged state.
    let logs = case.world.app.logs();
    let other = |attempt| LogKey { attempt: attempt + 10, ..case.key };
    for attempt in 0..u32::try_from(berth_engine::logs::LOGS_OPEN_MAX.total).unwrap() {
        logs.append(&other(attempt), 0, b"").unwrap();
    }
}

#[tokio::test]
async fn log_stream_ends_with_access_or_shutdown_and_is_limited() {
    let config = AppConfig::local(([127, 0, 0, 1], 8080).into());
    let stream_check_every = Duration::from_millis(50);
    let case =
        LogFixture::with_config(AppConfig { stream_check_every, streams_per_token_max: 2, ..config }).await;
    let (_, ci) = case.world.create_service_account("ci@acme.test", "viewer").await;
    let path = case.step_path("deploy/logs");
    let mut revoked = EventStream::open(&case.world, get(&path).token(&ci)).await;
    let _second = EventStream::open(&case.world, get(&path).token(&ci)).await;
    let third = get(&path).token(&ci).header("accept", "text/event-stream");
    case.world.send(third).await.assert_problem(429, "rate_limited");
    case.world.send(get(&format!("{path}?raw=true")).token(&ci)).await.assert_problem(429, "rate_limited");
    while revoked.next_block().await.expect("still there") != ":" {}
    let tokens = "/api/v1/organizations/acme/api-tokens";
    let list = case.world.send(get(&format!("{tokens}?limit=200")).with_account(&case.world.ada)).await;
    let of_ci = list.body["data"].as_array().unwrap().iter().find(|token| token["name"] == "ci").unwrap();
    let of_ci = of_ci["id"].as_str().unwrap();
    let revoke = call("DELETE", &format!("{tokens}/{of_ci}")).with_account(&case.world.ada);
    assert_eq!(case.world.send(revoke).await.status, 200);
    while revoked.next_block().await.is_some() {}

    let browser = case.world.log_in(&case.world.ada.email, &case.world.ada.password).await;
    let foreign =
        browser.get(&path).header("accept", "text/event-stream").header("sec-fetch-site", "cross-site");
    assert_eq!(case.world.send(foreign).await.status, 403);
    let mut kept = case.follow("deploy/logs").await;
    kept.next_block().await.unwrap();
    case.world.app.services().shutdown.cancel();
    while kept.next_block().await.is_some() {}
}
