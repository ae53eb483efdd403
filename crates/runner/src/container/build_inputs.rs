//! Files that buildah reads outside of the build context.
//!
//! buildah runs as the runner's user and outside of the sandbox, so it must not read a file that the workspace chooses by
//! a name or a symlink:
//!
//! - It runs the C preprocessor on a Containerfile whose name ends in `.in`, and `#include` can name any file.
//! - It follows a symlink from the ignore file, and shows the file if it has no valid patterns.
//! - `FROM` and `COPY --from` accept transports such as `dir:` and `containers-storage:`, which read files of the machine.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::attempt::dirs::{AttemptDirs, write_private_file};

/// Maximum size of a Containerfile, and of an ignore file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum size of the machine's signature policy.
const POLICY_BYTES_MAX: u64 = 1024 * 1024;
/// Names of ignore files in the context. The first that exists is used.
const IGNORE_FILES: [&str; 2] = [".containerignore", ".dockerignore"];
const SYSTEM_POLICY: &str = "/etc/containers/policy.json";
const USER_POLICY: &str = ".config/containers/policy.json";

/// Paths of the runner's copies, which are outside of the workspace.
pub(super) struct BuildInputs {
    pub(super) containerfile: PathBuf,
    pub(super) ignore_file: PathBuf,
    /// A signature policy that accepts images from registries only.
    pub(super) policy: PathBuf,
}

impl BuildInputs {
    /// Copies the files of a build. Both paths are canonical.
    pub(super) fn copy(dirs: &AttemptDirs, context: &Path, containerfile: &Path) -> Result<Self, String> {
        let text = read_limited(containerfile, FILE_BYTES_MAX)
            .map_err(|error| format!("cannot read the Containerfile: {error}"))?;
        let ignored = read_ignore_file(context)?;
        let policy = registry_policy()?;
        let write = |name: &str, content: &[u8]| {
            let path = dirs.dir.join(name);
            let written = write_private_file(&path, content);
            written.map(|()| path).map_err(|error| format!("cannot write {name}: {error}"))
        };
        Ok(Self {
            containerfile: write("Containerfile", &text)?,
            ignore_file: write("ignore", &ignored)?,
            policy: write("policy.json", policy.to_string().as_bytes())?,
        })
    }
}

fn read_ignore_file(context: &Path) -> Result<Vec<u8>, String> {
    for name in IGNORE_FILES {
        let path = context.join(name);
        if path.symlink_metadata().is_err() {
            continue;
        }
        let found = path.canonicalize().ok().filter(|path| path.starts_with(context));
        let found = found.ok_or_else(|| format!("{name} is a link that leads out of the context"))?;
        return read_limited(&found, FILE_BYTES_MAX).map_err(|error| format!("cannot read {name}: {error}"));
    }
    Ok(Vec::new())
}

fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(content)
}

/// The machine's signature policy for registries. All other transports are rejected.
fn registry_policy() -> Result<Value, String> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(USER_POLICY));
    let path = home.filter(|path| path.exists()).unwrap_or_else(|| SYSTEM_POLICY.into());
    let own: Value = match fs::exists(&path) {
        Ok(false) => json!({ "default": [{ "type": "insecureAcceptAnything" }] }),
        _ => {
            let cannot =
                |error: String| format!("cannot read the signature policy {}: {error}", path.display());
            let content = read_limited(&path, POLICY_BYTES_MAX).map_err(|error| cannot(error.to_string()))?;
            serde_json::from_slice(&content).map_err(|error| cannot(error.to_string()))?
        }
    };
    Ok(restrict_policy(&own))
}

fn restrict_policy(own: &Value) -> Value {
    let reject = json!([{ "type": "reject" }]);
    let default = own.get("default").unwrap_or(&reject);
    let mut scopes: Map<String, Value> =
        own.pointer("/transports/docker").and_then(Value::as_object).cloned().unwrap_or_default();
    scopes.entry("").or_insert_with(|| default.clone());
    json!({ "default": reject, "transports": { "docker": scopes } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_of_the_machine_applies_to_registries_and_to_nothing_else() {
        let reject = json!([{ "type": "reject" }]);
        let accept = json!([{ "type": "insecureAcceptAnything" }]);
        assert_eq!(
            restrict_policy(&json!({ "default": accept, "transports": { "dir": { "": accept } } })),
            json!({ "default": reject, "transports": { "docker": { "": accept } } })
        );
        let signed = json!([{ "type": "signedBy", "keyPath": "/etc/key" }]);
        let own = json!({ "default": reject, "transports": { "docker": { "registry.test": signed } } });
        assert_eq!(
            restrict_policy(&own),
            json!({ "default": reject, "transports": { "docker": { "registry.test": signed, "": reject } } })
        );
        assert_eq!(
            restrict_policy(&json!({})),
            json!({ "default": reject, "transports": { "docker": { "": reject } } })
        );
    }
}
