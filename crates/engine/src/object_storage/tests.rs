//! Every test runs on a directory, and on an S3 service if one is installed.

mod directory;
mod object_cache;

use std::io::{Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_core::id::{DeploymentId, OrgId, StepRunId};
use berth_core::time::Timestamp;
use berth_store::Store;
use berth_testkit::{S3Server, StorageFault, outcome};

use super::*;
use crate::artifacts::{ArtifactError, ArtifactStore};
use crate::logs::{AppendResult, LogError, LogKey, LogStore, LogStream};

/// Object storage, and a database that has its index.
struct Fixture {
    dir: tempfile::TempDir,
    settings: StorageSettings,
    storage: Arc<ObjectStorage>,
    store: Arc<Store>,
    s3: Option<S3Server>,
}

fn settings(url: &str, endpoint: Option<String>) -> StorageSettings {
    StorageSettings {
        url: url.parse().unwrap(),
        endpoint,
        region: None,
        credentials: Some(StorageCredentials {
            access_key_id: "key".into(),
            secret_access_key: "secret".into(),
            session_token: None,
        }),
        cache_bytes_max: 1 << 30,
    }
}

fn on_every_storage(test: impl Fn(Fixture)) {
    let fixture = |s3: Option<S3Server>| {
        let dir = tempfile::tempdir().unwrap();
        let settings = match &s3 {
            Some(s3) => settings(&s3.url("prefix"), Some(s3.endpoint())),
            None => settings(&format!("file://{}/objects", dir.path().display()), None),
        };
        let storage = Arc::new(ObjectStorage::open(&settings).unwrap());
        let store = Arc::new(Store::open_sqlite(&dir.path().join("berth.db")).unwrap());
        Fixture { dir, settings, storage, store, s3 }
    };
    test(fixture(None));
    match S3Server::start_if_installed() {
        Some(s3) => test(fixture(Some(s3))),
        None => outcome::skip("moto", "pip install 'moto[server]', and name its Python in BERTH_TEST_PYTHON"),
    }
}

impl Fixture {
    /// Logs and artifacts of a server with its own directory.
    fn server(&self, name: &str) -> (LogStore, ArtifactStore, Arc<ObjectTier>) {
        let dir = self.dir.path().join(name);
        let tier = Arc::new(ObjectTier::new(self.storage.clone(), dir.join("cache"), self.store.clone()));
        let logs = LogStore::with_objects(dir.join("logs"), tier.clone());
        (logs, ArtifactStore::with_objects(dir.join("artifacts"), tier.clone()), tier)
    }

    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for prefix in [LOGS, ARTIFACTS] {
            self.storage
                .list(prefix, |page| {
                    names.extend(page.iter().map(|object| object.name.clone()));
                    Ok(())
                })
                .unwrap();
        }
        names
    }
}

fn org(number: u8) -> OrgId {
    OrgId::from_parts(Timestamp::from_micros(1), [number; 10])
}

fn key() -> LogKey {
    let at = Timestamp::from_micros(1);
    LogKey {
        org: org(1),
        deployment: DeploymentId::from_parts(at, [2; 10]),
        step: StepRunId::from_parts(at, [3; 10]),
        attempt: 1,
        stream: LogStream::Step,
    }
}

fn text(logs: &LogStore) -> Vec<u8> {
    let log = logs.open(&key()).unwrap();
    log.map_or_else(Vec::new, |mut log| log.read_bytes(0, usize::MAX).unwrap())
}

#[test]
fn objects_are_written_read_listed_and_deleted() {
    on_every_storage(|it| {
        it.storage.check().unwrap();
        let small = it.storage.put("logs/small", b"some bytes".to_vec()).unwrap();
        assert_eq!(it.storage.get(&small).unwrap(), b"some bytes");
        // Larger than a part, so it is sent in several requests.
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..20_000_000_u32).map(|number| (number % 251) as u8).collect();
        file.write_all(&content).unwrap();
        let large = it.storage.put_file("artifacts/large", &file).unwrap();
        assert_eq!(large.bytes, 20_000_000);
        let mut copy = tempfile::tempfile().unwrap();
        it.storage.get_file(&large, &copy).unwrap();
        let mut read = Vec::new();
        copy.rewind().unwrap();
        copy.read_to_end(&mut read).unwrap();
        assert!(read == content);
        assert_eq!(it.names().len(), 2);
        it.storage.delete("logs/small").unwrap();
        it.storage.delete("logs/small").unwrap();
        assert!(matches!(it.storage.get(&small), Err(StorageError::Missing(_))));
        assert!(it.storage.is_up(), "a missing object is no failure of the storage");
    });
}

