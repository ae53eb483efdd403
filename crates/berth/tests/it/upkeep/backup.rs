//! A backup taken under load is consistent when it is restored, and the restored epoch is higher than that of every
//! fence issued since the backup.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::{
    ORGANIZATION, PATIENCE, SHOP, claim, deploy, deploy_log, make_shop, path_text, run_admin, serve,
};
use crate::client::ApiHandle;
use crate::harness::{BerthProcess, DEFINITION, STOP_MAX, TestHome, berth, wait_until};

const WRITERS: usize = 4;
/// How much a restore raises the epoch, as documented in docs/operations-backup.md.
const EPOCHS_RAISED: i64 = 16;
/// Minimum number of writes before the first backup and between backups.
const WRITES_MIN: usize = 40;

/// Creates pipelines until `stop` is set, and counts acknowledged writes.
fn write_pipelines(api: &ApiHandle, number: usize, stop: &AtomicBool, written: &AtomicUsize) {
    for round in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let body = json!({ "slug": format!("w{number}-{round}"), "definition": DEFINITION });
        assert_eq!(api.post(&format!("{ORGANIZATION}/pipelines"), &body).status, 201);
        written.fetch_add(1, Ordering::SeqCst);
    }
}

fn dir_contains(dir: &Path, wanted: &[u8]) -> bool {
    std::fs::read_dir(dir).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return dir_contains(&path, wanted);
        }
        std::fs::read(&path).expect("a file").windows(wanted.len()).any(|part| part == wanted)
    })
}

#[test]
fn backup_under_load_restores_to_a_verified_server() {
    let home = TestHome::on_sqlite();
    let place = tempfile::tempdir().expect("a directory");
    let (dir, tar) = (place.path().join("one"), place.path().join("two.tar"));
    let server = home.serve();
    make_shop(&server.api);
    let secret = json!({ "name": "TOKEN", "value": "canary-3f1" });
    assert_eq!(server.api.post(&format!("{ORGANIZATION}/secrets"), &secret).status, 201);
    let (session, fence) = claim(&server.api, "qa-1");
    let done = deploy(&server.api, "qa-1", &session, "aaa1", "succeeded");
    let (slow, _) = claim(&server.api, "qa-2");
    let running = deploy(&server.api, "qa-2", &slow, "slow", "running");

    let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let (api, stop, written) = (server.api.clone(), &stop, &written);
            scope.spawn(move || write_pipelines(&api, number, stop, written));
        }
        for (round, to) in [(1, &dir), (2, &tar)] {
            wait_until(PATIENCE, "writes", || {
                (written.load(Ordering::SeqCst) >= WRITES_MIN * round).then_some(())
            });
            let made = run_admin(&["backup", "--json", "--to", path_text(to)], &home.path()).json();
            assert_eq!(made["epoch"], 0, "{made}");
        }
        wait_until(PATIENCE, "writes", || (written.load(Ordering::SeqCst) >= WRITES_MIN * 3).then_some(()));
        stop.store(true, Ordering::SeqCst);
    });
    // After the backup, open another session, which has a higher fence.
    let path = format!("{SHOP}/ephemeral-environments/qa-1/sessions/{session}");
    assert_eq!(server.api.send(&server.api.request("DELETE", &path)).status, 200);
    let (_, later) = claim(&server.api, "qa-1");
    assert!(later > fence);
    assert_eq!(run_admin(&["verify"], &home.path()).code, Some(0), "while the server runs");
    server.stop();

    let key = std::fs::read(home.path().join("root.key")).expect("the key");
    assert!(
        !dir_contains(&dir, &key) && !std::fs::read(&tar).unwrap().windows(32).any(|it| it == key.as_slice())
    );
    // Every restore must choose a higher epoch than all restores before it, whichever backup it uses.
    let (mut highest, mut given) = (later, 0);
    for (from, to) in [(&dir, "from-dir"), (&tar, "from-tar"), (&dir, "once-more")] {
        let restored = place.path().join(to);
        std::fs::create_dir(&restored).expect("a directory");
        run_admin(&["restore", "--from", path_text(from)], &restored)
            .expect_refusal(&["root key", "--root-key-file"]);
        std::fs::copy(home.path().join("root.key"), restored.join("root.key")).expect("the key");
        let told = run_admin(&["restore", "--json", "--from", path_text(from)], &restored).json();
        let epoch = told["epoch"].as_i64().expect("an epoch");
        assert!(epoch >= given + EPOCHS_RAISED, "{epoch} after {given}");
        given = epoch;
        assert_eq!(told["verified"]["problemCount"], 0, "{told}");
        assert_eq!((&told["sessionsEnded"], &told["attemptsUnknown"]), (&json!(2), &json!(1)), "{told}");
        assert_eq!(told["secretsOpened"], 1, "{told}");
        assert!(told["pipelinesStopped"].as_i64().unwrap() > i64::try_from(WRITES_MIN).unwrap(), "{told}");
        run_admin(&["restore", "--from", path_text(from)], &restored).expect_refusal(&["is not empty"]);

        let server = serve(&restored, &[], &home.token);
        let path = format!("{SHOP}/ephemeral-environments/qa-1/sessions/{session}");
        let ended = server.api.get(&path).json()["data"].clone();
        assert_eq!(
            (&ended["status"], &ended["endReason"]),
            (&json!("released"), &json!("restored")),
            "{ended}"
        );
        let lost = format!("{ORGANIZATION}/deployments/{}", running["id"].as_str().expect("its id"));
        let lost = server.api.get(&lost).json()["data"].clone();
        assert_eq!(lost["stages"][0]["steps"][0]["attempts"][0]["status"], "unknown", "{lost}");
        assert!(deploy_log(&server.api, &done).contains("it runs"));
        assert_eq!(server.api.get(SHOP).json()["data"]["status"], "stopped");
        let (_, new) = claim(&server.api, "qa-1");
        assert!(new > highest, "{new} is not above {highest}, which was given after the backup");
        highest = new;
        server.stop();
        assert_eq!(run_admin(&["verify"], &restored).code, Some(0));
    }
}

