//! Kills the server repeatedly, under load, on one data directory. Acknowledged writes must survive, and no write may
//! happen twice.
//!
//! Each writer works on its own pipelines, one request at a time. The expected state is therefore the last acknowledged
//! one, with or without the effect of the one request that got no response.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_testkit::{ScratchDatabase, outcome};
use serde_json::{Value, json};

use crate::client::{ApiHandle, HttpConnection, RawRequest, RawResponse};
use crate::harness::{BerthProcess, DEFINITION, TestHome, TestServer};
use crate::random::SeededRandom;

/// Number of kills per data directory.
const KILLS: usize = 25;
/// Number of data directories in the long form of the test.
const REPEATS_LONG: usize = 20;
const WRITERS: usize = 4;
const LOAD_MS: std::ops::Range<u64> = 20..180;
/// Number of events that `berth init` records.
const EVENTS_BEFORE: usize = 3;
const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";

#[test]
fn acknowledged_writes_survive_kills_and_happen_once() {
    let mut random = SeededRandom::from_env("CRASH_SEED");
    let repeats = outcome::short_or_long(1, REPEATS_LONG);
    let writes: usize = (0..repeats).map(|_| run_with_kills(&mut random)).sum();
    let database = if ScratchDatabase::is_wanted() { "PostgreSQL" } else { "SQLite" };
    outcome::report_coverage(&format!(
        "{writes} acknowledged writes and {} kills on {database}",
        repeats * KILLS
    ));
}

/// Kills the server repeatedly and checks that every acknowledged write survives. Returns the number of acknowledged
/// writes.
fn run_with_kills(random: &mut SeededRandom) -> usize {
    let home = TestHome::new();
    let mut writers: Vec<_> =
        (0..WRITERS).map(|number| CrashWriter::new(number, random.next_u64())).collect();
    for round in 0..KILLS {
        if random.next_u64().is_multiple_of(5) {
            kill_during_start(&home, random);
        }
        let mut server = start(&home);
        check_all(&server.api, &mut writers, round);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let (api, client) = (server.api.clone(), HttpConnection::connect(server.address));
                scope.spawn(move || writer.write_until_killed(&api, client));
            }
            std::thread::sleep(Duration::from_millis(random.next_in(LOAD_MS)));
            server.process.kill();
        });
    }
    let server = start(&home);
    check_all(&server.api, &mut writers, KILLS);
    let acknowledged: usize = writers.iter().map(CrashWriter::effects).sum();
    assert!(acknowledged > KILLS * WRITERS, "hardly anything was written: {acknowledged}");
    server.stop();
    acknowledged
}

fn start(home: &TestHome) -> TestServer {
    TestServer::start(home.serve_command().env("BERTH_LOG__LEVEL", "warn"), &home.token)
}

fn kill_during_start(home: &TestHome, random: &mut SeededRandom) {
    let mut process = BerthProcess::start(&mut home.serve_command());
    std::thread::sleep(Duration::from_millis(random.next_in(0..30)));
    process.kill();
}

