//! Summary tables of `cargo xtask test`.

use std::time::Duration;

use super::junit::{JunitCase, JunitReport};
use super::prepare::MissingTool;

const SLOWEST: usize = 10;

pub(super) enum SuiteOutcome {
    Passed,
    Skipped(String),
    Failed(String),
}

pub(super) struct TestSuite {
    pub(super) name: &'static str,
    pub(super) took: Duration,
    pub(super) outcome: SuiteOutcome,
}

/// What the suites reported in addition to passed or failed.
#[derive(Default)]
pub(super) struct CollectedReports {
    slowest: Vec<JunitCase>,
    skipped: Vec<String>,
    impossible: Vec<String>,
    covered: Vec<String>,
    flaky: Vec<String>,
}

impl CollectedReports {
    pub(super) fn add(&mut self, suite: &str, report: JunitReport) {
        self.slowest.extend(
            report
                .cases
                .into_iter()
                .map(|case| JunitCase { name: format!("{suite}: {}", case.name), ..case }),
        );
        self.slowest.sort_by_key(|case| std::cmp::Reverse(case.took));
        self.slowest.truncate(SLOWEST);
        for (all, lines) in [
            (&mut self.skipped, report.skipped),
            (&mut self.impossible, report.impossible),
            (&mut self.covered, report.covered),
            (&mut self.flaky, report.flaky),
        ] {
            for line in lines {
                if !all.contains(&line) {
                    all.push(line);
                }
            }
        }
    }
}

/// Prints the tables. The error names what failed; in strict mode, every skipped test counts as a failure.
pub(super) fn print_summary(
    suites: &[TestSuite],
    missing: &[MissingTool],
    collected: &CollectedReports,
    is_strict: bool,
) -> Result<(), String> {
    print_list("Covered", &collected.covered);
    let slowest = collected.slowest.iter().map(|case| format!("{} {}", seconds(case.took), case.name));
    print_list("Slowest tests", &slowest.collect::<Vec<_>>());
    print_list("Flaky: failed, then passed when repeated", &collected.flaky);
    print_list("Not possible on this machine", &collected.impossible);
    let mut skipped: Vec<String> = missing
        .iter()
        .map(|it| format!("{} is missing (needed by {}): {}", it.what, it.needed_by, it.install))
        .collect();
    skipped.extend(suites.iter().filter_map(|suite| match &suite.outcome {
        SuiteOutcome::Skipped(why) => Some(format!("suite {}: {why}", suite.name)),
        _ => None,
    }));
    skipped.extend(collected.skipped.iter().cloned());
    print_list("Skipped", &skipped);

    println!();
    let mut failed = Vec::new();
    for suite in suites {
        let word = match suite.outcome {
            SuiteOutcome::Passed => "passed",
            SuiteOutcome::Skipped(_) => "skipped",
            SuiteOutcome::Failed(_) => {
                failed.push(suite.name);
                "FAILED"
            }
        };
        println!("{:<9} {word:<8} {}", suite.name, seconds(suite.took));
    }
    println!("{:<18} {}", "total", seconds(suites.iter().map(|suite| suite.took).sum()));
    match (failed.is_empty(), is_strict && !skipped.is_empty()) {
        (false, _) => Err(format!("failed: {}", failed.join(", "))),
        (true, true) => Err("failed: --strict allows nothing to be skipped; see the list above".into()),
        (true, false) => Ok(()),
    }
}

fn print_list(title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    println!("\n{title}:");
    for line in lines {
        println!("  {line}");
    }
}

fn seconds(took: Duration) -> String {
    format!("{:>7.1} s", took.as_secs_f64())
}
