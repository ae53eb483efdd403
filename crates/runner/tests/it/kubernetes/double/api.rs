//! The API server of the double: paths, verbs, conflicts, watches and server-side apply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::http::{ChunkWriter, Request, Response};
use super::store::{Key, matches_fields, matches_labels};
use super::types::{self, RESOURCES};
use super::{DoubleState, JOB_NAMESPACE, NAMESPACE, kubelet};

/// Longest part of a name in a path.
const NAME_BYTES_MAX: usize = 253;

pub(super) fn handle(state: &Arc<DoubleState>, request: &Request) -> Response {
    let long = state.behaviour.lock().long_responses;
    if let Some(code) = long {
        return Response::Long(code);
    }
    let parts: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let (version, rest) = match parts.as_slice() {
        ["api", "v1", rest @ ..] => ("v1".to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return unknown_path(state, request),
    };
    let is_known = |resource: &str| RESOURCES.iter().any(|known| known.0 == version && known.1 == resource);
    match rest {
        [] => discovery(&version),
        ["namespaces", namespace, resource, name @ ..] if is_known(resource) => {
            if ![NAMESPACE, JOB_NAMESPACE].contains(namespace) {
                let text = format!(
                    "{resource} is forbidden: User \"runner\" cannot use the namespace \"{namespace}\""
                );
                return Response::status(403, "Forbidden", &text);
            }
            if name.iter().any(|part| part.len() > NAME_BYTES_MAX || part.contains("..")) {
                return unknown_path(state, request);
            }
            match name {
                [] => collection(state, request, (namespace, resource)),
                [name] => object(state, request, &((*namespace).into(), (*resource).into(), (*name).into())),
                [name, "log"] if *resource == "pods" && request.method == "GET" => {
                    kubelet::stream_log(state, request, name)
                }
                _ => unknown_path(state, request),
            }
        }
        _ => unknown_path(state, request),
    }
}

fn unknown_path(state: &DoubleState, request: &Request) -> Response {
    state.fault(format!("unknown path: {} /{}", request.method, request.path.join("/")));
    Response::status(404, "NotFound", "the server could not find the requested resource")
}

fn discovery(version: &str) -> Response {
    let found: Vec<Value> = RESOURCES
        .iter()
        .filter(|known| known.0 == version)
        .map(|(_, plural, kind)| {
            json!({ "name": plural, "singularName": "", "namespaced": true, "kind": kind,
                    "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"] })
        })
        .collect();
    match found.is_empty() {
        true => Response::status(404, "NotFound", "the server could not find the requested resource"),
        false => Response::Json(
            200,
            json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": found }),
        ),
    }
}

fn collection(state: &Arc<DoubleState>, request: &Request, (namespace, resource): (&str, &str)) -> Response {
    match request.method.as_str() {
        "GET" if request.query("watch") == "true" => watch(state, request, (namespace, resource)),
        "GET" => {
            let store = state.store.lock();
            let mut items: Vec<Value> =
                store.list(namespace, resource).into_iter().filter(|it| is_selected(it, request)).collect();
            let is_partial = request.header("accept").contains("PartialObjectMetadataList");
            if is_partial {
                items = items.iter().map(partial).collect();
            }
            let kind = if is_partial { "PartialObjectMetadataList" } else { "List" };
            let version = if is_partial { "meta.k8s.io/v1" } else { "v1" };
            let meta = json!({ "resourceVersion": store.version().to_string() });
            Response::Json(
                200,
                json!({ "kind": kind, "apiVersion": version, "metadata": meta, "items": items }),
            )
        }
        "POST" => create(state, request, (namespace, resource)),
        _ => unknown_path(state, request),
    }
}

fn is_selected(object: &Value, request: &Request) -> bool {
    matches_labels(object, request.query("labelSelector"))
        && matches_fields(object, request.query("fieldSelector"))
}

fn partial(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] })
}

