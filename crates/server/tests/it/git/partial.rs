//! Partial mirrors, over git HTTP.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use berth_core::repository::RemoteUrl;
use berth_engine::credential::RedactedString;
use berth_engine::git::{CheckoutRemote, CommitHash, GitCredential, GitError, GitMirror, GitRemote};

use berth_server::jobs;
use serde_json::json;

use super::{OriginRepository, PATIENCE, create_mirror, serve_git, unrestricted_access};
use crate::jobs_with_runner::start_runner;
use crate::world::{DEFINITION, POLL_EVERY, TestWorld, get, post};

const LOGIN: &str = "x-access-token:hunter2-token";
const LARGE: usize = 1024 * 1024;

/// Writes a file that cannot be compressed.
fn write_large(origin: &OriginRepository, path: &str) {
    let mut bytes = vec![0; LARGE];
    aws_lc_rs::rand::fill(&mut bytes).unwrap();
    std::fs::write(origin.path().join(path), bytes).unwrap();
}

/// A repository with a large file that was changed, which serves filtered objects if `has_filter`.
fn create_origin(has_filter: bool) -> (OriginRepository, CommitHash, RemoteUrl) {
    let origin = OriginRepository::new();
    origin.git(&["config", "uploadpack.allowFilter", if has_filter { "true" } else { "false" }]);
    origin.write(".berth/shop/pipeline.yaml", "version: 1\n");
    write_large(&origin, "data");
    origin.commit("first");
    write_large(&origin, "data");
    let head = origin.commit("second");
    let base = serve_git(origin.path().to_owned(), LOGIN);
    let url = RemoteUrl::parse(&format!("{base}/.git")).unwrap();
    (origin, head, url)
}

fn credential() -> GitCredential {
    GitCredential::new(RedactedString::new("hunter2-token".into()))
}