#[test]
fn tampered_backup_is_refused_and_damage_is_detected() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    let (session, _) = claim(&server.api, "qa-1");
    let path = format!("{SHOP}/ephemeral-environments/qa-1/sessions/{session}");
    assert_eq!(server.api.send(&server.api.request("DELETE", &path)).status, 200);
    let (session, _) = claim(&server.api, "qa-1");
    deploy(&server.api, "qa-1", &session, "aaa1", "succeeded");
    server.stop();
    let place = tempfile::tempdir().expect("a directory");
    let (dir, restored) = (place.path().join("backup"), place.path().join("restored"));
    let key = home.path().join("root.key");
    assert_eq!(run_admin(&["backup", "--to", path_text(&dir)], &home.path()).code, Some(0));
    let restore = |to: &Path| {
        run_admin(&["restore", "--root-key-file", path_text(&key), "--from", path_text(&dir)], to)
    };

    let log = first_file(&dir.join("logs"));
    let whole = std::fs::read(&log).expect("a log");
    std::fs::write(&log, [&whole[1..], &whole[..1]].concat()).expect("a change");
    restore(&restored).expect_refusal(&["damaged", "logs/"]);
    std::fs::write(&log, &whole).expect("the change undone");
    assert_eq!(restore(&restored).code, Some(0));

    let verify = || run_admin(&["verify"], &restored);
    assert_eq!(verify().code, Some(0));
    let artifact = first_file(&restored.join("artifacts"));
    std::fs::remove_file(&artifact).expect("an artifact less");
    let database = rusqlite::Connection::open(restored.join("berth.db")).expect("the database");
    for change in [
        "UPDATE events SET kind = 'token_created' WHERE sequence = 2",
        "DELETE FROM sessions WHERE number = 1",
    ] {
        assert_eq!(database.execute(change, []).expect("a change"), 1, "{change}");
    }
    drop(database);
    let found = verify();
    assert_eq!(found.code, Some(1), "{found:?}");
    for words in ["artifact sha256:", "wrong at event 2", "has 1 of 2 sessions"] {
        assert!(found.stdout.contains(words), "{found:?}");
    }
}

#[test]
fn failed_restore_leaves_no_database_and_can_be_repeated() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    server.stop();
    let place = tempfile::tempdir().expect("a directory");
    let (dir, restored) = (place.path().join("backup"), place.path().join("restored"));
    assert_eq!(run_admin(&["backup", "--to", path_text(&dir)], &home.path()).code, Some(0));
    let restore = || run_admin(&["restore", "--json", "--from", path_text(&dir)], &restored);
    let is_refused = |words: &[&str]| {
        let words_of_it = ["serve", "--listen", "127.0.0.1:0", "--data-dir", path_text(&restored)];
        BerthProcess::start(&mut berth(&words_of_it)).wait(STOP_MAX).expect_refusal(words);
    };
    std::fs::create_dir(&restored).expect("a directory");
    // `copy` also copies the file mode.
    std::fs::copy(home.path().join("root.key"), restored.join("root.key")).expect("the key");
    std::fs::write(restored.join("root.key"), [7; 32]).expect("another key");
    restore().expect_refusal(&["is not the one this database was made with"]);
    is_refused(&["no database", "restore"]);

    // Simulate a restore that was killed while it was copying, or just before its end.
    std::fs::create_dir(restored.join("restoring")).expect("what is left");
    std::fs::write(restored.join("restoring/berth.db"), "half").expect("what is left");
    std::fs::copy(dir.join("berth.db"), restored.join("berth.db")).expect("what is left");
    std::fs::copy(home.path().join("root.key"), restored.join("root.key")).expect("the key");
    is_refused(&["raise-epoch"]);
    restore().expect_refusal(&["is not empty", "cut short"]);
    std::fs::remove_file(restored.join("berth.db")).expect("the rest less");
    let told = restore().json();
    assert!(told["epoch"].as_i64().expect("an epoch") >= EPOCHS_RAISED, "{told}");
    let server = serve(&restored, &[], &home.token);
    claim(&server.api, "qa-1");
    server.stop();
}

#[test]
fn backup_during_key_rotation_is_refused() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    let secret = json!({ "name": "TOKEN", "value": "canary-3f1" });
    assert_eq!(server.api.post(&format!("{ORGANIZATION}/secrets"), &secret).status, 201);
    server.stop();
    let database = rusqlite::Connection::open(home.path().join("berth.db")).expect("the database");
    let wrapped = database.execute("UPDATE data_keys SET root_key_id = 'the-next-one'", []);
    assert_eq!(wrapped.expect("a change"), 1);
    drop(database);
    for name in ["backup", "backup.tar"] {
        let to = home.path().with_file_name(name);
        run_admin(&["backup", "--to", path_text(&to)], &home.path())
            .expect_refusal(&["is being rotated", "rotate-keys"]);
        assert!(!to.exists(), "nothing is in the way of the next one");
    }
}

fn first_file(dir: &Path) -> std::path::PathBuf {
    let path =
        std::fs::read_dir(dir).expect("a directory").next().expect("an entry").expect("an entry").path();
    if path.is_dir() { first_file(&path) } else { path }
}
