//! The real server under load, killed and restarted: there must be an order of operations that explains every response.

use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use berth_testkit::outcome;
use serde_json::{Value, json};

use super::accounts::{TestAccount, create_accounts};
use super::check_history;
use super::history::{LockAnswer, LockCall, SessionRef, format_history};
use super::recorder::{HistoryRecorder, LockService};
use crate::client::{ApiHandle, HttpConnection, RawRequest, RawResponse};
use crate::harness::{TestHome, TestServer, wait_until};
use crate::random::SeededRandom;

const CLIENTS: usize = 32;
const PEOPLE: usize = 4;
const KILLS: usize = 7;
/// Number of servers tested one after the other in the long form of the test.
const REPEATS_LONG: usize = 50;
/// Number of responses between two kills.
const ROUND: std::ops::Range<u64> = 1_500..3_500;
pub(crate) const ROUND_MAX: Duration = Duration::from_secs(60);
/// Number of environments in use at a time.
pub(crate) const WIDTH: usize = 6;
/// Maximum number of environments of a pipeline.
pub(crate) const PER_PIPELINE: usize = 200;

#[test]
fn lock_answers_are_linearizable_across_kills() {
    let mut random = SeededRandom::from_env("LINEAR_SEED");
    let repeats = outcome::short_or_long(1, REPEATS_LONG);
    let counts: Vec<_> = (0..repeats).map(|_| check_one_server(&mut random)).collect();
    let sum = |of: fn(&(usize, usize)) -> usize| counts.iter().map(of).sum::<usize>();
    let (answered, lost) = (sum(|it| it.0), sum(|it| it.1));
    let kills = repeats * KILLS;
    outcome::report_coverage(&format!(
        "{answered} linearized lock operations, {lost} without an answer, {kills} kills"
    ));
}

/// Returns the number of calls with and without a response.
fn check_one_server(random: &mut SeededRandom) -> (usize, usize) {
    let home = TestHome::new();
    let mut server = start(&home);
    for number in 0..2 {
        create_pipeline(&server.api, number);
    }
    let people = create_accounts(&server.api, PEOPLE);
    let recorder = HistoryRecorder::new(WIDTH);
    for kill in 0..=KILLS {
        let goal = recorder.response_count() + random.next_in(ROUND) as usize;
        std::thread::scope(|scope| {
            let play = |number: usize| {
                let mut random = SeededRandom::from_seed(random.next_u64());
                let (recorder, mut service) =
                    (&recorder, LockClient::connect(&server, &people[number % PEOPLE]));
                let goes_on =
                    move |recorder: &HistoryRecorder| kill < KILLS || recorder.response_count() < goal;
                scope.spawn(move || recorder.run_client(&mut service, &mut random, goes_on))
            };
            let clients: Vec<_> = (0..CLIENTS).map(play).collect();
            // A client that ends early has panicked; the thread scope reports the panic.
            let is_over =
                || recorder.response_count() >= goal || clients.iter().any(ScopedJoinHandle::is_finished);
            wait_until(ROUND_MAX, "round of answers", || is_over().then_some(()));
            if kill < KILLS {
                server.process.kill();
            }
        });
        assert!(recorder.response_count() >= goal, "the server ended before it was killed");
        if kill < KILLS {
            server = start(&home);
        }
        recorder.read_all(&mut LockClient::connect(&server, &people[0]));
    }
    server.stop();

    let histories = recorder.histories();
    let (answered, lost) = count_answered(&histories);
    assert!(lost >= KILLS, "hardly anything was on its way when the server was killed: {lost}");
    check_histories(&histories);
    (answered, lost)
}

/// Checks every history; writes a failing one to a file.
pub(crate) fn check_histories(histories: &[Vec<super::history::Operation>]) {
    for (number, history) in histories.iter().enumerate() {
        if let Err(wrong) = check_history(history) {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{number}.txt"));
            std::fs::write(&kept, format_history(history)).expect("the history can be kept");
            panic!("environment {number}: {wrong}\nthe whole history is in {}", kept.display());
        }
    }
}

pub(crate) fn start(home: &TestHome) -> TestServer {
    TestServer::start(home.serve_command().env("BERTH_LOG__LEVEL", "warn"), &home.token)
}

pub(crate) fn count_answered(histories: &[Vec<super::history::Operation>]) -> (usize, usize) {
    let all = histories.iter().flatten();
    let (answered, lost): (Vec<_>, Vec<_>) = all.partition(|operation| operation.outcome.is_some());
    (answered.len(), lost.len())
}

