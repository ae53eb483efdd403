//! The real server under load, killed and restarted: every response of every client fits one order of operations.

use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use berth_testkit::outcome;
use serde_json::{Value, json};

use super::accounts::{Person, invite};
use super::check_history;
use super::history::{Answer, Call, Hold, print};
use super::recorder::{Board, Service};
use crate::client::{Api, Client, Request, Response};
use crate::harness::{Home, Server, until};
use crate::random::Random;

const CLIENTS: usize = 32;
const PEOPLE: usize = 4;
const KILLS: usize = 7;
/// Servers tested one after the other in the long run.
const REPEATS_LONG: usize = 50;
/// Responses between two kills.
const ROUND: std::ops::Range<u64> = 1_500..3_500;
pub(crate) const ROUND_MAX: Duration = Duration::from_secs(60);
/// Environments in use at a time.
pub(crate) const WIDTH: usize = 6;
/// Maximum number of environments of a pipeline.
pub(crate) const PER_PIPELINE: usize = 200;

#[test]
fn lock_answers_are_linearizable_across_kills() {
    let mut random = Random::from_env("LINEAR_SEED");
    let repeats = outcome::short_or_long(1, REPEATS_LONG);
    let counts: Vec<_> = (0..repeats).map(|_| check_one_server(&mut random)).collect();
    let sum = |of: fn(&(usize, usize)) -> usize| counts.iter().map(of).sum::<usize>();
    let (answered, lost) = (sum(|it| it.0), sum(|it| it.1));
    let kills = repeats * KILLS;
    outcome::covered(&format!(
        "{answered} linearized lock operations, {lost} without an answer, {kills} kills"
    ));
}

/// Returns the number of calls with and without a response.
fn check_one_server(random: &mut Random) -> (usize, usize) {
    let home = Home::new();
    let mut server = start(&home);
    for number in 0..2 {
        create_pipeline(&server.api, number);
    }
    let people = invite(&server.api, PEOPLE);
    let board = Board::new(WIDTH);
    for kill in 0..=KILLS {
        let goal = board.answered() + random.within(ROUND) as usize;
        std::thread::scope(|scope| {
            let play = |number: usize| {
                let mut random = Random::seeded(random.next());
                let (board, mut service) = (&board, Http::connect(&server, &people[number % PEOPLE]));
                let goes_on = move |board: &Board| kill < KILLS || board.answered() < goal;
                scope.spawn(move || board.play(&mut service, &mut random, goes_on))
            };
            let clients: Vec<_> = (0..CLIENTS).map(play).collect();
            // A client that ends early has panicked; the scope reports it.
            let is_over = || board.answered() >= goal || clients.iter().any(ScopedJoinHandle::is_finished);
            until(ROUND_MAX, "round of answers", || is_over().then_some(()));
            if kill < KILLS {
                server.process.kill();
            }
        });
        assert!(board.answered() >= goal, "the server ended before it was killed");
        if kill < KILLS {
            server = start(&home);
        }
        board.look_at_all(&mut Http::connect(&server, &people[0]));
    }
    server.stop();

    let histories = board.histories();
    let (answered, lost) = count(&histories);
    assert!(lost >= KILLS, "hardly anything was on its way when the server was killed: {lost}");
    check_all(&histories);
    (answered, lost)
}

/// Checks every history; writes a failing one to a file.
pub(crate) fn check_all(histories: &[Vec<super::history::Operation>]) {
    for (number, history) in histories.iter().enumerate() {
        if let Err(wrong) = check_history(history) {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{number}.txt"));
            std::fs::write(&kept, print(history)).expect("the history can be kept");
            panic!("environment {number}: {wrong}\nthe whole history is in {}", kept.display());
        }
    }
}

pub(crate) fn start(home: &Home) -> Server {
    Server::start(home.serve_command().env("BERTH_LOG__LEVEL", "warn"), &home.token)
}

pub(crate) fn count(histories: &[Vec<super::history::Operation>]) -> (usize, usize) {
    let all = histories.iter().flatten();
    let (answered, lost): (Vec<_>, Vec<_>) = all.partition(|operation| operation.outcome.is_some());
    (answered.len(), lost.len())
}

