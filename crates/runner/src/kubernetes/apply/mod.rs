//! `kubernetes_apply`: applies manifests of the workspace to a cluster, and waits until they are rolled out.
//!
//! ```text
//! read the manifests · connect · raise the fence of the environment
//! apply each object with server-side apply, unless a later holder has applied it
//! prune objects of this pipeline and environment that are not in the manifests any more
//! wait for Deployments, StatefulSets, DaemonSets and Jobs
//! ```

mod credentials;
mod manifests;
mod objects;
mod prune;
mod rollout;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use berth_api::runner::{Network, StepRunOutcome};
use berth_core::mask::SecretMasker;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use kube::{Api, Client, Error, api::ApiResource};
use serde_json::Value;

use super::cluster::{never_started, shorten, status_code};
use super::fence::raise_fence;
use super::labels::label_value;
use crate::async_calls::AsyncRuntime;
use crate::attempt::{RunningAttempt, StepResult, invalid_outcome};
use manifests::Manifest;
use objects::ApplyTask;

/// How long rollouts may take if the step does not say.
const WITHIN: Duration = Duration::from_secs(600);

/// Applies the manifests that the step's params name.
pub(crate) fn apply_manifests(attempt: &RunningAttempt<'_>) -> StepResult {
    if attempt.assignment.network == Network::None {
        return Err(invalid_outcome("a step with `network: none` cannot reach a cluster".into()));
    }
    let texts = manifests::read_files(attempt)?;
    let runtime = AsyncRuntime::start("kubernetes-apply")
        .map_err(|error| StepRunOutcome::never_started(format!("cannot start a thread: {error}")))?;
    let credentials = runtime.call(attempt, credentials::connect(attempt))??;
    let namespace = attempt.text_param("namespace").unwrap_or(&credentials.namespace).to_owned();
    let manifests = manifests::parse(&texts, &namespace)?;
    credentials.check(&manifests, &namespace)?;
    let apply = ManifestApply { attempt, runtime: &runtime, client: credentials.client, namespace };
    apply.run(manifests)?;
    Ok(BTreeMap::new())
}

/// One run of the step.
struct ManifestApply<'a> {
    attempt: &'a RunningAttempt<'a>,
    runtime: &'a AsyncRuntime,
    client: Client,
    /// The namespace of objects that name none.
    namespace: String,
}

/// The resources of a kind, and whether they are in namespaces.
type KnownResource = (ApiResource, Scope);

impl ManifestApply<'_> {
    fn run(&self, manifests: Vec<Manifest>) -> Result<(), StepRunOutcome> {
        let attempt = self.attempt;
        let resources = self.find_resources(&manifests)?;
        if let Some(why) = attempt.stop_reason() {
            return Err(attempt.stopped_outcome(&why));
        }
        attempt
            .record_start()
            .map_err(|error| StepRunOutcome::never_started(format!("cannot begin: {error}")))?;
        self.raise_fence()?;
        let task = ApplyTask::new(attempt, self.is_set("force"));
        let mut applied = Vec::new();
        for manifest in manifests {
            let (resource, scope) = &resources[&manifest.kind_key()];
            let api = manifest.api(&self.client, resource, scope);
            // From here on, the step may have had effects.
            attempt.has_run.set(true);
            let done = self.runtime.call(attempt, task.apply(&api, &manifest))??;
            attempt.log.write_line(&format!("[berth] {} {}", manifest.title(), done.as_str()));
            applied.push((manifest, resource.clone(), scope.clone()));
        }
        if self.is_set("prune") {
            self.prune(&task, &applied)?;
        }
        if self.wants("wait") {
            let within = attempt.duration_param("within")?.unwrap_or(WITHIN);
            self.wait_for_rollouts(&applied, Instant::now() + within, within)?;
        }
        Ok(())
    }

    fn find_resources(
        &self,
        manifests: &[Manifest],
    ) -> Result<HashMap<(String, String), KnownResource>, StepRunOutcome> {
        let mut found = HashMap::new();
        for manifest in manifests {
            if let Entry::Vacant(entry) = found.entry(manifest.kind_key()) {
                entry.insert(self.find_resource(&manifest.api_version, &manifest.kind)?);
            }
        }
        Ok(found)
    }

    fn find_resource(&self, api_version: &str, kind: &str) -> Result<KnownResource, StepRunOutcome> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let wanted = GroupVersionKind::gvk(group, version, kind);
        let found = self.runtime.call(self.attempt, kube::discovery::pinned_kind(&self.client, &wanted))?;
        let found = found.map_err(|error| match error {
            Error::Discovery(_) => invalid_outcome(format!("the cluster has no {api_version} {kind}")),
            error if status_code(&error) == Some(404) => {
                invalid_outcome(format!("the cluster has no {api_version} {kind}"))
            }
            error => never_started(&format!("look up {api_version} {kind}"), &error),
        });
        found.map(|(resource, capabilities)| (resource, capabilities.scope))
    }

    /// Refuses to apply for an earlier holder of the environment than one that has applied to this namespace.
    fn raise_fence(&self) -> Result<(), StepRunOutcome> {
        let Some(holder) = &self.attempt.assignment.holder else { return Ok(()) };
        let records: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let raised = raise_fence(&records, &holder.environment_id, holder.fence);
        let raised = self.runtime.call(self.attempt, raised)?;
        let raised = raised.map_err(|error| never_started("record the fence in the cluster", &error))?;
        raised.to_refusal(holder.fence).map_or(Ok(()), |detail| Err(invalid_outcome(detail)))
    }

    /// Whether a param is true. It is false by default.
    fn is_set(&self, name: &str) -> bool {
        match self.attempt.assignment.params.get(name) {
            Some(Value::Bool(value)) => *value,
            // If the value comes from an expression, it is a string.
            Some(Value::String(text)) => text == "true",
            _ => false,
        }
    }

    /// Whether a param is true. It is true by default.
    fn wants(&self, name: &str) -> bool {
        !self.attempt.assignment.params.contains_key(name) || self.is_set(name)
    }
}

/// Labels of applied objects. Pruning finds them again.
fn owner_labels(attempt: &RunningAttempt<'_>) -> BTreeMap<String, String> {
    let facts = &attempt.assignment.facts;
    let target = match facts.contains_key("BERTH_ENVIRONMENT") {
        true => ("berth.io/environment", "BERTH_ENVIRONMENT"),
        false => ("berth.io/stage", "BERTH_STAGE"),
    };
    let found = [("berth.io/pipeline", "BERTH_PIPELINE_ID"), target].into_iter();
    let found = found.filter_map(|(label, fact)| Some((label.to_owned(), facts.get(fact)?)));
    found.map(|(label, value)| (label, label_value(value))).collect()
}

/// Masks secrets in a message of the cluster, which may quote a manifest.
fn mask(masker: &SecretMasker, text: &str) -> String {
    shorten(masker.mask(&super::pod_state::one_line(text)))
}
