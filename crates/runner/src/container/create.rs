//! Configuration of containers: what a step or a service may see and do.

use std::collections::HashMap;
use std::path::Path;

use berth_api::runner::{ContainerAssignment, Network, ServiceAssignment, StepRunOutcome};
use bollard::models::{
    ContainerCreateBody, EndpointSettings, HostConfig, HostConfigLogConfig, Mount, MountType,
    NetworkingConfig,
};

use super::labels::labels_of;
use crate::attempt::dirs::AttemptDirs;
use crate::attempt::{RunningAttempt, environment, sharing};

pub(super) const WORKSPACE: &str = "/berth/workspace";
const OUTPUT: &str = "/berth/output";
const SECRETS: &str = "/berth/secrets";
/// Capabilities that images need to install packages, change users and listen on low ports. All of them apply to the
/// container only.
const CAPABILITIES: [&str; 7] =
    ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"];
const PROCESSES_MAX: i64 = 4096;
/// Size of a service's log, of which the end is shown if the service fails.
const SERVICE_LOG_BYTES_MAX: u64 = 1024 * 1024;
/// The engine counts CPUs in billionths.
const NANOS_PER_MILLI_CPU: i64 = 1_000_000;

/// The container of a step. Its command is a shell that runs the script.
pub(super) fn step_config(
    attempt: &RunningAttempt<'_>,
    dirs: &AttemptDirs,
    container: &ContainerAssignment,
    image: &str,
    network: Option<String>,
    script: &str,
) -> Result<ContainerCreateBody, StepRunOutcome> {
    let secrets = dirs.secret_files.get().cloned().unwrap_or_default();
    let mut mounts = vec![bind(&dirs.workspace, WORKSPACE, false), bind(&dirs.output, OUTPUT, false)];
    if !secrets.is_empty() {
        mounts.push(bind(&dirs.secrets, SECRETS, true));
    }
    sharing::open_to_container_user(dirs, container)
        .map_err(|error| StepRunOutcome::never_started(format!("cannot prepare the workspace: {error}")))?;
    environment::check_environment(attempt.assignment)?;
    let assignment = attempt.assignment;
    let mut env: Vec<String> = assignment
        .env
        .iter()
        .chain(&assignment.facts)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    for (name, path) in &secrets {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        env.push(format!("{name}={SECRETS}/{file}"));
    }
    env.push(format!("BERTH_OUTPUT={OUTPUT}"));
    env.push(format!("BERTH_WORKSPACE={WORKSPACE}"));
    env.push(format!("BERTH_ATTEMPT_ID={}", dirs.id));
    let limit = attempt.settings().step_memory_bytes_max;
    let memory = [container.memory_bytes, limit].into_iter().flatten().min();
    let mode = match (network, assignment.network) {
        (Some(own), _) => own,
        (None, Network::Bridge) => "bridge".to_owned(),
        (None, Network::None) => "none".to_owned(),
        (None, Network::Host) => "host".to_owned(),
    };
    Ok(ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["/bin/sh".to_owned()]),
        cmd: Some(vec!["-e".to_owned(), "-c".to_owned(), script.to_owned()]),
        user: container.user.clone(),
        working_dir: Some(WORKSPACE.to_owned()),
        env: Some(env),
        labels: Some(labels_of(attempt, &dirs.id)),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        host_config: Some(HostConfig {
            mounts: Some(mounts),
            memory: memory.and_then(|bytes| i64::try_from(bytes).ok()),
            memory_swap: memory.and_then(|bytes| i64::try_from(bytes).ok()),
            nano_cpus: container.milli_cpus.map(|milli| i64::from(milli) * NANOS_PER_MILLI_CPU),
            network_mode: Some(mode),
            // The runner reads the output as it is written. The engine need not keep it.
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            ..restricted()
        }),
        ..Default::default()
    })
}

/// The container of a service. It gets nothing but its variables and the attempt's network. The runner's memory limit for
/// steps applies to each service.
pub(super) fn service_config(
    attempt: &RunningAttempt<'_>,
    dirs: &AttemptDirs,
    (name, service): (&str, &ServiceAssignment),
    image: String,
    network: &str,
) -> ContainerCreateBody {
    let endpoint = EndpointSettings { aliases: Some(vec![name.to_owned()]), ..Default::default() };
    let memory = attempt.settings().step_memory_bytes_max.and_then(|bytes| i64::try_from(bytes).ok());
    let log = HashMap::from([("max-size".to_owned(), SERVICE_LOG_BYTES_MAX.to_string())]);
    ContainerCreateBody {
        image: Some(image),
        hostname: Some(name.to_owned()),
        env: Some(service.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        labels: Some(labels_of(attempt, &dirs.id)),
        host_config: Some(HostConfig {
            memory,
            memory_swap: memory,
            network_mode: Some(network.to_owned()),
            log_config: Some(HostConfigLogConfig { typ: Some("json-file".to_owned()), config: Some(log) }),
            ..restricted()
        }),
        networking_config: Some(NetworkingConfig {
            endpoints_config: Some(HashMap::from([(network.to_owned(), endpoint)])),
        }),
        ..Default::default()
    }
}

fn restricted() -> HostConfig {
    HostConfig {
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(CAPABILITIES.map(str::to_owned).to_vec()),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        pids_limit: Some(PROCESSES_MAX),
        ..Default::default()
    }
}

fn bind(source: &Path, target: &str, is_read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.display().to_string()),
        target: Some(target.to_owned()),
        read_only: Some(is_read_only),
        ..Default::default()
    }
}
