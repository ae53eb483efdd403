//! Example logs for every rule, in `tests/logs`, with one file per area.
//!
//! A line `## rule` starts a log. It also says how the step ended: `(exit 126)`, `(signal 9)` or `(cause lost)`. The
//! prefix `> ` marks the line that the rule must report.

use std::collections::BTreeSet;

use berth_analysis::{
    AnalysisInput, AnalysisResult, Confidence, Finding, LINE_CHARS_MAX, LINES_MAX, LOG_BYTES_MAX, LineRange,
    StepEnding, analyse, rules,
};
use berth_core::deployment::FailureCode;

pub(crate) struct SampleLog {
    pub(crate) rule: String,
    pub(crate) ending: StepEnding<'static>,
    pub(crate) lines: Vec<String>,
    marked_line: Option<usize>,
}

pub(crate) fn analysis_input<'a>(ending: StepEnding<'a>, lines: &'a [String]) -> AnalysisInput<'a> {
    AnalysisInput { step_type: "script", run: None, ending, lines, first_line: 1, last_good: None }
}

pub(crate) fn expect_finding(input: &AnalysisInput<'_>) -> Finding {
    match analyse(input) {
        AnalysisResult::Found(finding) => finding,
        AnalysisResult::NotEnoughEvidence(_) => panic!("not enough evidence in {:?}", input.lines),
    }
}

/// All logs of all areas.
pub(crate) fn load_logs() -> Vec<SampleLog> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
    let areas = rules::AREAS.iter().map(|(area, _)| dir.join(format!("{area}.txt")));
    areas.flat_map(|path| parse_logs(&std::fs::read_to_string(path).unwrap())).collect()
}

fn parse_logs(text: &str) -> Vec<SampleLog> {
    let mut logs: Vec<SampleLog> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let (rule, end) = title.split_once(' ').unwrap_or((title, ""));
            logs.push(SampleLog {
                rule: rule.into(),
                ending: parse_ending(end),
                lines: Vec::new(),
                marked_line: None,
            });
            continue;
        }
        let log = logs.last_mut().expect("a log begins with its rule");
        if line.starts_with("> ") && log.marked_line.is_none() {
            log.marked_line = Some(log.lines.len() + 1);
        }
        log.lines.push(line.get(2..).unwrap_or_default().to_owned());
    }
    logs
}

