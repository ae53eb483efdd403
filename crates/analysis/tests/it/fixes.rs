//! Automatic fixes.

use std::collections::BTreeMap;

use berth_analysis::diff::{DiffPermit, FileContent, TreeEntry, apply};
use berth_analysis::fix::{FixSuggestion, READ_FILE_BYTES_MAX, relevant_files, suggest_fix};
use berth_analysis::{AnalysisInput, StepEnding, analyse};
use expect_test::{Expect, expect};

use crate::logs::{analysis_input, expect_finding};

fn file_tree(files: &[(&str, &str, bool)]) -> BTreeMap<String, TreeEntry> {
    let entry = |content: &str, is_executable| {
        TreeEntry::File(FileContent { content: content.into(), is_executable })
    };
    files.iter().map(|(path, content, bit)| ((*path).to_owned(), entry(content, *bit))).collect()
}

fn find_fix(
    line: &str,
    exit: i32,
    run: &str,
    files: &[(&str, &str, bool)],
    permit: DiffPermit,
) -> Option<FixSuggestion> {
    let lines: Vec<String> = line.lines().map(str::to_owned).collect();
    let input = AnalysisInput { run: Some(run), ..analysis_input(StepEnding::from_exit_code(exit), &lines) };
    let files = file_tree(files);
    let fix = suggest_fix(&input, &expect_finding(&input), &files, permit)?;
    apply(&fix.diff, &files, permit).expect("a suggested fix applies");
    Some(fix)
}

fn check_fix(fix: Option<FixSuggestion>, expected: &Expect) {
    expected.assert_eq(&fix.map_or("none".to_owned(), |fix| format!("{}\n{}", fix.summary, fix.diff)));
}

