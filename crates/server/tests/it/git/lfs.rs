//! Files of Git LFS in checkouts.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use aws_lc_rs::digest;
use berth_core::repository::RemoteUrl;
use berth_engine::credential::RedactedString;
use berth_engine::git::{CheckoutRemote, CommitHash, GitCredential, GitError, RepositoryAccess};
use berth_testkit::outcome;

use super::submodules::{add_submodule, relative_url};
use super::{MirrorFixture, OriginRepository, create_mirror, serve_git, unrestricted_access};

const LOGIN: &str = "x-access-token:hunter2-token";
/// Set in the process that runs a test again without git-lfs.
const WITHOUT_LFS: &str = "BERTH_TEST_WITHOUT_LFS";

fn has_lfs() -> bool {
    let is_there =
        Command::new("git").args(["lfs", "version"]).output().is_ok_and(|ran| ran.status.success());
    if !is_there {
        outcome::skip("git-lfs", "apt-get install git-lfs");
    }
    is_there
}

/// Writes a pointer file, as git-lfs does when a file is added.
fn write_pointer(origin: &OriginRepository, path: &str, content: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, content);
    let oid: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let size = content.len();
    origin
        .write(path, &format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"));
    oid
}

/// Writes a pointer file, and its content into the LFS directory of the repository.
fn write_lfs(origin: &OriginRepository, path: &str, content: &[u8]) {
    let oid = write_pointer(origin, path, content);
    let dir = origin.path().join(".git/lfs/objects").join(&oid[..2]).join(&oid[2..4]);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(oid), content).unwrap();
}

struct HttpOrigin {
    origin: OriginRepository,
    url: RemoteUrl,
}

/// A repository that a server with a login offers over HTTP.
fn serve(origin: OriginRepository) -> HttpOrigin {
    let base = serve_git(origin.path().parent().unwrap().to_owned(), LOGIN);
    let name = origin.path().file_name().unwrap().to_str().unwrap();
    let url = RemoteUrl::parse(&format!("{base}/{name}/.git")).unwrap();
    HttpOrigin { origin, url }
}

fn check_out(
    it: &MirrorFixture,
    url: &RemoteUrl,
    access: &RepositoryAccess,
    commit: &CommitHash,
) -> Result<PathBuf, GitError> {
    let given = GitCredential::new(RedactedString::new("hunter2-token".into()));
    it.mirror.sync(url, Some(&given), access)?;
    let work = tempfile::tempdir_in(it.dir.path()).unwrap().keep();
    let credential = || Ok(Some(given.clone()));
    it.mirror.checkout_complete(CheckoutRemote { url, access, credential: &credential }, commit, &work)?;
    Ok(work)
}

