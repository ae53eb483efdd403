//! Creating a branch with one commit, without a work tree, and pushing it. It never overwrites an existing branch.

use berth_core::repository::RemoteUrl;
use berth_core::time::Timestamp;
use berth_engine::credential::RedactedString;
use berth_engine::git::{
    CommitHash, FileChange, GitCredential, GitError, GitMirror, GitRemote, NewCommit, NewFile, PushResult,
};

use super::{OriginRepository, create_mirror, serve_git, unrestricted_access};

const BRANCH: &str = "berth/fix-0123456789ab";

fn file_change(path: &str, content: &str, is_executable: bool) -> FileChange {
    let content = content.as_bytes().to_vec();
    FileChange { path: path.into(), after: Some(NewFile { content, is_executable }) }
}

fn commit(mirror: &GitMirror, parent: &CommitHash, changes: &[FileChange]) -> Result<CommitHash, GitError> {
    commit_as(mirror, parent, changes, "ada@acme.test")
}

fn commit_as(
    mirror: &GitMirror,
    parent: &CommitHash,
    changes: &[FileChange],
    author_email: &str,
) -> Result<CommitHash, GitError> {
    mirror.commit(NewCommit {
        parent,
        changes,
        message: "Make it run\n\nBecause.\n",
        author_email,
        at: Timestamp::from_micros(1_700_000_000_000_000),
    })
}

fn create_origin() -> (OriginRepository, CommitHash) {
    let origin = OriginRepository::new();
    origin.write("deploy.sh", "#!/bin/sh\r\necho hi\r\n");
    origin.write("old/gone.txt", "x");
    origin.write(".gitattributes", "* text=auto eol=lf\n");
    let head = origin.commit("first");
    (origin, head)
}

#[test]
fn fix_commit_changes_only_the_given_files_and_modes() {
    let (origin, head) = create_origin();
    let it = create_mirror();
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    let changes = [
        file_change("deploy.sh", "#!/bin/sh\r\necho hi\r\n", true),
        file_change("new/a,b c.txt", "1\n", false),
        FileChange { path: "old/gone.txt".into(), after: None },
    ];
    let made = commit(&it.mirror, &head, &changes).unwrap();
    assert_eq!(commit(&it.mirror, &head, &changes).unwrap(), made, "the same arguments make the same commit");
    let to = GitRemote { url: &origin.url(), credential: None, access: &unrestricted_access() };
    let pushed = |was_there| PushResult { commit: made.clone(), was_there };
    assert_eq!(it.mirror.push_new(&to, &made, BRANCH, &["main"]).unwrap(), pushed(false));
    assert_eq!(it.mirror.push_new(&to, &made, BRANCH, &["main"]).unwrap(), pushed(true));
    // A commit by another user does not overwrite the existing branch.
    let other = commit_as(&it.mirror, &head, &changes, "bob@acme.test").unwrap();
    assert_ne!(other, made);
    assert_eq!(it.mirror.push_new(&to, &other, BRANCH, &["main"]).unwrap(), pushed(true));

    assert_eq!(origin.git(&["rev-parse", BRANCH]), made.as_str());
    assert_eq!(origin.git(&["rev-parse", "main"]), head.as_str());
    let raw = origin.git(&["diff-tree", "-r", "--no-renames", "--format=", "--raw", head.as_str(), BRANCH]);
    let kinds: Vec<_> = raw
        .lines()
        .map(|line| {
            (
                line[1..14].to_owned(),
                line.rsplit(' ').next().unwrap()[..1].to_owned(),
                line.split('\t').nth(1).unwrap().to_owned(),
            )
        })
        .map(|(modes, kind, path)| format!("{modes} {kind} {path}"))
        .collect();
    assert_eq!(
        kinds,
        ["100644 100755 M deploy.sh", "000000 100644 c new/a,b c.txt", "100644 000000 D old/gone.txt"]
    );
    // The content is stored unchanged, regardless of .gitattributes.
    assert_eq!(origin.git(&["cat-file", "blob", &format!("{BRANCH}:deploy.sh")]), "#!/bin/sh\r\necho hi");
    let who = origin.git(&["log", "-1", "--format=%an %ae %cn %P %s", BRANCH]);
    assert_eq!(who, format!("Berth ada@acme.test Berth {head} Make it run"));
}

#[test]
fn fix_push_never_moves_an_existing_branch() {
    let (origin, head) = create_origin();
    let it = create_mirror();
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    let made = commit(&it.mirror, &head, &[file_change("deploy.sh", "x\n", true)]).unwrap();
    origin.git(&["branch", BRANCH]);
    let to = GitRemote { url: &origin.url(), credential: None, access: &unrestricted_access() };
    let error = it.mirror.push_new(&to, &made, BRANCH, &["main"]).unwrap_err();
    assert!(matches!(&error, GitError::Refused(text) if text.contains("other content")), "{error}");
    assert_eq!(origin.git(&["rev-parse", BRANCH]), head.as_str());
}

#[test]
fn fix_push_refuses_other_branches() {
    let (origin, head) = create_origin();
    let it = create_mirror();
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    let made = commit(&it.mirror, &head, &[file_change("deploy.sh", "x\n", true)]).unwrap();
    let to = GitRemote { url: &origin.url(), credential: None, access: &unrestricted_access() };
    for wrong in
        ["main", "develop", "berth/", "berth/..", "berth/x.lock", "berth/tracked", "--force", "berth/a:main"]
    {
        let error = it.mirror.push_new(&to, &made, wrong, &["main", "berth/tracked"]).unwrap_err();
        assert!(matches!(error, GitError::Refused(_)), "{wrong}: {error}");
    }
    assert_eq!(origin.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
}

#[test]
fn fix_commit_without_changes_or_above_limits_is_refused() {
    let (origin, head) = create_origin();
    let it = create_mirror();
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    let many: Vec<_> = (0..21).map(|n| file_change(&format!("f{n}"), "x", false)).collect();
    for changes in [&[][..], &[file_change("old/gone.txt", "x", false)], &many] {
        let error = commit(&it.mirror, &head, changes).unwrap_err();
        assert!(matches!(error, GitError::Refused(_)), "{error}");
    }
}

#[test]
fn fix_push_over_http_uses_the_credential_and_reports_a_refusal() {
    let (origin, head) = create_origin();
    let it = create_mirror();
    let base = serve_git(origin.path().to_owned(), "x-access-token:hunter2-token");
    let url = RemoteUrl::parse(&format!("{base}/.git")).unwrap();
    let good = GitCredential::new(RedactedString::new("hunter2-token".into()));
    it.mirror.sync(&url, Some(&good), &unrestricted_access()).unwrap();
    let made = commit(&it.mirror, &head, &[file_change("deploy.sh", "x\n", true)]).unwrap();
    let bad = GitCredential::new(RedactedString::new("hunter2-wrong".into()));
    for wrong in [None, Some(&bad)] {
        let to = GitRemote { url: &url, credential: wrong, access: &unrestricted_access() };
        let error = it.mirror.push_new(&to, &made, BRANCH, &["main"]).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let to = GitRemote { url: &url, credential: Some(&good), access: &unrestricted_access() };
    assert!(!it.mirror.push_new(&to, &made, BRANCH, &["main"]).unwrap().was_there);
    assert_eq!(origin.git(&["rev-parse", BRANCH]), made.as_str());
}
