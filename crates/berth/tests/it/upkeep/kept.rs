//! Retention: logs of what ended long ago go, and of nothing else.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{PATIENCE, admin, claim, deploy, log_of, make_shop};
use crate::harness::{Home, Server, until};

const DAYS: &str = "2";
const LONG_AGO_US: i64 = 3 * 24 * 60 * 60 * 1_000_000;

/// The files of a deployment were written long ago. Says how many there are.
fn grow_old(logs: &Path, deployment: &str) -> usize {
    let org =
        std::fs::read_dir(logs).expect("logs").next().expect("an organization").expect("an entry").path();
    let files = std::fs::read_dir(org.join(deployment)).expect("logs of the deployment");
    let age = Duration::from_micros(LONG_AGO_US.unsigned_abs());
    files
        .map(|file| File::options().write(true).open(file.expect("an entry").path()).expect("a log"))
        .map(|file| file.set_modified(SystemTime::now() - age).expect("another time"))
        .count()
}

#[test]
fn old_logs_go_and_say_so_and_younger_ones_and_those_of_what_runs_stay() {
    let home = Home::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    let (session, _) = claim(&server.api, "qa-1");
    let old = deploy(&server.api, "qa-1", &session, "aaa1", "succeeded");
    let written = deploy(&server.api, "qa-1", &session, "aaa3", "succeeded");
    let young = deploy(&server.api, "qa-1", &session, "aaa2", "succeeded");
    server.stop();
    let database = rusqlite::Connection::open(home.path().join("berth.db")).expect("the database");
    let before = "UPDATE deployments SET finished_at = finished_at - ?1 WHERE id = ?2";
    // It is older than the other one and looked at first, but its files are new: somebody writes them right now.
    for (deployment, by) in [(&old, LONG_AGO_US), (&written, 2 * LONG_AGO_US)] {
        let params = rusqlite::params![by, deployment["id"].as_str()];
        assert_eq!(database.execute(before, params).expect("a change"), 1);
    }
    drop(database);
    assert_eq!(grow_old(&home.path().join("logs"), old["id"].as_str().expect("its id")), 1);

    let mut command = home.serve_command();
    command.env("BERTH_RETENTION__LOG_DAYS", DAYS);
    let server = Server::start(&mut command, &home.token);
    let (slow, _) = claim(&server.api, "qa-2");
    let running = deploy(&server.api, "qa-2", &slow, "slow", "running");
    let note = until(PATIENCE, "an old log that is gone", || {
        let text = log_of(&server.api, &old);
        (!text.contains("it runs")).then_some(text)
    });
    assert_eq!(note, "[berth] this log was removed: logs are kept for 2 days (retention.log_days)\n");
    assert!(log_of(&server.api, &young).contains("it runs"));
    assert!(log_of(&server.api, &written).contains("it runs"));
    until(PATIENCE, "the log of what runs", || {
        log_of(&server.api, &running).contains("it runs").then_some(())
    });
    server.stop();
    let verified = admin(&["verify"], &home.path());
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
