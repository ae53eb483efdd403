//! Diffs are parsed strictly, applied completely or not at all, and never applied to protected files.

use std::collections::BTreeMap;
use std::process::Command;

use berth_analysis::diff::{
    CHANGED_LINES_MAX, DIFF_BYTES_MAX, DiffPermit, FILE_BYTES_MAX, FILES_MAX, FileContent, RejectionReason,
    TreeEntry, apply, diff,
};

fn plain_file(content: &str) -> TreeEntry {
    TreeEntry::File(FileContent { content: content.as_bytes().to_vec(), is_executable: false })
}

fn sample_tree() -> BTreeMap<String, TreeEntry> {
    let package = "{\n  \"name\": \"shop\",\n  \"scripts\": { \"build\": \"tsc\" }\n}\n";
    BTreeMap::from([
        ("src/a.txt".to_owned(), plain_file("one\ntwo\nthree\n")),
        ("package.json".to_owned(), plain_file(package)),
        ("logo.png".to_owned(), plain_file("\u{89}PNG\0\n")),
        ("link".to_owned(), TreeEntry::Symlink),
        ("part".to_owned(), TreeEntry::Submodule),
        ("long".to_owned(), plain_file(&"x\n".repeat(FILE_BYTES_MAX / 2 + 1))),
    ])
}

/// A diff that replaces the first line of a file.
fn replace_first_line(path: &str, old: &str, new: &str) -> String {
    format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n")
}

fn new_file_diff(path: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    )
}

fn rejection_reason(text: &str) -> RejectionReason {
    apply(text, &sample_tree(), DiffPermit::default()).expect_err(text).reason
}

#[test]
fn diff_of_protected_file_is_rejected() {
    let cases: &[(RejectionReason, &[&str])] = &[
        (
            RejectionReason::Path,
            &[
                "../x",
                "/etc/passwd",
                "a//b",
                "a/./b",
                ".git/config",
                "a/.GIT/hooks/x",
                "a\\b",
                "c:x",
                "a /b",
                "git~1/x",
                "x.",
            ],
        ),
        (RejectionReason::Path, &["a\u{202e}b", "a\u{200b}b", "tab\tx"]),
        (RejectionReason::Definition, &[".berth/shop/pipeline.yaml", ".BERTH/x"]),
        (
            RejectionReason::Automation,
            &[
                ".github/workflows/ci.yml",
                ".GitHub/x",
                ".gitlab-ci.yml",
                "Jenkinsfile",
                "a/.circleci/config.yml",
                "azure-pipelines.yml",
                ".woodpecker.yml",
                ".forgejo/workflows/a.yml",
            ],
        ),
        (RejectionReason::Ownership, &["CODEOWNERS", "docs/CODEOWNERS", "OWNERS"]),
        (
            RejectionReason::LockFile,
            &[
                "Cargo.lock",
                "web/package-lock.json",
                "yarn.lock",
                "go.sum",
                "pnpm-lock.yaml",
                ".terraform.lock.hcl",
            ],
        ),
        (
            RejectionReason::PackageSettings,
            &[".npmrc", "web/.npmrc", ".yarnrc.yml", "pip.conf", ".cargo/config.toml"],
        ),
        (
            RejectionReason::Hook,
            &[".husky/pre-commit", ".githooks/pre-push", ".pre-commit-config.yaml", "lefthook.yml"],
        ),
        (RejectionReason::Submodule, &[".gitmodules", "part/x"]),
        (RejectionReason::Symlink, &["link/x"]),
        (RejectionReason::DoesNotApply, &["src/a.txt", "src/a.txt/x", "src"]),
    ];
    for (reason, paths) in cases {
        for path in *paths {
            assert_eq!(rejection_reason(&new_file_diff(path)), *reason, "{path}");
        }
    }
    let permit = DiffPermit { definitions: true };
    assert!(apply(&new_file_diff(".berth/shop/pipeline.yaml"), &sample_tree(), permit).is_ok());
    assert!(apply(&new_file_diff(".github/x"), &sample_tree(), permit).is_err());
}

