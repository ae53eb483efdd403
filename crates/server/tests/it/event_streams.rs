//! Event streams. They deliver every event once and in order, can be resumed, and end when the caller loses access.

use std::time::Duration;

use axum::body::Body;
use berth_server::config::AppConfig;
use http::HeaderMap;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::audit_export::{acme_org_id, record_events};
use super::world::{TestRequest, TestWorld, call, get, post};

const EVENTS: &str = "/api/v1/organizations/acme/events";
/// Number of events that a new organization has.
const INITIAL_EVENTS: i64 = 3;
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct EventStream {
    headers: HeaderMap,
    body: Body,
    text: String,
}

impl EventStream {
    pub(crate) async fn open(world: &TestWorld, call: TestRequest) -> Self {
        let response = world
            .edge
            .handle_request(call.header("accept", "text/event-stream").0, [127, 0, 0, 1].into())
            .await;
        assert_eq!(response.status(), 200);
        let (parts, body) = response.into_parts();
        Self { headers: parts.headers, body, text: String::new() }
    }

    async fn resume_after(world: &TestWorld, last: i64) -> Self {
        Self::open(world, get(EVENTS).with_account(&world.ada).header("last-event-id", &last.to_string()))
            .await
    }

    /// Returns the next block of the stream, or `None` at its end.
    pub(crate) async fn next_block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("something in time");
            let frame = frame?.expect("no error").into_data().unwrap();
            self.text.push_str(str::from_utf8(&frame).unwrap());
        }
    }

    /// Returns the next event, skipping heartbeats.
    pub(crate) async fn next_event(&mut self) -> Option<Value> {
        loop {
            let block = self.next_block().await?;
            let field =
                |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let Some(data) = field("data") else { continue };
            let event: Value = serde_json::from_str(data).unwrap();
            assert_eq!(field("id"), Some(event["sequence"].to_string().as_str()));
            assert_eq!(field("event"), event["kind"].as_str());
            return Some(event);
        }
    }

    async fn next_sequence(&mut self) -> i64 {
        self.next_event().await.expect("an event")["sequence"].as_i64().unwrap()
    }

    async fn assert_ended(&mut self) {
        assert_eq!(self.next_event().await, None);
    }
}

async fn world_with_fast_checks() -> TestWorld {
    let stream_check_every = Duration::from_millis(50);
    TestWorld::with_config(AppConfig {
        stream_check_every,
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    })
    .await
}

#[tokio::test]
async fn event_stream_starts_now_and_matches_the_list() {
    let world = TestWorld::new().await;
    world.create_pipeline("before").await;
    let mut stream = EventStream::open(&world, get(EVENTS).with_account(&world.ada)).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(stream.headers["cache-control"], "no-store");
    assert_eq!(stream.headers["x-accel-buffering"], "no");
    assert_eq!(stream.next_block().await.unwrap(), ": following\nid: 4");
    world.create_pipeline("shop").await;
    let event = stream.next_event().await.unwrap();
    let list = world.send(get(&format!("{EVENTS}?limit=1")).with_account(&world.ada)).await;
    assert_eq!(event, list.body["data"][0]);
    assert_eq!(event["subjects"][0]["name"], "shop");
}

#[tokio::test]
async fn event_stream_resumes_exactly_during_writes() {
    const COUNT: i64 = INITIAL_EVENTS + 600;
    let world = TestWorld::new().await;
    let org = acme_org_id(&world).await;
    let write = async {
        for size in [1, 3, 150, 1, 45].into_iter().cycle().take(15) {
            record_events(&world, org, size).await;
            tokio::task::yield_now().await;
        }
    };
    let follow = async |every: usize| {
        let (mut seen, mut last) = (Vec::new(), 0);
        while last < COUNT {
            let mut stream = EventStream::resume_after(&world, last).await;
            for _ in 0..every.min(usize::try_from(COUNT - last).unwrap()) {
                last = stream.next_sequence().await;
                seen.push(last);
            }
        }
        assert_eq!(seen, (1..=COUNT).collect::<Vec<_>>(), "resumed after every {every}");
    };
    tokio::join!(write, follow(1), follow(7), follow(64), follow(10_000));
}

#[tokio::test]
async fn event_stream_of_a_slow_client_loses_nothing() {
    let world = TestWorld::new().await;
    let org = acme_org_id(&world).await;
    let mut stream = EventStream::open(&world, get(EVENTS).with_account(&world.ada)).await;
    for _ in 0..3 {
        record_events(&world, org, 1_500).await;
    }
    for wanted in 1..=4_500 {
        assert_eq!(stream.next_sequence().await, INITIAL_EVENTS + wanted);
    }
    record_events(&world, org, 1).await;
    assert_eq!(stream.next_sequence().await, INITIAL_EVENTS + 4_501);
}

