//! Builds, checks and tests the dashboard.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use crate::npm;
use crate::tool::{self, TaskResult, output, root};

/// The oldest supported version of Node.
const NODE_MIN: (u32, u32) = (20, 19);
/// Inputs of the dashboard's build. If one of them is newer than the build, the dashboard is rebuilt.
const SOURCES: &[&str] = &[
    "web/src",
    "web/public",
    "web/scripts",
    "web/index.html",
    "web/vite.config.ts",
    "web/package-lock.json",
    "openapi.json",
    "crates/core/src/event.rs",
];
const BUILT: &str = "web/dist/index.html";
/// npm writes this file at the end of a complete install.
const INSTALLED: &str = "node_modules/.package-lock.json";
pub(crate) const CHROMIUM: &str = "/usr/bin/chromium";
/// Scripts of `package.json` that need only the sources and the output of the script `generate`.
const CHECKS: &[&str] = &["lint", "types", "bundle", "test"];

/// Builds the dashboard if one of its inputs has changed. Requires Node.
pub(crate) fn prepare() -> TaskResult {
    find_node()?;
    let root = root();
    let built = changed_at(&root.join(BUILT));
    let newest = SOURCES.iter().filter_map(|source| changed_at(&root.join(source))).max();
    if built.is_some() && built >= newest {
        return Ok(());
    }
    eprintln!("building the dashboard");
    install().and_then(|()| run_npm(&["run", "build"]))
}

/// Runs linter, type check, unit tests, and the build with its size budget. The unit tests write their report to
/// `junit`.
pub(crate) fn check(junit: &Path) -> TaskResult {
    run_npm(&["run", "generate"])?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = CHECKS.iter().map(|script| scope.spawn(|| run_script(script, junit))).collect();
        let failures = threads.into_iter().filter_map(|thread| {
            thread.join().unwrap_or_else(|_| Err("a script's thread panicked".to_owned())).err()
        });
        let failures: Vec<String> = failures.collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    })
}

/// Runs a script. Prints one line if it succeeds, and its whole output if it fails.
fn run_script(script: &str, junit: &Path) -> TaskResult {
    let started = Instant::now();
    let mut npm = command("npm");
    npm.args(["run", "--silent", script]).stdin(Stdio::null()).env("BERTH_JUNIT_WEB", junit);
    let output = npm.output().map_err(|error| format!("cannot run `npm run {script}`: {error}"))?;
    let seconds = started.elapsed().as_secs_f64();
    if output.status.success() {
        eprintln!("    npm run {script}: passed in {seconds:.1} s");
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    // Print with a single call, so that the output of two failing scripts does not interleave.
    eprintln!("    npm run {script}: failed after {seconds:.1} s\n{}", String::from_utf8_lossy(&text));
    Err(format!("`npm run {script}` failed: {}", output.status))
}

/// Runs the browser tests against this server binary, which embeds the dashboard. `files` selects test files; if it is
/// empty, all run.
pub(crate) fn run_browser_tests(program: &Path, files: &[&str], junit: &Path) -> TaskResult {
    // Make the path absolute, because the tests run in the directory `web`.
    let program = std::path::absolute(program)
        .map_err(|error| format!("cannot find {}: {error}", program.display()))?;
    let mut command = command("npx");
    command.args(["playwright", "test"]).args(files);
    if let Some(packages) = npm::find() {
        command.env(npm::VARIABLE, packages);
    }
    tool::run(command.env("BERTH_PROGRAM", program).env("BERTH_JUNIT_BROWSER", junit))
}

/// Checks that a supported Node is installed.
pub(crate) fn find_node() -> TaskResult {
    let wanted = format!("Node {}.{} or newer", NODE_MIN.0, NODE_MIN.1);
    let version = output(Command::new("node").arg("--version"));
    let version = version.ok_or_else(|| format!("no Node: install {wanted} to build the dashboard"))?;
    match parse_version(&version) {
        Some(found) if found >= NODE_MIN => Ok(()),
        _ => Err(format!("Node is {version}: install {wanted} to build the dashboard")),
    }
}

/// Parses a version such as `v20.20.2`.
fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix('v')?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Installs the dashboard's packages, unless they are up to date.
pub(crate) fn install() -> TaskResult {
    install_packages("web")
}

/// Installs the packages of the npm project in a directory of the repository, unless they are up to date.
pub(crate) fn install_packages(project: &str) -> TaskResult {
    let dir = root().join(project);
    let (installed, wanted) = (changed_at(&dir.join(INSTALLED)), changed_at(&dir.join("package-lock.json")));
    if installed.is_some() && installed >= wanted {
        return Ok(());
    }
    // Do not use `npm ci`: it rejects a lock file that lacks the packages of other platforms, and not every mirror has
    // those.
    run_npm_in(&dir, &["install", "--no-save", "--no-progress"])
}

fn run_npm(args: &[&str]) -> TaskResult {
    run_npm_in(&root().join("web"), args)
}

fn run_npm_in(dir: &Path, args: &[&str]) -> TaskResult {
    // Print to stderr, because the demo promises a single JSON object on stdout.
    tool::run(command("npm").current_dir(dir).args(args).stdout(Stdio::from(std::io::stderr())))
}

fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root().join("web")).env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
    command
}

/// Returns the latest modification time at or below a path; `None` if the path does not exist.
fn changed_at(path: &Path) -> Option<SystemTime> {
    let about = std::fs::metadata(path).ok()?;
    if !about.is_dir() {
        return about.modified().ok();
    }
    let inside: Vec<PathBuf> = std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).collect();
    // Skip generated files, because the build itself writes them.
    let written = inside.iter().filter(|path| !path.to_string_lossy().ends_with(".gen.ts"));
    written.filter_map(|path| changed_at(path)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_versions_are_compared_numerically() {
        for (text, enough) in
            [("v20.19.0", true), ("v22.1.0", true), ("v20.9.1", false), ("v18.20.4", false), ("20.19", false)]
        {
            assert_eq!(parse_version(text).is_some_and(|found| found >= NODE_MIN), enough, "{text}");
        }
    }

    #[test]
    fn dashboard_sources_exist() {
        for source in SOURCES {
            assert!(root().join(source).exists(), "{source}");
        }
    }

    /// The Dockerfile's first stage builds the dashboard from only the files that it has copied.
    #[test]
    fn dockerfile_copies_every_dashboard_source() {
        let text = std::fs::read_to_string(root().join("packaging/Dockerfile")).unwrap();
        let stage = text.split("\nFROM ").nth(1).unwrap();
        for source in SOURCES {
            let copied = match source.strip_prefix("web/") {
                Some(_) => "COPY web ./\n".to_owned(),
                None => format!("COPY {source} /src/{source}\n"),
            };
            assert!(stage.contains(&copied), "no {copied:?}");
        }
    }
}
