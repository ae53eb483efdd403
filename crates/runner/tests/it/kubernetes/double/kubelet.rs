//! The controllers and the node of the double: creates pods for Jobs, runs them as processes, and stops them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::http::{ChunkWriter, Request, Response};
use super::store::Key;
use super::{DoubleState, IMAGE, NAMESPACE};

/// The digest of the only image.
pub(super) const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const LOG: &str = "log";
const STOP: &str = "stop-by-ms";

fn key(resource: &str, name: &str) -> Key {
    (NAMESPACE.to_owned(), resource.to_owned(), name.to_owned())
}

/// What the controllers do when an object was created or changed.
pub(super) fn react(state: &Arc<DoubleState>, resource: &str, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match resource {
        "jobs" if object["spec"]["suspend"] != json!(true) => create_pod(state, &name, object),
        "deployments" => roll_out(state, &name, object),
        _ => {}
    }
}

/// The Deployment controller, without pods.
fn roll_out(state: &Arc<DoubleState>, name: &str, object: &Value) {
    if state.behaviour.lock().blocks_rollouts {
        return;
    }
    let (replicas, generation) =
        (object["spec"]["replicas"].as_i64().unwrap_or(1), &object["metadata"]["generation"]);
    let status = json!({ "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
                         "readyReplicas": replicas, "availableReplicas": replicas });
    state.store.change(|store| store.modify(&key("deployments", name), |found| found["status"] = status));
}

/// The Job controller: a Job has one pod, even if it fails.
fn create_pod(state: &Arc<DoubleState>, job: &str, object: &Value) {
    let name = format!("{job}-x7k2p");
    let template = &object["spec"]["template"];
    let owner =
        json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": object["metadata"]["uid"] }]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "labels": template["metadata"]["labels"], "ownerReferences": owner },
        "spec": template["spec"], "status": { "phase": "Pending" },
    });
    let is_new = state.store.change(|store| {
        let is_new = !store.objects.contains_key(&key("pods", &name));
        if is_new {
            store.create(key("pods", &name), pod);
        }
        is_new
    });
    if is_new {
        let state = state.clone();
        std::thread::spawn(move || run_pod(&state, &name));
    }
}

/// Deletes what the deleted Job owned.
pub(super) fn collect_garbage(state: &Arc<DoubleState>, job: &str) {
    let is_owned = |object: &Value| {
        object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.iter().any(|owner| owner["name"] == job))
    };
    let owned: Vec<Key> = {
        let store = state.store.lock();
        store.objects.iter().filter(|(_, object)| is_owned(object)).map(|(key, _)| key.clone()).collect()
    };
    for (_, resource, name) in owned {
        match resource.as_str() {
            "pods" => stop_pod(state, &name, Duration::from_secs(30)),
            _ => drop(state.store.change(|store| store.remove(&key(&resource, &name)))),
        }
    }
}

fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

/// Marks a pod as ending. An earlier end counts.
pub(super) fn stop_pod(state: &Arc<DoubleState>, name: &str, grace: Duration) {
    let by = now_ms() + u64::try_from(grace.as_millis()).unwrap_or(u64::MAX / 2);
    state.store.change(|store| {
        store.modify(&key("pods", name), |pod| {
            let known = pod["metadata"]["annotations"][STOP].as_str().and_then(|text| text.parse().ok());
            let by = known.unwrap_or(u64::MAX).min(by);
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-19T00:00:00Z");
            pod["metadata"]["annotations"][STOP] = json!(by.to_string());
        })
    });
}

/// When a pod has to be gone.
fn stop_by(state: &DoubleState, name: &str) -> Option<u64> {
    let store = state.store.lock();
    let pod = store.objects.get(&key("pods", name))?;
    pod["metadata"]["annotations"][STOP].as_str()?.parse().ok()
}

fn set_status(state: &DoubleState, name: &str, phase: &str, status: &Value) {
    state.store.change(|store| {
        store.modify(&key("pods", name), |pod| {
            pod["status"] = json!({ "phase": phase, "containerStatuses": [status] });
        })
    });
}

fn emit(state: &DoubleState, pod: &str, reason: &str, message: &str) {
    let event = json!({ "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "message": message,
                        "involvedObject": { "kind": "Pod", "namespace": NAMESPACE, "name": pod } });
    state.store.change(|store| {
        let name = format!("{pod}.{}", store.version());
        store.create(key("events", &name), event)
    });
}

