//! Fifty agents, five CI jobs and a person contend for five environments of a real server. Agents crash, and some work
//! on without heartbeats until their lease ends. Checks what leases and the order of queues promise.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use berth_core::time::Timestamp;
use berth_testkit::outcome;
use serde_json::{Value, json};

use crate::client::ApiHandle;
use crate::harness::{DEFINITION, TestHome, TestServer};
use crate::linear::accounts::create_accounts;
use crate::random::SeededRandom;

const AGENTS: u64 = 50;
const CI_JOBS: usize = 5;
const ENVIRONMENTS: u64 = 5;
const LOAD: Duration = Duration::from_secs(60);
const LOAD_LONG: Duration = Duration::from_secs(10 * 60);
/// The shortest lease, so that many of them end during the run.
const LEASE: Duration = Duration::from_secs(15);
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(4);
/// Time in which the server ends a session after its lease, also on a busy machine.
const SWEEP_MAX_S: i64 = 10;
/// Time in which a free environment is granted to the next in its queue.
const GRANT_MAX_S: i64 = 5;
const WORK_MS: std::ops::Range<u64> = 50..1_500;
const PAUSE_MS: std::ops::Range<u64> = 0..400;
const ORG: &str = "/api/v1/organizations/acme";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HolderClass {
    Person,
    Ci,
    Agent,
}

/// How a holder ends its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkEnd {
    Release,
    /// Stops at once and never returns to the session.
    Crash,
    /// Loses contact with the server, and works until its lease can have ended.
    CutOff,
}

/// A session that was granted, as the responses of the server tell it.
#[derive(Debug, Clone)]
struct GrantedSession {
    environment: u64,
    class: HolderClass,
    session: String,
    /// When the ticket joined the queue. `None` if the environment was free.
    queued_at: Option<Timestamp>,
}

#[derive(Default)]
struct ContentionState {
    /// Fence of the holder that works in an environment.
    working: Mutex<HashMap<u64, i64>>,
    granted: Mutex<Vec<GrantedSession>>,
    crashes: Mutex<u64>,
}

/// One claimer with its own token.
struct Claimer<'s> {
    api: ApiHandle,
    class: HolderClass,
    random: SeededRandom,
    state: &'s ContentionState,
    until: Instant,
}

fn environment_path(environment: u64) -> String {
    format!("{ORG}/pipelines/shop/ephemeral-environments/qa-{environment}")
}

fn parse_time(value: &Value) -> Timestamp {
    Timestamp::parse(value.as_str().expect("a time")).expect("a time")
}

fn expect_text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text instead of {value}")).to_owned()
}