/// Creates a pipeline with the maximum number of environments.
pub(crate) fn create_pipeline(api: &Api, number: usize) {
    let environments: String = (0..PER_PIPELINE).map(|number| format!("    e{number}: {{}}\n")).collect();
    let definition = format!("{}  ephemeral_environments:\n{environments}", crate::harness::DEFINITION);
    let body = json!({ "slug": format!("p{number}"), "definition": definition });
    let made = api.post("/api/v1/organizations/acme/pipelines", &body);
    assert_eq!(made.status, 201, "{}", made.text());
}

/// Environments are numbered across all pipelines.
pub(crate) fn path(environment: usize) -> String {
    let (pipeline, number) = (environment / PER_PIPELINE, environment % PER_PIPELINE);
    format!("/api/v1/organizations/acme/pipelines/p{pipeline}/ephemeral-environments/e{number}")
}

/// A client with one connection that never retries.
pub(crate) struct Http {
    me: String,
    api: Api,
    client: Client,
}

impl Http {
    pub(crate) fn connect(server: &Server, person: &Person) -> Self {
        let client = Client::connect(server.address);
        Self { me: person.id.clone(), api: person.api(server), client }
    }
}

impl Service for Http {
    fn ask(&mut self, environment: usize, call: &Call) -> Option<Answer> {
        let response = self.client.ask(&request(&self.api, environment, call)).ok()?;
        // 503: the outcome is unknown to the server.
        (response.status != 503).then(|| answer(&self.me, call, &response))
    }
}

pub(crate) fn request(api: &Api, environment: usize, call: &Call) -> Request {
    let path = path(environment);
    match call {
        Call::Claim => api.request("POST", &format!("{path}/sessions")).json(&json!({})),
        Call::Force { only } => {
            let request = api.request("POST", &format!("{path}/force-claim")).json(&json!({}));
            match only {
                // Only the fence is compared; the version is arbitrary.
                Some(fence) => request.header("If-Match", &format!("\"{fence}.0\"")),
                None => request,
            }
        }
        Call::Release { session } => api.request("DELETE", &format!("{path}/sessions/{}", id_of(session))),
        Call::Get => api.request("GET", &path),
    }
}

/// Converts a response; panics on any status or body that the API does not allow.
pub(crate) fn answer(me: &str, call: &Call, response: &Response) -> Answer {
    let body = response.json();
    let data = &body["data"];
    match (call, response.status) {
        (Call::Claim | Call::Force { .. }, 201) => {
            assert_eq!((&data["status"], &data["holder"]["id"]), (&json!("active"), &json!(me)));
            Answer::Opened(hold(data))
        }
        (Call::Claim, 409) => {
            let is_mine = body["holder"]["id"] == me;
            assert_eq!((&body["code"], &body["self"]), (&json!("environment_locked"), &json!(is_mine)));
            Answer::Held(hold(&body))
        }
        (Call::Force { only: Some(_) }, 412) => Answer::Moved,
        (Call::Release { session }, 200) => {
            assert_eq!(hold(data).session, *session, "{body}");
            assert_ne!(data["status"], "active", "{body}");
            match data["released"].as_bool().expect("whether it was released") {
                true => Answer::Released,
                false => Answer::NotActive,
            }
        }
        (Call::Get, 200) => shown(data),
        (_, status) => panic!("{call:?} was answered {status}: {body}"),
    }
}

fn shown(environment: &Value) -> Answer {
    let fence = environment["fence"].as_u64().expect("a fence");
    match environment["lockStatus"].as_str() {
        Some("unlocked") => {
            assert!(environment["lock"].is_null(), "{environment}");
            Answer::Free { fence }
        }
        Some("locked") => {
            let hold = hold(&environment["lock"]);
            assert_eq!(hold.fence, fence, "the environment's fence is its holder's: {environment}");
            Answer::Held(hold)
        }
        _ => panic!("no lock status: {environment}"),
    }
}

/// The session that a response names; checks that its holder matches.
pub(crate) fn hold(body: &Value) -> Hold {
    let text =
        |value: &Value| value.as_str().unwrap_or_else(|| panic!("a text is missing: {body}")).to_owned();
    let session = format!("{}@{}", text(&body["sessionId"]), text(&body["holder"]["id"]));
    let fence = body["fence"].as_u64().unwrap_or_else(|| panic!("no fence in {body}"));
    Hold { session: session.into(), fence }
}

/// The session's own id.
pub(crate) fn id_of(session: &str) -> &str {
    session.split_once('@').map_or(session, |(id, _)| id)
}
