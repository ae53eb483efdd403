//! Three servers on one PostgreSQL and four runners, with fault injection.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use berth_testkit::PostgresServer as Postgres;
use rustix::process::Signal;
use serde_json::json;

use super::proxy::{RunnerProxy, ServerPorts};
use super::{RUNNERS, SERVERS, audit};
use crate::client::ApiHandle;
use crate::harness::{BerthProcess, TestHome, TestServer, berth_of, program, wait_until};
use crate::random::SeededRandom;

/// A runner stops its steps after three seconds without contact to a server, and is declared lost after six.
const LOST_MS: u64 = 6_000;
const GRACE_MS: u64 = 1_000;
/// How long a runner is cut off: long enough for it to stop its own steps. It may not be declared lost in this time,
/// because the lost timeout starts again when the leader changes.
const CUT_OFF_MS: std::ops::Range<u64> = 4_000..9_000;
/// Time in which a runner must be declared lost. No other fault is injected during this time.
const LOST_WITHIN: Duration = Duration::from_secs(120);
const PAUSE_MS: std::ops::Range<u64> = 100..3_000;
/// How long a runner is paused. A paused runner cannot stop its steps, so it must have enough time left for that before
/// it is declared lost.
const RUNNER_PAUSE_MS: std::ops::Range<u64> = 100..1_200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InjectedFault {
    ServerKilled,
    ServerPaused,
    RunnerKilled,
    RunnerPaused,
    RunnerCutOff,
    RunnerLost,
    DatabaseKilled,
    DatabasePromoted,
}

/// Injected in turn. [`InjectedFault::RunnerLost`] is injected separately, less often.
pub(super) const FAULTS: [InjectedFault; 7] = [
    InjectedFault::ServerKilled,
    InjectedFault::RunnerKilled,
    InjectedFault::ServerPaused,
    InjectedFault::RunnerCutOff,
    InjectedFault::DatabaseKilled,
    InjectedFault::RunnerPaused,
    InjectedFault::DatabasePromoted,
];

pub(super) struct ServerFleet {
    servers: Vec<TestServer>,
    runners: Vec<BerthProcess>,
    pub(super) ports: Arc<ServerPorts>,
    /// One proxy per runner, through which it reaches the servers.
    proxies: Vec<RunnerProxy>,
    outside: tempfile::TempDir,
    home: TestHome,
    database: Postgres,
    pub(super) database_kills: usize,
    pub(super) promotions: usize,
}

impl ServerFleet {
    pub(super) fn start(database: Postgres) -> Self {
        let url = database.url("postgres");
        Self::start_with_url(database, url)
    }

    /// Starts a fleet whose servers reach the database at this URL, for example through a proxy.
    pub(super) fn start_with_url(database: Postgres, url: String) -> Self {
        let home = TestHome::on_database(url);
        let ports = Arc::new(ServerPorts::default());
        let fronts = (0..RUNNERS).map(|_| RunnerProxy::start(&ports)).collect();
        let outside = tempfile::tempdir().expect("a directory");
        let (servers, runners) = (Vec::new(), Vec::new());
        let mut fleet = Self {
            servers,
            runners,
            ports,
            proxies: fronts,
            outside,
            home,
            database,
            database_kills: 0,
            promotions: 0,
        };
        for number in 0..SERVERS {
            let server = fleet.serve(number);
            fleet.ports.open(number, server.address);
            fleet.servers.push(server);
        }
        for number in 0..RUNNERS {
            let made = fleet.api().post("/api/v1/organizations/acme/runners", &json!({}));
            let token = made.json()["data"]["token"].as_str().expect("a token").to_owned();
            let name = format!("r{number}");
            let mut command = fleet.runner(number);
            let mut runner = BerthProcess::start(command.args(["--token", &token, "--name", &name]));
            runner.first_line();
            fleet.runners.push(runner);
        }
        fleet
    }

    pub(super) fn api(&self) -> &ApiHandle {
        &self.servers[0].api
    }

