//! Two servers on one PostgreSQL stay linearizable while the first server, the database and the second server are
//! killed in turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

use berth_testkit::{PostgresServer as Postgres, outcome, postgres_binaries};

use super::accounts::create_accounts;
use super::real_server::{
    LockClient, ROUND_MAX, WIDTH, check_histories, count_answered, create_pipeline, start,
};
use super::recorder::HistoryRecorder;
use crate::harness::{TestHome, wait_until};
use crate::random::SeededRandom;

const CLIENTS: usize = 16;
const PEOPLE: usize = 4;
const ROUNDS: usize = 6;
const ROUNDS_LONG: usize = 60;
/// Number of responses between two kills.
const ROUND: std::ops::Range<u64> = 300..700;

#[test]
fn replicas_are_linearizable_across_server_and_database_kills() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let mut random = SeededRandom::from_env("LINEAR_SEED");
    let mut database = Postgres::start(&bin).expect("a PostgreSQL");
    let home = TestHome::on_database(database.url("postgres"));
    let mut servers = [start(&home), start(&home)];
    create_pipeline(&servers[0].api, 0);
    let people = create_accounts(&servers[0].api, PEOPLE);
    let recorder = HistoryRecorder::new(WIDTH);
    let rounds = outcome::short_or_long(ROUNDS, ROUNDS_LONG);
    for round in 0..rounds {
        let goal = recorder.response_count() + random.next_in(ROUND) as usize;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let play = |number: usize| {
                let mut random = SeededRandom::from_seed(random.next_u64());
                let mut service = LockClient::connect(&servers[number % 2], &people[number % PEOPLE]);
                let (recorder, over) = (&recorder, &over);
                let goes_on = move |_: &HistoryRecorder| !over.load(Ordering::Relaxed);
                scope.spawn(move || recorder.run_client(&mut service, &mut random, goes_on))
            };
            let clients: Vec<_> = (0..CLIENTS).map(play).collect();
            let is_over =
                || recorder.response_count() >= goal || clients.iter().any(ScopedJoinHandle::is_finished);
            wait_until(ROUND_MAX, "round of answers", || is_over().then_some(()));
            match round % 3 {
                0 => servers[0].process.kill(),
                1 => database.kill(),
                _ => servers[1].process.kill(),
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(recorder.response_count() >= goal, "a client got no response before anything was killed");
        match round % 3 {
            0 => servers[0] = start(&home),
            1 => database.restart().expect("it starts again"),
            _ => servers[1] = start(&home),
        }
        for server in &servers {
            recorder.read_all(&mut LockClient::connect(server, &people[0]));
        }
    }
    for server in servers {
        server.stop();
    }
    let histories = recorder.histories();
    let (answered, lost) = count_answered(&histories);
    outcome::report_coverage(&format!(
        "{answered} linearized lock operations on two servers, {lost} without an answer, {rounds} kills of servers and PostgreSQL"
    ));
    assert!(lost >= rounds, "hardly anything was on its way at the kills: {lost}");
    check_histories(&histories);
}