/// The scheduler and the kubelet.
fn run_pod(state: &Arc<DoubleState>, name: &str) {
    let pod = state.store.lock().objects.get(&key("pods", name)).cloned().expect("the pod");
    let container = pod["spec"]["containers"][0].clone();
    let image = container["image"].as_str().unwrap_or_default().to_owned();
    let waiting = |reason: &str, message: &str| {
        let why = json!({ "reason": reason, "message": message });
        json!({ "name": "step", "image": image, "imageID": "", "ready": false, "restartCount": 0, "state": { "waiting": why } })
    };
    let is_stopped = |limit: Duration, is_over: &dyn Fn() -> bool| {
        let until = Instant::now() + limit;
        while stop_by(state, name).is_none() && !is_over() && Instant::now() < until {
            drop(state.store.wait(state.store.lock()));
        }
        stop_by(state, name).is_some()
    };
    let long = Duration::from_secs(60);
    if state.behaviour.lock().is_full {
        emit(state, name, "FailedScheduling", "0/3 nodes are available: 3 Insufficient memory.");
        if is_stopped(long, &|| !state.behaviour.lock().is_full) {
            state.store.change(|store| store.remove(&key("pods", name)));
            return;
        }
    }
    let is_known = image == IMAGE || image == format!("{}@{DIGEST}", IMAGE.trim_end_matches(":1"));
    if !is_known {
        let error = format!("failed to pull {image}: 404 Not Found");
        emit(state, name, "Failed", &format!("Failed to pull image {image:?}: {error}"));
        set_status(state, name, "Pending", &waiting("ErrImagePull", &error));
        set_status(
            state,
            name,
            "Pending",
            &waiting("ImagePullBackOff", &format!("Back-off pulling image {image:?}: ErrImagePull: {error}")),
        );
        is_stopped(long, &|| false);
        state.store.change(|store| store.remove(&key("pods", name)));
        return;
    }
    emit(state, name, "Pulled", "Successfully pulled image in 1.2s");
    run_container(state, name, &pod, &container);
}

fn run_container(state: &Arc<DoubleState>, name: &str, pod: &Value, container: &Value) {
    let image_id = format!("registry.test/shell@{DIGEST}");
    let status = |container_state: Value| json!({ "name": "step", "image": IMAGE, "imageID": image_id, "ready": true, "restartCount": 0, "state": container_state });
    let files = tempfile::tempdir().expect("directory");
    let mut command = command_of(state, pod, container, files.path());
    let (reader, writer) = io::pipe().expect("pipe");
    command.stdin(Stdio::null()).stdout(writer.try_clone().expect("pipe")).stderr(writer).process_group(0);
    let mut child = command.spawn().expect("a shell");
    drop(command);
    let group = Pid::from_child(&child);
    set_status(
        state,
        name,
        "Running",
        &status(json!({ "running": { "startedAt": "2026-11-19T00:00:00Z" } })),
    );
    let logging = {
        let (state, name) = (state.clone(), name.to_owned());
        std::thread::spawn(move || keep_log(&state, &name, reader))
    };
    let (mut is_told, mut is_killed) = (false, false);
    let exit = loop {
        if let Some(exit) = child.try_wait().expect("wait") {
            break exit;
        }
        let is_forgotten = !state.store.lock().objects.contains_key(&key("pods", name));
        if let Some(by) = stop_by(state, name).or(is_forgotten.then_some(0)) {
            // The hook signals the processes of the step first, then the kubelet signals process 1.
            if !std::mem::replace(&mut is_told, true) {
                kill_process_group(group, Signal::TERM).ok();
            }
            if now_ms() >= by && !std::mem::replace(&mut is_killed, true) {
                kill_process_group(group, Signal::KILL).ok();
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    // No process outlives process 1 of a container.
    kill_process_group(group, Signal::KILL).ok();
    logging.join().expect("log");
    let code = exit.code().unwrap_or_else(|| 128 + exit.signal().unwrap_or(0));
    let reason = if code == 0 { "Completed" } else { "Error" };
    let ended = json!({ "terminated": { "exitCode": code, "reason": reason } });
    set_status(state, name, if code == 0 { "Succeeded" } else { "Failed" }, &status(ended));
    // The pod is kept until it is deleted.
    while stop_by(state, name).is_none() && state.store.lock().objects.contains_key(&key("pods", name)) {
        drop(state.store.wait(state.store.lock()));
    }
    state.store.change(|store| store.remove(&key("pods", name)));
}

/// The process of a container, with the volumes in place of the paths that it would see.
fn command_of(state: &DoubleState, pod: &Value, container: &Value, files: &Path) -> Command {
    let mut places: BTreeMap<String, PathBuf> = BTreeMap::new();
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        let target = mount["mountPath"].as_str().expect("a path").to_owned();
        let path = match mount["subPath"].as_str() {
            Some(sub_path) => state.sub_path(sub_path),
            None => files.to_owned(),
        };
        assert!(path.exists(), "{target} is mounted from {path:?}");
        places.insert(target, path);
    }
    let secret_of = |name: &str, secret_key: &str| {
        let store = state.store.lock();
        let secret = store.objects.get(&key("secrets", name)).expect("the Secret of the pod");
        STANDARD.decode(secret["data"][secret_key].as_str().expect("the key")).expect("base64")
    };
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        for item in volume["secret"]["items"].as_array().into_iter().flatten() {
            let (name, item) =
                (volume["secret"]["secretName"].as_str().expect("name"), item["key"].as_str().expect("key"));
            std::fs::write(files.join(item), secret_of(name, item)).expect("secret file");
        }
    }
    let mut env = BTreeMap::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        let reference = &variable["valueFrom"]["secretKeyRef"];
        let value = match reference["name"].as_str() {
            Some(secret) => {
                String::from_utf8(secret_of(secret, reference["key"].as_str().expect("key"))).expect("UTF-8")
            }
            None => place(&places, variable["value"].as_str().unwrap_or_default()),
        };
        env.insert(variable["name"].as_str().expect("name").to_owned(), value);
    }
    let words =
        ["command", "args"].into_iter().flat_map(|part| container[part].as_array().into_iter().flatten());
    let words: Vec<String> = words.map(|word| expand(word.as_str().expect("text"), &env)).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().env("PATH", std::env::var_os("PATH").expect("PATH")).envs(env);
    if let Some(dir) = container["workingDir"].as_str() {
        command.current_dir(place(&places, dir));
    }
    command
}