#[test]
fn diff_of_symlink_binary_or_rename_is_rejected() {
    let mode = |old: &str, new: &str| {
        format!("diff --git a/src/a.txt b/src/a.txt\nold mode {old}\nnew mode {new}\n")
    };
    let cases = [
        (RejectionReason::Empty, String::new()),
        (RejectionReason::Malformed, "hello\n".to_owned()),
        (RejectionReason::Malformed, "--- a/x\n+++ b/x\n".to_owned()),
        (RejectionReason::Empty, "diff --git a/src/a.txt b/src/a.txt\n".to_owned()),
        (RejectionReason::Binary, replace_first_line("logo.png", "x", "y")),
        (RejectionReason::Binary, "diff --git a/l b/l\nGIT binary patch\n".to_owned()),
        (
            RejectionReason::Binary,
            "diff --git a/l b/l\nindex 1..2 100644\nBinary files a/l and b/l differ\n".to_owned(),
        ),
        (RejectionReason::Symlink, replace_first_line("link", "x", "y")),
        (RejectionReason::Symlink, new_file_diff("x").replace("100644", "120000")),
        (RejectionReason::Symlink, mode("100644", "120000")),
        (RejectionReason::Submodule, replace_first_line("part", "x", "y")),
        (RejectionReason::Submodule, new_file_diff("x").replace("100644", "160000")),
        (
            RejectionReason::Renamed,
            "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n".to_owned(),
        ),
        (RejectionReason::Renamed, "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n".to_owned()),
        (
            RejectionReason::Path,
            "diff --git \"a/\\056git\" \"b/\\056git\"\nold mode 100644\nnew mode 100755\n".to_owned(),
        ),
        (
            RejectionReason::PackageScripts,
            replace_first_line("package.json", "{", "{ \"scripts\": {},").to_owned(),
        ),
        (
            RejectionReason::PackageScripts,
            new_file_diff("web/package.json").replace("+x", "+{\"scripts\": {\"postinstall\": \"x\"}}"),
        ),
        (RejectionReason::PackageScripts, new_file_diff("web/package.json")),
        (RejectionReason::DoesNotApply, replace_first_line("src/a.txt", "on", "eins")),
        (RejectionReason::DoesNotApply, replace_first_line("missing", "one", "eins")),
        (RejectionReason::DoesNotApply, replace_first_line("src/a.txt", "two", "zwei")),
        (RejectionReason::DoesNotApply, mode("100755", "100644")),
        (RejectionReason::FileTooLong, replace_first_line("long", "x", "y")),
        (RejectionReason::Malformed, replace_first_line("src/a.txt", "one", "eins").repeat(2)),
        (
            RejectionReason::Malformed,
            replace_first_line("src/a.txt", "one", "eins").replace("-1 +1", "-1,2 +1"),
        ),
    ];
    for (reason, text) in cases {
        assert_eq!(rejection_reason(&text), reason, "{text}");
    }
}

#[test]
fn diff_above_each_limit_is_rejected() {
    let many = |count: usize| (0..count).map(|n| new_file_diff(&format!("f{n}"))).collect::<String>();
    assert!(apply(&many(FILES_MAX), &sample_tree(), DiffPermit::default()).is_ok());
    assert_eq!(rejection_reason(&many(FILES_MAX + 1)), RejectionReason::TooManyFiles);
    let lines = |count: usize| {
        let added = "+x\n".repeat(count);
        new_file_diff("f").replace("+1 @@", &format!("+1,{count} @@")).replace("+x\n", &added)
    };
    assert!(apply(&lines(CHANGED_LINES_MAX), &sample_tree(), DiffPermit::default()).is_ok());
    assert_eq!(rejection_reason(&lines(CHANGED_LINES_MAX + 1)), RejectionReason::TooManyLines);
    let long = new_file_diff("f").replace("+x", &format!("+{}", "x".repeat(DIFF_BYTES_MAX)));
    assert_eq!(rejection_reason(&long), RejectionReason::TooLong);
}

