//! `cargo xtask soak`: runs the soak test of `crates/berth` for a given time, also next to a previous version.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_testkit::outcome::LONG_VARIABLE;

use crate::postgres;
use crate::tool::{TaskResult, cargo, output, root, run as run_command};

const USAGE: &str = "usage: cargo xtask soak [--minutes N] [--seed S] [--upgrade [--from REVISION]]
  --upgrade        run one server and half of the runners from a previous revision
  --from REVISION  this one [default: the last one that changed the migrations]";
const MINUTES: u64 = 10;
const TEST: &str = "soak::soak_with_failing_servers_runners_and_database_stays_consistent";
const MIGRATIONS: &str = "crates/store/src/migrations";
/// Tells the test the binary of the previous version.
const PREVIOUS_VARIABLE: &str = "BERTH_PREVIOUS_PROGRAM";

pub(crate) fn run(args: &[String]) -> TaskResult {
    let (mut minutes, mut seed, mut is_upgrade, mut revision) = (MINUTES, None, false, None);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if word == "--upgrade" {
            is_upgrade = true;
            continue;
        }
        match (word.as_str(), words.next()) {
            ("--minutes", Some(value)) => minutes = number(value)?,
            ("--seed", Some(value)) => seed = Some(number(value)?),
            ("--from", Some(value)) if is_upgrade => revision = Some(value.clone()),
            _ => return Err(USAGE.into()),
        }
    }
    let bin = match postgres::find() {
        Some(found) => found,
        None => postgres::install()?,
    };
    let mut command = cargo(["test", "--quiet", "-p", "berth", "--test", "it", "--"]);
    command.args(["--exact", TEST, "--nocapture"]).env(berth_testkit::BIN_VARIABLE, bin);
    command.env("SOAK_MINUTES", minutes.to_string()).env(LONG_VARIABLE, "1");
    if is_upgrade {
        let revision = revision.map_or_else(find_previous_revision, Ok)?;
        command.env(PREVIOUS_VARIABLE, build_revision(&revision)?);
    }
    if let Some(seed) = seed {
        command.env("SOAK_SEED", seed.to_string());
    }
    println!("running for {minutes} minutes; repeat the same choices with --seed");
    run_command(&mut command)
}

/// Returns the revision in which the migrations were last changed. Until the first release, the initial migration is edited
/// in place, so older revisions cannot use a database of this one.
fn find_previous_revision() -> Result<String, String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%H", "--", MIGRATIONS]).current_dir(root());
    output(&mut git).filter(|text| !text.is_empty()).ok_or_else(|| "git finds no previous revision".into())
}

/// Builds the program of a revision in a work tree of its own, in `target/previous`.
fn build_revision(revision: &str) -> Result<PathBuf, String> {
    let dir = root().join("target/previous");
    let tree = dir.join("tree");
    println!("building berth at {revision}; a cold build takes many minutes");
    remove_tree(&tree);
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).arg(&tree).current_dir(root());
        command
    };
    run_command(git(&["worktree", "add", "--detach", "--force"]).arg(revision))?;
    let mut build = cargo(["build", "--locked", "-p", "berth"]);
    let built = run_command(build.current_dir(&tree).env("CARGO_TARGET_DIR", &dir));
    remove_tree(&tree);
    built.map(|()| dir.join("debug/berth"))
}

fn remove_tree(tree: &Path) {
    let mut git = Command::new("git");
    let _ = output(git.args(["worktree", "remove", "--force"]).arg(tree).current_dir(root()));
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("\"{text}\" is no number\n{USAGE}"))
}
