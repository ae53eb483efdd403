//! Servers on one database with different values of `runner.lost_ms`.

use std::process::Command;
use std::time::{Duration, Instant};

use berth_testkit::{PostgresServer as Postgres, outcome, postgres_binaries};

use super::fixture::{ORG, PATIENCE, RunnerFixture, first_step, is_alive};
use crate::harness::{TestHome, TestServer, wait_until};

const PATIENT: Duration = Duration::from_secs(9);
const HASTY: Duration = Duration::from_millis(3_000);

fn serve(home: &TestHome, lost: Duration) -> Command {
    let mut command = home.serve_command();
    command.arg("--no-runner").env("BERTH_RUNNER__LOST_MS", lost.as_millis().to_string());
    command.env("BERTH_RUNNER__STOP_GRACE_MS", "500").env("BERTH_LOG__LEVEL", "warn");
    command
}

#[test]
fn runner_lost_timeout_of_its_own_server_applies_on_every_server() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let database = Postgres::start(&bin).expect("a PostgreSQL");
    let home = TestHome::on_database(database.url("postgres"));
    // The first server becomes the leader, which declares attempts lost.
    let hasty = TestServer::start(&mut serve(&home, HASTY), &home.token);
    let mut patient = serve(&home, PATIENT);
    let mut fixture = RunnerFixture::with(home, &mut patient);
    fixture.pipeline(&fixture.endless_step(""));
    let _runner = fixture.runner("far", &[]);
    let id = fixture.start();
    let process = fixture.pid_file();
    // The runner is connected only to the server that is killed here, so it is cut off from now on.
    fixture.server.process.kill();
    let cut = Instant::now();
    let lost = wait_until(PATIENCE, "unknown outcome", || {
        let seen = hasty.api.get(&format!("{ORG}/deployments/{id}")).json()["data"].clone();
        (seen["blockedBy"][0]["kind"] == "unknown_outcome").then_some(seen)
    });
    assert!(!is_alive(&process), "called lost after {:?}, while it ran", cut.elapsed());
    assert_eq!(first_step(&lost)["attempts"][0]["status"], "unknown");
    assert!(cut.elapsed() + Duration::from_secs(2) > PATIENT, "after {:?}", cut.elapsed());
}
