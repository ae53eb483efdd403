//! Mirrors: syncing, and resolving commits.

use std::os::unix::fs::PermissionsExt;

use berth_core::name::CommitId;
use berth_engine::git::{ChangedPaths, EntryKind, GitError, ResolvedCommit};

use super::{OriginRepository, create_mirror, unrestricted_access};

fn commit_id(text: &str) -> CommitId {
    CommitId::parse(text).unwrap()
}

#[test]
fn mirror_follows_branches_and_tags() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write("a.txt", "1");
    let first = origin.commit("first");
    origin.git(&["branch", "feature/x"]);
    let heads = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    assert_eq!(heads.default_branch.as_deref(), Some("main"));
    assert_eq!(heads.branches.keys().collect::<Vec<_>>(), ["feature/x", "main"]);
    assert_eq!(heads.head(), Some(&first));

    origin.write("a.txt", "2");
    let second = origin.commit("second");
    origin.git(&["tag", "-a", "v1", "-m", "one"]);
    origin.git(&["branch", "-D", "feature/x"]);
    let heads = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    assert_eq!((heads.branches.len(), heads.head()), (1, Some(&second)));
    assert_eq!(it.mirror.resolve(&commit_id("v1")).unwrap(), ResolvedCommit::Commit(second.clone()));

    // After a force push, the mirror can still resolve a commit that is no longer on its branch.
    origin.git(&["reset", "--quiet", "--hard", first.as_str()]);
    origin.git(&["tag", "-d", "v1"]);
    let heads = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    assert_eq!(heads.head(), Some(&first));
    assert_eq!(it.mirror.resolve(&commit_id("v1")).unwrap(), ResolvedCommit::Nothing);
    assert_eq!(it.mirror.resolve(&commit_id(second.as_str())).unwrap(), ResolvedCommit::Commit(second));
}

#[test]
fn mirror_of_an_empty_or_missing_repository_is_reported() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    let heads = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    assert_eq!((heads.default_branch.as_deref(), heads.branches.len()), (None, 0));
    std::fs::remove_dir_all(origin.path().join(".git")).unwrap();
    let error = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap_err();
    assert!(matches!(error, GitError::Failed(_)), "{error}");
    assert!(!error.to_string().contains(it.path.to_str().unwrap()), "{error}");
}

#[test]
fn commit_resolution_prefers_full_hash_then_name_then_short_hash() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    let first = origin.commit("first");
    let (short, shorter) = (&first.as_str()[..8], &first.as_str()[..7]);
    let second = origin.commit("second");
    origin.git(&["branch", short]);
    origin.git(&["update-ref", &format!("refs/heads/{first}"), second.as_str()]);
    origin.git(&["branch", "release/1.0"]);
    origin.git(&["branch", "füße#1"]);
    origin.git(&["tag", "-a", "v1", "-m", "one", first.as_str()]);
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    for (meant, found) in [
        (first.as_str(), Some(&first)),
        (first.as_str().to_uppercase().as_str(), Some(&first)),
        (short, Some(&second)),
        (shorter, Some(&first)),
        (shorter.to_uppercase().as_str(), Some(&first)),
        ("main", Some(&second)),
        ("release/1.0", Some(&second)),
        ("füße#1", Some(&second)),
        ("v1", Some(&first)),
        ("refs/heads/main", Some(&second)),
        ("refs/tags/v1", Some(&first)),
        ("nowhere", None),
        ("deadbeefdeadbeef", None),
        ("HEAD", None),
        ("refs/remotes/main", None),
    ] {
        let found = found.map_or(ResolvedCommit::Nothing, |sha| ResolvedCommit::Commit(sha.clone()));
        assert_eq!(it.mirror.resolve(&commit_id(meant)).unwrap(), found, "{meant}");
    }
}

