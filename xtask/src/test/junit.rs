//! Reads the JUnit reports of the suites: which tests were skipped, what tests covered, and how long they took.

use std::path::Path;
use std::time::Duration;

use berth_testkit::outcome::{COVERED, IMPOSSIBLE, SKIPPED};

#[derive(Debug, Default)]
pub(super) struct JunitReport {
    pub(super) cases: Vec<JunitCase>,
    /// Output lines that start with [`SKIPPED`], without that marker. The next two fields are the same for the other
    /// two markers.
    pub(super) skipped: Vec<String>,
    pub(super) impossible: Vec<String>,
    pub(super) covered: Vec<String>,
    /// Tests that passed only when they were repeated. Browser tests are repeated in CI.
    pub(super) flaky: Vec<String>,
}

#[derive(Debug)]
pub(super) struct JunitCase {
    pub(super) name: String,
    pub(super) took: Duration,
}

/// Reads a report. For a suite that failed before it wrote one, the report is empty.
pub(super) fn read_report(file: &Path) -> Result<JunitReport, String> {
    match std::fs::read_to_string(file) {
        Ok(text) => parse_report(&text).map_err(|error| format!("{}: {error}", file.display())),
        Err(_) => Ok(JunitReport::default()),
    }
}

fn parse_report(text: &str) -> Result<JunitReport, roxmltree::Error> {
    let document = roxmltree::Document::parse(text)?;
    let mut report = JunitReport::default();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let name = [case.attribute("classname"), case.attribute("name")];
        let name: Vec<_> = name.into_iter().flatten().collect();
        let seconds = case.attribute("time").and_then(|time| time.parse().ok()).unwrap_or(0.0);
        let name = name.join(" ");
        if case.children().any(|node| node.tag_name().name().starts_with("flaky")) {
            report.flaky.push(name.clone());
        }
        report.cases.push(JunitCase { name, took: Duration::from_secs_f64(seconds) });
        let output =
            case.children().filter(|node| node.has_tag_name("system-out") || node.has_tag_name("system-err"));
        for line in output.filter_map(|node| node.text()).flat_map(str::lines) {
            for (mark, lines) in [
                (SKIPPED, &mut report.skipped),
                (IMPOSSIBLE, &mut report.impossible),
                (COVERED, &mut report.covered),
            ] {
                lines.extend(line.strip_prefix(mark).map(|rest| rest.trim().to_owned()));
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_report_is_parsed_with_times_skips_coverage_and_flaky_tests() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run"><testsuite name="berth-store::it">
  <testcase name="chain::edit_is_found" classname="berth-store::it" time="1.250">
    <system-out>running 1 test
COVERED: 200 sequences
</system-out>
    <system-err>SKIPPED: PostgreSQL is missing: `apt-get install postgresql`
NOT POSSIBLE: Landlock: the kernel has none
</system-err>
  </testcase>
  <testcase name="home is live" classname="home.spec.ts" time="2">
    <flakyFailure message="home.spec.ts:4:1" type="FAILURE" time="10">timed out</flakyFailure>
  </testcase>
</testsuite></testsuites>"#;
        let report = parse_report(text).unwrap();
        assert_eq!(report.cases[0].name, "berth-store::it chain::edit_is_found");
        assert_eq!(report.cases[0].took, Duration::from_millis(1_250));
        assert_eq!(report.covered, ["200 sequences"]);
        assert_eq!(report.skipped, ["PostgreSQL is missing: `apt-get install postgresql`"]);
        assert_eq!(report.impossible, ["Landlock: the kernel has none"]);
        assert_eq!(report.flaky, ["home.spec.ts home is live"]);
    }
}
