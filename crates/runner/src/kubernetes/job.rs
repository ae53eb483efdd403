//! Creates the Jobs and Secrets of an attempt.

use std::collections::BTreeMap;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::runner::{ContainerAssignment, StepRunOutcome};
use berth_core::pipeline::image::ImageReference;
use berth_core::wording::quote;
use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{LocalObjectReference, PodSpec, PodTemplateSpec, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use serde_json::json;

use super::cluster::{KubernetesCluster, never_started, owner_reference, status_code};
use super::labels::{labels_of, metadata};
use super::pod_template::{StepFiles, grace_seconds, image_pod, step_pod};
use crate::attempt::dirs::AttemptDirs;
use crate::attempt::{RunningAttempt, environment, invalid_outcome};
use crate::container::find_login;

/// How much longer than the step a Job may run. Only reached if the runner is gone.
const DEADLINE_MARGIN_S: i64 = 60;
/// How long the cluster keeps a Job that has ended, in seconds. Only matters if the runner is gone.
const KEPT_S: i32 = 3600;
const LOGIN_TYPE: &str = "kubernetes.io/dockerconfigjson";
const LOGIN_KEY: &str = ".dockerconfigjson";

/// Keys of a Secret, by the name of the variable.
#[derive(Default)]
pub(super) struct SecretKeys {
    pub(super) env: BTreeMap<String, String>,
    pub(super) files: BTreeMap<String, String>,
}

pub(super) struct AttemptJob<'a> {
    pub(super) attempt: &'a RunningAttempt<'a>,
    pub(super) cluster: &'a KubernetesCluster,
    pub(super) dirs: &'a AttemptDirs,
    pub(super) container: &'a ContainerAssignment,
}

