//! Soak test: three servers, four runners and thirty-two clients on one PostgreSQL, while all processes are killed,
//! paused and restarted. At the end all responses must be consistent.
//!
//! `cargo xtask soak --minutes N` runs it for longer, and with `--upgrade` next to servers and runners of a previous version.

mod audit;
mod client;
mod deployer;
mod fleet;
mod lost_commits;
mod proxy;
mod target;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_testkit::{PostgresServer as Postgres, outcome, postgres_binaries};
use serde_json::json;

use crate::client::ApiHandle;
use crate::harness::wait_until;
use crate::linear::accounts::create_accounts;
use crate::linear::history::{LockAnswer, Operation, Tick};
use crate::linear::real_server::{check_histories, count_answered, create_pipeline, session_id};
use crate::linear::recorder::HistoryRecorder;
use crate::random::SeededRandom;
use client::UnreliableClient;
use fleet::{FAULTS, InjectedFault, ServerFleet};
use lost_commits::CommitLosingProxy;
use proxy::ServerPorts;
use target::WriteTarget;

const SERVERS: usize = 3;
const RUNNERS: usize = 4;
const LOCKERS: usize = 24;
const DEPLOYERS: usize = 8;
const PEOPLE: usize = 4;
/// Number of environments in use at a time: `WIDTH` for lock operations only, `PLACES` for deployments.
const WIDTH: usize = 6;
const PLACES: u64 = 6;
/// Number of pipelines for the lock clients, which use up their environments. One more is created for each
/// `PIPELINE_EVERY` of the run's duration.
const PIPELINES: u64 = 8;
const PIPELINE_EVERY: Duration = Duration::from_secs(30);
/// Duration of a short run, unless `SOAK_MINUTES` is set.
const LOAD: Duration = Duration::from_secs(25);
const LOAD_LONG: Duration = Duration::from_secs(10 * 60);
/// One fault in this many is a lost runner. It is rare because a loss takes long to detect.
const ROUND: usize = 25;
/// Position in each round at which a runner is lost. It is not the first one, so that steps are running by then.
const LOST_AT: usize = 3;
const CALM_MS: std::ops::Range<u64> = 200..900;
/// Time in which lost runners must be detected and their deployments end.
const QUIET_MAX: Duration = Duration::from_secs(40);
/// Number of commits that must be lost before the responses are checked. On a busy machine it takes a while to reach,
/// up to `LOST_COMMITS_WAIT`.
const LOST_COMMITS_MIN: u32 = 12;
const LOST_COMMITS_WAIT: Duration = Duration::from_secs(60);
/// Writes of steps that a run must have had. There are usually hundreds, but few on a busy machine.
const WRITES_MIN: usize = 5;
/// How long the load goes on without faults until there are this many.
const WRITES_WAIT: Duration = Duration::from_secs(60);
const ORG: &str = "/api/v1/organizations/acme";

/// An environment that a client took over and deployed in.
#[derive(Debug, Clone)]
struct TakenEnvironment {
    place: String,
    session: String,
    fence: u64,
    deployment: String,
    sent: Tick,
    answered: Tick,
}

/// State shared by all clients.
struct SoakState {
    recorder: HistoryRecorder,
    ports: Arc<ServerPorts>,
    taken: Mutex<Vec<TakenEnvironment>>,
    /// Descriptions of inconsistent responses.
    violations: Mutex<Vec<String>>,
}

impl SoakState {
    fn report_violation(&self, what: String) {
        self.violations.lock().expect("unpoisoned").push(what);
    }
}

/// Results of a run.
struct SoakResult {
    histories: Vec<Vec<Operation>>,
    taken: Vec<TakenEnvironment>,
    violations: Vec<String>,
    target: WriteTarget,
}

#[test]
fn soak_with_failing_servers_runners_and_database_stays_consistent() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let minutes: Option<u64> = std::env::var("SOAK_MINUTES").ok().and_then(|text| text.parse().ok());
    let load =
        minutes.map_or(outcome::short_or_long(LOAD, LOAD_LONG), |minutes| Duration::from_secs(60 * minutes));
    let mut random = SeededRandom::from_env("SOAK_SEED");
    let mut fleet = ServerFleet::start(Postgres::start(&bin).expect("a PostgreSQL"));
    let mut faults = 0;
    let told = run_under_load(&mut fleet, &mut random, load, |fleet, random, target| {
        let end = Instant::now() + load;
        while Instant::now() < end || faults <= FAULTS.len() {
            std::thread::sleep(Duration::from_millis(random.next_in(CALM_MS)));
            let fault = if faults % ROUND == LOST_AT {
                InjectedFault::RunnerLost
            } else {
                FAULTS[faults % FAULTS.len()]
            };
            fleet.inject(fault, random);
            faults += 1;
        }
        wait_until(WRITES_WAIT, "writes of steps", || (target.count() > WRITES_MIN).then_some(()));
    });
    release_all(fleet.api());
    let (answered, lost) = count_answered(&told.histories);
    let writes = told.target.check().unwrap_or_else(|why| panic!("{why}"));
    let silent = audit::count_lost_attempts(&fleet.database()).unwrap_or_else(|why| panic!("{why}"));
    outcome::report_coverage(&format!(
        "soak: {faults} faults, {} of them kills of PostgreSQL and {} promotions, {silent} attempts of silent runners, {answered} linearized lock operations, {lost} without an answer, {} takeovers, {writes} writes of steps",
        fleet.database_kills,
        fleet.promotions,
        told.taken.len(),
    ));
    assert!(told.violations.is_empty(), "{:?}", told.violations);
    audit::check_order(&told.taken).unwrap_or_else(|why| panic!("{why}"));
    audit::check(&fleet.database(), &acknowledged_sessions(&told), &told.taken)
        .unwrap_or_else(|why| panic!("{why}"));
    for api in fleet.apis() {
        let verified = api.post(&format!("{ORG}/events/verify"), &json!({})).json();
        assert_eq!(verified["data"]["valid"], true, "{verified}");
    }
    let promotions = fleet.promotions;
    fleet.stop();
    check_histories(&told.histories);
    // Without promotions, lost responses and sessions the run would have tested nothing.
    assert!(promotions > 0 && lost > 0, "{promotions} promotions, {lost} lost answers");
    assert!(silent > 0, "no runner was silent until it was lost");
    assert!(told.taken.len() > 20, "{} sessions", told.taken.len());
}