fn mirror_size(mirror: &std::path::Path) -> u64 {
    let packs = std::fs::read_dir(mirror.join("objects/pack")).unwrap();
    packs.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Checks out a commit with this credential, which is counted when it is read.
fn check_out(
    mirror: &GitMirror,
    url: &RemoteUrl,
    commit: &CommitHash,
    credential: Option<&GitCredential>,
) -> (Result<tempfile::TempDir, GitError>, usize) {
    let reads = AtomicUsize::new(0);
    let read = || {
        reads.fetch_add(1, Ordering::Relaxed);
        Ok(credential.cloned())
    };
    let into = tempfile::tempdir().unwrap();
    let access = unrestricted_access();
    let from = CheckoutRemote { url, access: &access, credential: &read };
    let done = mirror.checkout_complete(from, commit, into.path());
    (done.map(|()| into), reads.into_inner())
}

#[test]
fn partial_mirror_fetches_content_when_a_checkout_needs_it() {
    let (origin, head, url) = create_origin(true);
    let it = create_mirror();
    let mirror = it.mirror.with_partial(true);
    let heads = mirror.sync(&url, Some(&credential()), &unrestricted_access()).unwrap();
    assert_eq!(heads.head(), Some(&head));
    assert!(mirror.is_partial() && mirror_size(&it.path) < 100_000, "{}", mirror_size(&it.path));
    // Lines cannot be counted without the content, but the paths are known.
    let first = mirror.describe_range(None, &head, 2).unwrap()[1].commit.clone();
    let changed = mirror.changed_files(&first, &head, 10).unwrap();
    let shown: Vec<_> = changed.files.iter().map(|it| (it.path.as_str(), it.added, it.removed)).collect();
    assert_eq!((shown, changed.count), (vec![("data", None, None)], 1));

    // Definitions are fetched alone.
    let (given, access) = (credential(), unrestricted_access());
    let remote = GitRemote { url: &url, credential: Some(&given), access: &access };
    mirror.fetch_missing(&remote, &head, Some(".berth")).unwrap();
    mirror.fetch_missing(&remote, &head, Some("no-such-directory")).unwrap();
    let read = mirror.read(&head, ".berth/shop/pipeline.yaml", 1_000).unwrap();
    assert_eq!(read.unwrap(), b"version: 1\n");
    assert!(mirror_size(&it.path) < 100_000);

    let (checkout, reads) = check_out(&mirror, &url, &head, Some(&given));
    let data = std::fs::read(checkout.unwrap().path().join("data")).unwrap();
    assert_eq!(data, std::fs::read(origin.path().join("data")).unwrap());
    assert!(reads >= 1);
    // The content of the first commit was not fetched.
    let size = mirror_size(&it.path);
    assert!((LARGE as u64..2 * LARGE as u64).contains(&size), "{size}");
    let config = std::fs::read_to_string(it.path.join("config")).unwrap();
    assert!(!config.contains("hunter2") && !config.contains("127.0.0.1"), "{config}");

    // What was fetched is there without the remote and its credential.
    let gone = RemoteUrl::parse("http://127.0.0.1:9/.git").unwrap();
    let (checkout, reads) = check_out(&mirror, &gone, &head, None);
    assert!(checkout.is_ok());
    assert_eq!(reads, 0, "the credential was read although nothing is missing");
}

#[test]
fn partial_mirror_without_its_remote_or_credential_says_what_is_missing() {
    let (_origin, head, url) = create_origin(true);
    let it = create_mirror();
    let mirror = it.mirror.with_partial(true);
    mirror.sync(&url, Some(&credential()), &unrestricted_access()).unwrap();
    let gone = RemoteUrl::parse("http://127.0.0.1:9/.git").unwrap();
    let wrong = GitCredential::new(RedactedString::new("hunter2-wrong".into()));
    for (url, given) in [(&gone, Some(&credential())), (&url, None), (&url, Some(&wrong))] {
        let error = check_out(&mirror, url, &head, given).0.unwrap_err();
        assert!(error.to_string().contains("not in the partial mirror"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let into = tempfile::tempdir().unwrap();
    let error = mirror.checkout(&head, into.path()).unwrap_err();
    assert!(error.to_string().contains("its repository was removed"), "{error}");
    assert_eq!(std::fs::read_dir(into.path()).unwrap().count(), 0);
}

#[test]
fn partial_mirror_of_a_server_without_filters_is_complete() {
    let (_origin, head, url) = create_origin(false);
    let it = create_mirror();
    let mirror = it.mirror.with_partial(true);
    mirror.sync(&url, Some(&credential()), &unrestricted_access()).unwrap();
    assert!(mirror_size(&it.path) > 2 * LARGE as u64);
    let gone = RemoteUrl::parse("http://127.0.0.1:9/.git").unwrap();
    assert!(check_out(&mirror, &gone, &head, None).0.is_ok());
}

#[test]
fn content_above_the_size_limit_of_a_partial_mirror_is_refused() {
    let (_origin, head, url) = create_origin(true);
    let it = create_mirror();
    let mirror = it.mirror.with_partial(true).with_size_limit(LARGE as u64 / 2);
    mirror.sync(&url, Some(&credential()), &unrestricted_access()).unwrap();
    let error = check_out(&mirror, &url, &head, Some(&credential())).0.unwrap_err();
    assert!(matches!(error, GitError::TooLarge(_)), "{error}");
    assert!(mirror_size(&it.path) < 100_000);
    mirror.sync(&url, Some(&credential()), &unrestricted_access()).unwrap();
}

#[test]
fn full_mirror_that_becomes_partial_keeps_its_content() {
    let (origin, first, url) = create_origin(true);
    let it = create_mirror();
    it.mirror.sync(&url, Some(&credential()), &unrestricted_access()).unwrap();
    let mirror = it.mirror.with_partial(true);
    write_large(&origin, "data");
    let second = origin.commit("third");
    let before = mirror_size(&it.path);
    mirror.sync(&url, Some(&credential()), &unrestricted_access()).unwrap();
    assert!(mirror_size(&it.path) < before + 100_000);
    let gone = RemoteUrl::parse("http://127.0.0.1:9/.git").unwrap();
    assert!(check_out(&mirror, &gone, &first, None).0.is_ok());
    assert!(check_out(&mirror, &url, &second, Some(&credential())).0.is_ok());
}

/// Adds a partial repository and syncs it. Returns its id and the directory of its mirror.
async fn add_repository(world: &TestWorld, url: &RemoteUrl) -> (String, PathBuf) {
    let send = async |path: &str, body: serde_json::Value| {
        let made = post(&format!("/api/v1/organizations/acme/{path}")).with_account(&world.ada).json(&body);
        let made = world.send(made).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["data"]["id"].as_str().unwrap().to_owned()
    };
    send("secrets", json!({"name": "GIT_TOKEN", "value": "hunter2-token"})).await;
    let body = json!({"url": url.as_str(), "credential": "GIT_TOKEN", "isPartial": true});
    let id = send("repositories", body).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    let mirrors = std::fs::read_dir(world.dir.path().join("git")).unwrap().next().unwrap().unwrap().path();
    let mirror = mirrors.join(format!("{id}.git"));
    (id, mirror)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partial_repository_is_synced_with_its_definitions_only() {
    let (origin, _, url) = create_origin(true);
    origin.write(".berth/shop/pipeline.yaml", DEFINITION);
    origin.commit("third");
    let world = TestWorld::new().await;
    let (id, mirror) = add_repository(&world, &url).await;
    let path = format!("/api/v1/organizations/acme/repositories/{id}");
    let seen = world.send(get(&path).with_account(&world.ada)).await.body["data"].clone();
    assert_eq!((&seen["error"], &seen["isPartial"]), (&json!(null), &json!(true)), "{seen}");
    assert_eq!(seen["pipelines"][0]["slug"], "shop", "{seen}");
    assert!(mirror_size(&mirror) < 100_000, "{}", mirror_size(&mirror));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkout_on_a_server_without_the_mirror_creates_a_partial_one() {
    let (origin, _, url) = create_origin(true);
    let dir = tempfile::tempdir().unwrap();
    let done = dir.path().join("done");
    let step = format!("type: script\n      params: {{ run: 'touch {}' }}", done.display());
    let definition = DEFINITION.replace("  stages:", "  tracks: main\n  stages:");
    origin.write(".berth/shop/pipeline.yaml", &definition.replace("type: dummy", &step));
    origin.commit("third");
    let world = TestWorld::new().await;
    let (_, mirror) = add_repository(&world, &url).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    // The runner is connected to a server that has not synced the repository.
    std::fs::remove_dir_all(&mirror).unwrap();
    let runner = start_runner(&world.app, dir.path());
    let deadline = Instant::now() + PATIENCE;
    while !done.exists() {
        assert!(Instant::now() < deadline, "the step has not run");
        tokio::time::sleep(POLL_EVERY).await;
    }
    assert!(mirror.join("berth-partial").exists());
    world.app.services().shutdown.cancel();
    tokio::task::spawn_blocking(move || runner.stop()).await.unwrap();
}
