//! `cargo xtask demo`: builds the dashboard and the binary and runs the demo. `--check` runs the tests of the tour in
//! the README.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool::{self, TaskResult, apt_install, cargo, cargo_has, may_install, output};
use crate::web;

const STORY: &str = "demo::";
const BROWSER_STORY: &str = "demo.spec.ts";

pub(crate) fn run(args: &[String]) -> TaskResult {
    match args {
        [only] if only == "--check" => check(),
        args if args.iter().any(|arg| arg == "--check") => {
            Err("--check cannot be combined with other arguments".into())
        }
        args => start(args),
    }
}

fn start(args: &[String]) -> TaskResult {
    // Check for git now, to fail before the build, which takes minutes.
    if output(Command::new("git").arg("--version")).is_none() {
        return Err(
            "the demo needs git 2.39 or newer: install it (`apt-get install git`) and try again".into()
        );
    }
    prepare_sandbox();
    // Print to stderr, because `--json` promises a single JSON object on stdout.
    eprintln!("1 of 3: the dashboard");
    prepare_dashboard();
    eprintln!("2 of 3: the berth binary; the first build takes some minutes");
    tool::run(&mut cargo(["build", "-p", "berth"])).map_err(|why| {
        format!("{why}. A first build needs about 3 GB of disk space in the target directory.")
    })?;
    eprintln!("3 of 3: starting");
    let berth = berth_program()?;
    let mut command = Command::new(&berth);
    command.args(["serve", "--demo"]).args(args);
    if !chooses_sandbox(args)
        && let Some(why) = missing_sandbox(&ask_doctor(&berth))
    {
        eprintln!("NOTICE: {why}");
        eprintln!(
            "NOTICE: the demo starts with --sandbox off: its steps have your permissions on this machine"
        );
        command.args(["--sandbox", "off"]);
    }
    // Use exec(2), so that Ctrl-C and the exit code need no forwarding.
    let error = command.exec();
    Err(format!("cannot start {}: {error}", berth.display()))
}

/// Returns the path of the server binary. Cargo puts all programs of a profile into one directory.
fn berth_program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    Ok(own.with_file_name("berth"))
}

/// Installs bubblewrap for the sandbox if possible. Without bubblewrap, the server reports which sandbox it uses
/// instead.
fn prepare_sandbox() {
    if output(Command::new("bwrap").arg("--version")).is_some() {
        return;
    }
    let installed = if may_install() { apt_install(&["bubblewrap"]) } else { Err("this needs root".into()) };
    if let Err(why) = installed {
        eprintln!("continuing without bubblewrap (`apt-get install bubblewrap`): {why}");
    }
}

fn chooses_sandbox(args: &[String]) -> bool {
    args.iter().any(|arg| arg == "--sandbox" || arg.starts_with("--sandbox="))
        || std::env::var_os("BERTH_RUNNER__SANDBOX").is_some()
}

/// Runs `berth admin doctor` for this machine, with the settings of a local server, and returns its JSON output.
fn ask_doctor(berth: &Path) -> Vec<u8> {
    let mut doctor = Command::new(berth);
    doctor.args(["admin", "doctor", "--json"]).env("BERTH_LOCAL", "true");
    doctor.output().map(|output| output.stdout).unwrap_or_default()
}

/// Returns the reason if no sandbox works on this machine.
fn missing_sandbox(said: &[u8]) -> Option<String> {
    let checks: Vec<serde_json::Value> = serde_json::from_slice(said).ok()?;
    let found = checks.iter().find(|check| check["check"] == "sandbox")?;
    (found["state"] == "fail").then(|| found["detail"].as_str().unwrap_or_default().to_owned())
}

fn prepare_dashboard() {
    if let Err(why) = web::prepare() {
        eprintln!("continuing without a new dashboard: {why}");
    }
}

/// Runs the demo tests of `cargo xtask test`.
fn check() -> TaskResult {
    prepare_dashboard();
    println!("==> API, command line and sites");
    let tests = if cargo_has("nextest") {
        &["nextest", "run", "-p", "berth", "--test", "it", STORY][..]
    } else {
        &["test", "--quiet", "-p", "berth", "--test", "it", STORY]
    };
    tool::run(&mut cargo(tests.iter().copied()))?;
    println!("==> browser");
    // The tests above have built this binary.
    let berth = berth_program()?;
    web::run_browser_tests(&berth, &[BROWSER_STORY], &berth.with_file_name("demo.xml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_sandbox_is_missing_only_if_doctor_check_fails_and_flag_is_recognized() {
        let said = |state: &str| {
            format!(
                r#"[{{"check":"git","state":"fail"}},{{"check":"sandbox","state":"{state}","detail":"no bwrap"}}]"#
            )
        };
        assert_eq!(missing_sandbox(said("fail").as_bytes()).as_deref(), Some("no bwrap"));
        for other in [said("ok"), said("warn"), "[]".into(), "broken".into()] {
            assert_eq!(missing_sandbox(other.as_bytes()), None, "{other}");
        }
        assert!(chooses_sandbox(&["--sandbox".into(), "landlock".into()]));
        assert!(chooses_sandbox(&["--sandbox=off".into()]) && !chooses_sandbox(&["--json".into()]));
    }
}
