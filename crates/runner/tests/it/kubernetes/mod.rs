//! Tests of steps in a Kubernetes cluster, against a double of its API.

mod apply;
mod double;
mod hostile;
mod steps;
mod stop;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::runner::{AttemptAssignment, ContainerAssignment, ImagePull, Network};
use berth_runner::{KubernetesOptions, RunnerOptions};

use crate::fixture::{StepRunnerFixture, script};
use double::{CLAIM, IMAGE, KubernetesDouble, NAMESPACE};

/// A runner with a cluster of its own. Fields are dropped in order: the runner must stop first.
struct ClusterFixture {
    fixture: StepRunnerFixture,
    cluster: KubernetesDouble,
}

impl ClusterFixture {
    fn start() -> Self {
        Self::with_options(|_| {})
    }

    fn with_options(change: impl FnOnce(&mut KubernetesOptions)) -> Self {
        let cluster = KubernetesDouble::start();
        let fixture = StepRunnerFixture::with_options(|options| {
            let mut own = kubernetes_options(&cluster);
            change(&mut own);
            use_cluster(options, &cluster, own);
        });
        Self { fixture, cluster }
    }
}

fn use_cluster(options: &mut RunnerOptions, cluster: &KubernetesDouble, own: KubernetesOptions) {
    options.work_dir = cluster.volume().join("runner-1");
    options.kubernetes = Some(own);
}

fn kubernetes_options(cluster: &KubernetesDouble) -> KubernetesOptions {
    KubernetesOptions {
        namespace: NAMESPACE.to_owned(),
        kubeconfig: Some(cluster.kubeconfig()),
        volume_claim: CLAIM.to_owned(),
        volume_path: cluster.volume(),
        service_account: None,
        mounts_token: false,
        node_selector: BTreeMap::new(),
        pull_secrets: Vec::new(),
        allows_host_network: false,
        allows_apply: false,
        start_time_max: Duration::from_secs(60),
        pod_name: None,
    }
}

fn in_pod(id: &str, run: &str) -> AttemptAssignment {
    AttemptAssignment { container: Some(container(IMAGE)), network: Network::Bridge, ..script(id, run) }
}

fn container(image: &str) -> ContainerAssignment {
    ContainerAssignment {
        image: image.to_owned(),
        pull: ImagePull::IfMissing,
        user: None,
        memory_bytes: None,
        milli_cpus: None,
        services: BTreeMap::new(),
    }
}