#[test]
fn ambiguous_short_hash_resolves_to_no_commit() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.commit("first");
    let both = origin.create_similar_commits();
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    let ResolvedCommit::Several(found) = it.mirror.resolve(&commit_id(&both[0].as_str()[..4])).unwrap()
    else {
        panic!("one was chosen");
    };
    assert!(both.iter().all(|sha| found.contains(sha)), "{found:?}");
    let longer = commit_id(&both[0].as_str()[..20]);
    assert_eq!(it.mirror.resolve(&longer).unwrap(), ResolvedCommit::Commit(both[0].clone()));
}

#[test]
fn mirror_reads_lists_and_compares_files() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write(".berth/shop/pipeline.yaml", "version: 1\n");
    origin.write(".berth/[a]*/pipeline.yaml", "odd\n");
    origin.write("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(origin.path().join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("run.sh", origin.path().join("link")).unwrap();
    let first = origin.commit("first");
    origin.write("docs/a.md", "1");
    origin.write("run.sh", "#!/bin/sh\n:\n");
    let second = origin.commit("second");
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    let mirror = &it.mirror;

    let read = |path: &str| mirror.read(&first, path, 100).unwrap();
    assert_eq!(read(".berth/shop/pipeline.yaml").as_deref(), Some(b"version: 1\n".as_slice()));
    assert_eq!(read(".berth/[a]*/pipeline.yaml").as_deref(), Some(b"odd\n".as_slice()));
    assert_eq!((read("link"), read("docs/a.md"), read(".berth"), read("../x")), (None, None, None, None));
    assert!(matches!(mirror.read(&first, "run.sh", 9), Err(GitError::TooLarge(_))));
    assert!(mirror.read(&first, "run.sh", 10).unwrap().is_some());

    let listed = mirror.list(&first, ".berth").unwrap();
    let listed: Vec<_> = listed.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    assert_eq!(listed, [(".berth/[a]*", EntryKind::Directory), (".berth/shop", EntryKind::Directory)]);
    assert_eq!(mirror.list(&first, "nowhere").unwrap(), []);

    let paths = ChangedPaths::Paths(vec!["docs/a.md".into(), "run.sh".into()]);
    assert_eq!(mirror.changed_paths(&first, &second, 2).unwrap(), paths);
    assert_eq!(mirror.changed_paths(&first, &second, 1).unwrap(), ChangedPaths::Anything);
    assert!(mirror.is_ancestor(&first, &second).unwrap() && !mirror.is_ancestor(&second, &first).unwrap());
    assert_eq!(mirror.count_between(&first, &second).unwrap(), 1);
    assert_eq!(mirror.author(&second).unwrap(), ("Ada".into(), "ada@acme.test".into()));
}

#[test]
fn checkout_has_the_files_of_its_commit() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write("a/b/c.txt", "deep\n");
    origin.write("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(origin.path().join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("../run.sh", origin.path().join("a/run")).unwrap();
    std::os::unix::fs::symlink("b/nothing", origin.path().join("a/dangling")).unwrap();
    let commit = origin.commit("first");
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    let before = list_files(&it.path);
    let into = it.dir.path().join("work");
    std::fs::create_dir(&into).unwrap();
    it.mirror.checkout(&commit, &into).unwrap();
    assert_eq!(std::fs::read_to_string(into.join("a/b/c.txt")).unwrap(), "deep\n");
    assert_eq!(std::fs::read_to_string(into.join("a/run")).unwrap(), "#!/bin/sh\n");
    assert_eq!(std::fs::metadata(into.join("run.sh")).unwrap().permissions().mode() & 0o111, 0o111);
    assert!(!into.join(".git").exists());
    assert_eq!(list_files(&it.path), before);
    assert!(matches!(it.mirror.checkout(&commit, &into), Err(GitError::Refused(_))), "it is not empty");
}

fn list_files(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path().display().to_string()).collect();
    names.sort();
    names
}

#[test]
fn git_is_installed_and_new_enough() {
    berth_engine::git::check_git().unwrap();
}
