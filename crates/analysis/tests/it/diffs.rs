//! Diffs: parsed strictly, applied completely or not at all, and never to protected files.

use std::collections::BTreeMap;
use std::process::Command;

use berth_analysis::diff::{
    CHANGED_LINES_MAX, DIFF_BYTES_MAX, Entry, FILE_BYTES_MAX, FILES_MAX, File, Permit, Reason, apply, diff,
};

fn plain(content: &str) -> Entry {
    Entry::File(File { content: content.as_bytes().to_vec(), is_executable: false })
}

fn files() -> BTreeMap<String, Entry> {
    let package = "{\n  \"name\": \"shop\",\n  \"scripts\": { \"build\": \"tsc\" }\n}\n";
    BTreeMap::from([
        ("src/a.txt".to_owned(), plain("one\ntwo\nthree\n")),
        ("package.json".to_owned(), plain(package)),
        ("logo.png".to_owned(), plain("\u{89}PNG\0\n")),
        ("link".to_owned(), Entry::Symlink),
        ("part".to_owned(), Entry::Submodule),
        ("long".to_owned(), plain(&"x\n".repeat(FILE_BYTES_MAX / 2 + 1))),
    ])
}

/// A diff that replaces the first line of a file.
fn first_line(path: &str, old: &str, new: &str) -> String {
    format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n")
}

fn new_file(path: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    )
}

fn refused(text: &str) -> Reason {
    apply(text, &files(), Permit::default()).expect_err(text).reason
}

