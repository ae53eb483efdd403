//! Submodules in checkouts: from the same server, from other servers, and hostile ones.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use berth_core::id::{OrgId, RepositoryId};
use berth_core::repository::RemoteUrl;
use berth_core::time::Timestamp;
use berth_engine::credential::RedactedString;
use berth_engine::git::{CheckoutRemote, CommitHash, GitCredential, GitError, MirrorStore, RepositoryAccess};
use berth_engine::limits::{SUBMODULE_DEPTH_MAX, SUBMODULES_MAX};

use super::hostile::incompressible_text;
use super::{MirrorFixture, OriginRepository, PATIENCE, create_mirror, serve_git, unrestricted_access};

const LOGIN: &str = "x-access-token:hunter2-token";

/// Records a submodule, without cloning it as `git submodule add` would.
pub(crate) fn add_submodule(origin: &OriginRepository, path: &str, url: &str, commit: &CommitHash) {
    let file = origin.path().join(".gitmodules");
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    let section = format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n");
    std::fs::write(file, before + &section).unwrap();
    add_link(origin, path, commit);
}

fn add_link(origin: &OriginRepository, path: &str, commit: &CommitHash) {
    std::fs::create_dir_all(origin.path().join(path)).unwrap();
    origin.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
}

/// The URL of another repository, relative to any repository in the same directory.
pub(crate) fn relative_url(origin: &OriginRepository) -> String {
    format!("../{}", origin.path().file_name().unwrap().to_str().unwrap())
}

fn origin_with(path: &str, text: &str) -> (OriginRepository, CommitHash) {
    let origin = OriginRepository::new();
    origin.write(path, text);
    let commit = origin.commit("first");
    (origin, commit)
}

struct CheckoutRequest<'a> {
    url: RemoteUrl,
    credential: Option<&'a str>,
    access: RepositoryAccess,
}

impl CheckoutRequest<'_> {
    fn local(origin: &OriginRepository) -> Self {
        Self { url: origin.url(), credential: None, access: unrestricted_access() }
    }

    /// Checks out a commit into a fresh directory.
    fn run(&self, it: &MirrorFixture, commit: &CommitHash) -> Result<PathBuf, GitError> {
        let given = self.credential.map(|value| GitCredential::new(RedactedString::new(value.into())));
        it.mirror.sync(&self.url, given.as_ref(), &self.access)?;
        let work = tempfile::tempdir_in(it.dir.path()).unwrap().keep();
        let credential = || Ok(given.clone());
        let from = CheckoutRemote { url: &self.url, access: &self.access, credential: &credential };
        let done = it.mirror.checkout_complete(from, commit, &work);
        if done.is_err() {
            assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "a failed checkout leaves nothing");
        }
        done.map(|()| work)
    }
}

#[test]
fn submodule_files_are_those_of_the_recorded_commit() {
    let (inner, inner_commit) = origin_with("deep.txt", "deep");
    let (lib, old) = origin_with("lib.txt", "old");
    lib.write("lib.txt", "new");
    add_submodule(&lib, "vendor/inner", &relative_url(&inner), &inner_commit);
    let new = lib.commit("second");
    let origin = OriginRepository::new();
    origin.write("main.txt", "main");
    add_submodule(&origin, "libs/new", &relative_url(&lib), &new);
    add_submodule(&origin, "libs/old", lib.path().to_str().unwrap(), &old);
    let commit = origin.commit("first");
    let it = create_mirror();
    let work = CheckoutRequest::local(&origin).run(&it, &commit).unwrap();
    for (path, text) in [
        ("main.txt", "main"),
        ("libs/new/lib.txt", "new"),
        ("libs/new/vendor/inner/deep.txt", "deep"),
        ("libs/old/lib.txt", "old"),
    ] {
        assert_eq!(std::fs::read_to_string(work.join(path)).unwrap(), text, "{path}");
    }
    assert!(!work.join("libs/new/.git").exists());

    // The commits are in the mirrors now, so the remotes are not needed again.
    drop((inner, lib));
    CheckoutRequest::local(&origin).run(&it, &commit).unwrap();
}

