//! A conformance double of the Kubernetes API: an HTTP server in this process that behaves like the API server, the Job
//! controller, the garbage collector and a kubelet, as far as the runner uses them. Pods run as real processes. It is not
//! a cluster: there is no container, no image and no network of its own.

mod api;
mod http;
mod kubelet;
mod store;
mod types;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use store::ObjectStore;

pub(crate) const NAMESPACE: &str = "ci";
/// A namespace in which no pods are started.
pub(crate) const JOB_NAMESPACE: &str = "runners";
pub(crate) const CLAIM: &str = "berth-runner";
/// An image that every node can pull.
pub(crate) const IMAGE: &str = "registry.test/shell:1";

pub(crate) struct KubernetesDouble {
    shared: Arc<DoubleState>,
    dir: tempfile::TempDir,
}

/// What the API, the controllers and the kubelet share.
struct DoubleState {
    store: ObjectStore,
    /// Where the volume of the claim is.
    volume: PathBuf,
    faults: Mutex<Vec<String>>,
    behaviour: Mutex<DoubleBehaviour>,
}

/// What goes wrong in the cluster.
#[derive(Default)]
pub(crate) struct DoubleBehaviour {
    /// No node has room.
    pub(crate) is_full: bool,
    /// Number of log streams that break after their first line.
    pub(crate) broken_logs: usize,
    /// Rollouts of Deployments make no progress.
    pub(crate) blocks_rollouts: bool,
    /// All responses have this status and a body that no client should read to its end.
    pub(crate) long_responses: Option<u16>,
}

impl KubernetesDouble {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let volume = dir.path().join("volume");
        std::fs::create_dir(&volume).expect("volume");
        let shared = Arc::new(DoubleState {
            store: ObjectStore::default(),
            volume,
            faults: Mutex::default(),
            behaviour: Mutex::default(),
        });
        let serving = shared.clone();
        let address = http::serve(move |request| api::handle(&serving, request));
        std::fs::write(dir.path().join("kubeconfig"), kubeconfig(&format!("http://{address}"), ""))
            .expect("file");
        Self { shared, dir }
    }

    pub(crate) fn volume(&self) -> PathBuf {
        self.shared.volume.clone()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut DoubleBehaviour)) {
        change(&mut self.shared.behaviour.lock());
        self.shared.store.changed.notify_all();
    }

    pub(crate) fn objects(&self, resource: &str) -> Vec<Value> {
        self.shared.store.lock().list(NAMESPACE, resource)
    }

    pub(crate) fn names(&self, resource: &str) -> Vec<String> {
        let objects = self.objects(resource).into_iter();
        objects.map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn create(&self, resource: &str, name: &str, object: Value) {
        let key = (NAMESPACE.to_owned(), resource.to_owned(), name.to_owned());
        self.shared.store.change(|state| state.create(key, object));
    }

    pub(crate) fn remove(&self, resource: &str, name: &str) {
        let key = (NAMESPACE.to_owned(), resource.to_owned(), name.to_owned());
        self.shared.store.change(|state| state.remove(&key));
    }

    /// Removes all pods without stopping them, as an admin with `kubectl delete --force` does.
    pub(crate) fn forget_pods(&self) {
        for name in self.names("pods") {
            self.remove("pods", &name);
        }
    }

    /// Fails if a Job, a pod or a Secret is left, or if the API was used wrongly.
    pub(crate) fn check_nothing_left(&self) {
        for resource in ["jobs", "pods", "secrets"] {
            assert_eq!(self.names(resource), Vec::<String>::new(), "{resource}");
        }
        self.check_no_faults();
    }

    pub(crate) fn check_no_faults(&self) {
        assert_eq!(*self.shared.faults.lock(), Vec::<String>::new());
    }
}

/// A kubeconfig without TLS. `user` is added to its only user.
pub(crate) fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster: {{ server: \"{server}\" }}\n\
         users:\n- name: a\n  user: {{ {user} }}\ncontexts:\n- name: a\n  context: {{ cluster: a, user: a, namespace: {NAMESPACE} }}\n"
    )
}

impl DoubleState {
    fn fault(&self, text: String) {
        self.faults.lock().push(text);
    }

    fn sub_path(&self, path: &str) -> PathBuf {
        assert!(!path.starts_with('/') && !path.contains(".."), "sub path {path}");
        Path::new(&self.volume).join(path)
    }
}
