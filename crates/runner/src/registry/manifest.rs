//! Reads a registry's manifest: `berth-registry.yaml`, or two scripts in `package.json`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use berth_core::registry::InputMode;
use serde::Deserialize;

use super::{COMMAND_BYTES_MAX, file};

/// File name of the manifest, at the top level of a registry.
pub const MANIFEST_NAME: &str = "berth-registry.yaml";
const PACKAGE: &str = "package.json";
const BUILD_SCRIPT: &str = "build-step-registry";
const START_SCRIPT: &str = "start-step-registry";
/// Lock files that `npm ci` accepts.
const LOCKS: &[&str] = &["package-lock.json", "npm-shrinkwrap.json"];
const MANIFEST_BYTES_MAX: u64 = 64 * 1024;
const PACKAGE_BYTES_MAX: u64 = 1024 * 1024;

/// How a registry is built and started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryManifest {
    /// Shell commands, run in order.
    pub build: Vec<String>,
    pub start: String,
    pub input: InputMode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestFile {
    build: Option<String>,
    start: String,
    #[serde(default)]
    input: InputMode,
}

#[derive(Deserialize)]
struct PackageJson {
    #[serde(default)]
    scripts: BTreeMap<String, String>,
}

impl RegistryManifest {
    /// Reads the manifest. The error text is shown to users.
    pub fn read(dir: &Path) -> Result<Self, String> {
        if let Some(bytes) = read_file(dir, MANIFEST_NAME, MANIFEST_BYTES_MAX)? {
            return parse_manifest(&bytes);
        }
        let Some(bytes) = read_file(dir, PACKAGE, PACKAGE_BYTES_MAX)? else {
            return Err(format!(
                "there is neither a {MANIFEST_NAME} nor a {PACKAGE} at the top: it is no step registry. \
                 `berth registry new` makes one"
            ));
        };
        let has_lock = LOCKS.iter().any(|lock| dir.join(lock).is_file());
        parse_package_json(&bytes, has_lock)
    }
}

fn parse_manifest(bytes: &[u8]) -> Result<RegistryManifest, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{MANIFEST_NAME} is not UTF-8"))?;
    let written: ManifestFile =
        serde_saphyr::from_str(text).map_err(|error| format!("{MANIFEST_NAME} cannot be read: {error}"))?;
    let build = written.build.filter(|text| !text.trim().is_empty());
    Ok(RegistryManifest {
        build: build
            .map(|text| check_command(MANIFEST_NAME, "build", &text))
            .transpose()?
            .into_iter()
            .collect(),
        start: check_command(MANIFEST_NAME, "start", &written.start)?,
        input: written.input,
    })
}

fn parse_package_json(bytes: &[u8], has_lock: bool) -> Result<RegistryManifest, String> {
    let mut package: PackageJson =
        serde_json::from_slice(bytes).map_err(|error| format!("{PACKAGE} cannot be read: {error}"))?;
    let mut script = |name: &str| {
        let found = package.scripts.remove(name);
        let text = found.ok_or_else(|| {
            format!(
                "{PACKAGE} has no script `{name}`: a registry needs `{BUILD_SCRIPT}` and `{START_SCRIPT}`, \
                 or a {MANIFEST_NAME} instead"
            )
        })?;
        check_command(PACKAGE, name, &text)
    };
    script(BUILD_SCRIPT)?;
    let start = script(START_SCRIPT)?;
    let install = if has_lock { "npm ci" } else { "npm install" };
    Ok(RegistryManifest {
        build: vec![install.into(), format!("npm run {BUILD_SCRIPT}")],
        start,
        input: InputMode::Argument,
    })
}

