//! Follows an attempt's pod with a watch, and reads events until its container runs.

use std::collections::HashSet;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Error};

use super::cluster::{KubernetesCluster, describe};
use super::labels::attempt_selector;
use super::pod_state::{PodState, one_line};

/// Interval between two requests for events while the container does not run.
const EVENTS_INTERVAL: Duration = Duration::from_secs(1);
/// Pause before a request is repeated because the cluster did not respond.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// Timeout of a watch, in seconds. It then begins again.
const WATCH_SECONDS: u32 = 60;
/// How long a watch may be silent. Later, its connection is dead.
const SILENCE_MAX: Duration = Duration::from_secs(70);
/// Number of events that are shown.
const EVENTS_MAX: usize = 100;

type PodStream = Pin<Box<dyn Stream<Item = Result<WatchEvent<Pod>, Error>> + Send>>;

pub(super) struct PodFollower {
    pods: Api<Pod>,
    events: Api<Event>,
    selector: String,
    job: String,
    /// `None` if the pods have to be listed again.
    stream: Option<PodStream>,
    last_sign: Instant,
    shown: HashSet<(String, String)>,
    pub(super) state: PodState,
}

impl PodFollower {
    pub(super) fn new(cluster: &KubernetesCluster, id: &str, job: &str) -> Self {
        Self {
            pods: cluster.streamed_pods(),
            events: cluster.events(),
            selector: attempt_selector(id),
            job: job.to_owned(),
            stream: None,
            last_sign: Instant::now(),
            shown: HashSet::new(),
            state: PodState::default(),
        }
    }

    /// Waits until the pod has changed, or for a short time. Returns lines for the log.
    pub(super) async fn wait_for_change(&mut self) -> Vec<String> {
        if let Err(error) = self.update().await {
            tracing::debug!(error = describe(&error), "watching a pod failed; retrying");
            self.stream = None;
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        if self.state.has_started { Vec::new() } else { self.read_events().await }
    }

    async fn update(&mut self) -> Result<(), Error> {
        let Some(stream) = &mut self.stream else { return self.list().await };
        match tokio::time::timeout(EVENTS_INTERVAL, stream.next()).await {
            Err(_) if self.last_sign.elapsed() < SILENCE_MAX => return Ok(()),
            Ok(Some(Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)))) => self.see(&pod),
            Ok(Some(Ok(WatchEvent::Deleted(pod)))) => {
                self.see(&pod);
                self.state.is_gone = true;
            }
            Ok(Some(Ok(WatchEvent::Bookmark(_)))) => {}
            Ok(Some(Err(error))) => return Err(error),
            // The watch has ended, or its resource version is too old.
            Err(_) | Ok(Some(Ok(WatchEvent::Error(_))) | None) => self.stream = None,
        }
        self.last_sign = Instant::now();
        Ok(())
    }

    async fn list(&mut self) -> Result<(), Error> {
        let found = self.pods.list(&ListParams::default().labels(&self.selector)).await?;
        let own = found.items.iter().find(|pod| self.is_of_job(pod));
        match own {
            Some(pod) => self.state.update(pod),
            None if self.state.pod.is_some() && !self.state.is_gone => self.state.is_lost = true,
            None => {}
        }
        let version = found.metadata.resource_version.unwrap_or_default();
        let wanted = WatchParams::default().labels(&self.selector).timeout(WATCH_SECONDS);
        self.stream = Some(self.pods.watch(&wanted, &version).await?.boxed());
        self.last_sign = Instant::now();
        Ok(())
    }

    fn see(&mut self, pod: &Pod) {
        if self.is_of_job(pod) {
            self.state.update(pod);
        }
    }

    /// An attempt has several Jobs one after another.
    fn is_of_job(&self, pod: &Pod) -> bool {
        pod.metadata.owner_references.iter().flatten().any(|owner| owner.name == self.job)
    }

    /// Returns the events of the Job and its pod that were not shown yet.
    async fn read_events(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for name in [Some(self.job.clone()), self.state.pod.clone()].into_iter().flatten() {
            let wanted = ListParams::default().fields(&format!("involvedObject.name={name}"));
            let Ok(found) = self.events.list(&wanted).await else { continue };
            for event in found.items {
                let reason = one_line(&event.reason.unwrap_or_default());
                let message = one_line(&event.message.unwrap_or_default());
                if self.shown.len() < EVENTS_MAX && self.shown.insert((reason.clone(), message.clone())) {
                    lines.push(format!("[berth] pod: {reason}: {message}"));
                }
            }
        }
        lines
    }
}
