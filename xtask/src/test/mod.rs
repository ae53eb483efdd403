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
use crate::{clients, mutants, npm, python, schemathesis, sdk, web};
use build::{BuildResult, cargo_with_lints};
use prepare::TestTools;
use report::{CollectedReports, SuiteOutcome, TestSuite};

const USAGE: &str = "usage: cargo xtask test [--quick | --long] [--strict]";
/// Name of the directory with JUnit reports, in the directory of this program.
const RESULTS: &str = "test-results";
/// Filter for tests that depend on the database. They run on SQLite with all other tests, and then again on PostgreSQL.
const ON_POSTGRES: &str = "(package(berth-store) & test(/^(differential|event_lists|feed|lists|registries|stored_responses|transactions)::/)) | \
     (package(berth-server) & test(/^(cli_logins|environments|event_streams|events|idempotency|identity_provider|instance_organizations|logins|matrix|scoped_access|scoped_matrix|second_factor|second_factor_required|session_tokens)::/)) | \
     (package(berth-server) & test(/^engine::/) & not test(/^engine::model::/)) | \
     (package(berth) & test(/^crash::/))";
const EXAMPLES: u32 = 20;
const EXAMPLES_LONG: u32 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestForm {
    /// For development: no PostgreSQL, API fuzzing, generated clients or dashboard; installs nothing.
    Quick,
    Short,
    /// All seeds, kills and mutations.
    Long,
}

struct TestRun {
    form: TestForm,
    is_strict: bool,
    tools: TestTools,
    results: PathBuf,
    suites: Vec<TestSuite>,
    collected: CollectedReports,
    /// Temporary directory in memory, if one is used.
    scratch: Option<TempDir>,
}

pub(crate) fn run(args: &[String]) -> TaskResult {
    let (form, is_strict) = parse_args(args)?;
    let results = own_dir()?.join(RESULTS);
    let _ = std::fs::remove_dir_all(&results);
    std::fs::create_dir_all(&results)
        .map_err(|error| format!("cannot make {}: {error}", results.display()))?;
    // The long form uses the disk: its files grow large, and it should test real writes.
    let scratch = if form == TestForm::Long { None } else { memory::create_directory() };
    if let Some(scratch) = &scratch {
        tempfile::env::override_temp_dir(scratch.path())
            .map_err(|set| format!("temporary files go to {} already", set.display()))?;
    }
    let mut run = TestRun {
        form,
        is_strict,
        tools: TestTools::default(),
        results,
        suites: Vec::new(),
        collected: CollectedReports::default(),
        scratch,
    };
    run.run_suite("prepare", "install what the tests need", |run| {
        match prepare::prepare(form == TestForm::Quick) {
            Ok(tools) => {
                run.tools = tools;
                SuiteOutcome::Passed
            }
            Err(why) => SuiteOutcome::Failed(why),
        }
    });
    run.run_suite("format", "cargo fmt --all --check", |_| check_format());
    if form != TestForm::Quick && run.tools.has_node {
        // Must come before the build, because the binary embeds the dashboard.
        run.run_suite("web", "dashboard: lint, types, size, unit tests", |run| {
            let junit = run.results.join("web.xml");
            let done = web::check(&junit);
            run.collect_report("web", &junit);
            to_outcome(done)
        });
    }
    let mut built = None;
    run.run_suite("build", "compile and lint the workspace; cold takes some minutes", |run| {
        std::thread::scope(|scope| {
            // Downloads wait for the network while the compiler uses the cores.
            if form != TestForm::Quick {
                scope.spawn(|| prepare::install_packages(&mut run.tools));
            }
            match build::build() {
                Err(why) => SuiteOutcome::Failed(why),
                Ok(done) => lint_outcome(built.insert(done)),
            }
        })
    });
    if let Some(BuildResult { berth, .. }) = built {
        run.run_suites(&berth);
    }
    report::print_summary(&run.suites, &run.tools.missing, &run.collected, is_strict)
}

/// Runs only the checks of the dashboard.
pub(crate) fn check_dashboard() -> TaskResult {
    web::install()?;
    let results = own_dir()?;
    web::check(&results.join("web.xml"))?;
    let built = build::build()?;
    web::run_browser_tests(&built.berth, &[], &results.join("browser.xml"))
}

/// Returns the directory of this program, where cargo puts all programs of the profile.
fn own_dir() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    Ok(own.parent().map(Path::to_owned).unwrap_or(own))
}

fn parse_args(args: &[String]) -> Result<(TestForm, bool), String> {
    let (mut form, mut is_strict) = (TestForm::Short, false);
    for arg in args {
        match (arg.as_str(), form) {
            ("--quick", TestForm::Short) => form = TestForm::Quick,
            ("--long", TestForm::Short) => form = TestForm::Long,
            ("--strict", _) => is_strict = true,
            _ => return Err(USAGE.into()),
        }
    }
    Ok((form, is_strict))
}

impl TestRun {
    fn run_suite(&mut self, name: &'static str, what: &str, work: impl FnOnce(&mut Self) -> SuiteOutcome) {
        println!("==> {name}: {what}");
        let start = Instant::now();
        let outcome = work(self);
        if let SuiteOutcome::Skipped(why) | SuiteOutcome::Failed(why) = &outcome {
            println!("    {why}");
        }
        self.suites.push(TestSuite { name, took: start.elapsed(), outcome });
    }

