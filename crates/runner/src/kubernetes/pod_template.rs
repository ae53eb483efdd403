//! The pod of a step: what it may see and do.

use std::collections::BTreeMap;

use berth_api::runner::{ContainerAssignment, ImagePull, Network, StepRunOutcome};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, ExecAction, KeyToPath, Lifecycle,
    LifecycleHandler, LocalObjectReference, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec,
    ResourceRequirements, SeccompProfile, SecretKeySelector, SecretVolumeSource, SecurityContext, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rustix::process::{getegid, geteuid};

use super::cluster::KubernetesCluster;
use super::job::SecretKeys;
use super::pod_state::CONTAINER;
use crate::attempt::dirs::AttemptDirs;
use crate::attempt::{RunningAttempt, invalid_outcome};

const WORKSPACE: &str = "/berth/workspace";
const OUTPUT: &str = "/berth/output";
const SECRETS: &str = "/berth/secrets";
const HOME: &str = "/berth/home";
/// Names of volumes.
const SHARED_VOLUME: &str = "workspace";
const SECRET_VOLUME: &str = "secrets";
const HOME_VOLUME: &str = "home";
/// Secret files can be read by every user of the container.
const SECRET_MODE: i32 = 0o444;
/// Size of the home directory.
const HOME_SIZE_MAX: &str = "256Mi";

/// The script and the files of a step.
pub(super) struct StepFiles<'a> {
    pub(super) dirs: &'a AttemptDirs,
    pub(super) script: &'a str,
    /// Name of the Secret with variables and secret files.
    pub(super) secret: &'a str,
    pub(super) keys: &'a SecretKeys,
}

/// The pod that runs a script.
pub(super) fn step_pod(
    attempt: &RunningAttempt<'_>,
    cluster: &KubernetesCluster,
    container: &ContainerAssignment,
    image: &str,
    files: &StepFiles<'_>,
) -> Result<PodSpec, StepRunOutcome> {
    let user = PodUser::of_step(container)?;
    let mut spec = common_pod(attempt, cluster, container, image, &user);
    let base = attempt_path(cluster, files.dirs);
    let shared = |target: &str, path: String| VolumeMount {
        name: SHARED_VOLUME.to_owned(),
        mount_path: target.to_owned(),
        sub_path: Some(path),
        ..Default::default()
    };
    let output = files.dirs.output.file_name().unwrap_or_default().to_string_lossy();
    let mut mounts =
        vec![shared(WORKSPACE, format!("{base}/workspace")), shared(OUTPUT, format!("{base}/{output}"))];
    let claim = PersistentVolumeClaimVolumeSource {
        claim_name: cluster.options.volume_claim.clone(),
        read_only: None,
    };
    let mut volumes = vec![Volume {
        name: SHARED_VOLUME.to_owned(),
        persistent_volume_claim: Some(claim),
        ..Default::default()
    }];
    let mut env = secret_variables(files);
    if !files.keys.files.is_empty() {
        mounts.push(VolumeMount {
            name: SECRET_VOLUME.to_owned(),
            mount_path: SECRETS.to_owned(),
            read_only: Some(true),
            ..Default::default()
        });
        volumes.push(secret_volume(files));
        env.extend(files.keys.files.iter().map(|(name, key)| variable(name, &format!("{SECRETS}/{key}"))));
    }
    env.push(variable("BERTH_OUTPUT", OUTPUT));
    env.push(variable("BERTH_WORKSPACE", WORKSPACE));
    env.push(variable("BERTH_ATTEMPT_ID", &files.dirs.id));
    if user.is_forced && !attempt.assignment.env.contains_key("HOME") {
        // The runner's user has no home directory in the image.
        env.push(variable("HOME", HOME));
        let size_limit = Some(Quantity(HOME_SIZE_MAX.to_owned()));
        volumes.push(Volume {
            name: HOME_VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource { medium: None, size_limit }),
            ..Default::default()
        });
        mounts.push(VolumeMount {
            name: HOME_VOLUME.to_owned(),
            mount_path: HOME.to_owned(),
            ..Default::default()
        });
    }
    let first = &mut spec.containers[0];
    if container.pull == ImagePull::Always {
        // The image has a digest by now, so it cannot change.
        first.image_pull_policy = Some(pull_policy(ImagePull::IfMissing).to_owned());
    }
    first.args = Some(vec!["-e".to_owned(), "-c".to_owned(), escape_references(files.script)]);
    first.env = Some(env);
    first.working_dir = Some(WORKSPACE.to_owned());
    first.volume_mounts = Some(mounts);
    first.lifecycle = Some(stop_hook());
    spec.volumes = Some(volumes);
    Ok(spec)
}

