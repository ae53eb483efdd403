//! The protocol's inspector, without its user interface.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use berth_testkit::outcome;
use serde_json::Value;

use super::{McpFixture, McpTransport, installed};
use crate::harness::{BerthProcess, program};

/// Environment variable that names the directory in whose `node_modules` the inspector is installed.
const NPM: &str = "BERTH_TEST_NPM";
const INSPECTOR: &str = "node_modules/@modelcontextprotocol/inspector-cli/build/index.js";
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the inspector with these arguments, and returns what it prints.
fn inspect(fixture: &McpFixture, inspector: &PathBuf, transport: McpTransport, args: &[&str]) -> Value {
    let mut command = Command::new("node");
    // It looks for its package.json relative to the current directory.
    command.arg(inspector).current_dir(inspector.parent().expect("a directory"));
    match transport {
        McpTransport::Http => {
            command.arg(format!("{}/mcp", fixture.url())).args(["--transport", "http"]);
            command.arg("--header").arg(format!("Authorization: Bearer {}", fixture.home.token));
        }
        McpTransport::Stdio => {
            command.arg(program()).arg("mcp");
            command.env("XDG_CONFIG_HOME", fixture.config.path());
            command.env("BERTH_SERVER", fixture.url()).env("BERTH_TOKEN", &fixture.home.token);
        }
    }
    let ran = BerthProcess::start(command.args(args)).wait(PATIENCE);
    assert!(ran.code == Some(0) && ran.stderr.is_empty(), "{args:?}: {ran:?}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn inspector_finds_no_error() {
    let inspector = installed(NPM).map(|dir| dir.join(INSPECTOR)).filter(|path| path.exists());
    let Some(inspector) = inspector else {
        return outcome::skip(
            "inspector-cli",
            &format!("`cargo xtask test` installs it and names it in {NPM}"),
        );
    };
    let fixture = McpFixture::new();
    for transport in [McpTransport::Stdio, McpTransport::Http] {
        let run = |args: &[&str]| inspect(&fixture, &inspector, transport, args);
        let tools = run(&["--method", "tools/list"]);
        assert_eq!(tools["tools"].as_array().map(Vec::len), Some(berth_mcp::list_tools().len()), "{tools}");
        let resources = run(&["--method", "resources/list"]);
        assert_eq!(resources["resources"][0]["name"], "shop/perf", "{resources}");
        let templates = run(&["--method", "resources/templates/list"]);
        assert_eq!(templates["resourceTemplates"].as_array().map(Vec::len), Some(2), "{templates}");
        let read = run(&["--method", "resources/read", "--uri", "berth://environments/shop/qa-1"]);
        assert_eq!(read["contents"][0]["mimeType"], "application/json", "{read}");
        let called = run(&[
            "--method",
            "tools/call",
            "--tool-name",
            "list_environments",
            "--tool-arg",
            "pipeline=shop",
        ]);
        assert!(called["isError"] != true, "{called}");
        assert_eq!(called["structuredContent"]["data"].as_array().map(Vec::len), Some(3), "{called}");
    }
}
