//! Retention: logs of what ended long ago go, and of nothing else.

use super::{PATIENCE, admin, claim, deploy, log_of, make_shop};
use crate::harness::{Home, Server, until};

const DAYS: &str = "2";
const LONG_AGO_US: i64 = 3 * 24 * 60 * 60 * 1_000_000;

#[test]
fn old_logs_go_and_say_so_and_younger_ones_and_those_of_what_runs_stay() {
    let home = Home::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    let (session, _) = claim(&server.api, "qa-1");
    let old = deploy(&server.api, "qa-1", &session, "aaa1", "succeeded");
    let young = deploy(&server.api, "qa-1", &session, "aaa2", "succeeded");
    server.stop();
    let database = rusqlite::Connection::open(home.path().join("berth.db")).expect("the database");
    let before = "UPDATE deployments SET finished_at = finished_at - ?1 WHERE id = ?2";
    let id = old["id"].as_str().expect("its id");
    assert_eq!(database.execute(before, rusqlite::params![LONG_AGO_US, id]).expect("a change"), 1);
    drop(database);

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
    until(PATIENCE, "the log of what runs", || {
        log_of(&server.api, &running).contains("it runs").then_some(())
    });
    server.stop();
    let verified = admin(&["verify"], &home.path());
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
