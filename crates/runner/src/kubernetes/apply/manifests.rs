//! Reads manifests from the workspace.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use berth_api::runner::StepRunOutcome;
use berth_core::wording::quote;
use kube::api::{ApiResource, DynamicObject};
use kube::discovery::Scope;
use kube::{Api, Client};
use serde_json::Value;

use super::super::options::is_dns_label;
use crate::attempt::{RunningAttempt, invalid_outcome};

/// Maximum size of all manifests together.
const MANIFEST_BYTES_MAX: u64 = 4 * 1024 * 1024;
const FILES_MAX: usize = 500;
const OBJECTS_MAX: usize = 500;
const NAME_BYTES_MAX: usize = 253;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// Kinds that other objects need, and that are therefore applied first.
const FIRST_KINDS: [&str; 2] = ["Namespace", "CustomResourceDefinition"];

/// An object of a manifest.
pub(super) struct Manifest {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    /// Where it is, if its kind is in namespaces.
    pub(super) namespace: String,
    pub(super) object: Value,
}

impl Manifest {
    pub(super) fn kind_key(&self) -> (String, String) {
        (self.api_version.clone(), self.kind.clone())
    }

    /// Kind and name, as in `Deployment/web`.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    pub(super) fn api(&self, client: &Client, resource: &ApiResource, scope: &Scope) -> Api<DynamicObject> {
        api_of(client, resource, scope, &self.namespace)
    }
}

pub(super) fn api_of(
    client: &Client,
    resource: &ApiResource,
    scope: &Scope,
    namespace: &str,
) -> Api<DynamicObject> {
    match scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, resource),
        Scope::Cluster => Api::all_with(client.clone(), resource),
    }
}

/// Returns the texts of the files that the param `manifests` names, with their names.
pub(super) fn read_files(attempt: &RunningAttempt<'_>) -> Result<Vec<(String, String)>, StepRunOutcome> {
    let named = attempt.assignment.params.get("manifests").and_then(Value::as_array);
    let named: Vec<&str> = named.into_iter().flatten().filter_map(Value::as_str).collect();
    if named.is_empty() {
        return Err(invalid_outcome("the param `manifests` is missing".into()));
    }
    let workspace = attempt.workspace_dirs()?.workspace.canonicalize();
    let workspace = workspace
        .map_err(|error| StepRunOutcome::never_started(format!("cannot read the workspace: {error}")))?;
    let mut files = Vec::new();
    for name in named {
        let path = find_inside(&workspace, name)?;
        if path.is_dir() {
            files.extend(list_dir(&workspace, &path)?);
        } else {
            files.push(path);
        }
    }
    if files.len() > FILES_MAX {
        return Err(invalid_outcome(format!(
            "{} manifests, but at most {FILES_MAX} are allowed",
            files.len()
        )));
    }
    let (mut texts, mut left) = (Vec::new(), MANIFEST_BYTES_MAX);
    for path in files {
        let name = path.strip_prefix(&workspace).unwrap_or(&path).display().to_string();
        let text = read_limited(&path, left).map_err(|why| invalid_outcome(format!("{name} {why}")))?;
        left -= text.len() as u64;
        texts.push((name, text));
    }
    Ok(texts)
}

fn read_limited(path: &Path, limit: u64) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    if !path.metadata().map_err(cannot)?.is_file() {
        return Err("is not a file".into());
    }
    let mut text = String::new();
    fs::File::open(path).map_err(cannot)?.take(limit + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > limit {
        return Err(format!("is too large: manifests have at most {MANIFEST_BYTES_MAX} bytes together"));
    }
    Ok(text)
}

/// Returns the canonical path, which must be in the workspace even if it leads through symlinks.
fn find_inside(workspace: &Path, name: &str) -> Result<PathBuf, StepRunOutcome> {
    let found = workspace.join(name).canonicalize().ok().filter(|path| path.starts_with(workspace));
    found.ok_or_else(|| {
        invalid_outcome(format!("`manifests` names {}, which is not in the workspace", quote(name)))
    })
}

/// The manifests of a directory, in the order of their names. Does not descend into directories.
fn list_dir(workspace: &Path, dir: &Path) -> Result<Vec<PathBuf>, StepRunOutcome> {
    let cannot =
        |error: std::io::Error| invalid_outcome(format!("{} cannot be read: {error}", dir.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let is_manifest = path.extension().is_some_and(|it| EXTENSIONS.iter().any(|known| it == *known));
        let path = path.canonicalize().map_err(cannot)?;
        if is_manifest && path.is_file() {
            if !path.starts_with(workspace) {
                return Err(invalid_outcome(format!("{} leads out of the workspace", path.display())));
            }
            found.push(path);
        }
        if found.len() > FILES_MAX {
            break;
        }
    }
    found.sort();
    Ok(found)
}

/// Parses manifests. `namespace` is that of objects that name none.
pub(super) fn parse(texts: &[(String, String)], namespace: &str) -> Result<Vec<Manifest>, StepRunOutcome> {
    if !is_dns_label(namespace) {
        return Err(invalid_outcome(format!("{} is not the name of a namespace", quote(namespace))));
    }
    let mut found = Vec::new();
    for (file, text) in texts {
        let refuse = |why: String| invalid_outcome(format!("{file}: {why}"));
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| refuse(error.to_string()))?;
        for document in documents {
            let items = match document {
                Value::Null => continue,
                Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                    match list.remove("items") {
                        Some(Value::Array(items)) => items,
                        _ => Vec::new(),
                    }
                }
                other => vec![other],
            };
            for object in items {
                found.push(read_object(object, namespace).map_err(refuse)?);
            }
            if found.len() > OBJECTS_MAX {
                return Err(refuse(format!("more than {OBJECTS_MAX} objects")));
            }
        }
    }
    if found.is_empty() {
        return Err(invalid_outcome("the manifests contain no objects".into()));
    }
    found.sort_by_key(|it| !FIRST_KINDS.contains(&it.kind.as_str()));
    Ok(found)
}

fn read_object(object: Value, namespace: &str) -> Result<Manifest, String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let api_version = text("/apiVersion").ok_or("an object has no `apiVersion`")?;
    let kind = text("/kind").ok_or("an object has no `kind`")?;
    let name = text("/metadata/name")
        .ok_or_else(|| format!("a {kind} has no `metadata.name`; generated names are not supported"))?;
    let own = text("/metadata/namespace").unwrap_or_else(|| namespace.to_owned());
    let is_word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    if !api_version.split('/').all(is_word) || api_version.split('/').count() > 2 || !is_word(&kind) {
        return Err(format!("{} {} is not a kind of object", quote(&api_version), quote(&kind)));
    }
    if !is_object_name(&name) {
        return Err(format!("{} is not a name of an object", quote(&name)));
    }
    if !is_dns_label(&own) {
        return Err(format!("{} is not the name of a namespace", quote(&own)));
    }
    Ok(Manifest { api_version, kind, name, namespace: own, object })
}

/// Names become a part of a request path. Roles may contain `:`.
fn is_object_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !matches!(name, "." | "..")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
}
