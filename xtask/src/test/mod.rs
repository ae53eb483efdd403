//! `cargo xtask test`: runs all checks and tests, for developers and CI.

mod build;
mod junit;
mod memory;
mod prepare;
mod report;

use std::path::{Path, PathBuf};
use std::time::Instant;

use berth_testkit::outcome::{LONG_VARIABLE, STRICT_VARIABLE};
use tempfile::TempDir;

use crate::tool::{self, TaskResult, cargo, cargo_has};
use crate::{clients, mutants, npm, schemathesis, web};
use build::{Built, cargo_with_lints};
use prepare::Tools;
use report::{Collected, Outcome, Suite};

const USAGE: &str = "usage: cargo xtask test [--quick | --long] [--strict]";
/// Name of the directory with JUnit reports, in the directory of this program.
const RESULTS: &str = "test-results";
/// Filter for tests that depend on the database. They run on SQLite with all other tests, and then again on PostgreSQL.
const ON_POSTGRES: &str = "(package(berth-store) & test(/^(differential|feed|found|lists|once|registries|transactions)::/)) | \
     (package(berth-server) & test(/^(environments|events|follow|once)::/)) | \
     (package(berth-server) & test(/^engine::/) & not test(/^engine::model::/)) | \
     (package(berth) & test(/^crash::/))";
const EXAMPLES: u32 = 20;
const EXAMPLES_LONG: u32 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// For development: no PostgreSQL, API fuzzing, generated clients or dashboard; installs nothing.
    Quick,
    Short,
    /// All seeds, kills and mutations.
    Long,
}

struct Run {
    form: Form,
    is_strict: bool,
    tools: Tools,
    results: PathBuf,
    suites: Vec<Suite>,
    collected: Collected,
    /// Temporary directory in memory, if one is used.
    scratch: Option<TempDir>,
}

pub(crate) fn run(args: &[String]) -> TaskResult {
    let (form, is_strict) = parse(args)?;
    let results = own_dir()?.join(RESULTS);
    let _ = std::fs::remove_dir_all(&results);
    std::fs::create_dir_all(&results)
        .map_err(|error| format!("cannot make {}: {error}", results.display()))?;
    // The long form uses the disk: its files grow large, and it should test real writes.
    let scratch = if form == Form::Long { None } else { memory::directory() };
    if let Some(scratch) = &scratch {
        tempfile::env::override_temp_dir(scratch.path())
            .map_err(|set| format!("temporary files go to {} already", set.display()))?;
    }
    let mut run = Run {
        form,
        is_strict,
        tools: Tools::default(),
        results,
        suites: Vec::new(),
        collected: Collected::default(),
        scratch,
    };
    run.suite("prepare", "install what the tests need", |run| match prepare::prepare(form == Form::Quick) {
        Ok(tools) => {
            run.tools = tools;
            Outcome::Passed
        }
        Err(why) => Outcome::Failed(why),
    });
    run.suite("format", "cargo fmt --all --check", |_| format());
    if form != Form::Quick && run.tools.has_node {
        // Must come before the build, because the binary embeds the dashboard.
        run.suite("web", "dashboard: lint, types, size, unit tests", |run| {
            let junit = run.results.join("web.xml");
            let done = web::check(&junit);
            run.collect("web", &junit);
            outcome(done)
        });
    }
    let mut built = None;
    run.suite("build", "compile and lint the workspace; cold takes some minutes", |_| match build::build() {
        Err(why) => Outcome::Failed(why),
        Ok(done) => lint_outcome(built.insert(done)),
    });
    if let Some(Built { berth, .. }) = built {
        run.run_suites(&berth);
    }
    report::conclude(&run.suites, &run.tools.missing, &run.collected, is_strict)
}

/// Runs only the checks of the dashboard.
pub(crate) fn dashboard() -> TaskResult {
    web::install()?;
    let results = own_dir()?;
    web::check(&results.join("web.xml"))?;
    let built = build::build()?;
    web::browse(&built.berth, &[], &results.join("browser.xml"))
}

/// Returns the directory of this program, where cargo puts all programs of the profile.
fn own_dir() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    Ok(own.parent().map(Path::to_owned).unwrap_or(own))
}

fn parse(args: &[String]) -> Result<(Form, bool), String> {
    let (mut form, mut is_strict) = (Form::Short, false);
    for arg in args {
        match (arg.as_str(), form) {
            ("--quick", Form::Short) => form = Form::Quick,
            ("--long", Form::Short) => form = Form::Long,
            ("--strict", _) => is_strict = true,
            _ => return Err(USAGE.into()),
        }
    }
    Ok((form, is_strict))
}

impl Run {
    fn suite(&mut self, name: &'static str, what: &str, work: impl FnOnce(&mut Self) -> Outcome) {
        println!("==> {name}: {what}");
        let start = Instant::now();
        let outcome = work(self);
        if let Outcome::Skipped(why) | Outcome::Failed(why) = &outcome {
            println!("    {why}");
        }
        self.suites.push(Suite { name, took: start.elapsed(), outcome });
    }

