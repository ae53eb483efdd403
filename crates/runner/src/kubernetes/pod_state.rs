//! What a pod's status says about its container.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use berth_api::runner::{FailureCause, StepRunOutcome};
use k8s_openapi::api::core::v1::{ContainerState, Pod};

use crate::attempt::failed_outcome;
use crate::executor::CommandEnd;

/// The container that runs the script.
pub(super) const CONTAINER: &str = "step";
/// How long a node may repeat a pull that fails.
const PULL_TIME_MAX: Duration = Duration::from_secs(30);
/// Why a container waits, if a node repeats the pull.
const PULL_ERRORS: [&str; 4] =
    ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"];
/// Why a container waits, if it can never start.
const CONFIG_ERRORS: [&str; 5] = [
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];
/// Why a container has ended, if it could not be started, for example because the image has no shell.
const START_ERRORS: [&str; 2] = ["StartError", "ContainerCannotRun"];
const OUT_OF_MEMORY: &str = "OOMKilled";

/// The last known state of an attempt's pod.
#[derive(Debug, Default)]
pub(super) struct PodState {
    /// `None` until the pod was created.
    pub(super) pod: Option<String>,
    /// The image, with its digest, once the node has it.
    pub(super) image_id: Option<String>,
    pub(super) has_started: bool,
    pub(super) end: Option<Result<CommandEnd, String>>,
    /// The pod was deleted.
    pub(super) is_gone: bool,
    /// The pod vanished unseen, so its container may have started.
    pub(super) is_lost: bool,
    /// Why the container does not run, as reason and message.
    waiting: Option<(String, String)>,
    start_error: Option<String>,
    pull_failed_at: Option<Instant>,
}

/// Why a container was not started.
#[derive(Debug, Clone)]
pub(super) struct StartFailure {
    /// Whether another attempt would fail in the same way.
    pub(super) is_final: bool,
    pub(super) detail: String,
}

impl StartFailure {
    pub(super) fn to_outcome(&self) -> StepRunOutcome {
        match self.is_final {
            true => failed_outcome(FailureCause::Invalid, self.detail.clone()),
            false => StepRunOutcome::never_started(self.detail.clone()),
        }
    }
}

impl PodState {
    pub(super) fn update(&mut self, pod: &Pod) {
        self.pod.clone_from(&pod.metadata.name);
        let Some(status) = &pod.status else { return };
        let container =
            status.container_statuses.iter().flatten().find(|container| container.name == CONTAINER);
        if let Some(container) = container {
            if !container.image_id.is_empty() {
                self.image_id = Some(container.image_id.clone());
            }
            self.update_container(container.state.as_ref());
        } else if let Some(condition) = (status.conditions.iter().flatten())
            .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        {
            self.wait_for(condition.reason.as_deref(), condition.message.as_deref());
        }
        let has_failed = status.phase.as_deref() == Some("Failed");
        if has_failed && self.end.is_none() && self.start_error.is_none() {
            let (reason, message) = (status.reason.as_deref(), status.message.as_deref());
            let words = [reason, message].into_iter().flatten().collect::<Vec<_>>().join(": ");
            let detail = format!("the pod failed: {}", one_line(&words));
            if self.has_started {
                self.end = Some(Err(detail));
            } else {
                self.start_error = Some(detail);
            }
        }
    }

    fn update_container(&mut self, state: Option<&ContainerState>) {
        let Some(state) = state else { return };
        if state.running.is_some() {
            self.has_started = true;
            self.waiting = None;
        }
        if let Some(waiting) = &state.waiting {
            self.wait_for(waiting.reason.as_deref(), waiting.message.as_deref());
        }
        if let Some(ended) = &state.terminated {
            let reason = ended.reason.as_deref().unwrap_or_default();
            if START_ERRORS.contains(&reason) {
                let message = one_line(ended.message.as_deref().unwrap_or(reason));
                self.start_error = Some(format!("the container cannot be started: {message}"));
                return;
            }
            self.has_started = true;
            let code = Some(ended.exit_code).filter(|code| (0..=255).contains(code));
            self.end = Some(match code {
                Some(code) => Ok(CommandEnd {
                    status: ExitStatus::from_raw(code << 8),
                    is_out_of_memory: reason == OUT_OF_MEMORY,
                }),
                None => Err("the cluster does not know the exit code".to_owned()),
            });
        }
    }

    fn wait_for(&mut self, reason: Option<&str>, message: Option<&str>) {
        let reason = reason.unwrap_or_default();
        if PULL_ERRORS.contains(&reason) {
            self.pull_failed_at.get_or_insert_with(Instant::now);
        }
        // The message of a back-off hides the error of the pull before it.
        let is_back_off =
            reason == "ImagePullBackOff" && self.waiting.as_ref().is_some_and(|it| it.0 == "ErrImagePull");
        if !is_back_off {
            self.waiting = Some((reason.to_owned(), one_line(message.unwrap_or_default())));
        }
    }

    /// Returns why the container cannot start, if waiting longer is pointless. `is_late` says that it had enough time.
    pub(super) fn find_failure(&self, is_late: bool) -> Option<StartFailure> {
        if self.has_started {
            return None;
        }
        if let Some(detail) = &self.start_error {
            return Some(StartFailure { is_final: true, detail: detail.clone() });
        }
        if self.is_gone || self.is_lost {
            let detail = "the pod was deleted before it started".to_owned();
            return Some(StartFailure { is_final: false, detail });
        }
        let waiting = self.waiting.as_ref().map(|(reason, message)| match message.is_empty() {
            true => reason.clone(),
            false => format!("{reason}: {message}"),
        });
        let reason = self.waiting.as_ref().map(|(reason, _)| reason.as_str()).unwrap_or_default();
        if CONFIG_ERRORS.contains(&reason) {
            let detail = format!("the container cannot be created: {}", waiting.unwrap_or_default());
            return Some(StartFailure { is_final: true, detail });
        }
        let is_pull_late = self.pull_failed_at.is_some_and(|since| since.elapsed() >= PULL_TIME_MAX);
        if PULL_ERRORS.contains(&reason) && (is_pull_late || is_late) {
            let detail = format!("the image cannot be pulled: {}", waiting.unwrap_or_default());
            return Some(StartFailure { is_final: false, detail });
        }
        is_late.then(|| {
            let why = waiting.unwrap_or_else(|| "see the events above".to_owned());
            StartFailure { is_final: false, detail: format!("the pod did not start in time: {why}") }
        })
    }
}

/// Replaces control characters, which a message of the cluster could contain.
pub(super) fn one_line(text: &str) -> String {
    text.trim().replace(|c: char| c.is_control(), " ")
}