#[test]
fn diff_of_protected_file_is_rejected() {
    let cases: &[(Reason, &[&str])] = &[
        (
            Reason::Path,
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
        (Reason::Path, &["a\u{202e}b", "a\u{200b}b", "tab\tx"]),
        (Reason::Definition, &[".berth/shop/pipeline.yaml", ".BERTH/x"]),
        (
            Reason::Automation,
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
        (Reason::Ownership, &["CODEOWNERS", "docs/CODEOWNERS", "OWNERS"]),
        (
            Reason::LockFile,
            &[
                "Cargo.lock",
                "web/package-lock.json",
                "yarn.lock",
                "go.sum",
                "pnpm-lock.yaml",
                ".terraform.lock.hcl",
            ],
        ),
        (Reason::PackageSettings, &[".npmrc", "web/.npmrc", ".yarnrc.yml", "pip.conf", ".cargo/config.toml"]),
        (
            Reason::Hook,
            &[".husky/pre-commit", ".githooks/pre-push", ".pre-commit-config.yaml", "lefthook.yml"],
        ),
        (Reason::Submodule, &[".gitmodules", "part/x"]),
        (Reason::Symlink, &["link/x"]),
        (Reason::DoesNotApply, &["src/a.txt", "src/a.txt/x", "src"]),
    ];
    for (reason, paths) in cases {
        for path in *paths {
            assert_eq!(refused(&new_file(path)), *reason, "{path}");
        }
    }
    let permit = Permit { definitions: true };
    assert!(apply(&new_file(".berth/shop/pipeline.yaml"), &files(), permit).is_ok());
    assert!(apply(&new_file(".github/x"), &files(), permit).is_err());
}

#[test]
fn diff_of_symlink_binary_or_rename_is_rejected() {
    let mode = |old: &str, new: &str| {
        format!("diff --git a/src/a.txt b/src/a.txt\nold mode {old}\nnew mode {new}\n")
    };
    let cases = [
        (Reason::Empty, String::new()),
        (Reason::Malformed, "hello\n".to_owned()),
        (Reason::Malformed, "--- a/x\n+++ b/x\n".to_owned()),
        (Reason::Empty, "diff --git a/src/a.txt b/src/a.txt\n".to_owned()),
        (Reason::Binary, first_line("logo.png", "x", "y")),
        (Reason::Binary, "diff --git a/l b/l\nGIT binary patch\n".to_owned()),
        (
            Reason::Binary,
            "diff --git a/l b/l\nindex 1..2 100644\nBinary files a/l and b/l differ\n".to_owned(),
        ),
        (Reason::Symlink, first_line("link", "x", "y")),
        (Reason::Symlink, new_file("x").replace("100644", "120000")),
        (Reason::Symlink, mode("100644", "120000")),
        (Reason::Submodule, first_line("part", "x", "y")),
        (Reason::Submodule, new_file("x").replace("100644", "160000")),
        (
            Reason::Renamed,
            "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n".to_owned(),
        ),
        (Reason::Renamed, "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n".to_owned()),
        (
            Reason::Path,
            "diff --git \"a/\\056git\" \"b/\\056git\"\nold mode 100644\nnew mode 100755\n".to_owned(),
        ),
        (Reason::PackageScripts, first_line("package.json", "{", "{ \"scripts\": {},").to_owned()),
        (
            Reason::PackageScripts,
            new_file("web/package.json").replace("+x", "+{\"scripts\": {\"postinstall\": \"x\"}}"),
        ),
        (Reason::PackageScripts, new_file("web/package.json")),
        (Reason::DoesNotApply, first_line("src/a.txt", "on", "eins")),
        (Reason::DoesNotApply, first_line("missing", "one", "eins")),
        (Reason::DoesNotApply, first_line("src/a.txt", "two", "zwei")),
        (Reason::DoesNotApply, mode("100755", "100644")),
        (Reason::FileTooLong, first_line("long", "x", "y")),
        (Reason::Malformed, first_line("src/a.txt", "one", "eins").repeat(2)),
        (Reason::Malformed, first_line("src/a.txt", "one", "eins").replace("-1 +1", "-1,2 +1")),
    ];
    for (reason, text) in cases {
        assert_eq!(refused(&text), reason, "{text}");
    }
}

#[test]
fn diff_above_each_limit_is_rejected() {
    let many = |count: usize| (0..count).map(|n| new_file(&format!("f{n}"))).collect::<String>();
    assert!(apply(&many(FILES_MAX), &files(), Permit::default()).is_ok());
    assert_eq!(refused(&many(FILES_MAX + 1)), Reason::TooManyFiles);
    let lines = |count: usize| {
        let added = "+x\n".repeat(count);
        new_file("f").replace("+1 @@", &format!("+1,{count} @@")).replace("+x\n", &added)
    };
    assert!(apply(&lines(CHANGED_LINES_MAX), &files(), Permit::default()).is_ok());
    assert_eq!(refused(&lines(CHANGED_LINES_MAX + 1)), Reason::TooManyLines);
    let long = new_file("f").replace("+x", &format!("+{}", "x".repeat(DIFF_BYTES_MAX)));
    assert_eq!(refused(&long), Reason::TooLong);
}

#[test]
fn diff_creates_changes_and_deletes_files() {
    let gone = "diff --git a/src/a.txt b/src/a.txt\ndeleted file mode 100644\n--- a/src/a.txt\n+++ /dev/null\n\
                @@ -1,3 +0,0 @@\n-one\n-two\n-three\n";
    let changed = apply(&format!("{}{gone}", new_file("b")), &files(), Permit::default()).unwrap();
    assert_eq!(changed[0].after, Some(File { content: b"x\n".to_vec(), is_executable: false }));
    assert_eq!((changed[1].path.as_str(), &changed[1].after), ("src/a.txt", &None));
    let short = "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -2,2 +2,3 @@\n two\n+and\n three\n";
    let changed = apply(short, &files(), Permit::default()).unwrap();
    assert_eq!(changed[0].after.as_ref().unwrap().content, b"one\ntwo\nand\nthree\n");
}

/// Diffs written here are accepted by git, and the other way round.
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
    let before = File { content: b"#!/bin/sh\r\necho a\r\necho b".to_vec(), is_executable: false };
    let after = File { content: b"#!/bin/sh\necho a\necho b".to_vec(), is_executable: true };
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
        let commit = BTreeMap::from([(name.to_owned(), Entry::File(before.clone()))]);
        let changed = apply(&theirs, &commit, Permit::default()).unwrap();
        assert_eq!((changed[0].path.as_str(), changed[0].after.as_ref()), (name, Some(&after)));
    }
}

#[test]
fn quoted_file_name_is_parsed_like_git() {
    let mode = |header: &str| format!("diff --git {header}\nold mode 100644\nnew mode 100755\n");
    for (header, reason) in [
        (r#""a/\056git/hooks/x" "b/\056git/hooks/x""#, Reason::Path),
        (r#""a/\056github/x.yml" "b/\056github/x.yml""#, Reason::Automation),
        (r#""a/..\057x" "b/..\057x""#, Reason::Path),
        (r#""a/x\nb/y" "b/x\nb/y""#, Reason::Path),
        (r#""a/\303" "b/\303""#, Reason::Path),
        (r#""a/\400" "b/\400""#, Reason::Path),
        (r#""a/\x41" "b/\x41""#, Reason::Path),
        (r#""a/x" "b/x"#, Reason::Path),
        (r#""a/x" "b/x" "b/y""#, Reason::Path),
        (r#""a/x" "b/y""#, Reason::Renamed),
        (r#""/etc/x" "/etc/x""#, Reason::Renamed),
    ] {
        assert_eq!(refused(&mode(header)), reason, "{header}");
    }
}