    pub(super) fn apis(&self) -> impl Iterator<Item = &ApiHandle> {
        self.servers.iter().map(|server| &server.api)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    pub(super) fn database(&self) -> String {
        self.database.url("postgres")
    }

    /// Injects a fault. When this returns, the fleet has recovered or will recover by itself.
    pub(super) fn inject(&mut self, fault: InjectedFault, random: &mut SeededRandom) {
        let server = random.next_in(0..SERVERS as u64) as usize;
        let runner = random.next_in(0..RUNNERS as u64) as usize;
        match fault {
            InjectedFault::ServerKilled => {
                self.servers[server].process.kill();
                self.ports.close(server);
                self.servers[server] = self.serve(server);
                self.ports.open(server, self.servers[server].address);
            }
            InjectedFault::ServerPaused => pause(&self.servers[server].process, random.next_in(PAUSE_MS)),
            InjectedFault::RunnerKilled => {
                self.runners[runner].kill();
                self.runners[runner] = BerthProcess::start(&mut self.runner(runner));
            }
            InjectedFault::RunnerPaused => pause(&self.runners[runner], random.next_in(RUNNER_PAUSE_MS)),
            // Returns at once, so that other faults are injected during the cut-off.
            InjectedFault::RunnerCutOff => self.proxies[runner].cut_off(random.next_in(CUT_OFF_MS)),
            InjectedFault::RunnerLost => {
                // Use one connection for all polls: on a busy machine, opening a new one can take longer than an entire
                // step.
                let mut client = audit::connect(&self.database()).expect("a connection");
                let before = audit::query_lost_attempts(&mut client).expect("a count");
                let is_at_least = |count: Result<i64, String>, least| count.is_ok_and(|count| count >= least);
                // Wait until cut-off runners are connected again.
                self.proxies.iter().for_each(|it| drop(it.block()));
                wait_until(LOST_WITHIN, "step that has begun", || {
                    is_at_least(audit::count_started_attempts(&mut client), 1).then_some(())
                });
                // Cut off all runners, because one of them is running the step.
                let _shut: Vec<_> = self.proxies.iter().map(RunnerProxy::block).collect();
                wait_until(LOST_WITHIN, "lost step", || {
                    is_at_least(audit::query_lost_attempts(&mut client), before + 1).then_some(())
                });
            }
            InjectedFault::DatabaseKilled => {
                self.database.kill();
                self.database.restart().expect("it starts again");
                self.database_kills += 1;
            }
            InjectedFault::DatabasePromoted => {
                self.database.fail_over().expect("it is promoted");
                self.promotions += 1;
            }
        }
    }

    /// Stops everything gracefully.
    pub(super) fn stop(self) {
        for server in self.servers {
            server.stop();
        }
    }

    fn serve(&self, number: usize) -> TestServer {
        let mut command = self.home.serve_command_of(&program_of(number));
        command.arg("--no-runner").env("BERTH_LOG__LEVEL", "warn");
        command.env("BERTH_RUNNER__LOST_MS", LOST_MS.to_string());
        command.env("BERTH_RUNNER__STOP_GRACE_MS", GRACE_MS.to_string());
        TestServer::start(&mut command, &self.home.token)
    }

    fn runner(&self, number: usize) -> Command {
        let front = format!("http://{}", self.proxies[number].address);
        let mut command = berth_of(&program_of(number), &["runner", "--sandbox", "off", "--server", &front]);
        command.arg("--work-dir").arg(self.path(&format!("r{number}"))).env("BERTH_LOG__LEVEL", "warn");
        command
    }
}

/// Returns the binary of a server or a runner. With `BERTH_PREVIOUS_PROGRAM`, those with an odd number are that binary.
fn program_of(number: usize) -> PathBuf {
    let previous = std::env::var_os("BERTH_PREVIOUS_PROGRAM").filter(|_| number % 2 == 1);
    previous.map_or_else(program, PathBuf::from)
}

fn pause(process: &BerthProcess, ms: u64) {
    process.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(ms));
    process.signal(Signal::CONT);
}