fn parse_ending(text: &str) -> StepEnding<'static> {
    let words: Vec<&str> = text.trim_matches(['(', ')']).split(' ').collect();
    match words.as_slice() {
        [""] => StepEnding::from_exit_code(1),
        ["exit", code] => StepEnding::from_exit_code(code.parse().unwrap()),
        ["signal", signal] => StepEnding::from_signal(signal.parse().unwrap()),
        ["cause", name] => {
            StepEnding::from_record(serde_json::from_value::<FailureCode>((*name).into()).unwrap(), None, "")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_rule_matches_its_log_at_the_right_line() {
    let mut wrong = Vec::new();
    for log in load_logs() {
        let SampleLog { rule, lines, marked_line: marked, ending } = &log;
        match analyse(&analysis_input(*ending, lines)) {
            AnalysisResult::Found(finding) => {
                let is_rule = finding.rule.as_deref() == Some(rule.as_str());
                let first = finding.evidence.first().map(|range| range.first);
                if !is_rule || first != *marked {
                    wrong.push(format!("{rule}: {:?} at {first:?}, wanted {marked:?}", finding.rule));
                }
            }
            AnalysisResult::NotEnoughEvidence(_) => wrong.push(format!("{rule}: nothing found")),
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    let known: BTreeSet<&str> = rules::all().map(|rule| rule.id).collect();
    let shown: BTreeSet<String> = load_logs().into_iter().map(|log| log.rule).collect();
    let without: Vec<_> = known.iter().filter(|id| !shown.contains(**id)).collect();
    assert!(without.is_empty(), "rules without a log: {without:?}");
}

#[test]
fn log_without_errors_has_no_finding() {
    for lines in [vec![], vec!["all fine".to_owned()], vec![String::new(); 3]] {
        let AnalysisResult::NotEnoughEvidence(unexplained) =
            analyse(&analysis_input(StepEnding::from_exit_code(1), &lines))
        else {
            panic!("found something in {lines:?}");
        };
        assert!(unexplained.worth_a_look.iter().all(|range| range.is_within(1, lines.len())));
    }
}

/// One case for each point of the ranking in `analyse.rs`.
#[test]
fn most_significant_line_wins() {
    let refused = "curl: (7) Failed to connect to 127.0.0.1 port 80 after 0 ms: Couldn't connect to server";
    let full = "cp: error writing 'a': No space left on device";
    let undeclared = "a.c:1:1: error: 'x' undeclared";
    let other = "a.c:9:1: error: 'y' undeclared";
    let cases: &[(&str, &[&str], StepEnding<'_>, &str, usize)] = &[
        ("the engine is certain", &[full, "last"], StepEnding::from_timeout(), "step-timeout", 2),
        ("a cause beats general words", &[full, refused], StepEnding::from_exit_code(1), "disk-full", 1),
        (
            "general words beat an exit code",
            &[refused, "bye"],
            StepEnding::from_exit_code(137),
            "connection-refused",
            1,
        ),
        ("the later of equals wins", &[undeclared, full], StepEnding::from_exit_code(1), "disk-full", 2),
        (
            "the first of a group is shown",
            &["x", undeclared, other],
            StepEnding::from_exit_code(1),
            "gcc-error",
            2,
        ),
    ];
    for (name, lines, ending, rule, line) in cases {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let finding = expect_finding(&analysis_input(*ending, &lines));
        assert_eq!((finding.rule.as_deref(), finding.evidence[0].first), (Some(*rule), *line), "{name}");
    }
}

#[test]
fn line_of_last_successful_run_is_not_evidence() {
    let good =
        vec!["12:00:01 cache: Connection refused, going on without".to_owned(), "built 3 files".to_owned()];
    let lines = vec![
        "13:50:48 cache: Connection refused, going on without".to_owned(),
        "built 4 files".to_owned(),
        "cat: out/site.tar: No such file or directory".to_owned(),
        "giving up".to_owned(),
    ];
    let with =
        AnalysisInput { last_good: Some(&good), ..analysis_input(StepEnding::from_exit_code(1), &lines) };
    let finding = expect_finding(&with);
    assert_eq!(finding.rule.as_deref(), Some("file-missing"));
    assert_eq!(finding.new_lines, [LineRange { first: 3, last: 4 }]);
    let only_old = AnalysisInput { lines: &lines[..2], ..with };
    assert!(matches!(analyse(&only_old), AnalysisResult::NotEnoughEvidence(_)));
}

#[test]
fn tool_identification_may_be_an_old_line() {
    let good = vec!["running 2 tests".to_owned(), "test tests::adds ... ok".to_owned()];
    let lines = vec!["running 3 tests".to_owned(), "test tests::adds ... FAILED".to_owned()];
    let finding = expect_finding(&AnalysisInput {
        last_good: Some(&good),
        ..analysis_input(StepEnding::from_exit_code(101), &lines)
    });
    assert_eq!(finding.rule.as_deref(), Some("cargo-test"));
}

#[test]
fn contested_finding_has_lower_confidence() {
    let lines: Vec<String> =
        ["a.c:1:1: error: 'x' undeclared", "cp: error writing 'a': No space left on device"]
            .map(str::to_owned)
            .into();
    assert_eq!(
        expect_finding(&analysis_input(StepEnding::from_exit_code(1), &lines[1..])).confidence,
        Confidence::High
    );
    assert_eq!(
        expect_finding(&analysis_input(StepEnding::from_exit_code(1), &lines)).confidence,
        Confidence::Medium
    );
}

#[test]
fn signal_is_parsed_from_recorded_detail() {
    let killed =
        "ended by signal 9 (KILL), which the runner did not send: perhaps the machine ran out of memory";
    assert_eq!(StepEnding::from_record(FailureCode::Killed, None, killed).signal, Some(9));
    let exited = "exited with 139: a command in it was ended by signal 11 (SEGV)";
    assert_eq!(StepEnding::from_record(FailureCode::StepFailed, Some(139), exited).signal, None);
    let finding = expect_finding(&analysis_input(
        StepEnding::from_record(FailureCode::Killed, None, killed),
        &["linking".to_owned()],
    ));
    assert_eq!(finding.rule.as_deref(), Some("signal-kill"));
}

#[test]
fn line_numbers_match_the_log() {
    let lines = vec!["x".to_owned(), "cat: a: No such file or directory".to_owned()];
    let tail = AnalysisInput { first_line: 501, ..analysis_input(StepEnding::from_exit_code(1), &lines) };
    assert_eq!(expect_finding(&tail).evidence[0], LineRange::one(502));
    let mut long = vec!["y".to_owned(); LINES_MAX];
    long.extend(lines);
    assert_eq!(
        expect_finding(&analysis_input(StepEnding::from_exit_code(1), &long)).evidence[0].first,
        long.len()
    );
}

/// The cause is in the first line, so it is found only as long as the whole log is within the limits.
#[test]
fn log_is_analyzed_up_to_each_limit() {
    let cause = "cat: a: No such file or directory";
    let is_seen = |filler: &str, count: usize| {
        let mut lines = vec![cause.to_owned()];
        lines.extend(std::iter::repeat_n(filler.to_owned(), count));
        matches!(analyse(&analysis_input(StepEnding::from_exit_code(1), &lines)), AnalysisResult::Found(_))
    };
    assert!(is_seen("x", LINES_MAX - 1));
    assert!(!is_seen("x", LINES_MAX));
    let long = "x".repeat(LINE_CHARS_MAX);
    let fits = (LOG_BYTES_MAX - cause.len()) / LINE_CHARS_MAX;
    assert!(is_seen(&long, fits));
    assert!(!is_seen(&long, fits + 1));
    let at = |before: usize| vec![format!("{}{cause}", " ".repeat(before))];
    let inside = LINE_CHARS_MAX - cause.len();
    assert!(matches!(
        analyse(&analysis_input(StepEnding::from_exit_code(1), &at(inside))),
        AnalysisResult::Found(_)
    ));
    assert!(matches!(
        analyse(&analysis_input(StepEnding::from_exit_code(1), &at(inside + cause.len()))),
        AnalysisResult::NotEnoughEvidence(_)
    ));
}