#[test]
fn diff_creates_changes_and_deletes_files() {
    let gone = "diff --git a/src/a.txt b/src/a.txt\ndeleted file mode 100644\n--- a/src/a.txt\n+++ /dev/null\n\
                @@ -1,3 +0,0 @@\n-one\n-two\n-three\n";
    let changed =
        apply(&format!("{}{gone}", new_file_diff("b")), &sample_tree(), DiffPermit::default()).unwrap();
    assert_eq!(changed[0].after, Some(FileContent { content: b"x\n".to_vec(), is_executable: false }));
    assert_eq!((changed[1].path.as_str(), &changed[1].after), ("src/a.txt", &None));
    let short = "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -2,2 +2,3 @@\n two\n+and\n three\n";
    let changed = apply(short, &sample_tree(), DiffPermit::default()).unwrap();
    assert_eq!(changed[0].after.as_ref().unwrap().content, b"one\ntwo\nand\nthree\n");
}

/// git accepts diffs that this crate writes, and this crate accepts diffs that git writes.
#[test]
fn diff_is_compatible_with_git() {
    let temp = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .current_dir(temp.path())
            .args(["-c", "user.name=Ada", "-c", "user.email=a@acme.test"])
            .args(args);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let before = FileContent { content: b"#!/bin/sh\r\necho a\r\necho b".to_vec(), is_executable: false };
    let after = FileContent { content: b"#!/bin/sh\necho a\necho b".to_vec(), is_executable: true };
    let names = ["run.sh", "run it.sh", "$(a) 'b';&.sh", "say \"hi\" *?|.sh", "dépl oy.sh", "\u{1f6a2}.sh"];
    for name in names {
        std::fs::write(temp.path().join(name), &before.content).unwrap();
    }
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    let patch = temp.path().join("d.patch");
    for name in names {
        let ours = diff(name, &before, &after);
        std::fs::write(&patch, &ours).unwrap();
        git(&["apply", "--index", patch.to_str().unwrap()]);
        assert_eq!(std::fs::read(temp.path().join(name)).unwrap(), after.content);
        assert!(git(&["ls-files", "-s", "--", name]).starts_with("100755"));
        let theirs = git(&["diff", "--cached", "--", name]);
        let without_index = theirs.lines().filter(|line| !line.starts_with("index "));
        assert_eq!(without_index.collect::<Vec<_>>(), ours.lines().collect::<Vec<_>>());
        let commit = BTreeMap::from([(name.to_owned(), TreeEntry::File(before.clone()))]);
        let changed = apply(&theirs, &commit, DiffPermit::default()).unwrap();
        assert_eq!((changed[0].path.as_str(), changed[0].after.as_ref()), (name, Some(&after)));
    }
}

#[test]
fn quoted_file_name_is_parsed_like_git() {
    let mode = |header: &str| format!("diff --git {header}\nold mode 100644\nnew mode 100755\n");
    for (header, reason) in [
        (r#""a/\056git/hooks/x" "b/\056git/hooks/x""#, RejectionReason::Path),
        (r#""a/\056github/x.yml" "b/\056github/x.yml""#, RejectionReason::Automation),
        (r#""a/..\057x" "b/..\057x""#, RejectionReason::Path),
        (r#""a/x\nb/y" "b/x\nb/y""#, RejectionReason::Path),
        (r#""a/\303" "b/\303""#, RejectionReason::Path),
        (r#""a/\400" "b/\400""#, RejectionReason::Path),
        (r#""a/\x41" "b/\x41""#, RejectionReason::Path),
        (r#""a/x" "b/x"#, RejectionReason::Path),
        (r#""a/x" "b/x" "b/y""#, RejectionReason::Path),
        (r#""a/x" "b/y""#, RejectionReason::Renamed),
        (r#""/etc/x" "/etc/x""#, RejectionReason::Renamed),
    ] {
        assert_eq!(rejection_reason(&mode(header)), reason, "{header}");
    }
}
