//! Services of a step: containers in a network that only the attempt uses.

use std::fs;
use std::time::{Duration, Instant};

use berth_api::runner::{ContainerAssignment, FailureCause, ServiceAssignment, StepRunOutcome};
use berth_core::pipeline::seconds::DurationSeconds;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::models::{ContainerState, NetworkCreateRequest};
use bollard::query_parameters::{InspectContainerOptions, LogsOptions, StartContainerOptions};
use futures_util::StreamExt as _;

use super::engine::ContainerEngine;
use super::labels::labels_of;
use super::{create, image, never_started};
use crate::attempt::dirs::AttemptDirs;
use crate::attempt::{RunningAttempt, failed_outcome};

/// Interval between two checks whether a service accepts connections.
const READY_INTERVAL: Duration = Duration::from_millis(50);
/// Number of lines of a service's log that are shown if it fails.
const LOG_LINES: usize = 20;
/// The state of a listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";
/// An IPv4 address of the loopback network ends with 127 in the kernel's byte order.
const LOOPBACK_END: &str = "7F";
const LOOPBACK_V6: &str = "00000000000000000000000001000000";

/// Starts the services and waits until they are ready. Returns the name of the attempt's network, or `None` if there are
/// no services.
pub(super) fn start(
    attempt: &RunningAttempt<'_>,
    engine: &ContainerEngine,
    dirs: &AttemptDirs,
    container: &ContainerAssignment,
) -> Result<Option<String>, StepRunOutcome> {
    if container.services.is_empty() {
        return Ok(None);
    }
    let network = format!("berth-{}", dirs.id);
    let request = NetworkCreateRequest {
        name: network.clone(),
        driver: Some("bridge".to_owned()),
        labels: Some(labels_of(attempt, &dirs.id)),
        ..Default::default()
    };
    let created = engine.call(attempt, engine.docker.create_network(request))?;
    created.map_err(|error| never_started("create the network of the services", &error))?;
    let mut started = Vec::new();
    for (name, service) in &container.services {
        let image = image::pin(attempt, engine, &service.image, container.pull)?;
        let config = create::service_config(attempt, dirs, (name.as_str(), service), image, &network);
        let failed = |error| never_started(&format!("start the service `{name}`"), &error);
        let created = engine.call(attempt, engine.docker.create_container(None, config))?;
        let id = created.map_err(failed)?.id;
        let begun =
            engine.call(attempt, engine.docker.start_container(&id, None::<StartContainerOptions>))?;
        begun.map_err(failed)?;
        attempt.log.write_line(&format!("[berth] started the service {name}"));
        started.push(RunningService { attempt, engine, name, service, id, since: Instant::now() });
    }
    started.iter().try_for_each(RunningService::wait_until_ready)?;
    Ok(Some(network))
}

struct RunningService<'a> {
    attempt: &'a RunningAttempt<'a>,
    engine: &'a ContainerEngine,
    name: &'a str,
    service: &'a ServiceAssignment,
    id: String,
    since: Instant,
}

impl RunningService<'_> {
    fn wait_until_ready(&self) -> Result<(), StepRunOutcome> {
        let Some(port) = self.service.ready_port else { return Ok(()) };
        let within = Duration::from_secs(self.service.ready_within_s);
        loop {
            let state = self.inspect()?;
            if state.running == Some(false) {
                let code = state.exit_code.unwrap_or_default();
                return Err(self.failed(&format!("exited with {code} before it was ready")));
            }
            if state.pid.is_some_and(|pid| accepts_connections(pid, port)) {
                let ms = self.since.elapsed().as_millis();
                self.attempt
                    .log
                    .write_line(&format!("[berth] the service {} is ready after {ms} ms", self.name));
                return Ok(());
            }
            if self.since.elapsed() >= within {
                let within = DurationSeconds::from_secs(within.as_secs());
                return Err(self.failed(&format!("did not listen on port {port} within {within}")));
            }
            if Instant::now() >= self.attempt.deadline {
                return Err(self.attempt.timeout_outcome());
            }
            if let Some(why) = self.attempt.wait(READY_INTERVAL) {
                return Err(self.attempt.stopped_outcome(&why));
            }
        }
    }

    /// Returns an empty state while the engine is cleaning up: Podman's word for that is not part of the Docker API.
    fn inspect(&self) -> Result<ContainerState, StepRunOutcome> {
        let docker = &self.engine.docker;
        let found = self
            .engine
            .call(self.attempt, docker.inspect_container(&self.id, None::<InspectContainerOptions>))?;
        let found = match found {
            Err(Error::JsonDataError { .. }) => return Ok(ContainerState::default()),
            found => found
                .map_err(|error| never_started(&format!("look at the service `{}`", self.name), &error))?,
        };
        Ok(found.state.unwrap_or_default())
    }

    /// Writes the end of the service's log to the log of the step.
    fn failed(&self, what: &str) -> StepRunOutcome {
        let options =
            LogsOptions { stdout: true, stderr: true, tail: LOG_LINES.to_string(), ..Default::default() };
        let mut logs = self.engine.docker.logs(&self.id, Some(options));
        let read = self.engine.call(self.attempt, async {
            let mut lines = Vec::new();
            while let Some(Ok(piece)) = logs.next().await {
                lines.push(piece);
            }
            lines
        });
        for line in read.unwrap_or_default().iter().map(LogOutput::as_ref) {
            let line = String::from_utf8_lossy(line);
            self.attempt.log.write_line(&format!("[berth] {}: {}", self.name, line.trim_end()));
        }
        failed_outcome(FailureCause::Exited, format!("the service `{}` {what}", self.name))
    }
}

/// Whether a process of the container listens on the port, on an address that the step can reach. Reads the network
/// namespace of the container, so the image needs no tools, and the service sees no connection.
fn accepts_connections(pid: i64, port: u16) -> bool {
    let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    tables.iter().flatten().flat_map(|table| table.lines().skip(1)).any(|line| is_listener(line, port))
}

fn is_listener(line: &str, port: u16) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (Some(local), Some(_), Some(state)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    let Some((address, found)) = local.split_once(':') else { return false };
    let is_loopback = address == LOOPBACK_V6 || (address.len() == 8 && address.ends_with(LOOPBACK_END));
    state == LISTEN && !is_loopback && u16::from_str_radix(found, 16).is_ok_and(|found| found == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_that_the_step_can_reach_are_found() {
        let line =
            |local: &str, state: &str| format!("   0: {local} 00000000:0000 {state} 00000000:00000000");
        assert!(is_listener(&line("00000000:1538", "0A"), 5432));
        assert!(is_listener(&line("00000000000000000000000000000000:1538", "0A"), 5432));
        assert!(!is_listener(&line("00000000:1538", "01"), 5432), "connected, not listening");
        assert!(!is_listener(&line("00000000:1539", "0A"), 5432), "another port");
        assert!(!is_listener(&line("0100007F:1538", "0A"), 5432), "loopback only");
        assert!(!is_listener(&line(&format!("{LOOPBACK_V6}:1538"), "0A"), 5432), "loopback only");
        assert!(!is_listener("", 5432));
    }
}