#[test]
fn submodule_without_settings_or_with_update_none_stays_empty() {
    let (lib, lib_commit) = origin_with("lib.txt", "lib");
    let origin = OriginRepository::new();
    add_link(&origin, "stray", &lib_commit);
    let commit = origin.commit("no .gitmodules");
    let it = create_mirror();
    let work = CheckoutRequest::local(&origin).run(&it, &commit).unwrap();
    assert_eq!(std::fs::read_dir(work.join("stray")).unwrap().count(), 0);

    let skipped =
        format!("[submodule \"x\"]\n\tpath = stray\n\turl = {}\n\tupdate = none\n", relative_url(&lib));
    origin.write(".gitmodules", &skipped);
    let commit = origin.commit("update = none");
    let work = CheckoutRequest::local(&origin).run(&it, &commit).unwrap();
    assert_eq!(std::fs::read_dir(work.join("stray")).unwrap().count(), 0);

    origin.write(".gitmodules", "[submodule \"x\"]\n\tpath = other\n\turl = ../x\n");
    let commit = origin.commit("another path");
    let error = CheckoutRequest::local(&origin).run(&it, &commit).unwrap_err();
    assert_eq!(error.to_string(), "submodule stray: .gitmodules has no url for it");
}

#[test]
fn submodule_over_http_uses_the_credential_of_its_server() {
    let (lib, lib_commit) = origin_with("lib.txt", "lib");
    let base = serve_git(lib.path().parent().unwrap().to_owned(), LOGIN);
    let origin = OriginRepository::new();
    add_submodule(&origin, "relative", &format!("../{}/.git", relative_url(&lib)), &lib_commit);
    let name = lib.path().file_name().unwrap().to_str().unwrap();
    add_submodule(&origin, "absolute", &format!("{base}/{name}/.git"), &lib_commit);
    let commit = origin.commit("first");
    let url = format!("{base}/{}/.git", origin.path().file_name().unwrap().to_str().unwrap());
    let request = CheckoutRequest {
        url: RemoteUrl::parse(&url).unwrap(),
        credential: Some("hunter2-token"),
        access: unrestricted_access(),
    };
    let it = create_mirror();
    let work = request.run(&it, &commit).unwrap();
    for dir in ["relative", "absolute"] {
        assert_eq!(std::fs::read_to_string(work.join(dir).join("lib.txt")).unwrap(), "lib");
    }
    let stored =
        std::process::Command::new("grep").args(["-r", "hunter2"]).arg(it.dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stored.stdout), "");
}

/// Accepts connections, asks for a login and keeps the request headers.
fn record_requests() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            log.lock().unwrap().extend(lines.take_while(|line| !line.is_empty()));
            let refused = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(refused.as_bytes());
        }
    });
    (base, seen)
}

#[test]
fn submodule_of_another_server_gets_no_credential() {
    let (other, seen) = record_requests();
    let origin = OriginRepository::new();
    let nowhere = CommitHash::parse(&"1".repeat(40)).unwrap();
    add_submodule(&origin, "libs/other", &format!("{other}/lib.git"), &nowhere);
    let commit = origin.commit("first");
    let base = serve_git(origin.path().to_owned(), LOGIN);
    let request = CheckoutRequest {
        url: RemoteUrl::parse(&format!("{base}/.git")).unwrap(),
        credential: Some("hunter2-token"),
        access: unrestricted_access(),
    };
    let error = request.run(&create_mirror(), &commit).unwrap_err().to_string();
    assert!(error.starts_with("submodule libs/other: "), "{error}");
    assert!(error.contains("write a relative url such as ../name.git in .gitmodules"), "{error}");
    let seen = seen.lock().unwrap().join("\n").to_lowercase();
    assert!(seen.contains("get /lib.git/info/refs"), "{seen}");
    assert!(!seen.contains("authorization") && !seen.contains("hunter2"), "{seen}");
}

