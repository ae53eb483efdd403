//! Contention: a thousand concurrent claims of one environment, and ten thousand environments held at once.

use std::collections::HashSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;

use super::accounts::{TestAccount, create_accounts};
use super::history::SessionRef;
use super::real_server::{PER_PIPELINE, create_pipeline, environment_path, session_id, session_ref};
use crate::client::{ApiHandle, HttpConnection};
use crate::harness::{TestHome, TestServer};

const CLAIMS: usize = 1_000;
const THREADS: usize = 8;
const PIPELINES: usize = 50;

/// Starts a server with a quiet log and a high open-file limit.
fn start(home: &TestHome) -> TestServer {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("as many open files as allowed");
    TestServer::start(home.serve_command().env("BERTH_LOG__LEVEL", "warn"), &home.token)
}

#[test]
fn claim_contention_of_a_thousand_has_one_winner() {
    let home = TestHome::new();
    let server = start(&home);
    create_pipeline(&server.api, 0);
    let people = create_accounts(&server.api, THREADS);
    let all_ready = Barrier::new(THREADS);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let (server, all_ready) = (&server, &all_ready);
        let claimants: Vec<_> = people
            .iter()
            .map(|person| scope.spawn(move || claim_together(server, person, CLAIMS / THREADS, all_ready)))
            .collect();
        claimants.into_iter().flat_map(|claimant| claimant.join().expect("its answers")).collect()
    });
    let won: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!((answers.len(), won.len()), (CLAIMS, 1), "one winner");
    let mut took: Vec<_> = answers.iter().map(|answer| answer.took).collect();
    took.sort_unstable();
    println!(
        "half of {CLAIMS} claims took {:?}, 99 % of them {:?}",
        took[CLAIMS / 2],
        took[CLAIMS * 99 / 100]
    );
    for answer in &answers {
        assert!(matches!(answer.status, 201 | 409), "{}", answer.status);
        assert_eq!(answer.session, won[0].session);
    }
    let seen = server.api.get(&environment_path(0)).json();
    assert_eq!(session_ref(&seen["data"]["lock"]), won[0].session);
    server.stop();
}

struct ClaimResult {
    status: u16,
    session: SessionRef,
    took: Duration,
}

/// Sends every request except for its last byte, then all of the last bytes at once, so that the claims arrive
/// together.
fn claim_together(
    server: &TestServer,
    person: &TestAccount,
    count: usize,
    all_ready: &Barrier,
) -> Vec<ClaimResult> {
    let request =
        person.api(server).request("POST", &format!("{}/sessions", environment_path(0))).json(&json!({}));
    let bytes = request.bytes();
    let (most, last) = bytes.split_at(bytes.len() - 1);
    let mut clients: Vec<_> = (0..count).map(|_| HttpConnection::connect(server.address)).collect();
    for client in &mut clients {
        client.send(most).expect("the server reads");
    }
    all_ready.wait();
    let start = Instant::now();
    for client in &mut clients {
        client.send(last).expect("the server reads");
    }
    let answers = clients.iter_mut().map(|client| {
        let response = client.receive().expect("an answer");
        let (status, body) = (response.status, response.json());
        let hold = session_ref(if status == 201 { &body["data"] } else { &body });
        ClaimResult { status, session: hold, took: start.elapsed() }
    });
    answers.collect()
}

#[test]
fn claim_of_ten_thousand_environments_succeeds() {
    let home = TestHome::new();
    let server = start(&home);
    let begin = Instant::now();
    for_every_pipeline(|pipeline| vec![create_pipeline(&server.api, pipeline)]);
    println!("{PIPELINES} pipelines made after {:?}", begin.elapsed());
    let held = for_every_pipeline(|pipeline| claim_all(&server, pipeline));
    println!("{} environments held after {:?}", held.len(), begin.elapsed());
    let sessions: HashSet<_> = held.iter().map(|hold| hold.session.clone()).collect();
    assert_eq!(sessions.len(), PIPELINES * PER_PIPELINE);
    assert!(held.iter().all(|hold| hold.fence == 1), "each is the first of its environment");

    let listed: HashSet<_> =
        (0..PIPELINES).flat_map(|pipeline| list_sessions(&server.api, pipeline)).collect();
    assert!(listed == sessions, "the lists show what was claimed");
    for environment in (0..PIPELINES * PER_PIPELINE).step_by(997) {
        check_environment(&server.api, environment);
    }
    println!("checked after {:?}", begin.elapsed());
    server.stop();
}

/// Runs `work` for every pipeline on several threads.
fn for_every_pipeline<T: Send>(work: impl Fn(usize) -> Vec<T> + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let share = |thread| {
            scope.spawn(move || (thread..PIPELINES).step_by(THREADS).flat_map(work).collect::<Vec<_>>())
        };
        let shares: Vec<_> = (0..THREADS).map(share).collect();
        shares.into_iter().flat_map(|share| share.join().expect("its share")).collect()
    })
}

fn claim_all(server: &TestServer, pipeline: usize) -> Vec<SessionRef> {
    let mut client = HttpConnection::connect(server.address);
    let first = pipeline * PER_PIPELINE;
    let claims = (first..first + PER_PIPELINE).map(|environment| {
        let request = server
            .api
            .request("POST", &format!("{}/sessions", environment_path(environment)))
            .json(&json!({}));
        let answer = client.send_request(&request).expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.text());
        session_ref(&answer.json()["data"])
    });
    claims.collect()
}

/// Returns the sessions of a pipeline, read from its environment list, which is not paginated.
fn list_sessions(api: &ApiHandle, pipeline: usize) -> Vec<std::sync::Arc<str>> {
    let list = api.get(&format!("/api/v1/organizations/acme/pipelines/p{pipeline}/ephemeral-environments"));
    assert_eq!(list.status, 200, "{}", list.text());
    let list = list.json();
    let environments = list["data"].as_array().expect("environments");
    assert_eq!(environments.len(), PER_PIPELINE);
    environments.iter().map(|environment| session_ref(&environment["lock"]).session).collect()
}

/// Checks that the environment refuses a second holder, and that a release frees only this environment.
fn check_environment(api: &ApiHandle, environment: usize) {
    let (at, neighbour) = (environment_path(environment), environment_path(environment + 1));
    let seen = session_ref(&api.get(&at).json()["data"]["lock"]);
    let refused = api.post(&format!("{at}/sessions"), &json!({}));
    assert_eq!((refused.status, session_ref(&refused.json())), (409, seen.clone()));
    let released = api.send(&api.request("DELETE", &format!("{at}/sessions/{}", session_id(&seen.session))));
    assert_eq!((released.status, &released.json()["data"]["released"]), (200, &json!(true)));
    assert_eq!(api.get(&at).json()["data"]["lockStatus"], "unlocked");
    assert_eq!(api.get(&neighbour).json()["data"]["lockStatus"], "locked");
}