#[test]
fn soak_detects_commits_lost_by_the_database() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let database = Postgres::start(&bin).expect("a PostgreSQL");
    let amnesia = CommitLosingProxy::in_front_of(&database.socket());
    let mut fleet = ServerFleet::start_with_url(database, amnesia.url());
    let told =
        run_under_load(&mut fleet, &mut SeededRandom::from_env("SOAK_SEED"), LOST_COMMITS_WAIT, |_, _, _| {
            amnesia.start_losing();
            wait_until(LOST_COMMITS_WAIT, "commits that are forgotten", || {
                (amnesia.lost_count() >= LOST_COMMITS_MIN).then_some(())
            });
        });
    // Do not wait for deployments: on a database that loses commits they may never end.
    let rows = audit::check_acknowledged(&fleet.database(), &acknowledged_sessions(&told));
    rows.expect_err("an acknowledged session that is not there");
    let order = std::panic::catch_unwind(|| check_histories(&told.histories));
    assert!(order.is_err(), "an order of events that explains what was lost");
}

/// Runs all clients concurrently while faults are injected.
fn run_under_load(
    fleet: &mut ServerFleet,
    random: &mut SeededRandom,
    load: Duration,
    during_load: impl FnOnce(&mut ServerFleet, &mut SeededRandom, &WriteTarget),
) -> SoakResult {
    let target = WriteTarget::default();
    let step = fleet.path("step.sh");
    std::fs::write(&step, target::step_script(target.listen())).expect("written");
    let pipelines = PIPELINES + load.as_secs() / PIPELINE_EVERY.as_secs();
    (0..pipelines as usize).for_each(|number| create_pipeline(fleet.api(), number));
    create_work_pipeline(fleet.api(), &format!("bash {}", step.display()));
    let people = create_accounts(fleet.api(), PEOPLE);
    let shared = SoakState {
        recorder: HistoryRecorder::new(WIDTH),
        ports: fleet.ports.clone(),
        taken: Mutex::default(),
        violations: Mutex::default(),
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..LOCKERS + DEPLOYERS {
            let (shared, over, person) = (&shared, &over, people[number % PEOPLE].clone());
            let seeded = SeededRandom::from_seed(random.next_u64());
            scope.spawn(move || {
                // If a client panics, the load ends for all clients.
                let _end = StopOnDrop(over);
                let mut client = UnreliableClient::new(shared, person, seeded, number);
                while !over.load(Ordering::Relaxed) {
                    if number < LOCKERS {
                        client.send_random_call();
                    } else {
                        deployer::take_over_and_deploy(&mut client);
                    }
                }
            });
        }
        let _end = StopOnDrop(&over);
        during_load(fleet, random, &target);
    });
    let SoakState { recorder, taken, violations, .. } = shared;
    let (taken, violations) =
        (taken.into_inner().expect("unpoisoned"), violations.into_inner().expect("unpoisoned"));
    SoakResult { histories: recorder.histories(), taken, violations, target }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn create_work_pipeline(api: &ApiHandle, run: &str) {
    let places: String = (0..PLACES).map(|number| format!("    w{number}: {{}}\n")).collect();
    let definition = format!(
        "version: 1\npipeline:\n  name: Work\n  stages: [{{ name: staging }}]\n  ephemeral_environments:\n{places}  steps:\n    - {{ name: Write, type: script, on_lost: fail, params: {{ run: '{run}' }} }}\n"
    );
    let made = api.post(&format!("{ORG}/pipelines"), &json!({"slug": "work", "definition": definition}));
    assert_eq!(made.status, 201, "{}", made.text());
}

/// Releases every session and waits for deployments to end.
fn release_all(api: &ApiHandle) {
    let places = format!("{ORG}/pipelines/work/ephemeral-environments");
    wait_until(QUIET_MAX, "end of all deployments", || {
        let (deployments, _) = api.list_all(&format!("{ORG}/deployments"));
        let is_open = |it: &serde_json::Value| !it["finishedAt"].is_string();
        (!deployments.iter().any(is_open)).then_some(())
    });
    for place in api.get(&places).json()["data"].as_array().expect("places") {
        assert_ne!(place["state"], "contested", "{place}");
    }
}

/// Returns every session that was acknowledged, with its fence.
fn acknowledged_sessions(told: &SoakResult) -> HashMap<String, u64> {
    let of_locks = told.histories.iter().flatten().filter_map(|operation| match operation.answer() {
        Some(LockAnswer::Opened(hold)) => Some((session_id(&hold.session).to_owned(), hold.fence)),
        _ => None,
    });
    of_locks.chain(told.taken.iter().map(|it| (it.session.clone(), it.fence))).collect()
}