fn check_all(api: &ApiHandle, writers: &mut [CrashWriter], round: usize) {
    let mut client = HttpConnection::connect(api.address);
    for writer in &mut *writers {
        writer.check_touched(api, &mut client, round);
        writer.repeat_last(api, &mut client, round);
    }

    let (pipelines, total) = api.list_all(PIPELINES);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let found: BTreeMap<_, _> =
        pipelines.iter().map(|pipeline| (text(&pipeline["slug"]), text(&pipeline["status"]))).collect();
    let known: BTreeMap<_, _> = writers
        .iter()
        .flat_map(|writer| &writer.created)
        .map(|known| (known.slug.clone(), known.state.status.to_owned()))
        .collect();
    assert_eq!(found, known, "round {round}");
    assert_eq!((pipelines.len(), &total), (known.len(), &json!(known.len())), "round {round}");

    let (events, total) = api.list_all("/api/v1/organizations/acme/events");
    let sequences: Vec<_> =
        events.iter().rev().map(|event| event["sequence"].as_u64().expect("a number")).collect();
    let effects: usize = writers.iter().map(CrashWriter::effects).sum();
    let expected: Vec<_> = (1..=(EVENTS_BEFORE + effects) as u64).collect();
    assert_eq!(sequences, expected, "round {round}: every effect has its event, without gaps");
    assert_eq!(total, json!(expected.len()), "round {round}");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PipelineState {
    /// Number of changes. It would be too high if a write had happened twice.
    version: usize,
    status: &'static str,
}

struct KnownPipeline {
    slug: String,
    state: PipelineState,
}

/// A writer's last request and the state that it must lead to.
struct LastRequest {
    slug: String,
    request: RawRequest,
    before: Option<PipelineState>,
    after: PipelineState,
    /// The response, if one arrived.
    answer: Option<Value>,
}

struct CrashWriter {
    number: usize,
    random: SeededRandom,
    requests: usize,
    created: Vec<KnownPipeline>,
    /// Indexes into `created` of pipelines that changed since the last check.
    touched: BTreeSet<usize>,
    last: Option<LastRequest>,
}

impl CrashWriter {
    fn new(number: usize, seed: u64) -> Self {
        let (made, touched) = (Vec::new(), BTreeSet::new());
        Self {
            number,
            random: SeededRandom::from_seed(seed),
            requests: 0,
            created: made,
            touched,
            last: None,
        }
    }

    /// Number of writes so far: each version of a pipeline is one write.
    fn effects(&self) -> usize {
        self.created.iter().map(|known| known.state.version).sum()
    }

    fn write_until_killed(&mut self, api: &ApiHandle, mut client: HttpConnection) {
        loop {
            let asked = self.last.insert(Self::next_request(
                self.number,
                self.requests,
                &mut self.random,
                &self.created,
                api,
            ));
            self.requests += 1;
            let Ok(answer) = client.send_request(&asked.request) else { return };
            assert_eq!(answer.header("idempotent-replayed"), None, "{}", asked.slug);
            check_answer(asked, &answer);
            self.acknowledge(&answer);
        }
    }

    fn next_request(
        number: usize,
        requests: usize,
        random: &mut SeededRandom,
        made: &[KnownPipeline],
        api: &ApiHandle,
    ) -> LastRequest {
        let key = format!("writer-{number}-{requests}");
        let post = |path: &str| api.request("POST", path).header("Idempotency-Key", &key);
        if made.is_empty() || random.next_u64().is_multiple_of(4) {
            let slug = format!("w{number}-{}", made.len());
            let request = post(PIPELINES).json(&json!({ "slug": slug, "definition": DEFINITION }));
            let after = PipelineState { version: 1, status: "active" };
            return LastRequest { slug, request, before: None, after, answer: None };
        }
        let KnownPipeline { slug, state } = &made[random.next_in(0..made.len() as u64) as usize];
        let (verb, status) = match state.status {
            "active" => ("stop", "stopped"),
            _ => ("resume", "active"),
        };
        let request = post(&format!("{PIPELINES}/{slug}/{verb}"));
        let after = PipelineState { version: state.version + 1, status };
        LastRequest { slug: slug.clone(), request, before: Some(*state), after, answer: None }
    }

    fn acknowledge(&mut self, answer: &RawResponse) {
        let asked = self.last.as_mut().expect("something was asked");
        asked.answer = Some(answer.json());
        let place =
            self.created.iter().position(|known| known.slug == asked.slug).unwrap_or(self.created.len());
        if place == self.created.len() {
            self.created.push(KnownPipeline { slug: asked.slug.clone(), state: asked.after });
        }
        self.created[place].state = asked.after;
        self.touched.insert(place);
    }

    fn check_touched(&mut self, api: &ApiHandle, client: &mut HttpConnection, round: usize) {
        // Skip the pipeline of a request without a response, which may or may not have taken effect. `repeat_last`
        // checks it.
        let open = self.last.as_ref().filter(|asked| asked.answer.is_none()).map(|asked| asked.slug.clone());
        for place in std::mem::take(&mut self.touched) {
            let KnownPipeline { slug, state } = &self.created[place];
            if open.as_ref() != Some(slug) {
                assert_eq!(load_state(api, client, slug), Some(*state), "round {round}: {slug}");
            }
        }
    }

    /// Repeats the last request with the same idempotency key. The server either replays the stored response or
    /// performs the request now, but never performs it twice.
    fn repeat_last(&mut self, api: &ApiHandle, client: &mut HttpConnection, round: usize) {
        let Some(asked) = &self.last else { return };
        let what = format!("round {round}: {} {}", asked.request.path, asked.slug);
        let found = load_state(api, client, &asked.slug);
        let happened = found == Some(asked.after);
        match &asked.answer {
            Some(_) => assert!(happened, "{what}: acknowledged {:?}, found {found:?}", asked.after),
            None => assert!(happened || found == asked.before, "{what}: found {found:?}"),
        }
        let answer = client.send_request(&asked.request).expect("an answer to the repeat");
        check_answer(asked, &answer);
        assert_eq!(answer.header("idempotent-replayed") == Some("true"), happened, "{what}");
        if let Some(first) = &asked.answer {
            assert_eq!(answer.json(), *first, "{what}");
        }
        assert_eq!(load_state(api, client, &asked.slug), Some(asked.after), "{what}");
        if asked.answer.is_none() {
            self.acknowledge(&answer);
        }
    }
}

fn check_answer(asked: &LastRequest, answer: &RawResponse) {
    let wanted = if asked.before.is_none() { 201 } else { 200 };
    assert_eq!(answer.status, wanted, "{} {}: {}", asked.request.path, asked.slug, answer.text());
    assert_eq!(parse_state(answer), asked.after, "{} {}", asked.request.path, asked.slug);
}

fn load_state(api: &ApiHandle, client: &mut HttpConnection, slug: &str) -> Option<PipelineState> {
    let answer = client.send_request(&api.request("GET", &format!("{PIPELINES}/{slug}"))).expect("an answer");
    match answer.status {
        404 => None,
        200 => Some(parse_state(&answer)),
        other => panic!("{other} for {slug}: {}", answer.text()),
    }
}

fn parse_state(answer: &RawResponse) -> PipelineState {
    let version =
        answer.header("etag").and_then(|tag| tag.trim_matches('"').parse().ok()).expect("a version");
    let status = if answer.json()["data"]["status"] == "active" { "active" } else { "stopped" };
    PipelineState { version, status }
}