#[tokio::test]
async fn event_stream_filters_apply_to_past_and_new_events() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    world.create_pipeline("blog").await;
    let act = async |slug: &str, action: &str| {
        world
            .send(
                post(&format!("/api/v1/organizations/acme/pipelines/{slug}/{action}"))
                    .with_account(&world.ada),
            )
            .await
    };
    act("shop", "stop").await;
    let open = async |query: &str| {
        EventStream::open(&world, get(&format!("{EVENTS}?lastEventId=0&{query}")).with_account(&world.ada))
            .await
    };
    let (mut shop, mut stops) = (open("pipeline=shop").await, open("kind=pipeline_stopped").await);
    let mut none = open("to=2020-01-01T00:00:00Z").await;
    act("blog", "stop").await;
    act("shop", "resume").await;
    world.create_pipeline("last").await;
    act("shop", "stop").await;
    let kind = async |stream: &mut EventStream| {
        stream.next_event().await.unwrap()["kind"].as_str().unwrap().to_owned()
    };
    for wanted in ["pipeline_created", "pipeline_stopped", "pipeline_resumed", "pipeline_stopped"] {
        assert_eq!(kind(&mut shop).await, wanted);
    }
    for wanted in ["shop", "blog", "shop"] {
        assert_eq!(stops.next_event().await.unwrap()["subjects"][0]["name"], wanted);
    }
    world.app.services().shutdown.cancel();
    none.assert_ended().await;
}

#[tokio::test]
async fn event_stream_refuses_an_invalid_last_event_id() {
    let world = TestWorld::new().await;
    let ask = |query: &str| {
        get(&format!("{EVENTS}{query}")).with_account(&world.ada).header("accept", "text/event-stream")
    };
    for name in ["theirs", "too"] {
        let body = json!({"name": name});
        world
            .send(post("/api/v1/organizations/globex/api-tokens").with_account(&world.hank).json(&body))
            .await;
    }
    // Event 4 exists in globex, but not in acme.
    for bad in ["4", "-1", "+1", "1.0", "x", "", " ", "99999999999999999999", "9223372036854775807"] {
        world.send(ask("").header("last-event-id", bad)).await.assert_problem(400, "invalid_parameter");
    }
    for bad in ["?lastEventId=4", "?lastEventId=1&lastEventId=1", "?lastEventId=x"] {
        world.send(ask(bad)).await.assert_problem(400, "invalid_parameter");
    }
    let twice = ask("").header("last-event-id", "1").header("last-event-id", "1");
    world.send(twice).await.assert_problem(400, "invalid_parameter");

    let mut newer = EventStream::open(&world, ask("?lastEventId=0").header("last-event-id", "3")).await;
    let mut older = EventStream::open(&world, ask("?lastEventId=0")).await;
    world.create_pipeline("shop").await;
    assert_eq!((newer.next_sequence().await, older.next_sequence().await), (4, 1));
}

#[tokio::test]
async fn event_stream_has_no_events_of_another_organization() {
    let world = TestWorld::new().await;
    let foreign = get("/api/v1/organizations/globex/events")
        .with_account(&world.ada)
        .header("accept", "text/event-stream");
    world.send(foreign).await.assert_problem(404, "not_found");
    let mut stream = EventStream::open(&world, get(EVENTS).with_account(&world.ada)).await;
    let body = json!({"name": "theirs"});
    world.send(post("/api/v1/organizations/globex/api-tokens").with_account(&world.hank).json(&body)).await;
    world.create_pipeline("ours").await;
    assert_eq!(stream.next_event().await.unwrap()["subjects"][0]["name"], "ours");
}

