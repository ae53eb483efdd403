//! Typed checks of objects: an object must survive a round trip through the types of the Kubernetes API, so unknown or
//! misspelt fields are found.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Group and version, plural name and kind of the resources that the double serves.
pub(super) const RESOURCES: [(&str, &str, &str); 9] = [
    ("v1", "configmaps", "ConfigMap"),
    ("v1", "secrets", "Secret"),
    ("v1", "services", "Service"),
    ("v1", "pods", "Pod"),
    ("v1", "events", "Event"),
    ("batch/v1", "jobs", "Job"),
    ("apps/v1", "deployments", "Deployment"),
    ("apps/v1", "statefulsets", "StatefulSet"),
    ("apps/v1", "daemonsets", "DaemonSet"),
];

/// Returns what is wrong with an object that was sent.
pub(super) fn check(resource: &str, object: &Value) -> Result<(), String> {
    match resource {
        "configmaps" => round_trip::<ConfigMap>(object),
        "secrets" => round_trip::<Secret>(object),
        "services" => round_trip::<Service>(object),
        "jobs" => round_trip::<Job>(object),
        "deployments" => round_trip::<Deployment>(object),
        "statefulsets" => round_trip::<StatefulSet>(object),
        "daemonsets" => round_trip::<DaemonSet>(object),
        other => Err(format!("clients do not write {other}")),
    }
}

fn round_trip<K: Serialize + DeserializeOwned>(object: &Value) -> Result<(), String> {
    let typed: K = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let again = serde_json::to_value(typed).map_err(|error| error.to_string())?;
    match find_missing(object, &again, "") {
        None => Ok(()),
        Some(path) => Err(format!("strict decoding error: unknown field {path:?}")),
    }
}

/// Returns the path of a value that is in `sent` and not in `known`.
fn find_missing(sent: &Value, known: &Value, path: &str) -> Option<String> {
    match (sent, known) {
        (Value::Object(sent), Value::Object(known)) => sent.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            match known.get(name) {
                Some(found) => find_missing(value, found, &path),
                None if value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty) => None,
                None => Some(path),
            }
        }),
        (Value::Array(sent), Value::Array(known)) => {
            sent.iter().zip(known).find_map(|(sent, known)| find_missing(sent, known, path))
        }
        _ => None,
    }
}