fn check_command(of: &str, name: &str, text: &str) -> Result<String, String> {
    let problem = if text.trim().is_empty() {
        "is empty"
    } else if text.contains('\0') {
        "holds a NUL byte, which no shell can read"
    } else if text.len() > COMMAND_BYTES_MAX {
        return Err(format!(
            "`{name}` in {of} is longer than {COMMAND_BYTES_MAX} bytes: put it into a file and call that"
        ));
    } else {
        // Arguments are appended to the command, so it must not end with a newline.
        return Ok(text.trim_end().to_owned());
    };
    Err(format!("`{name}` in {of} {problem}"))
}

fn read_file(dir: &Path, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{name} cannot be read: {error}");
    match file::open(&dir.join(name)) {
        Ok(found) => file::read(found, bytes_max).map(Some).map_err(|error| wrong(&error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_manifest(files: &[(&str, &str)]) -> String {
        let dir = tempfile::tempdir().expect("directory");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("file");
        }
        match RegistryManifest::read(dir.path()) {
            Ok(RegistryManifest { build, start, input }) => {
                format!("{} > {start} {input:?}", build.join(" ; "))
            }
            Err(told) => told,
        }
    }

    #[test]
    fn manifest_defines_build_and_start() {
        let package =
            r#"{"scripts": {"build-step-registry": "tsc", "start-step-registry": "node dist/main.js"}}"#;
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[(MANIFEST_NAME, "start: ./run")], " > ./run Argument"),
            (&[(MANIFEST_NAME, "build: make\nstart: ./run\ninput: file\n")], "make > ./run File"),
            (&[(MANIFEST_NAME, "start: |\n  cd x\n  ./run\n")], " > cd x\n./run Argument"),
            (&[(PACKAGE, package)], "npm install ; npm run build-step-registry > node dist/main.js Argument"),
            (
                &[(PACKAGE, package), ("package-lock.json", "{}")],
                "npm ci ; npm run build-step-registry > node dist/main.js Argument",
            ),
            (&[(PACKAGE, package), (MANIFEST_NAME, "start: ./run")], " > ./run Argument"),
        ];
        for (files, expected) in cases {
            assert_eq!(&describe_manifest(files), expected);
        }
    }

    #[test]
    fn invalid_manifest_is_explained() {
        let long = format!("start: {}", "x".repeat(COMMAND_BYTES_MAX + 1));
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[], "there is neither a berth-registry.yaml nor a package.json at the top"),
            (&[(MANIFEST_NAME, "build: make")], "berth-registry.yaml cannot be read"),
            (&[(MANIFEST_NAME, "start: a\nstrat: b")], "berth-registry.yaml cannot be read"),
            (&[(MANIFEST_NAME, "start: a\ninput: socket")], "berth-registry.yaml cannot be read"),
            (&[(MANIFEST_NAME, "start: '  '")], "`start` in berth-registry.yaml is empty"),
            (&[(MANIFEST_NAME, "start: [a]")], "berth-registry.yaml cannot be read"),
            (&[(MANIFEST_NAME, &long)], "`start` in berth-registry.yaml is longer than 8192 bytes"),
            (&[(PACKAGE, "{")], "package.json cannot be read"),
            (&[(PACKAGE, "{}")], "package.json has no script `build-step-registry`"),
            (
                &[(PACKAGE, r#"{"scripts": {"build-step-registry": "tsc"}}"#)],
                "package.json has no script `start-step-registry`",
            ),
        ];
        for (files, expected) in cases {
            assert!(
                describe_manifest(files).starts_with(expected),
                "{files:?}: {}",
                describe_manifest(files)
            );
        }
        assert!(
            describe_manifest(&[(MANIFEST_NAME, &"#".repeat(70_000))]).contains("longer than 65536 bytes"),
            "a huge one is not read"
        );
    }

    #[test]
    fn symlinked_manifest_is_rejected() {
        let dir = tempfile::tempdir().expect("directory");
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(MANIFEST_NAME)).expect("link");
        let told = RegistryManifest::read(dir.path()).expect_err("refused");
        assert!(told.starts_with("berth-registry.yaml cannot be read"), "{told}");
    }
}