#[test]
fn fix_restores_executable_bit() {
    let script = ("ops/deploy.sh", "#!/bin/sh\necho deployed\n", false);
    let expected = expect![[r#"
        Make ops/deploy.sh executable
        diff --git a/ops/deploy.sh b/ops/deploy.sh
        old mode 100644
        new mode 100755
    "#]];
    let none = DiffPermit::default();
    for line in [
        "/tmp/step: 2: ./ops/deploy.sh: Permission denied",
        "bash: line 1: ops/deploy.sh: Permission denied",
        "sh: /var/berth/work/8f3a/ops/deploy.sh: Permission denied",
    ] {
        check_fix(find_fix(line, 126, "./ops/deploy.sh", &[script], none), &expected);
    }
    let nothing = expect!["none"];
    let line = "sh: 1: ./ops/deploy.sh: Permission denied";
    check_fix(find_fix(line, 126, "", &[("ops/deploy.sh", "#!/bin/sh\n", true)], none), &nothing);
    check_fix(find_fix(line, 126, "", &[("ops/deploy.sh", "data\n", false)], none), &nothing);
    check_fix(find_fix(line, 126, "", &[], none), &nothing);
    check_fix(find_fix("sh: 1: ./../../deploy.sh: Permission denied", 126, "", &[script], none), &nothing);
    let hook = (".husky/pre-commit", "#!/bin/sh\n", false);
    check_fix(find_fix("sh: 1: .husky/pre-commit: Permission denied", 126, "", &[hook], none), &nothing);
}

/// File names with spaces and shell characters, in the forms in which shells and tools print them.
#[test]
fn file_names_with_spaces_and_shell_characters_are_found() {
    let none = DiffPermit::default();
    for name in [
        "my deploy.sh",
        "run it",
        "ops/a & b.sh",
        "$(touch owned) it's.sh",
        "a;b (copy) #2!.sh",
        "100% *really*?.sh",
        "say \"hi\" <now>|.sh",
        "--help; rm -rf ~;.sh",
        "dépl oy.sh",
    ] {
        let script = (name, "#!/bin/sh\necho hi\n", false);
        let in_shell = format!("'./{}'", name.replace('\'', "'\\''"));
        for line in [
            format!("sh: 1: ./{name}: Permission denied"),
            format!("/work/8f3a/step: line 2: ./{name}: Permission denied"),
            format!("bash: /var/berth/work/8f3a/{name}: Permission denied"),
            format!("env: ‘./{name}’: Permission denied"),
            format!("env: {in_shell}: Permission denied"),
            "exec failed: Permission denied".to_owned(),
        ] {
            let made = find_fix(&line, 126, &in_shell, &[script], none).unwrap_or_else(|| panic!("{line}"));
            assert!(made.diff.ends_with("\nold mode 100644\nnew mode 100755\n"), "{}", made.diff);
        }
        let windows = (name, "#!/bin/sh\r\necho hi\r\n", true);
        for (line, exit) in [
            (format!("sh: 1: ./{name}: not found"), 127),
            (format!("bash: line 1: ./{name}: cannot execute: required file not found"), 127),
            (format!("bash: line 1: ./{name}: /bin/sh^M: bad interpreter: No such file or directory"), 126),
        ] {
            let made = find_fix(&line, exit, &in_shell, &[windows], none).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(made.summary, format!("Convert {name} to Unix line endings"));
        }
    }
}

#[test]
fn relevant_files_are_limited_and_not_private() {
    let long = "x\n".repeat(READ_FILE_BYTES_MAX);
    let half = "y\n".repeat(READ_FILE_BYTES_MAX / 2);
    let files = [
        ("deploy.sh", "#!/bin/sh\n", true),
        (".env", "TOKEN=1\n", false),
        ("server.pem", "x\n", false),
        ("notes", "-----BEGIN PRIVATE KEY-----\n", false),
        ("long.txt", &long, false),
        ("half.txt", &half, false),
        ("again.txt", &half, false),
        ("once more.txt", &half, false),
        ("unnamed.txt", "z\n", false),
    ];
    let line =
        "deploy.sh: cannot read .env, server.pem, notes, long.txt, half.txt, again.txt: 'once more.txt'";
    let lines = vec![line.to_owned(), "error: it failed".to_owned()];
    let input =
        AnalysisInput { run: Some("./deploy.sh"), ..analysis_input(StepEnding::from_exit_code(1), &lines) };
    let read = relevant_files(&input, &analyse(&input), &file_tree(&files));
    let paths: Vec<&str> = read.iter().map(|(path, _)| path.as_str()).collect();
    assert!(paths.contains(&"deploy.sh"), "{paths:?}");
    assert_eq!(paths.iter().filter(|path| path.ends_with(".txt")).count(), 1, "more is too much: {paths:?}");
    for private in [".env", "server.pem", "notes", "long.txt", "unnamed.txt"] {
        assert!(!paths.contains(&private), "{paths:?}");
    }
}

#[test]
fn fix_converts_windows_line_endings() {
    let script = ("deploy.sh", "#!/bin/sh\r\necho a\r\necho b", true);
    let expected = expect![[r#"
        Convert deploy.sh to Unix line endings
        diff --git a/deploy.sh b/deploy.sh
        --- a/deploy.sh
        +++ b/deploy.sh
        @@ -1,3 +1,3 @@
        -#!/bin/sh
        -echo a
        +#!/bin/sh
        +echo a
         echo b
        \ No newline at end of file
    "#]];
    let none = DiffPermit::default();
    let cases = [
        ("bash: line 1: ./deploy.sh: /bin/sh^M: bad interpreter: No such file or directory", 126),
        ("bash: line 1: ./deploy.sh: cannot execute: required file not found", 127),
        ("/tmp/step: 2: ./deploy.sh: not found", 127),
    ];
    for (line, exit) in cases {
        let shown = find_fix(line, exit, "./deploy.sh", &[script], none);
        let shown = shown.map(|fix| FixSuggestion { diff: fix.diff.replace('\r', ""), ..fix });
        check_fix(shown, &expected);
    }
    let fine = ("deploy.sh", "#!/bin/sh\necho a\n", true);
    check_fix(find_fix(cases[2].0, 127, "./deploy.sh", &[fine], none), &expect!["none"]);
}

#[test]
fn fix_corrects_misspelled_field_if_permitted() {
    let definition = "version: 1\npipeline:\n  name: Shop\n  stages: [{ name: live }]\n  steps:\n    - name: Build\n      type: script\n      \
                      tmeout: 5m # for slow days\n      params: { run: make }\n";
    let file = (".berth/shop/pipeline.yaml", definition, false);
    let message = &berth_definition::parse(definition).diagnostics[0].message;
    let log = &format!("error: {message}\n --> .berth/shop/pipeline.yaml:8:7");
    let permit = DiffPermit { definitions: true };
    let expected = expect![[r#"
        Fix a misspelled field in .berth/shop/pipeline.yaml
        diff --git a/.berth/shop/pipeline.yaml b/.berth/shop/pipeline.yaml
        --- a/.berth/shop/pipeline.yaml
        +++ b/.berth/shop/pipeline.yaml
        @@ -5,5 +5,5 @@
           steps:
             - name: Build
               type: script
        -      tmeout: 5m # for slow days
        +      timeout: 5m # for slow days
               params: { run: make }
    "#]];
    check_fix(find_fix(log, 1, "berth pipeline validate", &[file], permit), &expected);
    check_fix(find_fix(log, 1, "berth pipeline validate", &[file], DiffPermit::default()), &expect!["none"]);
    check_fix(find_fix(log, 1, "berth pipeline validate", &[], permit), &expect!["none"]);
}