    fn run_suites(&mut self, berth: &Path) {
        self.run_suite("tests", "all tests, on SQLite", |run| run.run_nextest("tests", None));
        if self.form == TestForm::Quick {
            return;
        }
        self.run_suite("postgres", "store, environments, engine and crashes on PostgreSQL", |run| match run
            .tools
            .postgres_server
        {
            None => SuiteOutcome::Skipped("no PostgreSQL".into()),
            Some(_) => run.run_nextest("postgres", Some(ON_POSTGRES)),
        });
        self.run_suite("api", "API fuzzing with requests generated from the OpenAPI document", |run| {
            let examples = if run.form == TestForm::Long { EXAMPLES_LONG } else { EXAMPLES };
            match &run.tools.schemathesis {
                None => SuiteOutcome::Skipped("no schemathesis".into()),
                Some(program) => to_outcome(schemathesis::fuzz_demo(program, berth, examples)),
            }
        });
        self.run_suite("clients", "generated TypeScript and Python clients against the real server", |run| {
            match &run.tools.generators {
                clients::ClientGenerators { npm: None, venv: None } => {
                    SuiteOutcome::Skipped("no generator".into())
                }
                generators => to_outcome(clients::drive_demo(generators, berth)),
            }
        });
        self.run_suite("sdk", "TypeScript and Python packages, installed, against the real server", |run| {
            match run.tools.sdk {
                sdk::SdkTools { has_typescript: false, has_python: false } => {
                    SuiteOutcome::Skipped("no build tools".into())
                }
                tools => to_outcome(sdk::test_packages(tools, berth)),
            }
        });
        self.run_suite("browser", "dashboard in Chromium against the real server", |run| {
            if !run.tools.has_node || !Path::new(web::CHROMIUM).exists() {
                return SuiteOutcome::Skipped("no Node or no Chromium".into());
            }
            let junit = run.results.join("browser.xml");
            let done = web::run_browser_tests(berth, &[], &junit);
            run.collect_report("browser", &junit);
            to_outcome(done)
        });
        if self.form == TestForm::Long {
            self.run_suite("mutants", "every mutation of the rules is caught", |_| {
                to_outcome(mutants::run(&[]))
            });
        }
    }

    /// Runs the tests that were built. With `on_postgres`, runs only the tests that match this filter, on PostgreSQL.
    fn run_nextest(&mut self, suite: &'static str, on_postgres: Option<&str>) -> SuiteOutcome {
        if !cargo_has("nextest") {
            return SuiteOutcome::Skipped(
                "cargo-nextest is not installed: `cargo install cargo-nextest`".into(),
            );
        }
        let mut command = cargo_with_lints(["nextest", "run", "--workspace", "--no-fail-fast"]);
        command.arg("--cargo-quiet");
        let profile = match self.form {
            TestForm::Quick => "quick",
            TestForm::Short => "default",
            TestForm::Long => "long",
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
        if let Some(python) = &self.tools.python {
            command.env(python::VARIABLE, python);
        }
        if let Some(scratch) = &self.scratch {
            command.env("TMPDIR", scratch.path());
        }
        if self.is_strict {
            command.env(STRICT_VARIABLE, "1");
        }
        if self.form == TestForm::Long {
            command.env(LONG_VARIABLE, "1");
        }
        let done = tool::run(&mut command);
        let junit = self.results.join(format!("{suite}.xml"));
        let written = target_dir(&self.results).join("nextest").join(profile).join("junit.xml");
        if let Err(error) = std::fs::rename(&written, &junit) {
            return SuiteOutcome::Failed(format!("no report at {}: {error}", written.display()));
        }
        self.collect_report(suite, &junit);
        to_outcome(done)
    }

    fn collect_report(&mut self, suite: &str, junit: &Path) {
        match junit::read_report(junit) {
            Ok(report) => self.collected.add(suite, report),
            Err(why) => println!("    cannot read the report of {suite}: {why}"),
        }
    }
}

/// Returns `target` for `target/debug/test-results`.
fn target_dir(results: &Path) -> &Path {
    results.ancestors().nth(2).unwrap_or(results)
}

fn to_outcome(done: TaskResult) -> SuiteOutcome {
    done.map_or_else(SuiteOutcome::Failed, |()| SuiteOutcome::Passed)
}

fn lint_outcome(built: &BuildResult) -> SuiteOutcome {
    match (built.warnings.is_empty(), built.is_linted) {
        (true, true) => SuiteOutcome::Passed,
        (true, false) => SuiteOutcome::Skipped("no clippy: `rustup component add clippy`".into()),
        (false, _) => {
            SuiteOutcome::Failed(format!("{}\nclippy reported warnings", built.warnings.join("\n")))
        }
    }
}

fn check_format() -> SuiteOutcome {
    if !cargo_has("fmt") {
        return SuiteOutcome::Skipped("no rustfmt: `rustup component add rustfmt`".into());
    }
    match tool::run(&mut cargo(["fmt", "--all", "--check"])) {
        Ok(()) => SuiteOutcome::Passed,
        Err(why) => SuiteOutcome::Failed(format!("{why}. Run `cargo fmt --all`.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_arguments_choose_form_and_strictness() {
        let parse = |args: &[&str]| parse_args(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Ok((TestForm::Short, false)));
        assert_eq!(parse(&["--strict"]), Ok((TestForm::Short, true)));
        assert_eq!(parse(&["--long", "--strict"]), Ok((TestForm::Long, true)));
        assert!(parse(&["--quick", "--long"]).is_err());
        assert!(parse(&["--fast"]).is_err());
    }
}
