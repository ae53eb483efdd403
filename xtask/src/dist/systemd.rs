//! Tests of the systemd units.

use std::path::Path;
use std::process::Command;

use berth_testkit::outcome;

use super::write;
use crate::tool::{output, root};

const ANALYZE: &str = "systemd-analyze";

fn is_installed() -> bool {
    let found = output(Command::new(ANALYZE).arg("--version")).is_some();
    if !found {
        outcome::skip(ANALYZE, "apt-get install systemd");
    }
    found
}

/// Copies a unit, with a program that exists on this machine.
fn copy_unit(name: &str, to: &Path) {
    let text = std::fs::read_to_string(root().join("packaging").join(name)).unwrap();
    write(to, &text.replace("/usr/bin/berth", "/bin/true")).unwrap();
}

/// Returns the exposure that systemd computes for a unit: from 0, all hardening, to 10, none.
fn exposure(dir: &Path, unit: &str) -> f64 {
    let mut command = Command::new(ANALYZE);
    command.args(["security", "--offline=true", "--no-pager"]).arg(dir.join(unit));
    let report = output(&mut command).unwrap_or_else(|| panic!("{unit} cannot be analyzed"));
    let line = report.lines().find(|line| line.contains("Overall exposure level")).unwrap();
    line.split(": ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap()
}

#[test]
fn units_are_valid_and_hardened() {
    if !is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for unit in ["berth.service", "berth-runner.service"] {
        copy_unit(unit, &dir.path().join(unit));
        let verified =
            Command::new(ANALYZE).args(["verify", "--man=no"]).arg(dir.path().join(unit)).output().unwrap();
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success() && !said.contains(unit), "{said}");
        // Steps need user namespaces and several capabilities.
        assert!(exposure(dir.path(), unit) <= 5.0, "{unit}");
    }
}

#[test]
fn server_without_runner_is_hardened_further() {
    if !is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // systemd-analyze reads no drop-in files outside of the system's directories.
    let unit = std::fs::read_to_string(root().join("packaging/berth.service")).unwrap();
    let drop_in = std::fs::read_to_string(root().join("packaging/no-runner.conf")).unwrap();
    let both = format!("{unit}\n{drop_in}").replace("/usr/bin/berth", "/bin/true");
    write(&dir.path().join("berth.service"), &both).unwrap();
    let found = exposure(dir.path(), "berth.service");
    assert!(found <= 1.5, "{found}");
}