#[tokio::test]
async fn event_stream_ends_when_the_caller_loses_access() {
    let world = world_with_fast_checks().await;
    let grace = world.create_member("grace@acme.test", "deployer").await;
    let vera = world.create_member("vera@acme.test", "viewer").await;
    let (_, ci) = world.create_service_account("ci@acme.test", "viewer").await;
    let browser = world.log_in(&vera.email, &vera.password).await;
    let me = async |call: TestRequest| {
        world.send(call).await.body["data"]["user"]["id"].as_str().unwrap().to_owned()
    };
    let (grace_id, vera_id) =
        (me(get("/api/v1/me").with_account(&grace)).await, me(get("/api/v1/me").with_account(&vera)).await);
    let tokens =
        world.send(get("/api/v1/organizations/acme/api-tokens?limit=200").with_account(&world.ada)).await;
    let of_ci = tokens.body["data"].as_array().unwrap().iter().find(|token| token["name"] == "ci").unwrap();
    let of_ci = of_ci["id"].as_str().unwrap();

    let mut kept = EventStream::open(&world, get(EVENTS).with_account(&world.ada)).await;
    let mut revoked = EventStream::open(&world, get(EVENTS).token(&ci)).await;
    let mut changed = EventStream::open(&world, get(EVENTS).with_account(&grace)).await;
    let mut signed_out = EventStream::open(&world, browser.get(EVENTS)).await;
    let mut removed = EventStream::open(&world, get(EVENTS).with_account(&vera)).await;
    for stream in [&mut kept, &mut revoked, &mut changed, &mut signed_out, &mut removed] {
        // Waits for a heartbeat, which the server sends as long as the caller is authorized.
        while stream.next_block().await.expect("still there") != ":" {}
    }
    let member = |id: &str| format!("/api/v1/organizations/acme/members/{id}");
    for (call, stream) in [
        (
            call("DELETE", &format!("/api/v1/organizations/acme/api-tokens/{of_ci}"))
                .with_account(&world.ada),
            &mut revoked,
        ),
        (
            call("PATCH", &member(&grace_id)).with_account(&world.ada).json(&json!({"role": "viewer"})),
            &mut changed,
        ),
        (browser.post("/api/v1/auth/logout"), &mut signed_out),
        (call("DELETE", &member(&vera_id)).with_account(&world.ada), &mut removed),
    ] {
        let reply = world.send(call).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        while stream.next_block().await.is_some() {}
    }
    world.create_pipeline("shop").await;
    while kept.next_event().await.expect("still there")["kind"] != "pipeline_created" {}
}

/// Well below the interval of heartbeats.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn event_stream_and_long_poll_end_soon_after_a_removal() {
    let world = TestWorld::new().await;
    let vera = world.create_member("vera@acme.test", "viewer").await;
    let me = world.send(get("/api/v1/me").with_account(&vera)).await;
    let vera_id = me.body["data"]["user"]["id"].as_str().unwrap();
    world.create_approval().await;
    let mut stream = EventStream::open(&world, get(EVENTS).with_account(&vera)).await;
    stream.next_block().await.expect("the stream has started");

    let list = world.send(get("/api/v1/organizations/acme/deployments").with_account(&vera)).await;
    let waiting = list.body["data"][0]["id"].as_str().unwrap();
    let poll = get(&format!("/api/v1/organizations/acme/deployments/{waiting}?wait=50")).with_account(&vera);
    let remove =
        call("DELETE", &format!("/api/v1/organizations/acme/members/{vera_id}")).with_account(&world.ada);
    let started = std::time::Instant::now();
    let (seen, removed) = tokio::join!(world.send(poll), world.send(remove));
    assert_eq!((seen.status.as_u16(), removed.status.as_u16()), (200, 200), "{}", seen.text);
    while stream.next_block().await.is_some() {}
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
}

#[tokio::test]
async fn event_streams_end_at_shutdown() {
    let world = TestWorld::new().await;
    let mut stream = EventStream::open(&world, get(EVENTS).with_account(&world.ada)).await;
    stream.next_block().await.unwrap();
    world.app.services().shutdown.cancel();
    stream.assert_ended().await;
}

#[tokio::test]
async fn event_streams_per_token_are_limited() {
    let config = AppConfig { streams_per_token_max: 2, ..AppConfig::local(([127, 0, 0, 1], 8080).into()) };
    let world = TestWorld::with_config(config).await;
    let grace = world.create_member("grace@acme.test", "viewer").await;
    let first = EventStream::open(&world, get(EVENTS).with_account(&world.ada)).await;
    let _second = EventStream::open(&world, get(EVENTS).with_account(&world.ada)).await;
    let third = world.send(get(EVENTS).with_account(&world.ada).header("accept", "text/event-stream")).await;
    third.assert_problem(429, "rate_limited");
    assert_ne!(third.header("retry-after"), "");
    world
        .send(get(&format!("{EVENTS}/export")).with_account(&world.ada))
        .await
        .assert_problem(429, "rate_limited");
    EventStream::open(&world, get(EVENTS).with_account(&grace)).await;
    drop(first);
    EventStream::open(&world, get(EVENTS).with_account(&world.ada)).await;
}