fn create(state: &Arc<DoubleState>, request: &Request, (namespace, resource): (&str, &str)) -> Response {
    let sent = request.json();
    if let Err(problem) = types::check(resource, &sent) {
        state.fault(format!("{resource}: {problem}"));
        return Response::status(400, "BadRequest", &problem);
    }
    let name = sent["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if let Err(problem) = check_semantics(resource, &name, &sent) {
        return Response::status(422, "Invalid", &problem);
    }
    let key = (namespace.to_owned(), resource.to_owned(), name.clone());
    let created = state.store.change(|store| match store.objects.contains_key(&key) {
        true => None,
        false => Some(store.create(key, sent)),
    });
    match created {
        Some(object) => {
            kubelet::react(state, resource, &object);
            Response::Json(201, object)
        }
        None => Response::status(409, "AlreadyExists", &format!("{resource} {name:?} already exists")),
    }
}

/// The validation of the API server that hostile values meet.
fn check_semantics(resource: &str, name: &str, object: &Value) -> Result<(), String> {
    let is_name = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte))
    };
    if !is_name(name) || name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "metadata.name: Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of …"
        ));
    }
    for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let is_valid = value.len() <= 63
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !is_valid {
            return Err(format!("metadata.labels: Invalid value for {key}: {value:?}"));
        }
    }
    let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    for container in containers.into_iter().flatten().filter(|_| resource == "jobs") {
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().unwrap_or_default();
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=') {
                return Err(format!("env.name: Invalid value: {name:?}"));
            }
        }
    }
    Ok(())
}

fn object(state: &Arc<DoubleState>, request: &Request, key: &Key) -> Response {
    let missing = || Response::status(404, "NotFound", &format!("{} {:?} not found", key.1, key.2));
    let conflict = || {
        let text =
            format!("Operation cannot be fulfilled on {} {:?}: the object has been modified", key.1, key.2);
        Response::status(409, "Conflict", &text)
    };
    match request.method.as_str() {
        "GET" => match state.store.lock().objects.get(key) {
            Some(found) if request.header("accept").contains("PartialObjectMetadata") => {
                Response::Json(200, partial(found))
            }
            Some(found) => Response::Json(200, found.clone()),
            None => missing(),
        },
        "PUT" => {
            let sent = request.json();
            let written = state.store.change(|store| {
                let found = store.objects.get(key)?;
                let is_current = found["metadata"]["resourceVersion"] == sent["metadata"]["resourceVersion"];
                Some(is_current.then(|| store.replace(key.clone(), sent.clone())))
            });
            written.map_or_else(missing, |written| {
                written.map_or_else(conflict, |object| Response::Json(200, object))
            })
        }
        "PATCH" if request.header("content-type").contains("apply-patch") => apply(state, request, key),
        "PATCH" if request.header("content-type") == "application/merge-patch+json" => {
            let patch = request.json();
            match state.store.change(|store| store.modify(key, |object| merge(object, &patch))) {
                Some(object) => {
                    kubelet::react(state, &key.1, &object);
                    Response::Json(200, object)
                }
                None => missing(),
            }
        }
        "DELETE" => delete(state, request, key).unwrap_or_else(missing),
        _ => unknown_path(state, request),
    }
}

fn delete(state: &Arc<DoubleState>, request: &Request, key: &Key) -> Option<Response> {
    let options = request.json();
    let found = state.store.lock().objects.get(key).cloned()?;
    for field in ["uid", "resourceVersion"] {
        let wanted = &options["preconditions"][field];
        if !wanted.is_null() && *wanted != found["metadata"][field] {
            return Some(Response::status(409, "Conflict", "the precondition failed"));
        }
    }
    if key.1 == "pods" {
        let grace = options["gracePeriodSeconds"].as_u64().unwrap_or(30);
        if grace == 0 {
            state.fault("a pod was deleted without waiting for its processes".to_owned());
        }
        kubelet::stop_pod(state, &key.2, Duration::from_secs(grace));
        return Some(Response::Json(200, found));
    }
    state.store.change(|store| store.remove(key));
    kubelet::collect_garbage(state, &key.2);
    Some(Response::Json(200, found))
}

