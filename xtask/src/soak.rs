//! `cargo xtask soak`: runs the soak test of `crates/berth` for a given time, also next to a previous version.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_testkit::outcome::LONG_VARIABLE;

use crate::postgres;
use crate::tool::{TaskResult, cargo, output, root, run as run_command};

const USAGE: &str = "usage: cargo xtask soak [--minutes N] [--seed S] [--upgrade [--from REVISION]]
  --upgrade        run one server and half of the runners from a previous revision
  --from REVISION  this one [default: the last one that changed an existing migration]";
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
    let revision = match is_upgrade {
        true => Some(revision.map_or_else(|| find_previous_revision(&root()), Ok)?),
        false => None,
    };
    if let Some(revision) = &revision {
        check_revision(&root(), revision)?;
    }
    let bin = match postgres::find() {
        Some(found) => found,
        None => postgres::install()?,
    };
    let mut command = cargo(["test", "--quiet", "-p", "berth", "--test", "it", "--"]);
    command.args(["--exact", TEST, "--nocapture"]).env(berth_testkit::BIN_VARIABLE, bin);
    command.env("SOAK_MINUTES", minutes.to_string()).env(LONG_VARIABLE, "1");
    if let Some(revision) = revision {
        command.env(PREVIOUS_VARIABLE, build_revision(&revision)?);
    }
    if let Some(seed) = seed {
        command.env("SOAK_SEED", seed.to_string());
    }
    println!("running for {minutes} minutes; repeat the same choices with --seed");
    run_command(&mut command)
}

/// Returns the revision that last changed an existing migration, after which migrations were only added. A program refuses
/// a database in which a migration has another text, so older ones cannot run next to this one.
fn find_previous_revision(root: &Path) -> Result<String, String> {
    let find = |filter: &str, files: &str| {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--first-parent", "--diff-merges=first-parent", "--no-patch", "--no-renames"]);
        git.args(["--format=%H", filter, "--"]).arg(format!("{MIGRATIONS}/{files}.sql"));
        output(git.current_dir(root)).filter(|text| !text.is_empty())
    };
    let found = find("--diff-filter=DM", "*").or_else(|| find("--diff-filter=A", "0001_*"));
    found.ok_or_else(|| "git finds no previous revision; name one with --from REVISION".into())
}

/// Refuses a revision that has the same program as this tree.
fn check_revision(root: &Path, revision: &str) -> TaskResult {
    let mut git = Command::new("git");
    git.args(["diff", "--quiet", revision, "--", "crates", ":(exclude)crates/*/tests/*"]).current_dir(root);
    let status = git.status().map_err(|error| format!("cannot run git: {error}"))?;
    let why = match status.code() {
        Some(1) => return Ok(()),
        Some(0) => "has the same program as this tree, so nothing would be tested",
        _ => "cannot be compared with this tree",
    };
    Err(format!(
        "the revision {revision} {why}; name another one with --from REVISION, in a shallow clone after `git fetch --unshallow`"
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str = "crates/store/src/lib.rs";

    /// Commits a file and returns the revision.
    fn commit(root: &Path, file: &str, text: &str) -> String {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(path, text).expect("file");
        let git = |args: &[&str]| output(Command::new("git").arg("-C").arg(root).args(args)).expect("git");
        git(&["add", "--all"]);
        let author = ["-c", "user.name=ada", "-c", "user.email=ada@berth.test"];
        git(&[&author[..], &["commit", "--quiet", "--message", file]].concat());
        git(&["rev-parse", "HEAD"])
    }

    #[test]
    fn previous_revision_is_the_last_that_changed_an_existing_migration() {
        let dir = tempfile::tempdir().expect("directory");
        let root = dir.path();
        output(Command::new("git").args(["init", "--quiet"]).current_dir(root)).expect("git");
        assert!(find_previous_revision(root).is_err());
        let initial = format!("{MIGRATIONS}/0001_initial.sql");
        let first = commit(root, &initial, "a");
        assert_eq!(find_previous_revision(root), Ok(first));
        let edited = commit(root, &initial, "b");
        commit(root, LIBRARY, "a");
        commit(root, &format!("{MIGRATIONS}/0002_labels.sql"), "a");
        assert_eq!(find_previous_revision(root), Ok(edited));
    }

    #[test]
    fn revision_with_the_same_program_is_refused() {
        let dir = tempfile::tempdir().expect("directory");
        let root = dir.path();
        output(Command::new("git").args(["init", "--quiet"]).current_dir(root)).expect("git");
        let first = commit(root, LIBRARY, "a");
        commit(root, "crates/store/tests/it/main.rs", "a");
        assert!(check_revision(root, &first).is_err_and(|why| why.contains("has the same program")));
        assert!(check_revision(root, "missing").is_err_and(|why| why.contains("cannot be compared")));
        commit(root, LIBRARY, "b");
        assert_eq!(check_revision(root, &first), Ok(()));
    }
}
