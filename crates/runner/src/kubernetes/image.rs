//! Resolves images to digests.
//!
//! Only a node that has pulled an image knows its digest, so the first attempt of a deployment that uses an image starts
//! a pod that does nothing. It shows the progress of the pull in the log. Nothing of the step has run then.

use std::time::Instant;

use berth_api::runner::{ContainerAssignment, ImagePull, StepRunOutcome};
use berth_core::pipeline::image::{ImageReference, is_digest};
use berth_core::wording::quote;

use super::cluster::KubernetesCluster;
use super::follow::PodFollower;
use super::job::AttemptJob;
use crate::attempt::dirs::AttemptDirs;
use crate::attempt::{LinkParts, RunningAttempt, invalid_outcome};
use crate::container::check_pinned;

/// Prefix of image ids in old clusters.
const PULLABLE: &str = "docker-pullable://";

/// Pins the image of a step to a digest, which every attempt of the deployment uses.
pub(super) fn pin(
    attempt: &RunningAttempt<'_>,
    cluster: &KubernetesCluster,
    dirs: &AttemptDirs,
    container: &ContainerAssignment,
) -> Result<String, StepRunOutcome> {
    let text = &container.image;
    let image = ImageReference::parse(text)
        .map_err(|why| invalid_outcome(format!("the image {} {why}", quote(text))))?;
    let deployment = &attempt.assignment.attempt.deployment_id;
    let known = cluster.digests.lock().get(&(deployment.clone(), text.clone())).cloned();
    let digest = match image.digest.clone().or(known) {
        Some(digest) => digest,
        None => resolve(attempt, cluster, dirs, container)?,
    };
    let LinkParts { link, attempt: reference } = attempt.parts();
    let what = format!("pin the image {text}");
    let pinned = attempt.retry_link_call(&what, || link.pin_image(reference, text, &digest))?;
    check_pinned(text, &image, &pinned)?;
    cluster.keep_digest(deployment, text, &pinned);
    attempt.log.write_line(&format!("[berth] image {text} is {pinned}"));
    Ok(image.with_digest(&pinned))
}

/// Starts a pod with the image and returns the digest that its node reports.
fn resolve(
    attempt: &RunningAttempt<'_>,
    cluster: &KubernetesCluster,
    dirs: &AttemptDirs,
    container: &ContainerAssignment,
) -> Result<String, StepRunOutcome> {
    let (text, log) = (&container.image, &attempt.log);
    log.write_line(&format!("[berth] resolving the image {text}"));
    if container.pull == ImagePull::Never {
        log.write_line("[berth] `pull: never`: only nodes that have the image can run the step");
    }
    let job = AttemptJob { attempt, cluster, dirs, container };
    let name = job.create_image_job()?;
    let mut follower = PodFollower::new(cluster, &dirs.id, &name);
    let by = Instant::now() + cluster.options.start_time_max;
    let found = loop {
        let lines = cluster.call(attempt, follower.wait_for_change())?;
        lines.iter().for_each(|line| log.write_line(line));
        let state = &follower.state;
        if let Some(id) = &state.image_id {
            break Ok(id.clone());
        }
        if let Some(failure) = state.find_failure(Instant::now() >= by) {
            break Err(failure.to_outcome());
        }
    };
    cluster.remove_all_of(attempt, &dirs.id).map_err(|error| {
        StepRunOutcome::never_started(format!("cannot remove the pod that resolves the image: {error}"))
    })?;
    read_digest(&found?).ok_or_else(|| {
        StepRunOutcome::never_started(format!(
            "the cluster knows no digest of the image {text}; push it to a registry, or name a digest"
        ))
    })
}

/// Reads the digest of an image id such as `docker.io/library/busybox@sha256:…`. The id of an image that was not pulled
/// is not a digest in a registry.
fn read_digest(id: &str) -> Option<String> {
    let (_, digest) = id.strip_prefix(PULLABLE).unwrap_or(id).rsplit_once('@')?;
    is_digest(digest).then(|| digest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_from_image_ids() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for id in
            [format!("docker.io/library/busybox@{digest}"), format!("docker-pullable://busybox@{digest}")]
        {
            assert_eq!(read_digest(&id).as_deref(), Some(digest.as_str()), "{id}");
        }
        assert_eq!(read_digest(&digest), None);
        assert_eq!(read_digest("busybox@sha256:short"), None);
    }
}