/// Creates a pipeline with the maximum number of environments.
pub(crate) fn create_pipeline(api: &ApiHandle, number: usize) {
    let environments: String = (0..PER_PIPELINE).map(|number| format!("    e{number}: {{}}\n")).collect();
    let definition = format!("{}  ephemeral_environments:\n{environments}", crate::harness::DEFINITION);
    let body = json!({ "slug": format!("p{number}"), "definition": definition });
    let made = api.post("/api/v1/organizations/acme/pipelines", &body);
    assert_eq!(made.status, 201, "{}", made.text());
}

/// Returns the path of an environment. Environments are numbered across all pipelines.
pub(crate) fn environment_path(environment: usize) -> String {
    let (pipeline, number) = (environment / PER_PIPELINE, environment % PER_PIPELINE);
    format!("/api/v1/organizations/acme/pipelines/p{pipeline}/ephemeral-environments/e{number}")
}

/// A client with one connection that never retries.
pub(crate) struct LockClient {
    me: String,
    api: ApiHandle,
    client: HttpConnection,
}

impl LockClient {
    pub(crate) fn connect(server: &TestServer, person: &TestAccount) -> Self {
        let client = HttpConnection::connect(server.address);
        Self { me: person.id.clone(), api: person.api(server), client }
    }
}

impl LockService for LockClient {
    fn send_call(&mut self, environment: usize, call: &LockCall) -> Option<LockAnswer> {
        let response = self.client.send_request(&build_request(&self.api, environment, call)).ok()?;
        // Status 503 means that the server does not know the outcome either.
        (response.status != 503).then(|| parse_response(&self.me, call, &response))
    }
}

pub(crate) fn build_request(api: &ApiHandle, environment: usize, call: &LockCall) -> RawRequest {
    let path = environment_path(environment);
    match call {
        LockCall::Claim => api.request("POST", &format!("{path}/sessions")).json(&json!({})),
        LockCall::Force { only } => {
            let request = api.request("POST", &format!("{path}/force-claim")).json(&json!({}));
            match only {
                // The server compares only the fence in this ETag, so the version can be any number.
                Some(fence) => request.header("If-Match", &format!("\"{fence}.0\"")),
                None => request,
            }
        }
        LockCall::Release { session } => {
            api.request("DELETE", &format!("{path}/sessions/{}", session_id(session)))
        }
        LockCall::Get => api.request("GET", &path),
    }
}

/// Converts a response. Panics on a status or body that the API does not allow.
pub(crate) fn parse_response(me: &str, call: &LockCall, response: &RawResponse) -> LockAnswer {
    let body = response.json();
    let data = &body["data"];
    match (call, response.status) {
        (LockCall::Claim | LockCall::Force { .. }, 201) => {
            assert_eq!((&data["status"], &data["holder"]["id"]), (&json!("active"), &json!(me)));
            LockAnswer::Opened(session_ref(data))
        }
        (LockCall::Claim, 409) => {
            let is_mine = body["holder"]["id"] == me;
            assert_eq!((&body["code"], &body["self"]), (&json!("environment_locked"), &json!(is_mine)));
            LockAnswer::Held(session_ref(&body))
        }
        (LockCall::Force { only: Some(_) }, 412) => LockAnswer::Moved,
        (LockCall::Release { session }, 200) => {
            assert_eq!(session_ref(data).session, *session, "{body}");
            assert_ne!(data["status"], "active", "{body}");
            match data["released"].as_bool().expect("whether it was released") {
                true => LockAnswer::Released,
                false => LockAnswer::NotActive,
            }
        }
        (LockCall::Get, 200) => parse_lock_status(data),
        (_, status) => panic!("{call:?} was answered {status}: {body}"),
    }
}

fn parse_lock_status(environment: &Value) -> LockAnswer {
    let fence = environment["fence"].as_u64().expect("a fence");
    match environment["lockStatus"].as_str() {
        Some("unlocked") => {
            assert!(environment["lock"].is_null(), "{environment}");
            LockAnswer::Free { fence }
        }
        Some("locked") => {
            let hold = session_ref(&environment["lock"]);
            assert_eq!(hold.fence, fence, "the environment's fence is its holder's: {environment}");
            LockAnswer::Held(hold)
        }
        _ => panic!("no lock status: {environment}"),
    }
}

/// Returns the session that a response names. The holder's id is part of the name, so that a wrong holder is detected.
pub(crate) fn session_ref(body: &Value) -> SessionRef {
    let text =
        |value: &Value| value.as_str().unwrap_or_else(|| panic!("a text is missing: {body}")).to_owned();
    let session = format!("{}@{}", text(&body["sessionId"]), text(&body["holder"]["id"]));
    let fence = body["fence"].as_u64().unwrap_or_else(|| panic!("no fence in {body}"));
    SessionRef { session: session.into(), fence }
}

/// Returns the session's id from `id@holder`, the form that [`session_ref`] creates.
pub(crate) fn session_id(session: &str) -> &str {
    session.split_once('@').map_or(session, |(id, _)| id)
}
