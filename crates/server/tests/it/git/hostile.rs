//! Hostile repositories, and git servers that hang.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use berth_core::repository::RemoteUrl;
use berth_engine::git::{GitError, GitMirror, RepositoryAccess};

use super::{OriginRepository, PATIENCE, create_mirror, unrestricted_access};

/// Writes a git object without any validation.
pub(super) fn write_object(origin: &OriginRepository, kind: &str, bytes: &[u8]) -> String {
    let mut child = Command::new("git")
        .args(["hash-object", "-w", "-t", kind, "--stdin", "--literally"])
        .current_dir(origin.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn tree_with_a_git_directory_is_refused_at_fetch() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write("config", "[core]\n\tfsmonitor = touch /tmp/owned\n");
    origin.commit("first");
    let inner = origin.git(&["rev-parse", "HEAD^{tree}"]);
    let hash: Vec<u8> =
        (0..40).step_by(2).map(|at| u8::from_str_radix(&inner[at..at + 2], 16).unwrap()).collect();
    let tree = write_object(&origin, "tree", &[b"40000 .git\0", hash.as_slice()].concat());
    let commit = origin.git(&["commit-tree", &tree, "-m", "evil"]);
    origin.git(&["update-ref", "refs/heads/evil", &commit]);
    let error = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap_err();
    assert!(error.to_string().contains("hasDotgit"), "{error}");
}

#[test]
fn git_attributes_and_config_in_a_tree_run_nothing() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    let owned = it.dir.path().join("owned");
    let filter = format!("touch {}", owned.display());
    origin.write(".gitattributes", "* filter=evil\n");
    origin.write(".gitconfig", &format!("[filter \"evil\"]\n\tsmudge = {filter}\n"));
    origin.write("config", &format!("[core]\n\tfsmonitor = {filter}\n"));
    origin.write("hooks/post-checkout", &format!("#!/bin/sh\n{filter}\n"));
    origin.write("file", "text\n");
    let commit = origin.commit("first");
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    let into = it.dir.path().join("work");
    std::fs::create_dir(&into).unwrap();
    it.mirror.checkout(&commit, &into).unwrap();
    assert_eq!(std::fs::read_to_string(into.join("file")).unwrap(), "text\n");
    assert!(!owned.exists());
}

#[test]
fn checkout_with_escaping_symlinks_is_refused() {
    for (links, named) in [
        (vec![("etc", "/etc")], "etc"),
        (vec![("up", "../outside")], "up"),
        // Each symlink on its own stays inside the checkout, but together they lead outside.
        (vec![("sub/up", ".."), ("sly", "sub/up/../outside")], "sly"),
    ] {
        let (origin, it) = (OriginRepository::new(), create_mirror());
        origin.write("sub/file", "x");
        for (name, target) in links {
            symlink(target, origin.path().join(name)).unwrap();
        }
        let commit = origin.commit("links");
        it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
        let into = it.dir.path().join("work");
        std::fs::create_dir(&into).unwrap();
        let error = it.mirror.checkout(&commit, &into).unwrap_err().to_string();
        assert_eq!(error, format!("symlinks lead out of the repository: {named}"));
        assert_eq!(std::fs::read_dir(&into).unwrap().count(), 0);
    }
}

/// A few megabytes of text that compresses badly.
pub(super) fn incompressible_text() -> String {
    (0..400_000u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

#[test]
fn mirror_of_a_too_large_repository_is_refused_and_cleaned_up() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write("small", "x");
    let small = origin.commit("small");
    let mirror = it.mirror.clone().with_size_limit(256 * 1024);
    mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    origin.write("huge", &incompressible_text());
    origin.commit("huge");
    let error = mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap_err();
    assert!(matches!(&error, GitError::TooLarge(text) if text.contains("larger than the limit")), "{error}");
    // The next sync succeeds once the repository is small again.
    origin.git(&["reset", "--quiet", "--hard", small.as_str()]);
    assert_eq!(mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap().head(), Some(&small));
}

#[test]
fn mirror_above_the_limit_is_recreated() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write("small", "x");
    let small = origin.commit("small");
    origin.write("huge", &incompressible_text());
    origin.commit("huge");
    // Syncs without a limit. The result is as if git had been killed right after it stored the pack.
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    origin.git(&["reset", "--quiet", "--hard", small.as_str()]);
    let mirror = it.mirror.clone().with_size_limit(256 * 1024);
    assert!(matches!(mirror.sync(&origin.url(), None, &unrestricted_access()), Err(GitError::TooLarge(_))));
    assert_eq!(mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap().head(), Some(&small));
}

#[test]
fn mirror_ignores_refs_that_look_like_options() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    let head = origin.commit("first");
    let packed = format!("{head} refs/heads/--upload-pack=touch\n{head} refs/heads/main\n");
    std::fs::write(origin.path().join(".git/packed-refs"), packed).unwrap();
    let heads = it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    assert_eq!(heads.branches.keys().collect::<Vec<_>>(), ["main"]);
}

#[test]
fn mirror_of_a_hanging_server_times_out() {
    let it = create_mirror();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/shop.git", silent.local_addr().unwrap());
    let mirror = GitMirror::standalone(it.path.clone(), Duration::from_millis(300));
    let begun = Instant::now();
    let error = mirror.sync(&RemoteUrl::parse(&url).unwrap(), None, &unrestricted_access()).unwrap_err();
    assert!(matches!(error, GitError::TooSlow(_)), "{error}");
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn mirror_recovers_from_a_killed_git() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.commit("first");
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    for left in ["packed-refs.lock", "refs/heads/main.lock", "HEAD.lock"] {
        std::fs::write(it.path.join(left), "").unwrap();
    }
    let second = origin.commit("second");
    assert_eq!(it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap().head(), Some(&second));
}

#[test]
fn mirror_of_a_shared_server_refuses_local_and_private_urls() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.commit("first");
    let open = RepositoryAccess { is_local: false, roots: Vec::new(), hosts: Vec::new() };
    let refused = |url: &str, access: &RepositoryAccess| {
        let error = it.mirror.sync(&RemoteUrl::parse(url).unwrap(), None, access).unwrap_err();
        assert!(matches!(error, GitError::Refused(_)), "{url}: {error}");
        error.to_string()
    };
    let path = origin.path().display().to_string();
    assert!(refused(&path, &open).contains("--repository-root"));
    assert!(refused("http://127.0.0.1:1/x", &open).contains("https"));
    assert!(refused("https://127.0.0.1:1/x", &open).contains("--repository-host 127.0.0.1"));
    assert!(refused("https://169.254.169.254/x", &open).contains("private network"));
    assert!(refused("git@localhost:x", &open).contains("private network"));
    let outside = tempfile::tempdir().unwrap();
    let link = outside.path().join("link");
    symlink(origin.path(), &link).unwrap();
    let below = RepositoryAccess { roots: vec![outside.path().to_owned()], ..open.clone() };
    refused(link.to_str().unwrap(), &below);
    let below = RepositoryAccess { roots: vec![origin.path().parent().unwrap().to_owned()], ..open };
    it.mirror.sync(&origin.url(), None, &below).unwrap();
}
