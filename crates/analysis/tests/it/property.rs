//! Property tests: statements that hold for every log.

use std::collections::BTreeMap;

use berth_analysis::diff::{DiffPermit, FileContent, TreeEntry, apply, diff};
use berth_analysis::{AnalysisInput, AnalysisResult, LineRange, StepEnding, analyse, fingerprint};
use proptest::prelude::*;

use crate::logs::{analysis_input, load_logs};

/// Lines with placeholders for everything that differs between runs.
const LINES: &[&str] = &[
    "DIR/src/main.c:NUM:NUM: error: 'totl' undeclared",
    "TIME cat: DIR/site.tar: No such file or directory",
    "psql: error: connection to server at \"10.0.0.NUM\", port NUM failed: Connection refused",
    "TIME worker UUID gave up after NUM ms at 0xHEX",
    "commit COMMIT cannot be built in DIR/out",
];

fn fill_placeholders(line: &str, (num, dir, uuid, second): &(u32, String, [u8; 16], u32)) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let uuid = format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    line.replace("COMMIT", &format!("{hex}01234567"))
        .replace("UUID", &uuid)
        .replace("HEX", &hex[..8])
        .replace("TIME", &format!("2026-11-15T13:50:{:02}.{num}Z", second % 60))
        .replace("NUM", &num.to_string())
        .replace("DIR", dir)
}

fn placeholder_values() -> impl Strategy<Value = (u32, String, [u8; 16], u32)> {
    (any::<u32>(), "(/[a-z0-9_.-]{1,8}[a-z]){1,4}", any::<[u8; 16]>(), any::<u32>())
}

fn line_ranges(analysis: &AnalysisResult) -> Vec<LineRange> {
    match analysis {
        AnalysisResult::Found(found) => found.evidence.iter().chain(&found.new_lines).copied().collect(),
        AnalysisResult::NotEnoughEvidence(unexplained) => {
            unexplained.worth_a_look.iter().chain(&unexplained.new_lines).copied().collect()
        }
    }
}

proptest! {
    #[test]
    fn fingerprint_ignores_numbers_times_and_directories(one in placeholder_values(), two in placeholder_values()) {
        for line in LINES {
            let fingerprint_with = |values| {
                let lines = vec!["begin".to_owned(), fill_placeholders(line, values)];
                let input = analysis_input(StepEnding::from_exit_code(1), &lines);
                fingerprint(&input, &analyse(&input))
            };
            prop_assert_eq!(fingerprint_with(&one), fingerprint_with(&two), "{}", line);
        }
    }

    #[test]
    fn evidence_is_within_the_log(
        picked in prop::collection::vec(0..500usize, 0..30),
        first_line in 1..1000usize,
        code in 0..256,
        has_good in any::<bool>(),
    ) {
        let pool: Vec<String> = load_logs().into_iter().flat_map(|log| log.lines).collect();
        let lines: Vec<String> = picked.iter().map(|at| pool[at % pool.len()].clone()).collect();
        let good = &pool[..pool.len() / 2];
        let plain = analysis_input(StepEnding::from_exit_code(code), &lines);
        let input = AnalysisInput { first_line, last_good: has_good.then_some(good), ..plain };
        let analysis = analyse(&input);
        let end = first_line + lines.len();
        prop_assert!(line_ranges(&analysis).iter().all(|range| range.is_within(first_line, end.saturating_sub(1))));
        prop_assert_eq!(fingerprint(&input, &analysis), fingerprint(&input, &analyse(&input)));
        let text = serde_json::to_string(&analysis).unwrap();
        prop_assert_eq!(serde_json::from_str::<AnalysisResult>(&text).unwrap(), analysis);
    }

    #[test]
    fn written_diff_applies(
        old in prop::collection::vec("[ab]{0,2}\r?", 0..30),
        new in prop::collection::vec("[ab]{0,2}\r?", 0..30),
        ends in any::<(bool, bool, bool, bool)>(),
    ) {
        let file = |lines: &[String], has_end: bool, is_executable: bool| {
            let mut content = lines.join("\n");
            if has_end && !lines.is_empty() {
                content.push('\n');
            }
            FileContent { content: content.into_bytes(), is_executable }
        };
        let (before, after) = (file(&old, ends.0, ends.1), file(&new, ends.2, ends.3));
        let text = diff("a dir/x.sh", &before, &after);
        let files = BTreeMap::from([("a dir/x.sh".to_owned(), TreeEntry::File(before.clone()))]);
        if before == after {
            prop_assert_eq!(text, "");
        } else {
            let changed = apply(&text, &files, DiffPermit::default());
            let after_found = changed.map(|mut changed| changed.remove(0).after);
            prop_assert_eq!(after_found, Ok(Some(after)), "{}", text);
        }
    }

    #[test]
    fn arbitrary_diff_is_rejected_or_applied(text in "(diff --git a/x b/x\n|--- a/x\n|\\+\\+\\+ b/x\n|@@ -1 \\+1 @@\n|@@ -0,0 \\+1,2 @@\n|-a\n|\\+b\n| a\n|new mode 100755\n|old mode 100644\n){0,8}") {
        let entry = TreeEntry::File(FileContent { content: b"a\n".to_vec(), is_executable: false });
        let files = BTreeMap::from([("x".to_owned(), entry)]);
        if let Ok(changed) = apply(&text, &files, DiffPermit::default()) {
            prop_assert_eq!(changed.len(), 1);
            prop_assert_eq!(&changed[0].path, "x");
        }
    }
}