impl Claimer<'_> {
    fn run(&mut self) {
        while Instant::now() < self.until {
            let environment = self.random.next_in(0..ENVIRONMENTS);
            if let Some(session) = self.claim(environment) {
                self.work(environment, &session);
            }
            self.pause(PAUSE_MS);
        }
    }

    fn pause(&mut self, ms: std::ops::Range<u64>) {
        std::thread::sleep(Duration::from_millis(self.random.next_in(ms)));
    }

    /// Claims an environment, and waits in its queue if it is held. Returns the session. `None` if the claim was
    /// refused because of sessions of this account that still have their lease, or if the run ended first.
    fn claim(&self, environment: u64) -> Option<Value> {
        let path = environment_path(environment);
        let body = json!({"leaseSeconds": LEASE.as_secs(), "queue": true, "waitSeconds": 600});
        let claimed = self.api.post(&format!("{path}/sessions"), &body);
        let answer = claimed.json();
        match claimed.status {
            201 => {
                self.record(environment, &answer["data"], None);
                Some(answer["data"].clone())
            }
            202 => self.await_grant(environment, &answer["data"]),
            409 => None,
            status => panic!("{status}: {answer}"),
        }
    }

    fn await_grant(&self, environment: u64, ticket: &Value) -> Option<Value> {
        let path = environment_path(environment);
        let own = format!("{path}/queue/{}", expect_text(&ticket["ticketId"]));
        while Instant::now() < self.until {
            let now = self.api.get(&format!("{own}?wait=5")).json();
            let Some(session) = now["data"]["sessionId"].as_str() else { continue };
            let granted = self.api.get(&format!("{path}/sessions/{session}")).json()["data"].clone();
            self.record(environment, &granted, Some(parse_time(&ticket["createdAt"])));
            return (granted["status"] == "active").then_some(granted);
        }
        None
    }

    fn record(&self, environment: u64, session: &Value, queued_at: Option<Timestamp>) {
        let session = expect_text(&session["sessionId"]);
        let granted = GrantedSession { environment, class: self.class, session, queued_at };
        self.state.granted.lock().expect("unpoisoned").push(granted);
    }

    /// Works in the environment and checks that no other holder does.
    fn work(&mut self, environment: u64, session: &Value) {
        let end = match self.random.next_in(0..10) {
            _ if self.class != HolderClass::Agent => WorkEnd::Release,
            0..2 => WorkEnd::Crash,
            2 => WorkEnd::CutOff,
            _ => WorkEnd::Release,
        };
        let path =
            format!("{}/sessions/{}", environment_path(environment), expect_text(&session["sessionId"]));
        // The lease was renewed after this request was sent.
        let mut renewed = Instant::now();
        if self.api.post(&format!("{path}/heartbeat"), &json!({})).status != 200 {
            return;
        }
        let fence = session["fence"].as_i64().expect("a fence");
        let other = self.state.working.lock().expect("unpoisoned").insert(environment, fence);
        assert_eq!(other, None, "two holders work in qa-{environment}; the later one has fence {fence}");
        if end == WorkEnd::CutOff {
            std::thread::sleep(
                (renewed + LEASE).saturating_duration_since(Instant::now()) - HEARTBEAT_INTERVAL,
            );
        } else {
            let done = Instant::now() + Duration::from_millis(self.random.next_in(WORK_MS));
            while Instant::now() < done {
                if renewed.elapsed() > HEARTBEAT_INTERVAL {
                    renewed = Instant::now();
                    let beat = self.api.post(&format!("{path}/heartbeat"), &json!({}));
                    assert_eq!(beat.status, 200, "{}", beat.text());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        assert!(renewed.elapsed() < LEASE, "the machine is too slow: the work went on after the lease");
        let own = self.state.working.lock().expect("unpoisoned").remove(&environment);
        assert_eq!(own, Some(fence), "another holder began to work in qa-{environment}");
        if end == WorkEnd::Release {
            let released = self.api.send(&self.api.request("DELETE", &path));
            assert_eq!(released.status, 200, "{}", released.text());
        } else {
            *self.state.crashes.lock().expect("unpoisoned") += 1;
        }
    }
}

fn create_agents(owner: &ApiHandle) -> Vec<ApiHandle> {
    let create = |path: &str, body: &Value| {
        let created = owner.post(&format!("{ORG}/{path}"), body);
        assert_eq!(created.status, 201, "{}", created.text());
        created.json()["data"].clone()
    };
    let create_agent = |number| {
        let body = json!({"kind": "agent", "name": format!("agent-{number}"), "limits": {"sessions": 3}});
        let agent = create("members", &body);
        let token = create("api-tokens", &json!({"name": "agent", "ownerId": agent["id"]}));
        ApiHandle { address: owner.address, token: expect_text(&token["token"]) }
    };
    (0..AGENTS).map(create_agent).collect()
}

fn create_pipeline(owner: &ApiHandle) {
    let environments: String = (0..ENVIRONMENTS)
        .map(|number| format!("    qa-{number}: {{ queue: {{ order: class, ageing: 2h }} }}\n"))
        .collect();
    let definition = format!("{DEFINITION}  ephemeral_environments:\n{environments}");
    let created = owner.post(&format!("{ORG}/pipelines"), &json!({"slug": "shop", "definition": definition}));
    assert_eq!(created.status, 201, "{}", created.text());
}

#[test]
fn crashing_agents_never_share_an_environment_or_keep_it_from_those_who_wait() {
    let home = TestHome::new();
    let server = home.serve();
    create_pipeline(&server.api);
    let jobs = create_accounts(&server.api, CI_JOBS);
    let state = ContentionState::default();
    let mut random = SeededRandom::from_env("AGENTS_SEED");
    let until = Instant::now() + outcome::short_or_long(LOAD, LOAD_LONG);
    let agents = create_agents(&server.api).into_iter().map(|api| (HolderClass::Agent, api));
    let jobs = jobs.iter().map(|job| (HolderClass::Ci, job.api(&server)));
    let person = [(HolderClass::Person, server.api.clone())];
    std::thread::scope(|scope| {
        for (class, api) in agents.chain(jobs).chain(person) {
            let random = SeededRandom::from_seed(random.next_u64());
            let mut claimer = Claimer { api, class, random, state: &state, until };
            scope.spawn(move || claimer.run());
        }
    });
    check_history(&server, &state);
    server.check_healthy();
}

/// The sessions of an environment in the order in which they were granted.
fn list_sessions(api: &ApiHandle, environment: u64) -> Vec<Value> {
    let mut sessions = Vec::new();
    for page in 1.. {
        let path = format!("{}/history?page={page}&limit=100", environment_path(environment));
        let reply = api.get(&path).json();
        sessions.extend(reply["data"].as_array().expect("sessions").iter().cloned());
        if reply["pagination"]["hasMore"] == false {
            break;
        }
    }
    sessions.sort_by_key(|session| session["fence"].as_i64());
    sessions
}

/// Compares the sessions and tickets in the responses with the final state of the sessions.
fn check_history(server: &TestServer, state: &ContentionState) {
    let granted = state.granted.lock().expect("unpoisoned").clone();
    let (mut leases_ended, mut overtaken) = (0, 0);
    for environment in 0..ENVIRONMENTS {
        let sessions = list_sessions(&server.api, environment);
        let of = |session: &Value| {
            granted
                .iter()
                .find(|it| session["sessionId"] == it.session.as_str() && it.environment == environment)
        };
        for session in sessions.iter().filter(|session| session["endReason"] == "lease") {
            let path =
                format!("{}/sessions/{}", environment_path(environment), expect_text(&session["sessionId"]));
            let session = &server.api.get(&path).json()["data"];
            let late = parse_time(&session["endedAt"]).seconds_since(parse_time(&session["leaseExpiresAt"]));
            assert!(late <= SWEEP_MAX_S, "ended {late} s after its lease: {session}");
            leases_ended += 1;
        }
        for pair in sessions.windows(2) {
            let (ended, next) = (parse_time(&pair[0]["endedAt"]), parse_time(&pair[1]["claimedAt"]));
            assert!(ended <= next, "two sessions overlap: {pair:?}");
            let Some(queued) = of(&pair[1]).and_then(|it| it.queued_at) else { continue };
            let idle = next.seconds_since(ended.max(queued));
            assert!(idle <= GRANT_MAX_S, "free for {idle} s although a ticket waited: {pair:?}");
        }
        let grants = sessions.iter().filter_map(|session| {
            let it = of(session)?;
            Some((it.class, it.queued_at?, parse_time(&session["claimedAt"])))
        });
        let grants: Vec<_> = grants.collect();
        for (class, queued, at) in &grants {
            let passed_over =
                grants.iter().find(|(better, since, later)| better < class && since < at && later > at);
            assert_eq!(passed_over, None, "{class:?} was granted qa-{environment} before it");
            overtaken += usize::from(
                grants.iter().any(|(worse, since, later)| worse > class && since < queued && later > at),
            );
        }
    }
    let crashes = *state.crashes.lock().expect("unpoisoned");
    outcome::report_coverage(&format!(
        "agents: {} sessions, {crashes} crashes, {leases_ended} ended at their lease, {overtaken} tickets went ahead of an agent or a job",
        granted.len(),
    ));
    assert!(leases_ended > 0 && overtaken > 0 && crashes > 0, "the run covers too little");
}