/// A pod that pulls an image and does nothing. It runs the image's shell, so it gets no token and no network of the node,
/// and the same user as the step.
pub(super) fn image_pod(
    attempt: &RunningAttempt<'_>,
    cluster: &KubernetesCluster,
    container: &ContainerAssignment,
) -> Result<PodSpec, StepRunOutcome> {
    let user = PodUser::of_step(container)?;
    let mut spec = common_pod(attempt, cluster, container, &container.image, &user);
    spec.containers[0].args = Some(vec!["-c".to_owned(), ":".to_owned()]);
    spec.automount_service_account_token = Some(false);
    spec.host_network = None;
    Ok(spec)
}

fn common_pod(
    attempt: &RunningAttempt<'_>,
    cluster: &KubernetesCluster,
    container: &ContainerAssignment,
    image: &str,
    user: &PodUser,
) -> PodSpec {
    let options = &cluster.options;
    let first = Container {
        name: CONTAINER.to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some(pull_policy(container.pull).to_owned()),
        command: Some(vec!["/bin/sh".to_owned()]),
        resources: Some(resources(attempt, container)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            privileged: Some(false),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let pull_secrets = options.pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() });
    PodSpec {
        containers: vec![first],
        restart_policy: Some("Never".to_owned()),
        service_account_name: options.service_account.clone(),
        // A fork's commit gets no credentials.
        automount_service_account_token: Some(options.mounts_token && !attempt.assignment.is_untrusted),
        enable_service_links: Some(false),
        host_network: (attempt.assignment.network == Network::Host).then_some(true),
        node_selector: (!options.node_selector.is_empty()).then(|| options.node_selector.clone()),
        image_pull_secrets: Some(pull_secrets.collect::<Vec<_>>()).filter(|names| !names.is_empty()),
        security_context: Some(PodSecurityContext {
            run_as_user: user.id.map(|(user, _)| i64::from(user)),
            run_as_group: user.id.map(|(_, group)| i64::from(group)),
            run_as_non_root: user.id.map(|(user, _)| user != 0),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..Default::default()
        }),
        termination_grace_period_seconds: Some(grace_seconds(attempt)),
        ..Default::default()
    }
}

pub(super) fn grace_seconds(attempt: &RunningAttempt<'_>) -> i64 {
    i64::try_from(attempt.settings().stop_grace.as_secs()).unwrap_or(i64::MAX).max(1)
}

fn pull_policy(pull: ImagePull) -> &'static str {
    match pull {
        ImagePull::IfMissing => "IfNotPresent",
        ImagePull::Always => "Always",
        ImagePull::Never => "Never",
    }
}

fn resources(attempt: &RunningAttempt<'_>, container: &ContainerAssignment) -> ResourceRequirements {
    let limit = attempt.settings().step_memory_bytes_max;
    let mut limits = BTreeMap::new();
    if let Some(bytes) = [container.memory_bytes, limit].into_iter().flatten().min() {
        limits.insert("memory".to_owned(), Quantity(bytes.to_string()));
    }
    if let Some(milli) = container.milli_cpus {
        limits.insert("cpu".to_owned(), Quantity(format!("{milli}m")));
    }
    ResourceRequirements { limits: Some(limits).filter(|limits| !limits.is_empty()), ..Default::default() }
}

/// The path of the attempt's directory on the volume.
fn attempt_path(cluster: &KubernetesCluster, dirs: &AttemptDirs) -> String {
    let path = format!("{}/attempts/{}", cluster.volume_dir, dirs.id);
    path.trim_start_matches('/').to_owned()
}

