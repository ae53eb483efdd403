//! Rules for test runners. A rule for a failed assertion has the weight `Cause`; a rule for a summary has the weight
//! `Report`.

use crate::category::Category::{Configuration, Test};
use crate::rule::{CAUSE, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "pytest-assertion",
        category: Test,
        patterns: &[
            r"^E\s+(?P<what>assert .+|AssertionError.*)",
            r"^FAILED (?P<what>\S+::\S+.* - (?:assert|AssertionError).*)",
        ],
        says: "A pytest test failed: {what}.",
        advice: "Run the test alone with `pytest -k`; the lines above show the values.",
        ..CAUSE
    },
    Rule {
        id: "cargo-test",
        category: Test,
        patterns: &[r"thread '(?P<test>[^']+)'.* panicked at", r"^test (?P<test>\S+).* \.\.\. FAILED"],
        with: &[r"^running \d+ tests?$", r"^test result: FAILED"],
        after: 3,
        says: "The Rust test {test} failed.",
        advice: "Run it alone with `cargo test {test}`; the lines below show the values.",
        ..CAUSE
    },
    Rule {
        id: "unittest-assertion",
        category: Test,
        patterns: &[r"^FAIL: (?P<test>\w+) \("],
        with: &[r"^Ran \d+ tests? in", r"^FAILED \("],
        says: "The Python test {test} failed.",
        advice: "Run it alone with `python -m unittest -k {test}`; the lines below show the values.",
        ..CAUSE
    },
    Rule {
        id: "javascript-assertion",
        category: Test,
        patterns: &[
            r"(?P<what>AssertionError(?: \[ERR_ASSERTION\])?: .+)",
            r"(?P<what>expect\(received\)\.\S+)",
            r"^\s*● (?P<what>.+)",
            r"^\s*error: '(?P<what>Expected values.+)",
        ],
        with: &[
            r"^\s*(?:Test Files|Tests:?|Test Suites:)\s+\d+ failed",
            r"^[#ℹ] fail [1-9]",
            r"^\s*\d+ failing",
        ],
        says: "A JavaScript test failed: {what}.",
        advice: "Run the test alone by its name; the lines below show the values.",
        ..CAUSE
    },
    Rule {
        id: "node-test",
        category: Test,
        patterns: &[r"^\s*not ok \d+ - (?P<test>.+)", r"^\s*✖ (?P<test>[^(]+) \([\d.]+ms\)"],
        with: &[r"^[#ℹ] fail [1-9]"],
        says: "The test \"{test}\" failed.",
        advice: "Run it alone with `node --test --test-name-pattern`; the lines below show the values.",
        ..CAUSE
    },
    Rule {
        id: "go-test",
        category: Test,
        patterns: &[r"^\s*--- FAIL: (?P<test>\S+)"],
        after: 2,
        says: "The Go test {test} failed.",
        advice: "Run it alone with `go test -run {test}`; the lines below show the values.",
        ..CAUSE
    },
    Rule {
        id: "java-test",
        category: Test,
        patterns: &[
            r"(?:\[ERROR\]\s+)?(?P<test>[\w.$]+):\d+ (?:expected|Expected)\b",
            r"^(?P<test>\S+ > .+) FAILED$",
            r"\[ERROR\] (?P<test>\S+)\s+Time elapsed: .* <<< (?:FAILURE|ERROR)!",
        ],
        says: "The Java test {test} failed.",
        advice: "Run it alone (`mvn -Dtest=…`, `gradle test --tests …`); the report has the values.",
        ..CAUSE
    },
    Rule {
        id: "test-snapshot",
        category: Test,
        patterns: &[
            r"(?P<what>\d+ snapshots? (?:failed|obsolete.* failed)).*",
            r"(?P<what>New snapshot was not written.*)",
        ],
        says: "A snapshot test failed: {what}.",
        advice: "Review the difference; if it is intended, update the snapshots and commit them.",
        ..CAUSE
    },
    Rule {
        id: "coverage-threshold",
        category: Test,
        patterns: &[
            r"(?P<what>(?:Jest: )?\x22?\w+\x22? ?coverage .*(?:threshold|not met).*)",
            r"(?P<what>FAIL Required test coverage of .+)",
        ],
        says: "Test coverage is below the threshold: {what}.",
        advice: "Add tests for the new code, or lower the threshold deliberately.",
        ..CAUSE
    },
    Rule {
        id: "no-tests",
        category: Configuration,
        patterns: &[
            r"^(?:=+ )?(?P<what>no tests ran|No tests found.*|No test files found.*|no tests to run)",
        ],
        says: "The test runner found no tests: {what}.",
        advice: "Fix the pattern or the directory that the step passes to the test runner.",
        ..REPORT
    },
    Rule {
        id: "test-report",
        category: Test,
        patterns: &[
            r"^FAILED (?P<what>\S+::\S+)",
            r"^ERROR (?P<what>\S+\.py(?:::\S+)?)",
            r"(?P<what>=+ .*\d+ (?:failed|errors?)\b.* in [\d.]+s)",
            r"^(?P<what>FAILED \((?:failures|errors)=\d+.*)",
            r"^\s*(?:❯ |× )?FAIL\s+(?P<what>\S+)",
            r"(?P<what>Tests run: \d+, (?:Failures: [1-9]|Failures: 0, Errors: [1-9]).*)",
            r"^(?P<what>test result: FAILED.*)",
            r"^\s*(?P<what>\d+ (?:failing|tests? failed).*)",
            r"^(?P<what>Failed tests?:.*)",
            r"^FAIL\s+(?P<what>\S+)\s+[\d.]+s",
        ],
        says: "Tests failed: {what}.",
        advice: "Run the failing tests alone; the log above shows why.",
        ..REPORT
    },
];
