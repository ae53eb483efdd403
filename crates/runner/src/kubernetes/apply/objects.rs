//! Applies one object with server-side apply, unless a later holder of the environment has applied it.

use std::collections::BTreeMap;

use berth_api::runner::{FailureCause, StepRunOutcome};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::metadata::PartialObjectMeta;
use kube::{Api, Error};
use serde_json::{Value, json};

use super::super::cluster::{describe, is_refused, status_code};
use super::super::labels::label_value;
use super::manifests::Manifest;
use super::{mask, owner_labels};
use crate::attempt::{RunningAttempt, failed_outcome, invalid_outcome};

/// The manager of fields.
const FIELD_MANAGER: &str = "berth";
pub(super) const FENCE: &str = "berth.io/fence";
/// The environment whose fence it is. Each environment counts by itself.
const ENVIRONMENT_ID: &str = "berth.io/environment-id";
/// Number of attempts if other clients change the object at the same time.
const CONFLICTS_MAX: usize = 5;

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppliedChange {
    Created,
    Changed,
    Unchanged,
}

impl AppliedChange {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            AppliedChange::Created => "created",
            AppliedChange::Changed => "configured",
            AppliedChange::Unchanged => "unchanged",
        }
    }
}

/// What is added to every object.
pub(super) struct ApplyTask<'a> {
    attempt: &'a RunningAttempt<'a>,
    pub(super) labels: BTreeMap<String, String>,
    /// Environment and fence.
    holder: Option<(String, i64)>,
    params: PatchParams,
}

impl<'a> ApplyTask<'a> {
    pub(super) fn new(attempt: &'a RunningAttempt<'a>, is_forced: bool) -> Self {
        let holder = attempt.assignment.holder.as_ref();
        let params = PatchParams::apply(FIELD_MANAGER).validation_strict();
        Self {
            attempt,
            labels: owner_labels(attempt),
            holder: holder.map(|it| (label_value(&it.environment_id), it.fence)),
            params: if is_forced { params.force() } else { params },
        }
    }

    pub(super) async fn apply(
        &self,
        api: &Api<DynamicObject>,
        manifest: &Manifest,
    ) -> Result<AppliedChange, StepRunOutcome> {
        let mut conflicts = 0;
        loop {
            let known = api.get_metadata_opt(&manifest.name).await;
            let known = known.map_err(|error| self.failed(manifest, &error))?;
            if let Some(known) = &known {
                self.check_fence(manifest, known)?;
            }
            let version = known.as_ref().and_then(|it| it.metadata.resource_version.clone());
            let patch = Patch::Apply(self.annotate(manifest, version.as_deref()));
            match api.patch(&manifest.name, &self.params, &patch).await {
                Ok(applied) if applied.metadata.resource_version == version => {
                    return Ok(AppliedChange::Unchanged);
                }
                Ok(_) if known.is_some() => return Ok(AppliedChange::Changed),
                Ok(_) => return Ok(AppliedChange::Created),
                // The object was changed after it was read, perhaps by a later holder.
                Err(error) if is_version_conflict(&error) && conflicts < CONFLICTS_MAX => conflicts += 1,
                Err(error) => return Err(self.failed(manifest, &error)),
            }
        }
    }

    /// Adds labels and the fence. With the resource version, the object is only changed if it is as it was read.
    fn annotate(&self, manifest: &Manifest, version: Option<&str>) -> Value {
        let mut object = manifest.object.clone();
        let mut added = json!({ "metadata": { "labels": self.labels } });
        if let Some((environment, fence)) = &self.holder {
            added["metadata"]["annotations"] =
                json!({ ENVIRONMENT_ID: environment, FENCE: fence.to_string() });
        }
        if let Some(version) = version {
            added["metadata"]["resourceVersion"] = json!(version);
        }
        add(&mut object, &added);
        object
    }

    fn check_fence(
        &self,
        manifest: &Manifest,
        known: &PartialObjectMeta<DynamicObject>,
    ) -> Result<(), StepRunOutcome> {
        match self.find_higher_fence(known) {
            None => Ok(()),
            Some(higher) => Err(invalid_outcome(format!(
                "{} was applied by a later holder of the environment, under fence {higher}, and refuses a lower fence",
                manifest.title()
            ))),
        }
    }

    /// Returns the fence of a later holder that has applied the object.
    pub(super) fn find_higher_fence(&self, known: &PartialObjectMeta<DynamicObject>) -> Option<i64> {
        let (environment, fence) = self.holder.as_ref()?;
        let annotations = known.metadata.annotations.as_ref()?;
        let known =
            annotations.get(FENCE).filter(|_| annotations.get(ENVIRONMENT_ID) == Some(environment))?;
        // An annotation that cannot be read counts as the highest fence.
        Some(known.parse().unwrap_or(i64::MAX)).filter(|known| known > fence)
    }

    fn failed(&self, manifest: &Manifest, error: &Error) -> StepRunOutcome {
        let text = mask(&self.attempt.masker, &describe(error));
        let detail = format!("cannot apply {}: {text}", manifest.title());
        let is_final = is_refused(error) || matches!(status_code(error), Some(401 | 403 | 404 | 409));
        let hint = match is_field_conflict(error) {
            true => {
                "; another client manages these fields. Remove them from the manifest, or set `force: true`"
            }
            false => "",
        };
        let cause = if is_final { FailureCause::Invalid } else { FailureCause::Exited };
        failed_outcome(cause, format!("{detail}{hint}"))
    }
}

fn is_field_conflict(error: &Error) -> bool {
    status_code(error) == Some(409) && describe(error).starts_with("Apply failed")
}

fn is_version_conflict(error: &Error) -> bool {
    status_code(error) == Some(409) && !is_field_conflict(error)
}

/// Adds values to an object, recursively.
fn add(object: &mut Value, added: &Value) {
    match (object.as_object_mut(), added.as_object()) {
        (Some(object), Some(added)) => {
            for (name, value) in added {
                add(object.entry(name).or_insert(Value::Null), value);
            }
        }
        _ => *object = added.clone(),
    }
}