/// Server-side apply: fields of other managers are not changed without `force`.
fn apply(state: &Arc<DoubleState>, request: &Request, key: &Key) -> Response {
    let sent: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let manager = request.query("fieldManager").to_owned();
    if manager.is_empty() {
        return Response::status(400, "BadRequest", "fieldManager is required for apply patch");
    }
    if let Err(problem) = types::check(&key.1, &sent) {
        return Response::status(400, "BadRequest", &problem);
    }
    if let Err(problem) = check_semantics(&key.1, &key.2, &sent) {
        return Response::status(422, "Invalid", &problem);
    }
    let is_forced = request.query("force") == "true";
    let applied = state.store.change(|store| {
        let Some(found) = store.objects.get(key).cloned() else {
            return Ok(store.create(key.clone(), sent.clone()));
        };
        let version = &sent["metadata"]["resourceVersion"];
        if !version.is_null() && *version != found["metadata"]["resourceVersion"] {
            return Err(Response::status(
                409,
                "Conflict",
                "the object has been modified; please apply your changes to the latest version",
            ));
        }
        for other in found["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let name = other["manager"].as_str().unwrap_or_default();
            if let Some(path) =
                find_conflict(&other["fieldsV1"], &sent, &found, "").filter(|_| name != manager && !is_forced)
            {
                let text = format!("Apply failed with 1 conflict: conflict with {name:?}: {path}");
                return Err(Response::status(409, "Conflict", &text));
            }
        }
        let mut object = found.clone();
        merge(&mut object, &sent);
        if object == found {
            return Ok(found);
        }
        object["metadata"]["generation"] = json!(found["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        Ok(store.replace(key.clone(), object))
    });
    match applied {
        Ok(object) => {
            kubelet::react(state, &key.1, &object);
            Response::Json(200, object)
        }
        Err(response) => response,
    }
}

/// Returns the first field of another manager that would get another value.
fn find_conflict(owned: &Value, sent: &Value, found: &Value, path: &str) -> Option<String> {
    let owned = owned.as_object()?;
    if owned.is_empty() {
        return (!sent.is_null() && sent != found).then(|| path.to_owned());
    }
    owned.iter().find_map(|(name, inner)| {
        let name = name.trim_start_matches("f:");
        find_conflict(inner, &sent[name], &found[name], &format!("{path}.{name}"))
    })
}

/// A JSON merge patch (RFC 7396).
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    for (name, value) in patch {
        if value.is_null() {
            object.as_object_mut().expect("object").remove(name);
        } else {
            merge(&mut object[name], value);
        }
    }
}

fn watch(state: &Arc<DoubleState>, request: &Request, (namespace, resource): (&str, &str)) -> Response {
    let (state, namespace, resource) = (state.clone(), namespace.to_owned(), resource.to_owned());
    let selectors = (request.query("labelSelector").to_owned(), request.query("fieldSelector").to_owned());
    let mut seen: u64 = request.query("resourceVersion").parse().unwrap_or(0);
    let until = Instant::now() + Duration::from_secs(request.query("timeoutSeconds").parse().unwrap_or(30));
    Response::Stream(Box::new(move |write: &mut ChunkWriter<'_>| {
        while Instant::now() < until {
            let mut store = state.store.lock();
            let mut changes = store.changes_after(seen, &namespace, &resource);
            if changes.is_empty() {
                store = state.store.wait(store);
                changes = store.changes_after(seen, &namespace, &resource);
            }
            drop(store);
            for (version, event, object) in changes {
                seen = version;
                if matches_labels(&object, &selectors.0) && matches_fields(&object, &selectors.1) {
                    write(format!("{}\n", json!({ "type": event, "object": object })).as_bytes())?;
                }
            }
        }
        Ok(())
    }))
}
