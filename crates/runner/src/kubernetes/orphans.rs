//! Removes Jobs, pods and Secrets by their labels: those of one attempt, or all that an earlier process of the runner has
//! left.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Error, Resource};
use serde::de::DeserializeOwned;

use super::cluster::{KubernetesCluster, describe, status_code};
use super::labels;

/// Pause between two rounds of removal, in which pods end.
const ROUND_INTERVAL: Duration = Duration::from_millis(300);
/// Timeout of one removal.
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(60);
/// Grace period of pods that are removed. With zero, the API server would forget a pod before its processes have ended.
pub(super) const KILL_GRACE_S: u32 = 1;

/// Removes everything that runners with this work directory have left. Returns the number of Jobs.
pub(super) fn remove_orphans(cluster: &KubernetesCluster) -> io::Result<usize> {
    remove_matching(cluster, &format!("{}={}", labels::WORK_DIR, cluster.work_dir_label))
}

/// Removes everything of one attempt.
pub(super) fn remove_attempt(cluster: &KubernetesCluster, id: &str) -> io::Result<()> {
    remove_matching(cluster, &labels::attempt_selector(id)).map(drop)
}

fn remove_matching(cluster: &KubernetesCluster, selector: &str) -> io::Result<usize> {
    let removal = remove_until_none_is_left(cluster, selector);
    let removal = async { tokio::time::timeout(REMOVAL_TIME_MAX, removal).await };
    match cluster.runtime.block_on(removal) {
        Ok(removed) => removed.map_err(|error| io::Error::other(describe(&error))),
        Err(_) => Err(io::Error::other("the cluster takes too long to remove pods; is their node down?")),
    }
}

/// The Job goes first, so that its controller creates no pod after the pods were listed.
async fn remove_until_none_is_left(cluster: &KubernetesCluster, selector: &str) -> Result<usize, Error> {
    let mut removed = 0;
    loop {
        let jobs = remove_listed(&cluster.jobs(), selector, &DeleteParams::background()).await?;
        let pods = remove_pods(cluster, selector, KILL_GRACE_S).await?;
        let secrets = remove_listed(&cluster.secrets(), selector, &DeleteParams::background()).await?;
        removed += jobs;
        if jobs + pods + secrets == 0 {
            return Ok(removed);
        }
        tokio::time::sleep(ROUND_INTERVAL).await;
    }
}

/// Deletes the Job of an attempt and stops its pods. Does not wait until they have stopped.
pub(super) async fn stop_attempt(cluster: &PodDeletion) {
    let PodDeletion { jobs, pods, selector, grace_s } = cluster;
    let stopped = async {
        remove_listed(jobs, selector, &DeleteParams::background()).await?;
        let grace = DeleteParams::background().grace_period(*grace_s);
        remove_listed(pods, selector, &grace).await
    };
    if let Err(error) = stopped.await {
        tracing::debug!(error = describe(&error), "stopping a pod failed");
    }
}

/// What [`stop_attempt`] deletes.
pub(super) struct PodDeletion {
    pub(super) jobs: Api<k8s_openapi::api::batch::v1::Job>,
    pub(super) pods: Api<k8s_openapi::api::core::v1::Pod>,
    pub(super) selector: String,
    pub(super) grace_s: u32,
}

async fn remove_pods(cluster: &KubernetesCluster, selector: &str, grace_s: u32) -> Result<usize, Error> {
    remove_listed(&cluster.pods(), selector, &DeleteParams::background().grace_period(grace_s)).await
}

/// Deletes all objects that match, and returns their number. Objects that are ending are counted too.
async fn remove_listed<K>(api: &Api<K>, selector: &str, how: &DeleteParams) -> Result<usize, Error>
where
    K: Resource + Metadata<Ty = ObjectMeta> + Clone + DeserializeOwned + Debug,
{
    let found = api.list_metadata(&ListParams::default().labels(selector)).await?;
    for name in found.items.iter().filter_map(|it| it.metadata.name.as_deref()) {
        match api.delete(name, how).await {
            Ok(_) => {}
            Err(error) if matches!(status_code(&error), Some(404 | 409)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found.items.len())
}