#[test]
fn changed_object_is_detected() {
    on_every_storage(|it| {
        let stored = it.storage.put("logs/a", b"what was stored".to_vec()).unwrap();
        for other in [&b"something else."[..], b"what was stored and more"] {
            it.storage.put("logs/a", other.to_vec()).unwrap();
            assert!(matches!(it.storage.get(&stored), Err(StorageError::Corrupt(_))));
            let copy = tempfile::tempfile().unwrap();
            assert!(matches!(it.storage.get_file(&stored, &copy), Err(StorageError::Corrupt(_))));
        }
    });
}

#[test]
fn log_is_followed_and_continued_by_another_server() {
    on_every_storage(|it| {
        let (one, other) = (it.server("one").0, it.server("other").0);
        let mut watch = other.watch(&key()).unwrap();
        one.append(&key(), 0, b"first\n").unwrap();
        one.put_appended();
        other.catch_up_all();
        assert_eq!(watch.progress().length, 6);
        assert_eq!(text(&other), b"first\n");
        // These bytes are lost together with the first server. The runner sends them again.
        one.append(&key(), 6, b"second\n").unwrap();
        assert_eq!(other.append(&key(), 13, b"third\n").unwrap(), AppendResult::Gap { length: 6 });
        other.append(&key(), 6, b"second\n").unwrap();
        assert_eq!(other.append(&key(), 13, b"third\n").unwrap(), AppendResult::Written { length: 19 });
        other.flush(&key()).unwrap();
        assert_eq!(it.names().len(), 1, "small parts are merged: {:?}", it.names());
        // The first server comes back and finds its bytes there.
        one.put_appended();
        assert_eq!(one.unstored_count(), 0);
        assert_eq!(text(&one), b"first\nsecond\nthird\n");
        assert_eq!(other.seal(&key()).unwrap().bytes, 19);
        assert!(watch.progress().ended);
        assert!(matches!(one.append(&key(), 19, b"late\n"), Ok(AppendResult::Written { .. })));
        one.put_appended();
        assert_eq!(
            [text(&one), text(&other)],
            [b"first\nsecond\nthird\n"; 2],
            "a sealed log does not change"
        );
        assert!(matches!(one.append(&key(), 19, b"late\n"), Err(LogError::Sealed { length: 19 })));
        assert_eq!(it.names().len(), 1);
    });
}

#[test]
fn log_put_first_wins_if_servers_received_different_bytes() {
    on_every_storage(|it| {
        let (one, other) = (it.server("one").0, it.server("other").0);
        one.append(&key(), 0, b"same, then one\n").unwrap();
        other.append(&key(), 0, b"same, then another\nand more\n").unwrap();
        one.put_appended();
        other.put_appended();
        assert_eq!([text(&one), text(&other)], [b"same, then one\n"; 2]);
        assert_eq!(other.append(&key(), 15, b"goes on\n").unwrap(), AppendResult::Written { length: 23 });
        other.seal(&key()).unwrap();
        assert_eq!([text(&one), text(&other)], [b"same, then one\ngoes on\n"; 2]);
    });
}

#[test]
fn large_log_is_put_in_bounded_parts_and_sealed() {
    on_every_storage(|it| {
        let (one, other) = (it.server("one").0, it.server("other").0);
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        let chunk = line.repeat(64);
        for number in 0..160_u64 {
            one.append(&key(), number * chunk.len() as u64, &chunk).unwrap();
        }
        one.put_appended();
        assert_eq!(it.names().len(), 3, "10 MiB in parts of 4 MiB");
        assert!(text(&other) == chunk.repeat(160));
        let sealed = one.seal(&key()).unwrap();
        assert_eq!((sealed.bytes, sealed.lines), (160 * chunk.len() as u64, 160 * 64));
        assert_eq!(it.names().len(), 1, "the sealed log replaces its parts");
        assert!(text(&it.server("third").0) == chunk.repeat(160));
    });
}

