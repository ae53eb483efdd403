//! Waits until applied workloads are rolled out.

use std::time::{Duration, Instant};

use berth_api::runner::{FailureCause, StepRunOutcome};
use berth_core::pipeline::seconds::DurationSeconds;
use kube::api::ApiResource;
use kube::discovery::Scope;
use serde_json::Value;

use super::super::cluster::describe;
use super::manifests::Manifest;
use super::{ManifestApply, mask};
use crate::attempt::failed_outcome;

/// Interval between two looks at a workload.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How far a rollout is.
#[derive(Debug, PartialEq, Eq)]
enum RolloutState {
    Done,
    Waiting(String),
    Failed(String),
}

impl ManifestApply<'_> {
    pub(super) fn wait_for_rollouts(
        &self,
        applied: &[(Manifest, ApiResource, Scope)],
        by: Instant,
        within: Duration,
    ) -> Result<(), StepRunOutcome> {
        for (manifest, resource, scope) in applied {
            if rollout_state(&manifest.kind, &Value::Null).is_some() {
                self.wait_for_rollout(manifest, resource, scope, (by, within))?;
            }
        }
        Ok(())
    }

    fn wait_for_rollout(
        &self,
        manifest: &Manifest,
        resource: &ApiResource,
        scope: &Scope,
        (by, within): (Instant, Duration),
    ) -> Result<(), StepRunOutcome> {
        let (attempt, title) = (self.attempt, manifest.title());
        let api = manifest.api(&self.client, resource, scope);
        let mut said = String::new();
        loop {
            let text = match self.runtime.call(attempt, api.get_opt(&manifest.name))? {
                Ok(None) => {
                    return Err(failed_outcome(FailureCause::Exited, format!("{title} was deleted")));
                }
                Err(error) => mask(&attempt.masker, &describe(&error)),
                Ok(Some(found)) => {
                    let generation = found.metadata.generation;
                    let mut value = found.data;
                    value["generation"] = generation.into();
                    match rollout_state(&manifest.kind, &value) {
                        None | Some(RolloutState::Done) => {
                            attempt.log.write_line(&format!("[berth] {title} is rolled out"));
                            return Ok(());
                        }
                        Some(RolloutState::Failed(why)) => {
                            let why = mask(&attempt.masker, &why);
                            let detail = format!("the rollout of {title} failed: {why}");
                            return Err(failed_outcome(FailureCause::Exited, detail));
                        }
                        Some(RolloutState::Waiting(why)) => mask(&attempt.masker, &why),
                    }
                }
            };
            if text != said {
                attempt.log.write_line(&format!("[berth] waiting for {title}: {text}"));
                said = text;
            }
            let now = Instant::now();
            if now >= attempt.deadline {
                return Err(attempt.timeout_outcome());
            }
            if now >= by {
                let within = DurationSeconds::from_secs(within.as_secs());
                let detail = format!("{title} was not rolled out within {within}: {said}");
                return Err(failed_outcome(FailureCause::TimedOut, detail));
            }
            if let Some(why) = attempt.wait(POLL_INTERVAL.min(by - now)) {
                return Err(attempt.stopped_outcome(&why));
            }
        }
    }
}

/// Returns `None` for kinds that are not rolled out.
fn rollout_state(kind: &str, object: &Value) -> Option<RolloutState> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let status = |name: &str| number(&format!("/status/{name}")).unwrap_or(0);
    let is_observed = || {
        number("/generation").is_some() && status("observedGeneration") >= number("/generation").unwrap_or(0)
    };
    let waiting = |text: String| Some(RolloutState::Waiting(text));
    let wanted = number("/spec/replicas").unwrap_or(1);
    match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" => {
            if let Some(why) = failed_condition(object, "Progressing", "False") {
                return Some(RolloutState::Failed(why));
            }
            if !is_observed() {
                return waiting("its controller has not seen the change yet".into());
            }
            let (wanted, updated, available) = match kind {
                "Deployment" => (wanted, status("updatedReplicas"), status("availableReplicas")),
                // Without partitions, the revisions are equal once all replicas are updated.
                "StatefulSet" => (wanted, status("updatedReplicas"), status("readyReplicas")),
                _ => (
                    status("desiredNumberScheduled"),
                    status("updatedNumberScheduled"),
                    status("numberAvailable"),
                ),
            };
            if updated < wanted {
                return waiting(format!("{updated} of {wanted} replicas are updated"));
            }
            if available < wanted {
                return waiting(format!("{available} of {wanted} replicas are available"));
            }
            let old = if kind == "Deployment" { status("replicas") - updated } else { 0 };
            if old > 0 { waiting(format!("{old} old replicas are ending")) } else { Some(RolloutState::Done) }
        }
        "Job" => {
            if let Some(why) = failed_condition(object, "Failed", "True") {
                return Some(RolloutState::Failed(why));
            }
            if failed_condition(object, "Complete", "True").is_some() {
                return Some(RolloutState::Done);
            }
            waiting(format!("{} of its pods have succeeded", status("succeeded")))
        }
        _ => None,
    }
}

/// Returns the message of a condition that has this status.
fn failed_condition(object: &Value, kind: &str, status: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|it| it["type"] == kind && it["status"] == status)?;
    Some(found["message"].as_str().or(found["reason"].as_str()).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(text: &str) -> Option<RolloutState> {
        Some(RolloutState::Waiting(text.to_owned()))
    }

    #[test]
    fn deployment_is_done_when_all_replicas_are_new_and_available() {
        let state = |status: Value| {
            rollout_state(
                "Deployment",
                &json!({ "generation": 2, "spec": { "replicas": 3 }, "status": status }),
            )
        };
        assert_eq!(
            state(json!({ "observedGeneration": 1 })),
            waiting("its controller has not seen the change yet")
        );
        let new = |replicas, updated, available| json!({ "observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available });
        assert_eq!(state(new(3, 1, 3)), waiting("1 of 3 replicas are updated"));
        assert_eq!(state(new(4, 3, 2)), waiting("2 of 3 replicas are available"));
        assert_eq!(state(new(4, 3, 3)), waiting("1 old replicas are ending"));
        assert_eq!(state(new(3, 3, 3)), Some(RolloutState::Done));
        let stuck = json!([{ "type": "Progressing", "status": "False", "message": "exceeded its deadline" }]);
        assert_eq!(
            state(json!({ "observedGeneration": 2, "conditions": stuck })),
            Some(RolloutState::Failed("exceeded its deadline".into()))
        );
    }

    #[test]
    fn other_workloads_report_how_far_they_are() {
        let set = json!({ "generation": 1, "status": { "observedGeneration": 1, "desiredNumberScheduled": 2,
                          "updatedNumberScheduled": 2, "numberAvailable": 1 } });
        assert_eq!(rollout_state("DaemonSet", &set), waiting("1 of 2 replicas are available"));
        let job = |kind| json!({ "status": { "conditions": [{ "type": kind, "status": "True", "message": "why" }] } });
        assert_eq!(rollout_state("Job", &job("Complete")), Some(RolloutState::Done));
        assert_eq!(rollout_state("Job", &job("Failed")), Some(RolloutState::Failed("why".into())));
        assert_eq!(rollout_state("Job", &json!({})), waiting("0 of its pods have succeeded"));
        assert_eq!(rollout_state("ConfigMap", &json!({})), None);
    }
}
