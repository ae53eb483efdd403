//! Refs of pull requests in a mirror.

use berth_core::name::CommitId;
use berth_core::repository::RemoteUrl;
use berth_engine::credential::RedactedString;
use berth_engine::git::{CommitHash, GitCredential, GitError, RepositoryAccess, ResolvedCommit};

use super::hostile::incompressible_text;
use super::{MirrorFixture, OriginRepository, create_mirror, serve_git, unrestricted_access};

/// Commits a file to a ref outside of the branches, as a forge does for a pull request.
fn open_pull_request(origin: &OriginRepository, remote_ref: &str, text: &str) -> CommitHash {
    origin.git(&["checkout", "--quiet", "--detach", "main"]);
    origin.write("change.txt", text);
    let head = origin.commit("change");
    origin.git(&["update-ref", remote_ref, head.as_str()]);
    origin.git(&["checkout", "--quiet", "main"]);
    head
}

fn fetch(
    it: &MirrorFixture,
    origin: &OriginRepository,
    name: &str,
    number: i64,
) -> Result<CommitHash, GitError> {
    it.mirror.fetch_pull_request(&origin.url(), None, &unrestricted_access(), name, number)
}

fn pull_request_refs(it: &MirrorFixture) -> String {
    let ran = std::process::Command::new("git")
        .arg("--git-dir")
        .arg(&it.path)
        .args(["for-each-ref", "--format=%(refname)", "refs/pull-requests"])
        .output();
    String::from_utf8(ran.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn pull_request_ref_survives_sync_and_follows_its_head() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    let main = origin.commit("first");
    let first = open_pull_request(&origin, "refs/pull/42/head", "1");
    let other = open_pull_request(&origin, "refs/merge-requests/7/head", "other");
    // The first fetch creates the mirror.
    assert_eq!(fetch(&it, &origin, "refs/pull/42/head", 42).unwrap(), first);
    assert_eq!(fetch(&it, &origin, "refs/merge-requests/7/head", 7).unwrap(), other);

    let heads = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    assert_eq!(heads.branches.into_iter().collect::<Vec<_>>(), [("main".to_owned(), main)]);
    assert_eq!(pull_request_refs(&it), "refs/pull-requests/42\nrefs/pull-requests/7");

    // After a force push, the ref moves and the earlier commit can still be resolved.
    let second = open_pull_request(&origin, "refs/pull/42/head", "2");
    let moved = origin.commit("second");
    assert_eq!(fetch(&it, &origin, "refs/pull/42/head", 42).unwrap(), second);
    let heads = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    assert_eq!(heads.head(), Some(&moved));
    assert_eq!(pull_request_refs(&it), "refs/pull-requests/42\nrefs/pull-requests/7");
    let resolve = |text: &str| it.mirror.resolve(&CommitId::parse(text).unwrap()).unwrap();
    assert_eq!(resolve(first.as_str()), ResolvedCommit::Commit(first.clone()));

    it.mirror.remove_pull_request(42).unwrap();
    it.mirror.remove_pull_request(42).unwrap();
    assert_eq!(pull_request_refs(&it), "refs/pull-requests/7");
    assert_eq!(resolve(second.as_str()), ResolvedCommit::Commit(second));
}

#[test]
fn sync_after_pull_request_fetches_nothing() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.commit("first");
    open_pull_request(&origin, "refs/pull/1/head", "1");
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    fetch(&it, &origin, "refs/pull/1/head", 1).unwrap();
    // A fetch would remove this file.
    let marker = it.path.join("tmp_marker");
    std::fs::write(&marker, "").unwrap();
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    fetch(&it, &origin, "refs/pull/1/head", 1).unwrap();
    assert!(marker.exists());
}

#[test]
fn pull_request_with_invalid_ref_or_number_is_refused() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.commit("first");
    for bad in [
        "",
        "main",
        "HEAD",
        "pull/42/head",
        "-refs/pull/42/head",
        "+refs/pull/42/head",
        "refs/",
        "refs/pull/*/head",
        "refs/pull/4?/head",
        "refs/pull/[4]/head",
        "refs/../heads/main",
        "refs/pull/42/head:refs/heads/main",
        "refs/pull/42/head\nrefs/heads/main",
        "refs/pull/42/\0head",
        "refs/pull/42/head^{}",
        "refs/pull//head",
    ] {
        let error = fetch(&it, &origin, bad, 42).unwrap_err();
        assert!(matches!(error, GitError::Refused(_)), "{bad:?}: {error}");
    }
    for number in [0, -1, i64::MIN] {
        assert!(matches!(fetch(&it, &origin, "refs/heads/main", number), Err(GitError::Refused(_))));
        assert!(matches!(it.mirror.remove_pull_request(number), Err(GitError::Refused(_))));
    }
    let error = fetch(&it, &origin, "refs/pull/42/head", 42).unwrap_err();
    assert_eq!(error.to_string(), "the repository has no refs/pull/42/head");
    let blob = origin.git(&["hash-object", "-w", ".git/config"]);
    origin.git(&["update-ref", "refs/pull/43/head", &blob]);
    let error = fetch(&it, &origin, "refs/pull/43/head", 43).unwrap_err();
    assert_eq!(error.to_string(), "refs/pull/43/head is not a commit");
    assert_eq!(pull_request_refs(&it), "");
}

#[test]
fn pull_request_above_the_size_limit_is_discarded() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write("a", "1");
    let main = origin.commit("first");
    let small = open_pull_request(&origin, "refs/pull/1/head", "small");
    let it = MirrorFixture { mirror: it.mirror.clone().with_size_limit(256 * 1024), ..it };
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    fetch(&it, &origin, "refs/pull/1/head", 1).unwrap();
    open_pull_request(&origin, "refs/pull/1/head", &incompressible_text());
    let error = fetch(&it, &origin, "refs/pull/1/head", 1).unwrap_err();
    assert!(matches!(&error, GitError::TooLarge(text) if text.contains("larger than the limit")), "{error}");
    // The mirror and the earlier head stay usable.
    let work = it.dir.path().join("work");
    for commit in [&main, &small] {
        std::fs::create_dir(&work).unwrap();
        it.mirror.checkout(commit, &work).unwrap();
        std::fs::remove_dir_all(&work).unwrap();
    }
    assert_eq!(it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap().head(), Some(&main));
    let again = open_pull_request(&origin, "refs/pull/1/head", "small again");
    assert_eq!(fetch(&it, &origin, "refs/pull/1/head", 1).unwrap(), again);
}

#[test]
fn pull_request_over_http_needs_the_credential() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.commit("first");
    let head = open_pull_request(&origin, "refs/pull/3/head", "1");
    let base = serve_git(origin.path().to_owned(), "x-access-token:hunter2-token");
    let url = RemoteUrl::parse(&format!("{base}/.git")).unwrap();
    let fetch = |credential: Option<&str>, access: &RepositoryAccess| {
        let credential = credential.map(|value| GitCredential::new(RedactedString::new(value.into())));
        it.mirror.fetch_pull_request(&url, credential.as_ref(), access, "refs/pull/3/head", 3)
    };
    for wrong in [None, Some("hunter2-wrong")] {
        let error = fetch(wrong, &unrestricted_access()).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let shared = RepositoryAccess { is_local: false, roots: Vec::new(), hosts: Vec::new() };
    assert!(matches!(fetch(Some("hunter2-token"), &shared), Err(GitError::Refused(_))));
    assert_eq!(pull_request_refs(&it), "");
    assert_eq!(fetch(Some("hunter2-token"), &unrestricted_access()).unwrap(), head);
}
