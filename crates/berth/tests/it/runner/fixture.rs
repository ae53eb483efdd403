//! Fixture: a server without its own runner, remote runners, and pipelines for them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::ApiHandle;
use crate::harness::{BerthProcess, TestHome, TestServer, berth, wait_until};

pub(super) const PATIENCE: Duration = Duration::from_secs(120);
pub(super) const ORG: &str = "/api/v1/organizations/acme";
/// Short for tests: a runner stops its steps after three seconds without contact to the server, and the server declares
/// it lost after six.
pub(super) const LOST: Duration = Duration::from_secs(6);
const GRACE: Duration = Duration::from_secs(1);

/// A server without its own runner, and work directories for remote runners.
pub(super) struct RunnerFixture {
    pub(super) server: TestServer,
    outside: tempfile::TempDir,
    _home: TestHome,
}

impl RunnerFixture {
    pub(super) fn open() -> Self {
        let home = TestHome::new();
        let mut command = home.serve_command();
        command.arg("--no-runner").env("BERTH_RUNNER__LOST_MS", LOST.as_millis().to_string());
        command.env("BERTH_RUNNER__STOP_GRACE_MS", GRACE.as_millis().to_string());
        Self::with(home, &mut command)
    }

    pub(super) fn with(home: TestHome, command: &mut Command) -> Self {
        let server = TestServer::start(command, &home.token);
        Self { server, outside: tempfile::tempdir().expect("a directory"), _home: home }
    }

    pub(super) fn api(&self) -> &ApiHandle {
        &self.server.api
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    pub(super) fn token(&self, name: Option<&str>) -> String {
        let made =
            self.api().post(&format!("{ORG}/runners"), &json!({ "name": name, "labels": ["gpu", "big"] }));
        assert_eq!(made.status, 201, "{}", made.text());
        text(&made.json()["data"]["token"])
    }

    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = berth(&["runner", "--sandbox", "off", "--server"]);
        command.arg(format!("http://{}", self.server.address)).arg("--work-dir").arg(self.path(name));
        command
    }

    /// Starts a runner and waits until it is ready.
    pub(super) fn runner(&self, name: &str, more: &[&str]) -> BerthProcess {
        let mut process =
            BerthProcess::start(self.command(name).args(["--token", &self.token(Some(name))]).args(more));
        let line = process.first_line();
        assert!(line.starts_with(&format!("berth runner {name} is connected to http://")), "{line}");
        process
    }

    /// Restarts the same runner.
    pub(super) fn restart_runner(&self, name: &str) -> BerthProcess {
        let mut process = BerthProcess::start(&mut self.command(name));
        process.first_line();
        process
    }

    pub(super) fn state(&self, name: &str) -> String {
        text(&self.api().get(&format!("{ORG}/runners/{name}")).json()["data"]["state"])
    }

    pub(super) fn pipeline(&self, steps: &str) {
        let definition = format!(
            "version: 1\npipeline:\n  name: Shop\n  stages: [{{ name: staging }}]\n  ephemeral_environments: {{ qa-1: {{}} }}\n  steps:\n{steps}"
        );
        let body = json!({"slug": "shop", "definition": definition});
        let made = self.api().post(&format!("{ORG}/pipelines"), &body);
        assert_eq!(made.status, 201, "{}", made.text());
    }

    pub(super) fn start(&self) -> String {
        let started =
            self.api().post(&format!("{ORG}/pipelines/shop/deployments"), &json!({"commitId": "4f2a1c9"}));
        assert_eq!(started.status, 202, "{}", started.text());
        text(&started.json()["data"]["id"])
    }

    pub(super) fn deployment(&self, id: &str) -> Value {
        self.api().get(&format!("{ORG}/deployments/{id}")).json()["data"].clone()
    }

    pub(super) fn wait_for_deployment(&self, id: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        wait_until(PATIENCE, what, || Some(self.deployment(id)).filter(&is_so))
    }

    pub(super) fn log(&self, id: &str, step: &str) -> String {
        self.api().get(&format!("{ORG}/deployments/{id}/steps/{step}/logs?raw=true")).text()
    }

    /// A step that prints its process id and runs until it is stopped or the test ends.
    pub(super) fn endless_step(&self, more: &str) -> String {
        let file = self.path("pid");
        format!(
            "    - {{ name: Long, type: script{more}, params: {{ run: \"trap '' TERM; echo begins; echo $$ > {0}.new; mv {0}.new {0}; while test -e {0}; do sleep 0.05; done\" }} }}\n",
            file.display()
        )
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        let file = self.path("pid");
        let pid = wait_until(PATIENCE, "process of the step", || std::fs::read_to_string(&file).ok());
        Path::new("/proc").join(pid.trim())
    }
}

/// Returns whether a process is running. A zombie does not count.
pub(super) fn is_alive(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

pub(super) fn first_step(deployment: &Value) -> &Value {
    &deployment["stages"][0]["steps"][0]
}
