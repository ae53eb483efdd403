//! npm packages that tests use: emulators of forges, model providers and identity providers, API descriptions, a
//! runner of GitLab jobs, and the inspector of the Model Context Protocol.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool::{output, run};

/// Environment variable that tells the tests the directory of the packages.
pub(crate) const VARIABLE: &str = "BERTH_TEST_NPM";
const NODE_VERSION_MIN: u32 = 20;
const PACKAGES: &[(&str, &str)] = &[
    ("emulate", "0.11.2"),
    ("@octokit/openapi", "23.0.2"),
    ("@octokit/webhooks-examples", "7.6.1"),
    ("@stoplight/prism-cli", "5.14.2"),
    ("@copilotkit/aimock", "1.43.0"),
    ("oauth2-mock-server", "8.2.3"),
    // From 4.74.0 on, it needs Node 22.
    ("gitlab-ci-local", "4.70.1"),
    ("@modelcontextprotocol/inspector-cli", "0.22.0"),
];

/// Returns the packages' directory if all of them are installed.
pub(crate) fn find() -> Option<PathBuf> {
    let dir = dir()?;
    has_all(&dir, PACKAGES).then_some(dir)
}

/// Installs the packages next to this program, outside of the source tree.
pub(crate) fn install() -> Result<PathBuf, String> {
    let dir = dir().ok_or("cannot find my own program")?;
    install_into(&dir, PACKAGES)
}

/// Installs the packages, unless they are already installed in these versions.
pub(crate) fn install_into(dir: &Path, packages: &[(&str, &str)]) -> Result<PathBuf, String> {
    if has_all(dir, packages) {
        return Ok(dir.to_owned());
    }
    let node = output(Command::new("node").arg("--version"));
    let major = node.as_deref().and_then(|text| text.trim_start_matches('v').split('.').next()?.parse().ok());
    if major.is_none_or(|major: u32| major < NODE_VERSION_MIN) {
        return Err(missing_message(&format!("Node {NODE_VERSION_MIN} or newer is not installed")));
    }
    println!("    installing programs from npm into {}", dir.display());
    std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts", "--prefix"]).arg(dir);
    command.args(packages.iter().map(|(name, version)| format!("{name}@{version}")));
    run(&mut command).map_err(|why| missing_message(&why))?;
    Ok(dir.to_owned())
}

pub(crate) fn missing_message(why: &str) -> String {
    format!("the programs from npm that tests use are missing: {why}")
}

fn dir() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.with_file_name("npm"))
}

fn has_all(dir: &Path, packages: &[(&str, &str)]) -> bool {
    packages.iter().all(|(name, version)| has_package(dir, name, version))
}

fn has_package(dir: &Path, name: &str, version: &str) -> bool {
    let file = dir.join("node_modules").join(name).join("package.json");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let found = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    found["version"] == version
}
