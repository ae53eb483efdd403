//! Deletes objects that the pipeline has applied to the environment or stage before, and that are not in the manifests any more.

use std::collections::BTreeSet;

use berth_api::runner::StepRunOutcome;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Preconditions};
use kube::discovery::Scope;
use kube::{Api, Error};

use super::super::cluster::{describe, never_started, status_code};
use super::manifests::{Manifest, api_of};
use super::objects::ApplyTask;
use super::{ManifestApply, mask};
use crate::attempt::invalid_outcome;

/// Kinds that are pruned, in addition to those of the manifests. Volumes and namespaces are never pruned.
const KINDS: [(&str, &str); 7] = [
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
];
const NEVER: [&str; 4] =
    ["Namespace", "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition"];

type AppliedObject = (Manifest, ApiResource, Scope);

impl ManifestApply<'_> {
    /// Deletes in the namespaces of the manifests only.
    pub(super) fn prune(
        &self,
        task: &ApplyTask<'_>,
        applied: &[AppliedObject],
    ) -> Result<(), StepRunOutcome> {
        if task.labels.len() < 2 {
            return Err(invalid_outcome("`prune` needs a pipeline, and an environment or a stage".into()));
        }
        let selector = task.labels.iter().map(|(label, value)| format!("{label}={value}"));
        let selector = selector.collect::<Vec<_>>().join(",");
        let mut resources: Vec<(ApiResource, Scope)> = Vec::new();
        let own = applied.iter().map(|(_, resource, scope)| (resource.clone(), scope.clone()));
        let own = own.filter(|(resource, scope)| {
            *scope == Scope::Namespaced && !NEVER.contains(&resource.kind.as_str())
        });
        let common = KINDS.map(|(version, kind)| self.find_resource(version, kind));
        for (resource, scope) in own.chain(common.into_iter().collect::<Result<Vec<_>, _>>()?) {
            let is_known = resources
                .iter()
                .any(|known| known.0.plural == resource.plural && known.0.group == resource.group);
            if !is_known {
                resources.push((resource, scope));
            }
        }
        let mut namespaces: BTreeSet<&str> = applied.iter().map(|(it, ..)| it.namespace.as_str()).collect();
        namespaces.insert(&self.namespace);
        for (resource, scope) in &resources {
            for namespace in &namespaces {
                let api = api_of(&self.client, resource, scope, namespace);
                let kept: BTreeSet<&str> = applied
                    .iter()
                    .filter(|(it, known, _)| {
                        known.plural == resource.plural
                            && known.group == resource.group
                            && it.namespace == *namespace
                    })
                    .map(|(it, ..)| it.name.as_str())
                    .collect();
                let pruned = self.runtime.call(self.attempt, prune_listed(&api, &selector, &kept, task))?;
                let pruned = pruned.map_err(|error| match error {
                    PruneError::Api(error) => never_started(&format!("prune {}", resource.plural), &error),
                    PruneError::Fence(name) => invalid_outcome(format!(
                        "{}/{name} was applied by a later holder of the environment, and is not pruned",
                        resource.kind
                    )),
                })?;
                for name in pruned {
                    let name = mask(&self.attempt.masker, &name);
                    self.attempt.log.write_line(&format!("[berth] {}/{name} pruned", resource.kind));
                }
            }
        }
        Ok(())
    }
}

enum PruneError {
    Api(Error),
    Fence(String),
}

async fn prune_listed(
    api: &Api<DynamicObject>,
    selector: &str,
    kept: &BTreeSet<&str>,
    task: &ApplyTask<'_>,
) -> Result<Vec<String>, PruneError> {
    let found = api.list_metadata(&ListParams::default().labels(selector)).await.map_err(PruneError::Api)?;
    let mut pruned = Vec::new();
    for object in found.items {
        let Some(name) = object.metadata.name.clone().filter(|name| !kept.contains(name.as_str())) else {
            continue;
        };
        if task.find_higher_fence(&object).is_some() {
            return Err(PruneError::Fence(name));
        }
        // Only if it is still the object that was listed.
        let preconditions = Preconditions {
            resource_version: object.metadata.resource_version.clone(),
            uid: object.metadata.uid.clone(),
        };
        match api.delete(&name, &DeleteParams::background().preconditions(preconditions)).await {
            Ok(_) => pruned.push(name),
            Err(error) if matches!(status_code(&error), Some(404 | 409)) => {
                tracing::debug!(error = describe(&error), "an object was changed before it was pruned");
            }
            Err(error) => return Err(PruneError::Api(error)),
        }
    }
    Ok(pruned)
}
