//! A double of a Git LFS server: the batch API, and the content from the LFS directory of a repository.

use std::path::Path;

use serde_json::{Value, json};

/// Handles a request for `/<repository>/info/lfs/objects/batch`, or for one of the URLs in its response. Returns the
/// response body, or `None` if the request is for git.
pub(super) fn respond(root: &Path, host: &str, login: &str, path: &str, body: &[u8]) -> Option<Vec<u8>> {
    if let Some((repository, oid)) = path.split_once("/lfs-content/") {
        let file = Path::new(repository.trim_start_matches('/')).join("lfs/objects");
        return std::fs::read(root.join(file).join(&oid[..2]).join(&oid[2..4]).join(oid)).ok();
    }
    let repository = path.strip_suffix("/info/lfs/objects/batch")?;
    let asked: Value = serde_json::from_slice(body).ok()?;
    let objects = asked["objects"].as_array()?.iter().map(|object| {
        let oid = object["oid"].as_str().unwrap_or_default();
        let file = Path::new(repository.trim_start_matches('/')).join("lfs/objects");
        if !root.join(file).join(&oid[..2]).join(&oid[2..4]).join(oid).exists() {
            let error = json!({"code": 404, "message": "Object does not exist"});
            return json!({"oid": oid, "size": object["size"], "error": error});
        }
        let href = format!("http://{host}{repository}/lfs-content/{oid}");
        let download = json!({"href": href, "header": {"Authorization": login}});
        json!({"oid": oid, "size": object["size"], "authenticated": true, "actions": {"download": download}})
    });
    Some(json!({"transfer": "basic", "objects": objects.collect::<Vec<_>>()}).to_string().into_bytes())
}