#[test]
fn submodule_with_a_forbidden_url_is_refused() {
    let nowhere = CommitHash::parse(&"1".repeat(40)).unwrap();
    let (lib, _) = origin_with("lib.txt", "lib");
    let lib = lib.path().to_str().unwrap();
    let refuse = |url: &str, over_http: bool, access: Option<&RepositoryAccess>| {
        let origin = OriginRepository::new();
        add_submodule(&origin, "lib", url, &nowhere);
        let commit = origin.commit("first");
        let here =
            RepositoryAccess { is_local: false, roots: vec![origin.path().to_owned()], hosts: Vec::new() };
        let base = serve_git(origin.path().to_owned(), LOGIN);
        let request = CheckoutRequest {
            url: if over_http { RemoteUrl::parse(&format!("{base}/.git")).unwrap() } else { origin.url() },
            credential: Some("hunter2-token"),
            access: access.unwrap_or(&here).clone(),
        };
        let error = request.run(&create_mirror(), &commit).unwrap_err();
        assert!(matches!(error, GitError::Refused(_)), "{url}: {error}");
        let error = error.to_string();
        error.strip_prefix("submodule lib: ").unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    // Without --local, the rules for repositories apply.
    for (url, part) in [
        (lib, "--repository-root"),
        ("file:///etc", "--repository-root"),
        ("http://127.0.0.1:1/x", "https"),
        ("https://127.0.0.1:1/x", "--repository-host 127.0.0.1"),
        ("https://169.254.169.254/x", "private network"),
        ("git@localhost:x", "private network"),
        ("ext::sh", "must be like https://"),
        ("file::/etc", "must be like https://"),
        ("https://user:pass@git.acme.test/x", "must not contain a user or password"),
    ] {
        let error = refuse(url, false, None);
        assert!(error.contains(part), "{url}: {error}");
    }
    // A remote repository cannot name paths on the server.
    let error = refuse(lib, true, Some(&unrestricted_access()));
    assert!(error.contains("only a repository on the server's own disk"), "{error}");
}

#[test]
fn submodule_commit_that_was_not_pushed_is_named() {
    let (lib, _) = origin_with("lib.txt", "lib");
    let nowhere = CommitHash::parse(&"1".repeat(40)).unwrap();
    let origin = OriginRepository::new();
    add_submodule(&origin, "libs/x", &relative_url(&lib), &nowhere);
    let commit = origin.commit("first");
    let error = CheckoutRequest::local(&origin).run(&create_mirror(), &commit).unwrap_err().to_string();
    assert_eq!(error, format!("submodule libs/x: its remote has no commit {nowhere}; push the commit there"));
}

#[test]
fn submodules_above_the_limits_are_refused() {
    let (lib, lib_commit) = origin_with("lib.txt", "lib");
    let many = |count: usize| {
        let origin = OriginRepository::new();
        for number in 0..count {
            add_submodule(&origin, &format!("s{number}"), &relative_url(&lib), &lib_commit);
        }
        let commit = origin.commit("many");
        CheckoutRequest::local(&origin).run(&create_mirror(), &commit)
    };
    many(SUBMODULES_MAX).unwrap();
    let error = many(SUBMODULES_MAX + 1).unwrap_err().to_string();
    assert_eq!(error, format!("the commit has more than {SUBMODULES_MAX} submodules"));

    let mut chain = vec![(lib, lib_commit)];
    for _ in 0..=SUBMODULE_DEPTH_MAX {
        let (inner, inner_commit) = chain.last().unwrap();
        let outer = OriginRepository::new();
        add_submodule(&outer, "in", &relative_url(inner), inner_commit);
        let commit = outer.commit("outer");
        chain.push((outer, commit));
    }
    let (deepest, commit) = &chain[SUBMODULE_DEPTH_MAX];
    CheckoutRequest::local(deepest).run(&create_mirror(), commit).unwrap();
    let (too_deep, commit) = &chain[SUBMODULE_DEPTH_MAX + 1];
    let error = CheckoutRequest::local(too_deep).run(&create_mirror(), commit).unwrap_err().to_string();
    assert!(error.contains("nested more than 5 levels deep"), "{error}");
}

#[test]
fn submodules_count_towards_the_size_limit_and_old_ones_are_evicted() {
    let text = incompressible_text();
    let (first, first_commit) = origin_with("data", &text[..300_000]);
    let (second, second_commit) = origin_with("data", &text[300_000..600_000]);
    let origin = OriginRepository::new();
    add_submodule(&origin, "a", &relative_url(&first), &first_commit);
    let with_first = origin.commit("first");
    origin.git(&["rm", "--quiet", "--cached", "a"]);
    std::fs::remove_dir(origin.path().join("a")).unwrap();
    add_submodule(&origin, "b", &relative_url(&second), &second_commit);
    let with_second = origin.commit("second");
    add_submodule(&origin, "a", &relative_url(&first), &first_commit);
    let with_both = origin.commit("both");
    let it = create_mirror();
    let it = MirrorFixture { mirror: it.mirror.clone().with_size_limit(240 * 1024), ..it };
    let request = CheckoutRequest::local(&origin);
    request.run(&it, &with_first).unwrap();
    request.run(&it, &with_second).unwrap();
    request.run(&it, &with_first).unwrap();
    let error = request.run(&it, &with_both).unwrap_err();
    assert!(matches!(&error, GitError::TooLarge(text) if text.contains("with its submodules")), "{error}");
    assert!(error.to_string().starts_with("submodule "), "{error}");
    request.run(&it, &with_second).unwrap();
}

#[test]
fn symlink_in_a_submodule_must_stay_in_the_checkout() {
    for (target, is_allowed) in [("../main.txt", true), ("../../outside", false), ("/etc", false)] {
        let lib = OriginRepository::new();
        std::os::unix::fs::symlink(target, lib.path().join("link")).unwrap();
        let lib_commit = lib.commit("link");
        let origin = OriginRepository::new();
        origin.write("main.txt", "main");
        add_submodule(&origin, "lib", &relative_url(&lib), &lib_commit);
        let commit = origin.commit("first");
        let it = create_mirror();
        match CheckoutRequest::local(&origin).run(&it, &commit) {
            Ok(work) => {
                assert!(is_allowed, "{target}");
                assert_eq!(std::fs::read_to_string(work.join("lib/link")).unwrap(), "main");
            }
            Err(error) => {
                assert!(!is_allowed, "{target}: {error}");
                assert_eq!(error.to_string(), "symlinks lead out of the repository: lib/link");
            }
        }
    }
}

#[tokio::test]
async fn submodule_mirrors_are_removed_with_the_repository() {
    let (lib, lib_commit) = origin_with("lib.txt", "lib");
    let origin = OriginRepository::new();
    add_submodule(&origin, "lib", &relative_url(&lib), &lib_commit);
    let commit = origin.commit("first");
    let dir = tempfile::tempdir().unwrap();
    let store = MirrorStore::new(dir.path(), dir.path(), PATIENCE);
    let org = OrgId::from_parts(Timestamp::from_micros(1), [1; 10]);
    let repository = RepositoryId::from_parts(Timestamp::from_micros(1), [2; 10]);
    let it = MirrorFixture { mirror: store.mirror(org, repository), path: PathBuf::new(), dir };
    CheckoutRequest::local(&origin).run(&it, &commit).unwrap();
    let mirrors = it.dir.path().join("git").join(org.to_string());
    assert!(mirrors.join(format!("{repository}.submodules")).exists());
    store.remove_mirror(org, repository).await;
    assert_eq!(std::fs::read_dir(&mirrors).unwrap().count(), 0);
}