    fn run_suites(&mut self, berth: &Path) {
        self.suite("tests", "all tests, on SQLite", |run| run.nextest("tests", None));
        if self.form == Form::Quick {
            return;
        }
        self.suite("postgres", "store, environments, engine and crashes on PostgreSQL", |run| {
            match run.tools.postgres_server {
                None => Outcome::Skipped("no PostgreSQL".into()),
                Some(_) => run.nextest("postgres", Some(ON_POSTGRES)),
            }
        });
        self.suite("api", "API fuzzing with requests generated from the OpenAPI document", |run| {
            let examples = if run.form == Form::Long { EXAMPLES_LONG } else { EXAMPLES };
            match &run.tools.schemathesis {
                None => Outcome::Skipped("no schemathesis".into()),
                Some(program) => outcome(schemathesis::fuzz_demo(program, berth, examples)),
            }
        });
        self.suite("clients", "generated TypeScript and Python clients against the real server", |run| {
            match &run.tools.generators {
                clients::Generators { npm: None, venv: None } => Outcome::Skipped("no generator".into()),
                generators => outcome(clients::drive_demo(generators, berth)),
            }
        });
        self.suite("browser", "dashboard in Chromium against the real server", |run| {
            if !run.tools.has_node || !Path::new(web::CHROMIUM).exists() {
                return Outcome::Skipped("no Node or no Chromium".into());
            }
            let junit = run.results.join("browser.xml");
            let done = web::browse(berth, &[], &junit);
            run.collect("browser", &junit);
            outcome(done)
        });
        if self.form == Form::Long {
            self.suite("mutants", "every mutation of the rules is caught", |_| outcome(mutants::run(&[])));
        }
    }

    /// Runs the tests that were built. With `on_postgres`, runs only the tests that match this filter, on PostgreSQL.
    fn nextest(&mut self, suite: &'static str, on_postgres: Option<&str>) -> Outcome {
        if !cargo_has("nextest") {
            return Outcome::Skipped("cargo-nextest is not installed: `cargo install cargo-nextest`".into());
        }
        let mut command = cargo_with_lints(["nextest", "run", "--workspace", "--no-fail-fast"]);
        command.arg("--cargo-quiet");
        let profile = match self.form {
            Form::Quick => "quick",
            Form::Short => "default",
            Form::Long => "long",
        };
        command.args(["--profile", profile]);
        if let Some(filter) = on_postgres {
            command.args(["-E", filter]).env(berth_testkit::DATABASE_VARIABLE, "postgres");
        }
        if let Some(bin) = &self.tools.postgres {
            command.env(berth_testkit::BIN_VARIABLE, bin);
        }
        if let Some(server) = &self.tools.postgres_server {
            command.env(berth_testkit::SERVER_VARIABLE, server.url("postgres"));
        }
        if let Some(dir) = &self.tools.npm {
            command.env(npm::VARIABLE, dir);
        }
        if let Some(scratch) = &self.scratch {
            command.env("TMPDIR", scratch.path());
        }
        if self.is_strict {
            command.env(STRICT_VARIABLE, "1");
        }
        if self.form == Form::Long {
            command.env(LONG_VARIABLE, "1");
        }
        let done = tool::run(&mut command);
        let junit = self.results.join(format!("{suite}.xml"));
        let written = target_dir(&self.results).join("nextest").join(profile).join("junit.xml");
        if let Err(error) = std::fs::rename(&written, &junit) {
            return Outcome::Failed(format!("no report at {}: {error}", written.display()));
        }
        self.collect(suite, &junit);
        outcome(done)
    }

    fn collect(&mut self, suite: &str, junit: &Path) {
        match junit::read(junit) {
            Ok(report) => self.collected.add(suite, report),
            Err(why) => println!("    cannot read the report of {suite}: {why}"),
        }
    }
}

/// Returns `target` for `target/debug/test-results`.
fn target_dir(results: &Path) -> &Path {
    results.ancestors().nth(2).unwrap_or(results)
}

fn outcome(done: TaskResult) -> Outcome {
    done.map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

fn lint_outcome(built: &Built) -> Outcome {
    match (built.warnings.is_empty(), built.is_linted) {
        (true, true) => Outcome::Passed,
        (true, false) => Outcome::Skipped("no clippy: `rustup component add clippy`".into()),
        (false, _) => Outcome::Failed(format!("{}\nclippy reported warnings", built.warnings.join("\n"))),
    }
}

fn format() -> Outcome {
    if !cargo_has("fmt") {
        return Outcome::Skipped("no rustfmt: `rustup component add rustfmt`".into());
    }
    match tool::run(&mut cargo(["fmt", "--all", "--check"])) {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(format!("{why}. Run `cargo fmt --all`.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_arguments_choose_form_and_strictness() {
        let parse = |args: &[&str]| parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Ok((Form::Short, false)));
        assert_eq!(parse(&["--strict"]), Ok((Form::Short, true)));
        assert_eq!(parse(&["--long", "--strict"]), Ok((Form::Long, true)));
        assert!(parse(&["--quick", "--long"]).is_err());
        assert!(parse(&["--fast"]).is_err());
    }
}