/// The path outside of the container.
fn place(places: &BTreeMap<String, PathBuf>, path: &str) -> String {
    let found =
        places.iter().find_map(|(target, outside)| Some((path.strip_prefix(target.as_str())?, outside)));
    found.map_or(path.to_owned(), |(rest, outside)| format!("{}{rest}", outside.display()))
}

/// Replaces `$(NAME)` as Kubernetes does; `$$` is a `$`.
fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match env.get(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded + rest
}

/// Keeps the log of a container, with the time of each line.
fn keep_log(state: &DoubleState, name: &str, reader: io::PipeReader) {
    state.store.change(|store| store.create(key(LOG, name), json!({ "lines": [] })));
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = format!("{} {}", Timestamp::now(), String::from_utf8_lossy(&line));
        state.store.change(|store| {
            store.modify(&key(LOG, name), |log| log["lines"].as_array_mut().expect("lines").push(json!(text)))
        });
        line.clear();
    }
    state.store.change(|store| store.modify(&key(LOG, name), |log| log["is_complete"] = json!(true)));
}

/// Streams the log of a container until it has ended.
pub(super) fn stream_log(state: &Arc<DoubleState>, request: &Request, pod: &str) -> Response {
    let (state, pod) = (state.clone(), pod.to_owned());
    let since: Option<Timestamp> = request.query("sinceTime").parse().ok();
    let breaks = {
        let mut behaviour = state.behaviour.lock();
        let breaks = behaviour.broken_logs > 0;
        behaviour.broken_logs = behaviour.broken_logs.saturating_sub(1);
        breaks
    };
    Response::Stream(Box::new(move |write: &mut ChunkWriter<'_>| {
        let mut sent = 0;
        loop {
            let store = state.store.lock();
            let log = store.objects.get(&key(LOG, &pod)).cloned();
            let lines = log.iter().flat_map(|log| log["lines"].as_array().into_iter().flatten());
            let lines: Vec<String> = lines.filter_map(|line| line.as_str().map(str::to_owned)).collect();
            if lines.len() == sent && log.as_ref().is_none_or(|log| log["is_complete"] == json!(true)) {
                return Ok(());
            }
            if lines.len() == sent {
                drop(state.store.wait(store));
                continue;
            }
            drop(store);
            for line in &lines[sent..] {
                let time: Option<Timestamp> = line.split_once(' ').and_then(|(time, _)| time.parse().ok());
                // The API counts in seconds.
                if since.is_none_or(|since| time.is_none_or(|time| time.as_second() >= since.as_second())) {
                    write(line.as_bytes())?;
                    if breaks {
                        return Err(io::Error::other("the connection was lost"));
                    }
                }
            }
            sent = lines.len();
        }
    }))
}