#[test]
fn log_is_sealed_up_to_a_lost_object_only_if_forced() {
    on_every_storage(|it| {
        let (one, other) = (it.server("one").0, it.server("other").0);
        let chunk = [b"x".repeat(1023), b"\n".to_vec()].concat().repeat(64);
        for lost in [0, 5 * 65_536_u32] {
            let key = LogKey { attempt: lost, ..key() };
            for number in 0..10 {
                one.append(&key, number * 65_536, &chunk).unwrap();
                if number % 5 == 4 {
                    one.put_appended();
                }
            }
            let is_lost = |name: &&String| name.contains(&format!(".{lost}/{lost:010}-"));
            it.storage.delete(it.names().iter().find(is_lost).unwrap()).unwrap();
            assert!(matches!(other.seal_abandoned(&key, false), Err(LogError::Corrupt(_))));
            let sealed = other.seal_abandoned(&key, true).unwrap();
            let end = u64::from(lost);
            assert_eq!((sealed.bytes, sealed.damaged), (end, Some(end)));
            let third = it.server(&format!("third-{lost}")).0;
            assert_eq!(third.open(&key).unwrap().unwrap().length(), end);
        }
        assert_eq!(it.names().len(), 2, "{:?}", it.names());
    });
}

#[test]
fn log_buffer_of_an_earlier_process_is_put() {
    on_every_storage(|it| {
        let logs = it.server("one").0;
        logs.append(&key(), 0, b"put\n").unwrap();
        logs.put_appended();
        logs.append(&key(), 4, b"not put\n").unwrap();
        drop(logs);
        let logs = it.server("one").0;
        for key in logs.list_unsealed().unwrap() {
            logs.put_later(&key);
        }
        logs.put_appended();
        assert_eq!(text(&it.server("other").0), b"put\nnot put\n");
    });
}

