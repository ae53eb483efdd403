//! Runs a shell script in a pod.

use std::io::{self, PipeWriter};

use berth_api::runner::{ContainerAssignment, Isolation, Network, StepRunOutcome};

use super::cluster::{KubernetesCluster, describe, is_refused, never_started};
use super::fence::raise_fence;
use super::image;
use super::job::{self, AttemptJob};
use super::pod::RunningPod;
use crate::attempt::dirs::AttemptDirs;
use crate::attempt::{RunningAttempt, invalid_outcome, sharing};
use crate::executor::{ExecutionHost, Executor, RunningCommand};

/// Runs a shell script in a pod of a Kubernetes cluster.
pub(crate) struct PodExecutor<'a> {
    attempt: &'a RunningAttempt<'a>,
    cluster: &'a KubernetesCluster,
    dirs: &'a AttemptDirs,
    container: &'a ContainerAssignment,
    script: &'a str,
    /// Name of the created Job.
    job: Option<String>,
}

impl<'a> PodExecutor<'a> {
    pub(crate) fn new(
        attempt: &'a RunningAttempt<'a>,
        cluster: &'a KubernetesCluster,
        dirs: &'a AttemptDirs,
        container: &'a ContainerAssignment,
        script: &'a str,
    ) -> Result<Self, StepRunOutcome> {
        match attempt.assignment.network {
            Network::Host if !cluster.options.allows_host_network => {
                return Err(invalid_outcome(
                    "`network: host` is not allowed on this runner; use `bridge`, or allow it with `host_network` in the section [runner.kubernetes]".into(),
                ));
            }
            Network::None => {
                return Err(invalid_outcome(
                    "a Kubernetes runner cannot cut a pod off from the network; use `bridge` with a network policy in the cluster, or a runner with Podman or Docker".into(),
                ));
            }
            Network::Host | Network::Bridge => {}
        }
        if !container.services.is_empty() {
            return Err(invalid_outcome(
                "services are not supported on Kubernetes runners; run the step on a runner with Podman or Docker".into(),
            ));
        }
        Ok(Self { attempt, cluster, dirs, container, script, job: None })
    }

    /// Refuses to start for an earlier holder of the environment than one that the cluster has run work of.
    fn raise_fence(&self) -> Result<(), StepRunOutcome> {
        let Some(holder) = &self.attempt.assignment.holder else { return Ok(()) };
        let records = self.cluster.config_maps();
        let raised = raise_fence(&records, &holder.environment_id, holder.fence);
        let raised = self.cluster.call(self.attempt, raised)?;
        let raised = raised.map_err(|error| never_started("record the fence in the cluster", &error))?;
        raised.to_refusal(holder.fence).map_or(Ok(()), |detail| Err(invalid_outcome(detail)))
    }
}

impl Executor for PodExecutor<'_> {
    fn prepare(&mut self) -> Result<(), StepRunOutcome> {
        let (attempt, cluster) = (self.attempt, self.cluster);
        // Resolving an image runs its shell.
        self.raise_fence()?;
        let image = image::pin(attempt, cluster, self.dirs, self.container)?;
        sharing::open_to_container_user(self.dirs, self.container).map_err(|error| {
            StepRunOutcome::never_started(format!("cannot prepare the workspace: {error}"))
        })?;
        let job = AttemptJob { attempt, cluster, dirs: self.dirs, container: self.container };
        self.job = Some(job.create_step_job(&image, self.script)?);
        // A later holder may have started while the image was resolved.
        self.raise_fence()
    }

    fn start<'a>(
        &'a mut self,
        host: &dyn ExecutionHost,
        output: PipeWriter,
    ) -> io::Result<Box<dyn RunningCommand + 'a>> {
        let job = self.job.as_deref().ok_or_else(|| io::Error::other("the Job was not created"))?;
        let had_run = self.attempt.has_run.get();
        match self.cluster.runtime.block_on(job::resume(self.cluster, job)) {
            Err(error) if is_refused(&error) => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, describe(&error)));
            }
            // Without a response, the cluster may have started the pod.
            started => {
                host.after_start();
                started.map_err(|error| io::Error::other(describe(&error)))?;
            }
        }
        Ok(Box::new(RunningPod::follow(self.attempt, self.cluster, self.dirs, job, had_run, output)?))
    }

    fn reap(&mut self) -> io::Result<()> {
        self.cluster.remove_all_of(self.attempt, &self.dirs.id)
    }
}

/// Refuses to run a process next to the credentials of a cluster without a sandbox.
pub(crate) fn refuse_unconfined_process(attempt: &RunningAttempt<'_>) -> Result<(), StepRunOutcome> {
    let assignment = attempt.assignment;
    let is_process = match assignment.kind.as_str() {
        "script" => assignment.container.is_none(),
        "wait_for" => assignment.container.is_none() && assignment.params.contains_key("run"),
        _ => assignment.custom.is_some(),
    };
    if is_process && attempt.settings().confinement.isolation() == Isolation::Process {
        return Err(invalid_outcome(
            "this runner executes only steps with a `container`; add one, or name a label of another runner in `runs_on`".into(),
        ));
    }
    Ok(())
}