fn secret_variables(files: &StepFiles<'_>) -> Vec<EnvVar> {
    let reference = |key: &String| EnvVarSource {
        secret_key_ref: Some(SecretKeySelector {
            name: files.secret.to_owned(),
            key: key.clone(),
            optional: None,
        }),
        ..Default::default()
    };
    let variables = files.keys.env.iter();
    variables
        .map(|(name, key)| EnvVar { name: name.clone(), value: None, value_from: Some(reference(key)) })
        .collect()
}

fn secret_volume(files: &StepFiles<'_>) -> Volume {
    let items = files.keys.files.values();
    let items = items.map(|key| KeyToPath { key: key.clone(), path: key.clone(), mode: None }).collect();
    Volume {
        name: SECRET_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(files.secret.to_owned()),
            items: Some(items),
            default_mode: Some(SECRET_MODE),
            optional: None,
        }),
        ..Default::default()
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

/// The shell is process 1 of the container. It ignores SIGTERM, or runs its trap when its current command has ended, so
/// all other processes get the signal first.
fn stop_hook() -> Lifecycle {
    let command = ["/bin/sh", "-c", "kill -TERM -1"].map(str::to_owned).to_vec();
    Lifecycle {
        pre_stop: Some(LifecycleHandler {
            exec: Some(ExecAction { command: Some(command) }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Kubernetes replaces `$(NAME)` in arguments, which in a script is a command. A doubled `$` stands for itself.
fn escape_references(script: &str) -> String {
    script.replace('$', "$$")
}

/// The user of a pod. The runner must be able to remove the files that it creates.
#[derive(Debug, PartialEq, Eq)]
struct PodUser {
    /// User and group. `None` means the image's.
    id: Option<(u32, u32)>,
    /// The runner's own user, which the image need not know.
    is_forced: bool,
}

impl PodUser {
    fn of_step(container: &ContainerAssignment) -> Result<Self, StepRunOutcome> {
        let own = (geteuid().as_raw(), getegid().as_raw());
        Self::choose(own, container.user.as_deref()).map_err(invalid_outcome)
    }

    fn choose(own: (u32, u32), wanted: Option<&str>) -> Result<Self, String> {
        let is_root = own.0 == 0;
        let Some(text) = wanted else {
            return Ok(if is_root {
                Self { id: None, is_forced: false }
            } else {
                Self { id: Some(own), is_forced: true }
            });
        };
        let (user, group) = text.split_once(':').unwrap_or((text, text));
        let (Ok(user), Ok(group)) = (user.parse::<u32>(), group.parse::<u32>()) else {
            return Err(format!(
                "Kubernetes needs ids instead of the user `{text}`; write for example `1000:1000`"
            ));
        };
        if !is_root && user != own.0 {
            return Err(format!(
                "the runner has the user id {}, and could not remove the files of the user {user}; remove `user` from the container",
                own.0
            ));
        }
        Ok(Self { id: Some((user, group)), is_forced: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_with_references_reaches_the_shell_unchanged() {
        assert_eq!(escape_references("echo $(date) $$ ${A}"), "echo $$(date) $$$$ $${A}");
    }

    #[test]
    fn pods_run_as_a_user_whose_files_the_runner_can_remove() {
        let user = |id| Ok(PodUser { id, is_forced: false });
        assert_eq!(
            PodUser::choose((10001, 10001), None),
            Ok(PodUser { id: Some((10001, 10001)), is_forced: true })
        );
        assert_eq!(PodUser::choose((10001, 10001), Some("10001:5")), user(Some((10001, 5))));
        assert!(PodUser::choose((10001, 10001), Some("0")).expect_err("root").contains("could not remove"));
        assert_eq!(PodUser::choose((0, 0), None), user(None));
        assert_eq!(PodUser::choose((0, 0), Some("1000")), user(Some((1000, 1000))));
        assert!(PodUser::choose((0, 0), Some("node")).expect_err("name").contains("needs ids"));
    }
}