#[test]
fn logs_are_kept_while_storage_is_down() {
    let Some(s3) = S3Server::start_if_installed() else {
        outcome::skip("moto", "pip install 'moto[server]', and name its Python in BERTH_TEST_PYTHON");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(&s3.url(""), Some(s3.endpoint()));
    let storage = Arc::new(ObjectStorage::open(&settings).unwrap());
    let store = Arc::new(Store::open_sqlite(&dir.path().join("berth.db")).unwrap());
    let it = Fixture { dir, settings, storage, store, s3: Some(s3) };
    let s3 = it.s3.as_ref().unwrap();
    let (one, other) = (it.server("one").0, it.server("other").0);
    s3.set_fault(StorageFault::Down);
    one.append(&key(), 0, b"printed while it was down\n").unwrap();
    assert!(one.flush(&key()).is_err());
    assert!(!it.storage.is_up() && !it.storage.is_worth_trying());
    // It is durable on this machine, so a step does not wait for object storage again.
    one.flush(&key()).unwrap();
    assert_eq!((text(&one), one.unstored_count()), (b"printed while it was down\n".to_vec(), 1));
    s3.set_fault(StorageFault::None);
    it.storage.check().unwrap();
    assert!(it.storage.is_up());
    one.put_appended();
    assert_eq!(text(&other), b"printed while it was down\n");
}

#[test]
fn unusable_storage_is_refused_with_the_reason() {
    let missing = settings("s3://no-such-bucket", Some("http://127.0.0.1:9".into()));
    let error = ObjectStorage::open(&missing).unwrap().check().unwrap_err();
    assert!(matches!(error, StorageError::Unreachable(_)), "{error}");
    let plain = settings("s3://bucket", Some("http://s3.acme.test".into()));
    let error = ObjectStorage::open(&plain).unwrap_err().to_string();
    assert!(error.contains("must use https"), "{error}");
    let Some(s3) = S3Server::start_if_installed() else {
        outcome::skip("moto", "pip install 'moto[server]', and name its Python in BERTH_TEST_PYTHON");
        return;
    };
    let missing = settings("s3://no-such-bucket", Some(s3.endpoint()));
    let error = ObjectStorage::open(&missing).unwrap().check().unwrap_err().to_string();
    assert!(error.contains("the bucket does not exist"), "{error}");
}

#[test]
fn artifacts_are_shared_between_servers_and_kept_apart_by_organization() {
    on_every_storage(|it| {
        let ((_, one, _), (_, other, tier)) = (it.server("one"), it.server("other"));
        let workspace = tempfile::tempdir().unwrap();
        std::fs::write(workspace.path().join("page"), "a page").unwrap();
        let kept = one.store_path(org(1), workspace.path(), "page").unwrap();
        let again = other.store_path(org(1), workspace.path(), "page").unwrap();
        assert_eq!(
            (kept.digest.clone(), it.names().len()),
            (again.digest, 1),
            "equal content is stored once"
        );
        let into = tempfile::tempdir().unwrap();
        other.unpack(org(1), &kept.digest, into.path()).unwrap();
        assert_eq!(std::fs::read_to_string(into.path().join("page")).unwrap(), "a page");
        let foreign = other.open_packed(org(2), &kept.digest).unwrap_err();
        assert!(matches!(foreign, ArtifactError::Unknown(_)));
        assert!(it.names()[0].starts_with(&format!("artifacts/{}/", org(1))));
        // An object that changed is refused by a server that has no copy yet.
        it.storage.put(&it.names()[0], b"something else".to_vec()).unwrap();
        let (_, third, _) = it.server("third");
        let error = third.open_packed(org(1), &kept.digest).unwrap_err();
        assert!(error.to_string().contains("is not what was stored"), "{error}");
        // A missing object is stored again.
        it.storage.delete(&it.names()[0]).unwrap();
        one.store_path(org(1), workspace.path(), "page").unwrap();
        third.check(org(1), &kept.digest).unwrap();
        let limit = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(one.list_older(org(1), limit, None, 9).unwrap(), std::slice::from_ref(&kept.digest));
        assert!(!one.remove_older(org(1), &kept.digest, SystemTime::UNIX_EPOCH).unwrap());
        assert!(one.remove_older(org(1), &kept.digest, limit).unwrap());
        assert!(it.names().is_empty() && !other.contains(org(1), &kept.digest).unwrap());
        drop(tier);
    });
}

#[test]
fn orphaned_objects_are_removed_and_others_kept() {
    on_every_storage(|it| {
        let (logs, _, tier) = it.server("one");
        logs.append(&key(), 0, b"a line\n").unwrap();
        logs.put_appended();
        let known = it.names();
        let orphans = [format!("logs/{}/x/part-1", org(1)), format!("artifacts/{}/abc-1", org(1))];
        for name in orphans.iter().chain([&"logs/not-ours".to_owned()]) {
            it.storage.put(name, b"left over".to_vec()).unwrap();
        }
        let later = tier.now().unwrap().plus_seconds(60);
        assert_eq!(
            tier.remove_orphans(tier.now().unwrap().plus_seconds(-3_600), 9).unwrap(),
            0,
            "they are new"
        );
        assert_eq!(tier.remove_orphans(later, 1).unwrap(), 1);
        assert_eq!(tier.remove_orphans(later, 9).unwrap(), 1);
        assert_eq!(it.names().len(), known.len() + 1, "{:?}", it.names());
        assert_eq!(text(&logs), b"a line\n");
        tier.remove_organization(&org(1).to_string()).unwrap();
        assert_eq!(it.names(), ["logs/not-ours"]);
    });
}

#[test]
fn old_logs_are_replaced_by_a_note_on_every_server() {
    on_every_storage(|it| {
        let (one, other) = (it.server("one").0, it.server("other").0);
        one.append(&key(), 0, b"printed\n").unwrap();
        one.seal(&key()).unwrap();
        assert_eq!(text(&other), b"printed\n");
        let replace = |before| one.replace_older(org(1), key().deployment, b"gone\n", before).unwrap();
        assert_eq!(replace(SystemTime::now() - Duration::from_secs(60)).kept, 1);
        assert_eq!(replace(SystemTime::now() + Duration::from_secs(60)).replaced, 1);
        assert_eq!([text(&one), text(&other)], [b"gone\n"; 2]);
        assert_eq!(it.names().len(), 1);
    });
}

#[test]
fn download_is_limited_by_stalls_and_not_by_its_size() {
    use object_store::ClientConfigKey;
    // A download that takes longer than the timeout would slow down all tests.
    let options = client::client_options();
    assert_eq!(options.get_config_value(&ClientConfigKey::Timeout), None);
    assert!(options.get_config_value(&ClientConfigKey::ReadTimeout).is_some());
}
