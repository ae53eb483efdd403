//! Compiles the workspace once, for all suites, and lints it in the same pass.
//!
//! clippy-driver is rustc with more lints. Used as a wrapper of rustc for workspace crates, it lints while it compiles
//! what the suites run. A separate `cargo clippy` would have to check all dependencies again.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::tool::{cargo, cargo_has};

const WRAPPER_VARIABLE: &str = "RUSTC_WORKSPACE_WRAPPER";
const LINTER: &str = "clippy-driver";

pub(super) struct BuildResult {
    /// The binary used by the tests, the API fuzzer and the browser tests.
    pub(super) berth: PathBuf,
    /// Warnings as the compiler prints them.
    pub(super) warnings: Vec<String>,
    pub(super) is_linted: bool,
}

/// Returns the cargo command that all suites use. A different compiler or different flags would recompile everything.
pub(super) fn cargo_with_lints<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = cargo(args);
    command.env_remove("CLIPPY_ARGS");
    if cargo_has("clippy") {
        command.env(WRAPPER_VARIABLE, LINTER);
    }
    command
}

pub(super) fn build() -> Result<BuildResult, String> {
    let mut command = cargo_with_lints(["build", "--workspace", "--all-targets"]);
    command.arg("--message-format=json-diagnostic-rendered-ansi").stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
    let stdout = child.stdout.take().ok_or("cargo has no standard output")?;
    let (mut berth, mut warnings, mut errors) = (None, Vec::new(), Vec::new());
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        match message["reason"].as_str() {
            Some("compiler-artifact") if is_program(&message) => {
                berth = message["executable"].as_str().map(PathBuf::from);
            }
            Some("compiler-message") => {
                let rendered = message["message"]["rendered"].as_str().unwrap_or_default().to_owned();
                match message["message"]["level"].as_str() {
                    Some("error") => errors.push(rendered),
                    _ if warnings.contains(&rendered) => {}
                    _ => warnings.push(rendered),
                }
            }
            _ => {}
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    if !status.success() {
        return Err(format!("{}\nthe workspace does not compile", errors.join("\n")));
    }
    let berth = berth.ok_or("cargo built no program named berth")?;
    Ok(BuildResult { berth, warnings, is_linted: cargo_has("clippy") })
}

fn is_program(artifact: &Value) -> bool {
    artifact["target"]["name"] == "berth"
        && artifact["target"]["kind"][0] == "bin"
        && artifact["profile"]["test"] == false
}