impl AttemptJob<'_> {
    /// Creates a Job that only pulls the step's image, and returns its name.
    pub(super) fn create_image_job(&self) -> Result<String, StepRunOutcome> {
        let name = format!("berth-{}-image", self.dirs.id);
        let pod = image_pod(self.attempt, self.cluster, self.container)?;
        self.create_job(&name, pod)?;
        self.resume_image_job(&name)?;
        Ok(name)
    }

    fn resume_image_job(&self, name: &str) -> Result<(), StepRunOutcome> {
        let resumed = self.cluster.call(self.attempt, resume(self.cluster, name))?;
        resumed.map_err(|error| never_started("start the pod that resolves the image", &error))
    }

    /// Creates the suspended Job of a step, and returns its name.
    pub(super) fn create_step_job(&self, image: &str, script: &str) -> Result<String, StepRunOutcome> {
        environment::check_environment(self.attempt.assignment)?;
        let name = format!("berth-{}", self.dirs.id);
        let (keys, data) = self.secret_data();
        let files = StepFiles { dirs: self.dirs, script, secret: &name, keys: &keys };
        let pod = step_pod(self.attempt, self.cluster, self.container, image, &files)?;
        let job = self.create_job(&name, pod)?;
        if !data.is_empty() {
            self.create_secret(&name, &job, None, data)?;
        }
        Ok(name)
    }

    /// Creates a suspended Job, and its registry credential.
    fn create_job(&self, name: &str, mut pod: PodSpec) -> Result<OwnerReference, StepRunOutcome> {
        let (attempt, cluster) = (self.attempt, self.cluster);
        let login = self.registry_login()?;
        let login_name = format!("{name}-pull");
        if login.is_some() {
            let reference = LocalObjectReference { name: login_name.clone() };
            pod.image_pull_secrets.get_or_insert_default().push(reference);
        }
        let labels = labels_of(cluster, attempt, &self.dirs.id);
        let left = attempt.deadline.saturating_duration_since(Instant::now()).as_secs();
        let left = i64::try_from(left).unwrap_or(i64::MAX / 2);
        let job = Job {
            metadata: metadata(name, labels.clone(), cluster.owner.as_ref()),
            spec: Some(JobSpec {
                suspend: Some(true),
                backoff_limit: Some(0),
                completions: Some(1),
                parallelism: Some(1),
                active_deadline_seconds: Some(left + grace_seconds(attempt) + DEADLINE_MARGIN_S),
                ttl_seconds_after_finished: Some(KEPT_S),
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta { labels: Some(labels), ..Default::default() }),
                    spec: Some(pod),
                },
                ..Default::default()
            }),
            status: None,
        };
        let created = cluster.call(attempt, create_once(&cluster.jobs(), &job))?;
        let created = created.map_err(|error| never_started("create the Job", &error))?;
        let uid = created.metadata.uid.unwrap_or_default();
        let owner = owner_reference("batch/v1", "Job", name, uid);
        if let Some(login) = login {
            let data = BTreeMap::from([(LOGIN_KEY.to_owned(), ByteString(login.into_bytes()))]);
            self.create_secret(&login_name, &owner, Some(LOGIN_TYPE), data)?;
        }
        Ok(owner)
    }

    /// Creates a Secret that is deleted with the Job.
    fn create_secret(
        &self,
        name: &str,
        job: &OwnerReference,
        kind: Option<&str>,
        data: BTreeMap<String, ByteString>,
    ) -> Result<(), StepRunOutcome> {
        let labels = labels_of(self.cluster, self.attempt, &self.dirs.id);
        let secret = Secret {
            metadata: metadata(name, labels, Some(job)),
            data: Some(data),
            immutable: Some(true),
            type_: kind.map(str::to_owned),
            string_data: None,
        };
        let created = self.cluster.call(self.attempt, create_once(&self.cluster.secrets(), &secret))?;
        created.map(drop).map_err(|error| never_started("create the Secret of the step", &error))
    }

    /// Variables and secret files. Variables may contain secrets, so none of them is in the Job.
    fn secret_data(&self) -> (SecretKeys, BTreeMap<String, ByteString>) {
        let assignment = self.attempt.assignment;
        let (mut keys, mut data) = (SecretKeys::default(), BTreeMap::new());
        for (index, (name, value)) in assignment.env.iter().chain(&assignment.facts).enumerate() {
            let key = format!("env-{index}");
            keys.env.insert(name.clone(), key.clone());
            data.insert(key, ByteString(value.clone().into_bytes()));
        }
        for (index, (name, value)) in assignment.secret_files.iter().enumerate() {
            let key = format!("file-{index}");
            keys.files.insert(name.clone(), key.clone());
            data.insert(key, ByteString(value.reveal().as_bytes().to_vec()));
        }
        (keys, data)
    }

    /// The credential of the image's registry, in the format of `docker login`.
    fn registry_login(&self) -> Result<Option<String>, StepRunOutcome> {
        let text = &self.container.image;
        let image = ImageReference::parse(text)
            .map_err(|why| invalid_outcome(format!("the image {} {why}", quote(text))))?;
        let Some((user, password)) = find_login(self.attempt, &image)? else { return Ok(None) };
        let auth = STANDARD.encode(format!("{user}:{password}"));
        let registry = match image.registry() {
            "docker.io" => "https://index.docker.io/v1/",
            other => other,
        };
        Ok(Some(json!({ "auths": { (registry): { "auth": auth } } }).to_string()))
    }
}

/// Lets the cluster start the pod of a Job.
pub(super) async fn resume(cluster: &KubernetesCluster, name: &str) -> Result<(), kube::Error> {
    let patch = kube::api::Patch::Merge(json!({ "spec": { "suspend": false } }));
    cluster.jobs().patch(name, &kube::api::PatchParams::default(), &patch).await.map(drop)
}

/// Creates an object. Its name is unique, so if it exists, an earlier request whose response was lost has created it.
async fn create_once<K>(api: &kube::Api<K>, object: &K) -> Result<K, kube::Error>
where
    K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    match api.create(&PostParams::default(), object).await {
        Err(error) if status_code(&error) == Some(409) => {
            api.get(object.meta().name.as_deref().unwrap_or_default()).await
        }
        other => other,
    }
}