#[test]
fn lfs_pointers_are_replaced_by_their_content() {
    if !has_lfs() {
        return;
    }
    let (tool, image) = (b"#!/bin/sh\necho tool\n".as_slice(), vec![7u8; 100_000]);
    let lib = OriginRepository::new();
    lib.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    write_lfs(&lib, "lib.bin", b"content of the submodule");
    let lib_commit = lib.commit("first");
    let origin = OriginRepository::new();
    origin.write("assets/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    write_lfs(&origin, "assets/tool.bin", tool);
    write_lfs(&origin, "assets/image.bin", &image);
    write_lfs(&origin, "assets/copy.bin", &image);
    // Only files that the attributes name are in LFS.
    write_pointer(&origin, "docs/pointer.bin", b"an example");
    let file = origin.path().join("assets/tool.bin");
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    add_submodule(&origin, "lib", &format!("../{}/.git", relative_url(&lib)), &lib_commit);
    let commit = origin.commit("first");
    let served = serve(origin);
    let it = create_mirror();
    let work = check_out(&it, &served.url, &unrestricted_access(), &commit).unwrap();
    let read = |path: &str| std::fs::read(work.join(path)).unwrap();
    assert_eq!(read("assets/tool.bin"), tool);
    assert_eq!((read("assets/image.bin"), read("assets/copy.bin")), (image.clone(), image));
    assert_eq!(read("lib/lib.bin"), b"content of the submodule");
    assert!(read("docs/pointer.bin").starts_with(b"version "));
    let mode = std::fs::metadata(work.join("assets/tool.bin")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    let stored = Command::new("grep").args(["-r", "hunter2"]).arg(it.dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stored.stdout), "");

    // The content is cached, so the server does not need it again.
    std::fs::remove_dir_all(served.origin.path().join(".git/lfs")).unwrap();
    let work = check_out(&it, &served.url, &unrestricted_access(), &commit).unwrap();
    assert_eq!(std::fs::read(work.join("assets/tool.bin")).unwrap(), tool);
}

#[test]
fn lfs_content_that_is_missing_or_wrong_fails_the_checkout() {
    if !has_lfs() {
        return;
    }
    let origin = OriginRepository::new();
    origin.write(".gitattributes", "*.bin filter=lfs\n");
    let oid = write_pointer(&origin, "a/x.bin", b"content");
    let commit = origin.commit("first");
    let local = origin.url();
    let served = serve(origin);
    for url in [&served.url, &local] {
        let error =
            check_out(&create_mirror(), url, &unrestricted_access(), &commit).unwrap_err().to_string();
        assert!(error.contains("a/x.bin"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let dir = served.origin.path().join(".git/lfs/objects").join(&oid[..2]).join(&oid[2..4]);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(&oid), "c0ntent").unwrap();
    for url in [&served.url, &local] {
        let error =
            check_out(&create_mirror(), url, &unrestricted_access(), &commit).unwrap_err().to_string();
        assert!(error.contains("a/x.bin"), "{error}");
    }
    std::fs::write(dir.join(&oid), "content").unwrap();
    let it = create_mirror();
    for url in [&served.url, &local] {
        let work = check_out(&it, url, &unrestricted_access(), &commit).unwrap();
        assert_eq!(std::fs::read(work.join("a/x.bin")).unwrap(), b"content");
    }
}

#[test]
fn lfs_counts_towards_the_size_of_a_checkout() {
    let origin = OriginRepository::new();
    origin.write(".gitattributes", "*.bin filter=lfs\n");
    let oid = "0".repeat(64);
    let size = 3u64 * 1024 * 1024 * 1024;
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n");
    origin.write("x.bin", &pointer);
    let commit = origin.commit("first");
    let error = check_out(&create_mirror(), &origin.url(), &unrestricted_access(), &commit).unwrap_err();
    assert!(matches!(&error, GitError::TooLarge(text) if text.contains("3072 MiB")), "{error}");
}

#[test]
fn lfs_on_a_shared_server_needs_a_listed_host() {
    let origin = OriginRepository::new();
    origin.write(".gitattributes", "*.bin filter=lfs\n");
    write_lfs(&origin, "x.bin", b"content");
    let commit = origin.commit("first");
    let served = serve(origin);
    let it = create_mirror();
    check_out(&it, &served.origin.url(), &unrestricted_access(), &commit).unwrap();
    // The repository is in the mirror. Its URL now names a public host that the operator has not listed.
    let other = create_mirror();
    other.mirror.sync(&served.origin.url(), None, &unrestricted_access()).unwrap();
    let url = RemoteUrl::parse("https://1.1.1.1/shop.git").unwrap();
    let shared = RepositoryAccess { is_local: false, roots: Vec::new(), hosts: Vec::new() };
    let work = tempfile::tempdir_in(other.dir.path()).unwrap();
    let from = CheckoutRemote { url: &url, access: &shared, credential: &|| Ok(None) };
    let error = other.mirror.checkout_complete(from, &commit, work.path()).unwrap_err().to_string();
    let allow =
        "the server's operator can allow downloads that 1.1.1.1 refers to with --repository-host 1.1.1.1";
    assert_eq!(error, format!("x.bin is stored in Git LFS; {allow}"));
}

#[test]
fn lfs_without_the_program_says_what_to_install() {
    if std::env::var_os(WITHOUT_LFS).is_none() {
        // Run this test again in a process whose PATH has only git.
        let dir = tempfile::tempdir().unwrap();
        let paths = std::env::var_os("PATH").unwrap();
        let git =
            std::env::split_paths(&paths).map(|dir| dir.join("git")).find(|file| file.exists()).unwrap();
        std::os::unix::fs::symlink(git, dir.path().join("git")).unwrap();
        let name = "git::lfs::lfs_without_the_program_says_what_to_install";
        let ran = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env("PATH", dir.path())
            .env(WITHOUT_LFS, "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success() && printed.contains("1 passed"), "{printed}");
        return;
    }
    let origin = OriginRepository::new();
    origin.write(".gitattributes", "*.bin filter=lfs\n");
    write_lfs(&origin, "assets/x.bin", b"content");
    let commit = origin.commit("first");
    let served = serve(origin);
    let error = check_out(&create_mirror(), &served.url, &unrestricted_access(), &commit).unwrap_err();
    let text = "assets/x.bin is stored in Git LFS; install git-lfs on the server (apt-get install git-lfs)";
    assert!(matches!(&error, GitError::Missing(said) if said == text), "{error}");
}

#[test]
fn lfs_content_must_have_the_size_in_its_pointer() {
    let origin = OriginRepository::new();
    origin.write(".gitattributes", "*.bin filter=lfs\n");
    write_lfs(&origin, "a.bin", b"content");
    let (it, first) = (create_mirror(), origin.commit("first"));
    check_out(&it, &origin.url(), &unrestricted_access(), &first).unwrap();
    // The content is in the cache now, so nothing but the size of the pointer limits the checkout.
    let pointer = std::fs::read_to_string(origin.path().join("a.bin")).unwrap();
    origin.write("b.bin", &pointer.replace("size 7", "size 1"));
    let second = origin.commit("second");
    let error = check_out(&it, &origin.url(), &unrestricted_access(), &second).unwrap_err();
    assert!(error.to_string().contains("the content of b.bin has the wrong size"), "{error}");
}
